// What a reply must look like: text, any JSON object, or JSON by a schema. Clients write the schema in three places, as
// an object or as JSON text; it is found wherever it is, and one that would go unused is refused.

import type { ResponseFormat } from "../chat/conversation.ts"
import { problem } from "../errors.ts"
import { type Json, readJson } from "./json.ts"
import type { ChatCompletionRequest } from "./schemas.ts"

type GivenFormat = NonNullable<ChatCompletionRequest["response_format"]>

export function readResponseFormat(
  given: ChatCompletionRequest["response_format"],
): ResponseFormat | undefined {
  if (!given) return undefined
  const found = findSchema(given)
  if (given.type === "text") {
    if (found) refuse(found.path, "is only for the types json_object and json_schema")
    return undefined
  }
  if (!found && given.type === "json_schema") refuse("response_format.json_schema", "is required")
  return { schema: found && readSchema(found), field: found?.path ?? "response_format" }
}

/** A schema that stands alone, as an object or as JSON text. */
export function readPlainSchema(schema: Json): ResponseFormat {
  return { schema: readSchema({ path: BODY, schema }), field: BODY }
}

const BODY = "The body" // is no field: a refusal names it in words alone

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
  return refuse(`${path}.schema`, "is required")
}

// OpenAI's form: a name and its schema. No schema has keywords of these names.
function wrapperOf(value: Json): Readonly<Record<string, Json>> | undefined {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value)
  if (!isObject || !["schema", "name", "strict"].some((key) => Object.hasOwn(value, key))) {
    return undefined
  }
  return value as Readonly<Record<string, Json>>
}

function readSchema({ path, schema }: Found): Json {
  const value = typeof schema === "string" ? parsed(schema, path) : schema
  if (typeof value === "boolean") return value
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value
  return refuse(path, "must be a JSON Schema, as an object or as JSON text of one")
}

function parsed(text: string, path: string): Json {
  try {
    return readJson(text)
  } catch {
    return refuse(path, "is a string that holds no JSON")
  }
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null
}

function refuse(path: string, what: string): never {
  throw problem("invalid_value", { problem: `${path} ${what}.` }, path === BODY ? undefined : path)
}
