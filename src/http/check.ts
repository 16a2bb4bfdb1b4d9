// Holds a request's body against its schema. The first fault becomes one sentence that names the field in the client's
// own spelling, what it must be and what it is. Nothing is coerced, filled in or removed: `"true"` is no boolean.
// Knows the keywords that type.ts writes; a test finds any other (`assertKnownKeywords`), so that no rule is silently skipped.

import type { Static, TSchema } from "typebox"
import { type Problem, problem } from "../errors.ts"
import { isMembers, type Json, type Members, writeJson } from "./json.ts"
import { atOnce, type Work } from "./turns.ts"

interface Schema {
  type?: "object" | "array" | "string" | "number" | "integer" | "boolean" | "null"
  enum?: readonly Json[]
  const?: Json
  anyOf?: readonly Schema[]
  properties?: Record<string, Schema>
  patternProperties?: Record<string, Schema>
  additionalProperties?: Schema
  required?: readonly string[]
  items?: Schema
  minItems?: number
  maxItems?: number
  minLength?: number
  maxLength?: number
  minimum?: number | bigint
  maximum?: number | bigint
  format?: "int64" | "binary"
  description?: string
  title?: string
  default?: Json
}

const KEYWORDS: Record<keyof Schema, true> = {
  type: true,
  enum: true,
  const: true,
  anyOf: true,
  properties: true,
  patternProperties: true,
  additionalProperties: true,
  required: true,
  items: true,
  minItems: true,
  maxItems: true,
  minLength: true,
  maxLength: true,
  minimum: true,
  maximum: true,
  format: true,
  description: true,
  title: true,
  default: true,
}

/**
 * The value as its schema's type; `path` is where it stands in the body, which it is itself unless said otherwise.
 * Throws the problem `invalid_value` for the first fault. Yields the values looked at.
 */
export function* checking<T extends TSchema>(schema: T, value: Json, path = ""): Work<Static<T>> {
  const mismatch = yield* faultOf(schema as Schema, value, { left: PIECE })
  if (mismatch) throw problemOf(mismatch, path)
  return value as unknown as Static<T>
}

/** The same for a value that is known to be small. */
export function check<T extends TSchema>(schema: T, value: Json, path = ""): Static<T> {
  return atOnce(checking(schema, value, path))
}

/** Throws when a schema uses a keyword that `check` does not know: a bug of ours, found by a test. */
export function assertKnownKeywords(schema: TSchema): void {
  const { properties, patternProperties, items, anyOf } = schema as Schema
  const unknown = Object.keys(schema).filter((keyword) => !(keyword in KEYWORDS))
  if (unknown.length > 0) throw new Error(`internal: no check knows ${unknown.join(", ")}`)
  const inner = [
    ...Object.values(properties ?? {}),
    ...Object.values(patternProperties ?? {}),
    ...(items ? [items] : []),
    ...(anyOf ?? []),
  ]
  for (const each of inner) assertKnownKeywords(each as TSchema)
}

/** Values looked at between two turns: a tenth of a millisecond or two. */
const PIECE = 2048

/** How many are left until then. */
interface Pace {
  left: number
}

/** What is wrong, and where: places are added from the inside out, as most values have nothing wrong with them. */
interface Found {
  /** What the value should have been; a member's name: it is not there. */
  wanted: Schema | string
  value: Json
  /** Of a field that takes nothing, why. */
  because?: string | undefined
  inside: (string | number)[] // innermost first
}

function* faultOf(schema: Schema, value: Json, pace: Pace): Work<Found | undefined> {
  const mismatch = faultAt(schema, value)
  if (mismatch) return mismatch
  const branch = branchOf(schema, value)!
  if (Array.isArray(value)) return yield* faultInItems(branch, value as readonly Json[], pace)
  if (branch.type === "object") return yield* faultInMembers(branch, value as Members, pace)
  return undefined
}

/** What is wrong with the value itself, whatever it holds. */
function faultAt(schema: Schema, value: Json): Found | undefined {
  const branch = branchOf(schema, value)
  if (branch && withinBounds(branch, value)) return undefined
  const because = takesNothing(schema) ? schema.description : undefined
  return { wanted: branch ?? schema, value, because, inside: [] }
}

/** Whether it is the schema of a field that is known and not supported, which its description gives the reason of. */
function takesNothing({ anyOf, maxItems, maxLength, const: only }: Schema): boolean {
  if (anyOf) return anyOf.every((each) => each.type === "null" || takesNothing(each))
  return maxItems === 0 || maxLength === 0 || only === false
}

/** Of a union the first branch of the value's kind; undefined where there is none. */
function branchOf(schema: Schema, value: Json): Schema | undefined {
  if (!schema.anyOf) return isOfKind(schema, value) ? schema : undefined
  for (const branch of schema.anyOf) if (isOfKind(branch, value)) return branchOf(branch, value)
  return undefined
}

/** Whether the value is of the schema's kind, whatever its size: what chooses between the branches of a union. */
function isOfKind(schema: Schema, value: Json): boolean {
  if (schema.anyOf) return schema.anyOf.some((branch) => isOfKind(branch, value))
  if (schema.enum) return schema.enum.includes(value)
  if (schema.const !== undefined) return schema.const === value
  switch (schema.type) {
    case undefined:
      return true
    case "null":
      return value === null
    case "object":
      return isMembers(value)
    case "array":
      return Array.isArray(value)
    case "string":
      return schema.format === "binary" ? isFile(value) : typeof value === "string"
    case "integer":
      return isInteger(value, schema)
    case "number":
      return typeof value === "number" || typeof value === "bigint"
    default:
      return typeof value === schema.type
  }
}

/** Bytes, which a form alone has. */
function isFile(value: Json): boolean {
  return (value as unknown) instanceof Uint8Array
}

// Only a field that says int64 takes what a double cannot hold; a double beyond 2^53 has lost digits already.
function isInteger(value: Json, schema: Schema): boolean {
  return Number.isSafeInteger(value) || (typeof value === "bigint" && schema.format === "int64")
}

function withinBounds(schema: Schema, value: Json): boolean {
  if (typeof value === "number" || typeof value === "bigint") {
    if (schema.minimum !== undefined && value < schema.minimum) return false
    return schema.maximum === undefined || value <= schema.maximum
  }
  if (typeof value === "string") {
    const { minLength = 0, maxLength = Number.POSITIVE_INFINITY } = schema
    return value.length >= minLength && value.length <= maxLength
  }
  if (Array.isArray(value)) {
    const { minItems = 0, maxItems = Number.POSITIVE_INFINITY } = schema
    return value.length >= minItems && value.length <= maxItems
  }
  return true
}

function* faultInItems(
  { items: schema }: Schema,
  items: readonly Json[],
  pace: Pace,
): Work<Found | undefined> {
  if (!schema) return undefined
  for (const [index, item] of items.entries()) {
    if (pace.left-- === 0) yield startAnew(pace)
    const mismatch = isContainer(item) ? yield* faultOf(schema, item, pace) : faultAt(schema, item)
    if (mismatch) return within(mismatch, index)
  }
  return undefined
}

function* faultInMembers(schema: Schema, members: Members, pace: Pace): Work<Found | undefined> {
  const every = Object.values(schema.patternProperties ?? {})[0] ?? schema.additionalProperties
  for (const [name, value] of Object.entries(members)) {
    if (pace.left-- === 0) yield startAnew(pace)
    const known = schema.properties
    const inner = known && Object.hasOwn(known, name) ? known[name] : every
    if (!inner) continue
    const mismatch = isContainer(value) ? yield* faultOf(inner, value, pace) : faultAt(inner, value)
    if (mismatch) return within(mismatch, name)
  }
  // Last, for what is there may say why something is not: a tool of another type has no function.
  const missing = schema.required?.find((name) => !Object.hasOwn(members, name))
  return missing === undefined ? undefined : { wanted: missing, value: null, inside: [missing] }
}

function startAnew(pace: Pace): number {
  pace.left = PIECE - 1
  return PIECE
}

function isContainer(value: Json): boolean {
  return typeof value === "object" && value !== null && !isFile(value)
}

function within(found: Found, place: string | number): Found {
  found.inside.push(place)
  return found
}

function problemOf({ wanted, value, because, inside }: Found, path: string): Problem {
  const place = inside.reduceRight<string>(
    (outer, each) => (typeof each === "number" ? `${outer}[${each}]` : join(outer, each)),
    path,
  )
  if (typeof wanted === "string") return fault(place, "is required")
  const what = `${describe(wanted)}${beyond(wanted, value)}`
  if (because === undefined) return mustBe(place, what, value)
  const reason = because.replace(/^[A-Z](?![A-Z])/, (letter) => letter.toLowerCase())
  return fault(place, `must be ${what}, not ${show(value)}: ${reason.replace(/\.$/, "")}`)
}

/** The problem of a value that is not what it must be; both are told. The body's own `path` is "". */
export function mustBe(path: string, what: string, value: Json): Problem {
  return fault(path, `must be ${what}, not ${show(value)}`)
}

/** The problem of a field, in a sentence that begins with its name. */
export function fault(path: string, what: string): Problem {
  const sentence = `${path === "" ? "The body" : path} ${what}.`
  return problem("invalid_value", { problem: sentence }, path === "" ? undefined : path)
}

/** The bound that no schema says: integers that a double cannot count to. */
function beyond(schema: Schema, value: Json): string {
  const { type, maximum } = schema.anyOf?.find((each) => each.type !== "null") ?? schema
  const isHuge =
    typeof value === "bigint" ||
    (typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER)
  return type === "integer" && maximum === undefined && isHuge ? " and below 2^53" : ""
}

function join(path: string, name: string): string {
  if (!/^[\w-]{1,100}$/.test(name)) return `${path}[${JSON.stringify(cut(name, 100))}]`
  return path === "" ? name : `${path}.${name}`
}

/** A noun phrase: "an integer from 0 to 20", "one of \"a\", \"b\"". Also what the printed documents say. */
export function describe(schema: TSchema): string {
  const { anyOf, enum: values, const: only, type, items, ...bounds } = schema as Schema
  if (anyOf) {
    const kinds = anyOf.filter((each) => each.type !== "null").map((each) => describe(each))
    return kinds.join(" or ")
  }
  if (values) return `one of ${values.map(writeJson).join(", ")}`
  if (only !== undefined) return writeJson(only)
  switch (type) {
    case "array":
      return listOf(elements(items ?? {}), bounds)
    case "string":
      if (bounds.format === "binary")
        return "a file (a part with a filename, as curl -F NAME=@PATH sends one)"
      if (bounds.maxLength === 0) return "an empty string"
      return bounds.minLength === 1 ? "a string that is not empty" : "a string"
    case "object":
      return "an object"
    case "integer":
      return `an integer${range(bounds.minimum, bounds.maximum)}`
    case "number":
      return `a number${range(bounds.minimum, bounds.maximum)}`
    case "boolean":
      return "true or false"
    case "null":
      return "null"
    default:
      return "any JSON"
  }
}

function listOf(things: string, { minItems, maxItems }: Schema): string {
  if (maxItems === 0) return "an empty list"
  const most = maxItems === undefined ? "" : `at most ${maxItems} `
  return `a list of ${most}${things}${minItems === 1 ? " that is not empty" : ""}`
}

function elements(items: Schema): string {
  switch (items.type) {
    case "string":
      return items.minLength === 1 ? "strings that are not empty" : "strings"
    case "integer":
      return "integers"
    case "object":
      return "objects"
    case "array":
      return "lists"
    default:
      return "items"
  }
}

function range(least: number | bigint | undefined, most: number | bigint | undefined): string {
  if (least !== undefined && most !== undefined) return ` from ${least} to ${most}`
  if (least !== undefined) return ` of at least ${least}`
  return most === undefined ? "" : ` of at most ${most}`
}

/** What was received, short enough for a sentence. */
export function show(value: Json): string {
  if (Array.isArray(value))
    return value.length === 0 ? "an empty list" : `a list of ${value.length}`
  if (isFile(value)) return "a file"
  if (typeof value === "object" && value !== null) return "an object"
  if (value === "") return "an empty string"
  return cut(writeJson(typeof value === "string" ? cut(value, 60) : value), 60)
}

/** The text's beginning, never ending in half a character. */
export function cut(text: string, most: number): string {
  if (text.length <= most) return text
  return `${text.slice(0, most).replace(/[\ud800-\udbff]$/, "")}…`
}
