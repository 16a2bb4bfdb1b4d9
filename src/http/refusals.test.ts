import { expect, test } from "vitest"
import { hi, parrot } from "../../test/parrot.ts"
import { unbuilt, unsupported } from "./refusals.ts"

// What is still to be built, by name: this list only ever gets shorter.
test("these fields wait for a coming version", () => {
  expect(unbuilt.map(({ param }) => param)).toEqual([
    "tools",
    "tool_choice",
    "response_format",
    "echo",
  ])
})

const tool = { type: "function", function: { name: "f" } }

test.each([
  ["tools", [tool]],
  ["tool_choice", "required"],
  ["tool_choice", { type: "function", function: { name: "f" } }],
  ["response_format", { type: "json_object" }],
  ["response_format", { type: "json_schema", json_schema: { schema: {} } }],
  ["functions", [{ name: "f" }]],
  ["function_call", { name: "f" }],
  ["suffix", "end"],
  ["best_of", 4],
  ["store", true],
  ["modalities", ["text", "audio"]],
  ["audio", { voice: "x" }],
])("%s: %j is refused in a sentence that names it", async (param, value) => {
  const { post, asked } = parrot()
  const answer = await post({ ...hi, [param]: value })
  expect(answer.statusCode).toBe(400)
  expect(answer.json().error).toMatchObject({ code: "unsupported_value", param })
  expect(answer.json().message).toMatch(new RegExp(`^${param}: .+\\.$`))
  expect(asked).toEqual([])
})

test("none of them is refused where it asks for nothing", async () => {
  const { post } = parrot()
  const harmless: Record<string, unknown> = {
    tools: [],
    tool_choice: "auto",
    response_format: { type: "text" },
    functions: [],
    function_call: "none",
    suffix: "",
    best_of: 1,
    store: false,
    modalities: ["text"],
    echo: false,
  }
  for (const { param } of [...unbuilt, ...unsupported]) {
    expect((await post({ ...hi, [param]: harmless[param] ?? null })).statusCode, param).toBe(200)
    expect((await post({ ...hi, [param]: null })).statusCode, param).toBe(200)
  }
})
