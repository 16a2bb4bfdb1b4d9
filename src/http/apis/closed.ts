// A schema as other servers keep to it: an object has the members that `properties` lists and no others, unless the schema says
// that there may be some. JSON Schema alone lets a model write names of its own first, and schemas that clients make from a class
// (pydantic) never say that it may not. llama.cpp, whose grammars Ollama's are, tried it and went back: "an alarming rate of
// hallucinations on property names" (its pull request 8180). XGrammar, which vLLM and MLC-LLM use, has it so by `strict_mode`.
//
// What has no other members satisfies the schema that was given only where its parts are not combined: one with `oneOf`, `not`,
// `allOf` of several and the like stays as it is.

import { isMembers, type Json, type Members } from "../json.ts"
import type { Work } from "../turns.ts"

/** Keywords that are a schema or a list of some, and those that are a map of some. */
const SCHEMAS = new Set(["items", "additionalProperties", "prefixItems", "anyOf", "allOf"])
const MAPS = new Set(["properties", "patternProperties", "$defs", "definitions"])

/** Of these one stands alone: beside another, or beside `properties`, both speak of the same members. */
const IN_PLACE = ["$ref", "$dynamicRef", "anyOf", "allOf"]

/** A value with fewer members may be wrong by these. */
const COMBINING = [
  ...["oneOf", "not", "if", "contains", "dependentSchemas", "dependencies"],
  ...["unevaluatedProperties", "unevaluatedItems"],
]

const PIECE = 512 // schemas read between two turns

/** Yields how many schemas it has read. */
export function* closing(document: Json): Work<Json> {
  const closed = yield* closingPart(document, { left: PIECE })
  return closed ?? document
}

/** Undefined where parts are combined. */
function* closingPart(given: Json, pace: { left: number }): Work<Json | undefined> {
  if (typeof given !== "object" || given === null) return given
  if (pace.left-- === 0) {
    pace.left = PIECE - 1
    yield PIECE
  }
  if (Array.isArray(given)) return yield* closingEach(given, pace)
  const schema = given as Members
  if (isCombined(schema)) return undefined
  const members: [string, Json][] = []
  for (const [name, value] of Object.entries(schema)) {
    let closed: Json | undefined = value
    if (SCHEMAS.has(name)) closed = yield* closingPart(value, pace)
    else if (MAPS.has(name) && isMembers(value)) {
      const parts = yield* closingEach(Object.values(value), pace)
      closed = parts && Object.fromEntries(Object.keys(value).map((key, at) => [key, parts[at]!]))
    }
    if (closed === undefined) return undefined
    members.push([name, closed])
  }
  if (isOpen(schema)) members.push(["additionalProperties", false])
  return Object.fromEntries(members)
}

function* closingEach(given: readonly Json[], pace: { left: number }): Work<Json[] | undefined> {
  const parts: Json[] = []
  for (const each of given) {
    const closed = yield* closingPart(each, pace)
    if (closed === undefined) return undefined
    parts.push(closed)
  }
  return parts
}

function isCombined(schema: Members): boolean {
  const has = (name: string) => Object.hasOwn(schema, name)
  if (COMBINING.some(has)) return true
  const { allOf } = schema
  if (Array.isArray(allOf) && allOf.length > 1) return true
  return IN_PLACE.filter(has).length > (has("properties") ? 0 : 1)
}

/** What speaks of members that are not listed, or of the whole value. */
const WIDER = [
  ...["additionalProperties", "patternProperties", "propertyNames", "minProperties"],
  ...["dependentRequired", "enum", "const"],
]

function isOpen(schema: Members): boolean {
  const { properties, required = [] } = schema
  if (!isMembers(properties) || WIDER.some((name) => Object.hasOwn(schema, name))) return false
  const isListed = (name: Json) => typeof name === "string" && Object.hasOwn(properties, name)
  return Array.isArray(required) && required.every(isListed)
}
