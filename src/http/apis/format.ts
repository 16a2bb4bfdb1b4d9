// What a reply must look like: text, any JSON object, JSON by a schema, or a text of a pattern, a list or a grammar. Clients
// write the schema in three places, as an object or as JSON text; it is found wherever it is, and one that would go unused is
// refused. Other servers' fields for the same stand in a table; two that contradict each other are refused.

import { isDeepStrictEqual } from "node:util"
import type { ResponseFormat, SchemaFormat } from "../../chat/conversation.ts"
import { fault, mustBe } from "../check.ts"
import { isMembers, type Json, type Members, reading } from "../json.ts"
import type { Work } from "../turns.ts"
import { closing } from "./closed.ts"
import type { FormatFields } from "./fields.ts"

type GivenFormat = NonNullable<FormatFields["response_format"]>

/** Of the fields that say what a reply is. */
export function* readingFormats(body: FormatFields): Work<ResponseFormat | undefined> {
  const asked: ResponseFormat[] = []
  const format = yield* readingFormat(body.response_format)
  if (format) asked.push(format)
  for (const [field, read] of Object.entries(SPELLINGS)) {
    const value = body[field as keyof FormatFields] as Json | undefined
    if (isFilled(value)) asked.push(yield* readingFound(read(field, value)))
  }
  const [first, ...others] = asked
  const second = others.find((other) => !isSame(other, first!))
  if (second) throw fault(second.field!, `and ${first!.field} cannot both say what the reply is`)
  return first
}

/** Clients of servers old and new say the same in the fields of both. */
function isSame(one: ResponseFormat, other: ResponseFormat): boolean {
  return isDeepStrictEqual({ ...one, field: "" }, { ...other, field: "" })
}

function* readingFound(found: Found | ResponseFormat): Work<ResponseFormat> {
  if (!("path" in found)) return found
  return { schema: yield* readingSchema(found), field: found.path }
}

export function* readingFormat(
  given: FormatFields["response_format"],
): Work<ResponseFormat | undefined> {
  if (!given) return undefined
  if (given.type === "regex")
    return language("response_format.pattern", "regex", given.pattern ?? null)
  if (given.type === "grammar")
    return language("response_format.grammar", "grammar", given.grammar ?? null)
  const definition = findSchema(given)
  if (given.type === "text") {
    if (definition)
      throw fault(definition.path, "is only for the types json_object and json_schema")
    return undefined
  }
  if (!definition && given.type === "json_schema")
    throw fault("response_format.json_schema", "is required")
  const schema = definition && (yield* readingSchema(definition))
  return {
    schema: given.type === "json_object" ? ofObjects(schema) : schema,
    field: definition?.path ?? "response_format",
  }
}

/** With one of these a schema says itself which kinds of values it means. */
const KINDS = [
  ...["type", "enum", "const", "items", "prefixItems"],
  ...["$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if"],
]

/** JSON Schema lets `properties` alone be satisfied by 5: where the schema names no kind, json_object does. */
function ofObjects(schema: Json | undefined): Json | undefined {
  if (schema === true) return { type: "object" }
  const isOpen =
    typeof schema === "object" &&
    schema !== null &&
    !KINDS.some((key) => Object.hasOwn(schema, key))
  return isOpen ? Object.assign({}, schema, { type: "object" }) : schema
}

type Reading = (field: string, value: Json) => Found | ResponseFormat

const json: Reading = (path, schema) => ({ path, schema })
const regex: Reading = (field, value) => language(field, "regex", value)
const choice: Reading = (field, value) => language(field, "choice", value)
const grammar: Reading = (field, value) => language(field, "grammar", value)

/** How other servers call it: vLLM (structured_outputs, guided_…), SGLang (regex, ebnf) and llama.cpp (grammar, json_schema). */
const SPELLINGS: Record<string, Reading> = {
  regex,
  choice,
  grammar,
  json_schema: json,
  structured_outputs: (field, value) => structured(field, value as Members),
  guided_json: json,
  guided_regex: regex,
  guided_choice: choice,
  guided_grammar: grammar,
  ebnf: grammar,
}

const STRUCTURED: Record<string, Reading> = {
  json,
  regex,
  choice,
  grammar,
  json_object: (field) => ({ schema: undefined, field }),
}

const WITHOUT_EFFECT = ["disable_any_whitespace", "disable_fallback"]

function structured(field: string, value: Members): Found | ResponseFormat {
  const given = Object.entries(value).filter(
    ([name, member]) => isFilled(member) && !WITHOUT_EFFECT.includes(name),
  )
  const [first, second] = given
  if (!first || second) throw fault(field, `must have one of ${Object.keys(STRUCTURED).join(", ")}`)
  const [name, member] = first
  const read = Object.hasOwn(STRUCTURED, name) ? STRUCTURED[name] : undefined
  if (!read) throw fault(`${field}.${name}`, "is not supported")
  return read(`${field}.${name}`, member)
}

type Kind = "regex" | "choice" | "grammar"

function language(field: string, kind: Kind, value: Json): ResponseFormat {
  if (kind === "choice") {
    if (!Array.isArray(value) || !value.every((text) => typeof text === "string"))
      throw mustBe(field, "a list of texts", value)
    return { language: { kind, texts: value }, field }
  }
  if (typeof value !== "string") throw mustBe(field, "a text", value)
  if (kind === "regex") return { language: { kind, pattern: value }, field }
  // GBNF says `name ::= …`, Lark `name: …`.
  return { language: { kind: value.includes("::=") ? "gbnf" : "lark", grammar: value }, field }
}

/** Neither absent nor "", [] or false, which ask for nothing. */
function isFilled(value: Json | undefined): value is Json {
  return Array.isArray(value) ? value.length > 0 : Boolean(value)
}

/** A schema that stands alone, as an object or as JSON text. */
export function* readingPlainSchema(schema: Json): Work<SchemaFormat> {
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
function wrapperOf(value: Json): Members | undefined {
  const isWrapper =
    isMembers(value) && ["schema", "name", "strict"].some((key) => Object.hasOwn(value, key))
  return isWrapper ? value : undefined
}

function* readingSchema({ path, schema }: Found): Work<Json> {
  const value = typeof schema === "string" ? yield* parsing(schema, path) : schema
  if (typeof value === "boolean" || isMembers(value)) return yield* closing(value)
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
