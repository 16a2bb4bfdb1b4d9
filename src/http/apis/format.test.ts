import { expect, test } from "vitest"
import { Problem } from "../../errors.ts"
import type { Json } from "../json.ts"
import { atOnce } from "../turns.ts"
import { readingFormat, readingPlainSchema } from "./format.ts"

type Given = Parameters<typeof readingFormat>[0]

const readResponseFormat = (given: Given) => atOnce(readingFormat(given))
const readPlainSchema = (given: Json) => atOnce(readingPlainSchema(given))

const schema = { type: "object", properties: { id: { const: 9007199254740993n } } }
const text = '{"type":"object","properties":{"id":{"const":9007199254740993}}}'

test.each([
  { type: "json_object", schema },
  { type: "json_object", schema: text },
  { type: "json_schema", schema },
  { type: "json_schema", json_schema: schema },
  { type: "json_schema", json_schema: text },
  { type: "json_schema", json_schema: { name: "x", strict: true, schema } },
  { type: "json_schema", json_schema: { schema: text } },
] as const)("the schema is found in %#", (given) => {
  expect(readResponseFormat(given as never)).toMatchObject({ schema })
})

test("text and any JSON", () => {
  expect(readResponseFormat(undefined)).toBeUndefined()
  expect(readResponseFormat(null)).toBeUndefined()
  expect(readResponseFormat({ type: "text" })).toBeUndefined()
  expect(readResponseFormat({ type: "json_object" })).toMatchObject({ schema: undefined })
  expect(readResponseFormat({ type: "json_schema", schema: true })).toEqual({
    schema: true,
    field: "response_format.schema",
  })
})

const properties = { a: { type: "integer" } }

// As llama.cpp's json_schema_to_grammar and xgrammar read a schema with no type: one of objects, with no other names than it lists.
test.each([
  [{}, { type: "object" }],
  ["{}", { type: "object" }],
  [true, { type: "object" }],
  [{ properties }, { properties, type: "object", additionalProperties: false }],
  [{ items: properties.a }, { items: properties.a }],
  [{ type: ["object", "null"] }, { type: ["object", "null"] }],
  [{ enum: ["a"] }, { enum: ["a"] }],
  [{ anyOf: [properties.a] }, { anyOf: [properties.a] }],
])("json_object by the schema %j means objects unless it names a kind", (given, schema) => {
  expect(readResponseFormat({ type: "json_object", schema: given } as never)).toEqual({
    schema,
    field: "response_format.schema",
  })
  const asText = typeof given === "string" ? JSON.parse(given) : given
  expect(readResponseFormat({ type: "json_schema", schema: given } as never)).toMatchObject({
    schema: asText,
  })
})

test.each([
  [{ type: "text", schema: {} }, "response_format.schema"],
  [{ type: "json_schema" }, "response_format.json_schema"],
  [{ type: "json_schema", json_schema: { name: "x" } }, "response_format.json_schema.schema"],
  [{ type: "json_schema", json_schema: { schema: 5 } }, "response_format.json_schema.schema"],
  [{ type: "json_object", schema: "{" }, "response_format.schema"],
  [{ type: "json_object", schema: "5" }, "response_format.schema"],
])("%j is refused at %s", (given, param) => {
  try {
    readResponseFormat(given as never)
    expect.unreachable()
  } catch (error) {
    expect(error).toBeInstanceOf(Problem)
    expect((error as Problem).param).toBe(param)
  }
})

test("a schema that stands alone is refused without a field's name", () => {
  expect(() => readPlainSchema("")).toThrow("The body is a string that holds no JSON.")
  try {
    readPlainSchema("{")
  } catch (error) {
    expect((error as Problem).param).toBeUndefined()
  }
})
