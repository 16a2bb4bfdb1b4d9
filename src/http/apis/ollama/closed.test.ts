// Against llama.cpp's rule (`_build_object_rule` of its json-schema-to-grammar): without `additionalProperties` none are written.

import { Ajv2020 } from "ajv/dist/2020.js"
import { expect, test } from "vitest"
import { parrot } from "../../../../test/parrot.ts"
import type { ChatRequest } from "../../../chat/conversation.ts"
import type { Json } from "../../json.ts"
import { atOnce } from "../../turns.ts"
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

test("a format reaches the chat room so", async () => {
  const { post, asked } = parrot()
  const body = { model: "tiny", messages: [{ role: "user", content: "hi" }], format: open }
  await post(body, {}, "/api/chat")
  await post({ model: "tiny", prompt: "hi", format: open }, {}, "/api/generate")
  const formats = asked.map((request) => (request as ChatRequest).format)
  expect(formats).toEqual(Array(2).fill({ schema: shut, field: "format" }))
})
