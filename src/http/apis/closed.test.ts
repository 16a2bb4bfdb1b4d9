// Against llama.cpp's rule (`_build_object_rule` of its json-schema-to-grammar): without `additionalProperties` none are written.

import { Ajv2020 } from "ajv/dist/2020.js"
import { expect, test } from "vitest"
import { parrot } from "../../../test/parrot.ts"
import type { ChatRequest } from "../../chat/conversation.ts"
import type { Json } from "../json.ts"
import { atOnce } from "../turns.ts"
import { closing } from "./closed.ts"

const closed = (schema: Json) => atOnce(closing(schema)) as object
const text = { type: "string" }
const open = { type: "object", properties: { a: text }, required: ["a"] }
const shut = { ...open, additionalProperties: false }

test.each<[string, Json, Json]>([
  ["an object", open, shut],
  ["what a list holds", { type: "array", items: open }, { type: "array", items: shut }],
  [
    "a member",
    { properties: { b: open } },
    { properties: { b: shut }, additionalProperties: false },
  ],
  [
    "what a class refers to",
    { $defs: { A: open }, properties: { a: { $ref: "#/$defs/A", title: "A" } } },
    {
      $defs: { A: shut },
      properties: { a: { $ref: "#/$defs/A", title: "A" } },
      additionalProperties: false,
    },
  ],
  ["one of several", { anyOf: [open, { type: "null" }] }, { anyOf: [shut, { type: "null" }] }],
  ["one that older classes wrap", { allOf: [open] }, { allOf: [shut] }],
])("%s has no members but those listed", (_, given, expected) => {
  expect(closed(given)).toEqual(expected)
})

test.each<[string, Json]>([
  ["says that there may be others", { ...open, additionalProperties: true }],
  ["says of what kind others are", { ...open, patternProperties: { "^x": text } }],
  ["needs a member that it does not list", { ...open, required: ["b"] }],
  ["needs more than it may list", { ...open, minProperties: 2 }],
  ["needs a member beside another", { ...open, dependentRequired: { a: ["b"] } }],
  ["lists none", { type: "object" }],
  ["lists whole values", { ...open, enum: [{ a: "x", b: "y" }] }],
  ["is not alone with its members", { ...open, anyOf: [{ properties: { b: text } }] }],
  ["is put together", { allOf: [open, { properties: { b: text } }] }],
  ["must be one alone", { oneOf: [open, { properties: { b: text } }] }],
  ["must not be", { properties: { a: { not: open } } }],
  ["is an example", { const: { x: open }, default: open }],
])("what %s stays as it was given", (_, given) => {
  expect(closed(given)).toEqual(given)
})

test("what it allows satisfies what was given, and is not nothing", () => {
  const ajv = new Ajv2020({ strict: false })
  const schemas: Json[] = [open, { ...open, properties: { a: text, b: open } }, { allOf: [open] }]
  const values = [{ a: "x" }, { a: "x", b: { a: "y" } }, { a: "x", c: 1 }, { b: {} }, {}]
  for (const schema of schemas) {
    const [wide, narrow] = [ajv.compile(schema as object), ajv.compile(closed(schema))]
    const allowed = values.filter((value) => narrow(value))
    expect(allowed.length).toBeGreaterThan(0)
    for (const value of allowed) expect(wide(value)).toBe(true)
    expect(narrow({ a: "x", c: 1 })).toBe(false)
  }
})

// As llama.cpp's server has it for its `json_schema`, and XGrammar, by its strict_mode, for vLLM's and MLC-LLM's fields.
test.each([
  ["/v1/chat/completions", { response_format: { type: "json_object", schema: open } }],
  [
    "/v1/chat/completions",
    { response_format: { type: "json_schema", json_schema: { schema: open } } },
  ],
  ["/v1/chat/completions", { guided_json: JSON.stringify(open) }],
  ["/v1/completions", { structured_outputs: { json: open } }],
  ["/v1/completions", { json_schema: open }],
  ["/v1/responses", { text: { format: { type: "json_schema", name: "x", schema: open } } }],
  [
    "/v1/messages",
    { max_tokens: 9, output_config: { format: { type: "json_schema", schema: open } } },
  ],
])("by %s with %j the chat room is asked for no other members", async (url, format) => {
  const { post, asked } = parrot()
  const messages = [{ role: "user", content: "hi" }]
  const text = { "/v1/completions": { prompt: "hi" }, "/v1/responses": { input: "hi" } }[url]
  await post({ model: "tiny", ...(text ?? { messages }), ...format }, {}, url)
  expect(asked.map((request) => (request as ChatRequest).format)).toMatchObject([{ schema: shut }])
})

test("what is checked is what a reply would be held to, but tools are as they are", async () => {
  const { post, service } = parrot()
  const checked: object[] = []
  service.chat.checkSchema = async (each) => {
    checked.push(each)
    return { isUnsatisfiable: false, unenforced: [] }
  }
  const tools = [{ type: "function", function: { name: "f", parameters: open } }]
  for (const body of [open, { schema: open }, { tools, response_format: { type: "text" } }]) {
    expect((await post(body, {}, "/v1/schema/check")).statusCode).toBe(200)
  }
  expect(checked).toMatchObject([{ schema: shut }, { schema: shut }, { name: "f" }])
  expect(JSON.stringify(checked[2])).not.toContain("additionalProperties")
})

test("a format reaches the chat room so", async () => {
  const { post, asked } = parrot()
  const body = { model: "tiny", messages: [{ role: "user", content: "hi" }], format: open }
  await post(body, {}, "/api/chat")
  await post({ model: "tiny", prompt: "hi", format: open }, {}, "/api/generate")
  const formats = asked.map((request) => (request as ChatRequest).format)
  expect(formats).toEqual(Array(2).fill({ schema: shut, field: "format" }))
})
