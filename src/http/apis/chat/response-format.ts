// What a reply must look like: text, any JSON object, or JSON by a schema. Clients write the schema in three places, as
// an object or as JSON text; it is found wherever it is, and one that would go unused is refused.

import type { ResponseFormat } from "../../../chat/conversation.ts"
import { fault, mustBe } from "../../check.ts"
import { type Json, reading } from "../../json.ts"
import type { Work } from "../../turns.ts"
import type { ChatCompletionRequest } from "./schema.ts"

type GivenFormat = NonNullable<ChatCompletionRequest["response_format"]>

export function* readingFormat(
  given: ChatCompletionRequest["response_format"],
): Work<ResponseFormat | undefined> {
  if (!given) return undefined
  const definition = findSchema(given)
  if (given.type === "text") {
    if (definition)
      throw fault(definition.path, "is only for the types json_object and json_schema")
    return undefined
  }
  if (!definition && given.type === "json_schema")
    throw fault("response_format.json_schema", "is required")
  const schema = definition && (yield* readingSchema(definition))
  return { schema, field: definition?.path ?? "response_format" }
}

/** A schema that stands alone, as an object or as JSON text. */
export function* readingPlainSchema(schema: Json): Work<ResponseFormat> {
  return { schema: yield* readingSchema({ path: "", schema }), field: "The body" }
}

interface Found {
  path: string
  schema: Json
}

function findSchema({ schema, json_schema }: GivenFormat) {
  if (isGiven(schema)) return { path: "response_format.schema", schema: schema as Json }
  if (!isGiven(json_schema)) return undefined
  const path = "response_format.json_schema"
  const wrapped = wrapperOf(json_schema as Json)
  if (!wrapped) return { path, schema: json_schema as Json }
  if (isGiven(wrapped.schema)) return { path: `${path}.schema`, schema: wrapped.schema as Json }
  throw fault(`${path}.schema`, "is required")
}

// OpenAI's form: a name and its schema. No schema has keywords of these names.
function wrapperOf(value: Json): Readonly<Record<string, Json>> | undefined {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value)
  if (!isObject || !["schema", "name", "strict"].some((key) => Object.hasOwn(value, key))) {
    return undefined
  }
  return value as Readonly<Record<string, Json>>
}

function* readingSchema({ path, schema }: Found): Work<Json> {
  const value = typeof schema === "string" ? yield* parsing(schema, path) : schema
  if (typeof value === "boolean") return value
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value
  throw mustBe(path, "a JSON Schema, as an object or as JSON text of one", value)
}

function* parsing(text: string, path: string): Work<Json> {
  try {
    return yield* reading(text)
  } catch {
    throw fault(path, "is a string that holds no JSON")
  }
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null
}
