// What a tool's arguments are held to, as far as it is not the schema itself.

import { expect, test } from "vitest"
import { argumentsSchema, textOf } from "./compiled-schemas.ts"

test.each([
  [undefined, { type: "object", additionalProperties: false }],
  [{ required: ["a"] }, { required: ["a"], type: "object" }],
  [{ type: ["object", "null"] }, { type: "object" }],
  [{ type: "dict" }, { type: ["object", "dict"] }],
])("arguments by %j are an object", (parameters, schema) => {
  expect(argumentsSchema({ parameters })).toEqual(schema)
})

test("what is kept under a text is found by nothing else", () => {
  const all = [2n ** 53n + 1n, "9007199254740993", "9007199254740993n", Infinity, "Infinity", null]
  expect(new Set(all.map((value) => textOf({ const: value }))).size).toBe(all.length)
})
