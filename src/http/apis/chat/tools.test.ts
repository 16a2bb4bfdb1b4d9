import { expect, test } from "vitest"
import { Problem } from "../../../errors.ts"
import { MessagesRequest } from "../messages/schema.ts"
import { ChatCompletionRequest } from "./schema.ts"
import { readTools } from "./tools.ts"

const tool = (name: string, more: object = {}) => ({ function: { name, ...more } })

test("definitions reach the template as they were written, with exact numbers", () => {
  const parameters = { properties: { id: { const: 9007199254740993n } } }
  const { tools } = readTools({
    tools: [tool("f", { description: "d", parameters, strict: true })],
  })
  expect(tools).toEqual([
    {
      name: "f",
      definition: {
        type: "function",
        function: { name: "f", description: "d", parameters, strict: true },
      },
      parameters,
      field: "tools[0].function.parameters",
      strict: true,
    },
  ])
})

test("names with dots, and types of other languages, are for the model to meet", () => {
  const parameters = { type: "dict", properties: { n: { type: "float" } } }
  const { tools } = readTools({ tools: [tool("math.root", { parameters }), tool("math")] })
  expect(tools!.map(({ name }) => name)).toEqual(["math.root", "math"])
  expect(tools![0]!.parameters).toEqual(parameters)
})

test("a name has as many characters as the schemas of both APIs say", () => {
  const longest = "x".repeat(128)
  expect(readTools({ tools: [tool(longest)] }).tools![0]!.name).toBe(longest)
  for (const body of [ChatCompletionRequest, MessagesRequest])
    expect(JSON.stringify(body.properties.tools)).toContain('"description":"1 to 128 letters, ')
})

const two = [tool("f"), tool("g")]

test.each([
  [undefined, { mode: "auto", names: ["f", "g"] }],
  [null, { mode: "auto", names: ["f", "g"] }],
  ["auto", { mode: "auto", names: ["f", "g"] }],
  ["none", { mode: "none" }],
  ["required", { mode: "required", names: ["f", "g"] }],
  [
    { type: "function", function: { name: "g" } },
    { mode: "required", names: ["g"] },
  ],
  [
    { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [tool("g")] } },
    { mode: "auto", names: ["g"] },
  ],
] as const)("tool_choice %j", (tool_choice, toolChoice) => {
  expect(readTools({ tools: two, tool_choice: tool_choice as never }).toolChoice).toEqual(
    toolChoice,
  )
})

test("no tools ask for nothing", () => {
  expect(readTools({})).toEqual({})
  expect(readTools({ tools: [], tool_choice: "auto", parallel_tool_calls: false })).toEqual({})
  expect(readTools({ tools: two, parallel_tool_calls: false }).parallelToolCalls).toBe(false)
})

test.each([
  [{ tools: [tool("")] }, "tools[0].function.name"],
  [{ tools: [tool("a b")] }, "tools[0].function.name"],
  [{ tools: [tool("x".repeat(129))] }, "tools[0].function.name"],
  [{ tools: [tool("f"), tool("f")] }, "tools[1].function.name"],
  [{ tools: [tool("f", { parameters: { type: "string" } })] }, "tools[0].function.parameters.type"],
  [{ tool_choice: "required" }, "tool_choice"],
  [{ tool_choice: { type: "function", function: { name: "f" } } }, "tool_choice"],
  [
    { tools: two, tool_choice: { type: "function", function: { name: "h" } } },
    "tool_choice.function.name",
  ],
  [{ tools: two, tool_choice: { type: "function" } }, "tool_choice.function"],
  [{ tools: two, tool_choice: { type: "allowed_tools" } }, "tool_choice.allowed_tools"],
  [
    {
      tools: two,
      tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [] } },
    },
    "tool_choice.allowed_tools.tools",
  ],
])("%j is refused at %s", (body, param) => {
  try {
    readTools(body as never)
    expect.unreachable()
  } catch (error) {
    expect(error).toBeInstanceOf(Problem)
    expect((error as Problem).param).toBe(param)
  }
})
