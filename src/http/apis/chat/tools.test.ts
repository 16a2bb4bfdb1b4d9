import { expect, test } from "vitest"
import { parrot } from "../../../../test/parrot.ts"
import type { ChatRequest } from "../../../chat/conversation.ts"
import type { TemplateMessage } from "../../../chat/rendering.ts"
import { openTemplate } from "../../../chat/template.ts"
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

// What Python 3.12 makes of it: json.dumps(json.loads(numbers)). Servers in Python show templates the same.
const numbers = `{"type":"object","default":1.0,"maximum":1e3,"minimum":-0.0,"step":0.25,"const":12345678901234567890,"enum":[2.0,1e16,3]}`
const inPython =
  '{"type": "object", "default": 1.0, "maximum": 1000.0, "minimum": -0.0, "step": 0.25, "const": 12345678901234567890, "enum": [2.0, 1e+16, 3]}'
const chatTool = `"tools":[{"type":"function","function":{"name":"f","parameters":${numbers}}}]`
const chatCall = `{"role":"assistant","content":"","tool_calls":[{"id":"c","function":{"name":"f","arguments":{"x":1.0}}}]},{"role":"tool","tool_call_id":"c","content":"1"}`
const user = `{"role":"user","content":"hi"}`

test.each([
  ["/v1/chat/completions", `"messages":[${user},${chatCall}],${chatTool}`],
  ["/api/chat", `"messages":[${user},${chatCall}],${chatTool}`],
  [
    "/v1/messages",
    `"max_tokens":9,"messages":[${user},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"x":1.0}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"1"}]}],"tools":[{"name":"f","input_schema":${numbers}}]`,
  ],
  [
    "/v1/responses",
    `"input":[${user},{"type":"function_call","call_id":"c","name":"f","arguments":"{\\"x\\": 1.0}"},{"type":"function_call_output","call_id":"c","output":"1"}],"tools":[{"type":"function","name":"f","parameters":${numbers}}]`,
  ],
])(
  "%s shows templates floats as Python does, on the event loop and beside it",
  async (path, body) => {
    const { post, asked } = parrot()
    const { statusCode, payload } = await post(`{"model":"tiny",${body}}`, {}, path)
    expect(statusCode, payload).toBe(200)
    const { messages, tools } = asked[0] as ChatRequest
    const source =
      "{{ tools[0].function.parameters | tojson }}{% for m in messages if m.tool_calls %}{{ m.tool_calls[0].function.arguments | tojson }}{% endfor %}"
    const template = openTemplate(source, "file", { specialTokens: {}, now: new Date(0) })
    const definitions = tools!.map(({ definition }) => definition)
    for (const times of [1, 100]) {
      const turns = Array.from({ length: times }, () => messages).flat()
      const rendering = {
        messages: turns as TemplateMessage[], // none has images
        tools: definitions,
        variables: {},
        generationPrompt: true,
      }
      const { value } = await template.render(rendering)
      expect(value).toBe(inPython + '{"x": 1.0}'.repeat(times))
    }
    await template.close()
  },
)

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
