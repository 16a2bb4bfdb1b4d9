// What a tool's arguments are held to, as far as it is not the schema itself.

import { expect, test } from "vitest"
import { argumentsSchema } from "./compiled-schemas.ts"

test.each([
  [undefined, { type: "object", additionalProperties: false }],
  [{ required: ["a"] }, { required: ["a"], type: "object" }],
  [{ type: ["object", "null"] }, { type: "object" }],
])("arguments by %j are an object", (parameters, schema) => {
  expect(argumentsSchema({ parameters })).toEqual(schema)
})
