// A JSON Schema, and what can be enforced of it.

import { Type } from "../../type.ts"
import { anything, flag, nullable, text } from "../fields.ts"

export const SchemaCheckRequest = Type.Union([anything, text, flag], {
  title: "SchemaCheckRequest",
  description:
    "A JSON Schema, its JSON text, a response_format, an entry of tools, or a map with `response_format`, `tools` or `schema`.",
})

export const SchemaCheckResponse = Type.Object(
  {
    object: Type.Literal("schema.check"),
    enforceable: Type.Boolean({ description: "Whether every answer would satisfy it, exactly." }),
    unsatisfiable: Type.Boolean({ description: "Whether no value satisfies it." }),
    unenforced: Type.Array(
      Type.Object({
        tool: nullable(text),
        pointer: Type.String({ description: "JSON pointer of the schema that holds the keyword." }),
        keyword: text,
        reason: text,
      }),
      { description: "What a strict request is refused for, and x-unenforced lists for others." },
    ),
  },
  { title: "SchemaCheckResponse" },
)
