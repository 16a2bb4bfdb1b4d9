import { expect, test } from "vitest"
import { hi, parrot } from "../../test/parrot.ts"
import { unsupported } from "./refusals.ts"

test.each([
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
    functions: [],
    function_call: "none",
    suffix: "",
    best_of: 1,
    store: false,
    modalities: ["text"],
  }
  for (const { param } of unsupported) {
    expect((await post({ ...hi, [param]: harmless[param] ?? null })).statusCode, param).toBe(200)
    expect((await post({ ...hi, [param]: null })).statusCode, param).toBe(200)
  }
})
