// Every keyword that restricts a value, and how what it says is read into its node. A value that is malformed is a fault of
// that keyword; what the keyword means is told in keywords.ts.

import type { Dfa } from "./dfa.ts"
import { canonical, compare, type Decimal, isDecimal, type Json } from "./json.ts"
import { countedPattern, PatternFault, patternLanguage } from "./regex.ts"
import { type Fault, SchemaFault, type SchemaNode, types, UnknownType } from "./schema-node.ts"
import { TooLarge } from "./work.ts"

/** What the document around a node knows. */
export interface Places {
  /** The schema below a node's keyword. */
  child(node: SchemaNode, ...path: (string | number)[]): SchemaNode
  reference(node: SchemaNode, keyword: string, value: Json): SchemaNode["dynamic"] & object
  recursiveReference(node: SchemaNode): SchemaNode["dynamic"] & object
  /** The texts a pattern is found in; equal patterns are one automaton. */
  language(key: string, make: () => Dfa): Dfa
  /** A schema without a place of its own. */
  synthetic(pointer: string, resource: string): SchemaNode
  readonly assertsFormats: boolean
  /** The texts of a format; undefined where it is an annotation. */
  formatOf(name: string, node: SchemaNode): { language: Dfa; maxLength: number } | undefined
}

/**
 * Fills a node with its keywords.
 * @param isRead which of them are read
 * @param lenient what cannot be read is left out and returned
 * @throws SchemaFault
 */
export function readKeywords(
  places: Places,
  node: SchemaNode,
  schema: Map<string, Json>,
  isRead: (keyword: string) => boolean,
  lenient: boolean,
): Fault[] {
  const faults: Fault[] = []
  for (const [keyword, read] of Object.entries(keywords)) {
    const value = schema.get(keyword)
    if (value === undefined || !isRead(keyword)) continue
    const reader = new KeywordReader(places, node, schema, keyword)
    try {
      read(reader, value)
    } catch (error) {
      const fault = reader.faultOf(error)
      if (!lenient || fault instanceof UnknownType) throw fault
      if (keyword === "type") readLoosely(reader, value, fault)
      faults.push(fault.fault)
    }
  }
  return faults
}

/** What a keyword's reader sees: the node it fills, and checks that speak of this keyword. */
class KeywordReader {
  readonly document: Places
  readonly node: SchemaNode
  readonly schema: Map<string, Json>
  readonly keyword: string

  constructor(document: Places, node: SchemaNode, schema: Map<string, Json>, keyword: string) {
    this.document = document
    this.node = node
    this.schema = schema
    this.keyword = keyword
  }

  fail(reason: string): never {
    throw new SchemaFault(this.node.pointer, this.keyword, reason)
  }

  /** @throws whatever says nothing of the schema */
  faultOf(error: unknown): SchemaFault {
    if (error instanceof SchemaFault) return error
    if (!(error instanceof PatternFault || error instanceof TooLarge)) throw error
    return new SchemaFault(this.node.pointer, this.keyword, error.message)
  }

  decimal(value: Json): Decimal {
    return isDecimal(value) ? value : this.fail("is not a number")
  }

  /** A count; beyond 2^53 it is as good as endless. */
  count(value: Json): number {
    if (!isDecimal(value) || value.scale > 0 || value.digits < 0n) {
      return this.fail("is not a non-negative integer")
    }
    return Math.min(Number(value.digits), Number.MAX_SAFE_INTEGER)
  }

  flag(value: Json): boolean {
    return typeof value === "boolean" ? value : this.fail("is not a boolean")
  }

  strings(value: Json): string[] {
    const isList = Array.isArray(value) && value.every((item) => typeof item === "string")
    return isList ? (value as string[]) : this.fail("is not a list of strings")
  }

  map(value: Json): [string, Json][] {
    return value instanceof Map ? [...value] : this.fail("is not an object")
  }

  one(): SchemaNode {
    return this.document.child(this.node, this.keyword)
  }

  list(value: Json): SchemaNode[] {
    if (!Array.isArray(value)) return this.fail("is not a list of schemas")
    return value.map((_, i) => this.document.child(this.node, this.keyword, i))
  }

  named(value: Json): Map<string, SchemaNode> {
    const entries = this.map(value)
    return new Map(entries.map(([k]) => [k, this.document.child(this.node, this.keyword, k)]))
  }

  pattern(source: Json): Dfa {
    if (typeof source !== "string") return this.fail("is not a string")
    return this.document.language(`pattern ${source}`, () => patternLanguage(source))
  }

  /** A schema that one of some satisfies. */
  either(...options: Partial<SchemaNode>[]): SchemaNode {
    const { pointer, resource } = this.node
    const made = (own: Partial<SchemaNode>): SchemaNode =>
      Object.assign(this.document.synthetic(pointer, resource), own)
    return made({ anyOf: options.map(made) })
  }

  /** An integer of so many bits, as OpenAPI's formats say. */
  integer(bits: bigint): void {
    const end = 2n ** (bits - 1n)
    this.tighten("minimum", { digits: -end, scale: 0 }, false)
    this.tighten("maximum", { digits: end - 1n, scale: 0 }, false)
    if (!this.node.type?.integer) this.node.multipleOf ??= { digits: 1n, scale: 0 }
  }

  tighten(key: "minimum" | "maximum", value: Decimal, open: boolean): void {
    const old = this.node[key]
    const sign = key === "minimum" ? 1 : -1
    const closer = old === undefined ? 1 : sign * compare(value, old.value)
    if (closer > 0 || (closer === 0 && open)) this.node[key] = { value, open }
  }
}

const integerBits: Record<string, bigint> = { int32: 32n, int64: 64n }

type Read = (r: KeywordReader, value: Json) => void

/** Every keyword that restricts a value. Order matters where one looks at another's outcome. */
const keywords: Record<string, Read> = {
  $ref: (r, v) => {
    r.node.ref = r.document.reference(r.node, "$ref", v).fallback
  },
  $dynamicRef: (r, v) => {
    r.node.dynamic = r.document.reference(r.node, "$dynamicRef", v)
  },
  $recursiveRef: (r) => {
    r.node.dynamic = r.document.recursiveReference(r.node)
  },
  type: (r, v) => {
    const names = Array.isArray(v) ? r.strings(v) : [v]
    const odd = names.find((name) => typeMask(name) === 0)
    if (odd !== undefined) r.fail(`${shown(odd)} names no type of JSON Schema`)
    readTypes(r, names)
  },
  enum: (r, v) => {
    r.node.values = Array.isArray(v) ? v : r.fail("is not a list")
  },
  const: (r, v) => {
    const same = (item: Json) => canonical(item) === canonical(v)
    r.node.values = r.node.values ? r.node.values.filter(same) : [v]
  },
  minimum: (r, v) => r.tighten("minimum", r.decimal(v), r.schema.get("exclusiveMinimum") === true),
  maximum: (r, v) => r.tighten("maximum", r.decimal(v), r.schema.get("exclusiveMaximum") === true),
  exclusiveMinimum: (r, v) => {
    if (typeof v !== "boolean") r.tighten("minimum", r.decimal(v), true)
  },
  exclusiveMaximum: (r, v) => {
    if (typeof v !== "boolean") r.tighten("maximum", r.decimal(v), true)
  },
  multipleOf: (r, v) => {
    const divisor = r.decimal(v)
    if (divisor.digits <= 0n) r.fail("is not a positive number")
    r.node.multipleOf = divisor
  },
  minLength: (r, v) => {
    r.node.minLength = r.count(v)
  },
  maxLength: (r, v) => {
    r.node.maxLength = r.count(v)
  },
  pattern: (r, v) => {
    const counted = typeof v === "string" ? countedPattern(v) : undefined
    r.node.languages = [counted?.language ?? r.pattern(v)]
    if (!counted) return
    const { min, max, longer } = counted
    r.node.minLength = Math.max(r.node.minLength ?? 0, min)
    r.node.maxLength = Math.min(r.node.maxLength ?? Infinity, longer ? max + 1 : max)
    if (longer) r.node.allOf = [r.either({ maxLength: max }, { languages: [longer] })]
  },
  format: (r, v) => {
    if (typeof v !== "string" || !r.document.assertsFormats) return
    const bits = integerBits[v]
    if (bits !== undefined) return r.integer(bits)
    const format = r.document.formatOf(v, r.node)
    if (format === undefined) return
    r.node.languages = [...(r.node.languages ?? []), format.language]
    r.node.maxLength = Math.min(r.node.maxLength ?? Infinity, format.maxLength)
  },
  prefixItems: (r, v) => {
    r.node.prefix = r.list(v)
  },
  items: (r, v) => {
    if (Array.isArray(v)) r.node.prefix = r.list(v)
    else r.node.rest = r.one()
  },
  additionalItems: (r) => {
    if (Array.isArray(r.schema.get("items"))) r.node.rest = r.one()
  },
  contains: (r) => {
    const bound = (key: string, none: number) => {
      const given = r.schema.get(key)
      return given === undefined ? none : r.count(given)
    }
    const [min, max] = [bound("minContains", 1), bound("maxContains", Number.POSITIVE_INFINITY)]
    r.node.contains = { schema: r.one(), min, max }
  },
  minItems: (r, v) => {
    r.node.minItems = r.count(v)
  },
  maxItems: (r, v) => {
    r.node.maxItems = r.count(v)
  },
  uniqueItems: (r, v) => {
    r.node.unique = r.flag(v)
  },
  unevaluatedItems: (r) => {
    r.node.unevaluatedItems = r.one()
  },
  properties: (r, v) => {
    r.node.properties = r.named(v)
  },
  patternProperties: (r, v) => {
    r.node.patterns = [...r.named(v)].map(([source, schema]) => [r.pattern(source), schema])
  },
  additionalProperties: (r) => {
    r.node.additional = r.one()
  },
  propertyNames: (r) => {
    r.node.names = r.one()
  },
  required: (r, v) => {
    r.node.required = r.strings(v)
  },
  minProperties: (r, v) => {
    r.node.minProperties = r.count(v)
  },
  maxProperties: (r, v) => {
    r.node.maxProperties = r.count(v)
  },
  dependentRequired: (r, v) => {
    const lists = r.map(v).map(([k, names]): [string, string[]] => [k, r.strings(names)])
    r.node.dependentRequired = new Map(lists)
  },
  dependentSchemas: (r, v) => {
    r.node.dependentSchemas = r.named(v)
  },
  dependencies: (r, v) => {
    for (const [name, needs] of r.map(v)) {
      if (Array.isArray(needs)) {
        r.node.dependentRequired ??= new Map()
        const others = r.node.dependentRequired.get(name) ?? []
        r.node.dependentRequired.set(name, [...others, ...r.strings(needs)])
      } else {
        r.node.dependentSchemas ??= new Map()
        if (r.node.dependentSchemas.has(name)) r.fail("repeats a name of dependentSchemas")
        r.node.dependentSchemas.set(name, r.document.child(r.node, "dependencies", name))
      }
    }
  },
  unevaluatedProperties: (r) => {
    r.node.unevaluatedProperties = r.one()
  },
  allOf: (r, v) => {
    r.node.allOf = [...(r.node.allOf ?? []), ...r.list(v)]
  },
  anyOf: (r, v) => {
    r.node.anyOf = r.list(v)
  },
  oneOf: (r, v) => {
    r.node.oneOf = r.list(v)
  },
  not: (r) => {
    r.node.not = r.one()
  },
  if: (r) => {
    r.node.if = r.one()
    if (r.schema.has("then")) r.node.ifMet = r.document.child(r.node, "then")
    if (r.schema.has("else")) r.node.ifNot = r.document.child(r.node, "else")
  },
}

function readTypes(r: KeywordReader, names: readonly Json[]): void {
  let mask = r.schema.get("nullable") === true ? types.null : 0
  for (const name of names) mask |= typeMask(name)
  r.node.type = { mask, integer: names.includes("integer") && !names.includes("number") }
}

// Types as Python and Java call them, which many tools are published with. What JSON Schema would call them is the better
// guess than anything at all.
const ANY = "any"
const otherNames: Record<string, string> = {
  any: ANY,
  arraylist: "array",
  bigint: "integer",
  bool: "boolean",
  byte: "integer",
  char: "string",
  date: "string",
  datetime: "string",
  decimal: "number",
  dict: "object",
  double: "number",
  float: "number",
  hashmap: "object",
  int: "integer",
  list: "array",
  long: "integer",
  map: "object",
  none: "null",
  set: "array",
  short: "integer",
  str: "string",
  text: "string",
  tuple: "array",
}

/** A type under another name; where one that JSON Schema knows stands beside it, that one. */
function readLoosely(r: KeywordReader, value: Json, { fault }: SchemaFault): void {
  const names = [value].flat()
  const meant = names.map(meantBy)
  if (meant.includes(undefined)) throw new UnknownType(fault.pointer, fault.keyword, fault.reason)
  const known = names.filter((name) => typeMask(name) !== 0)
  const read = known.length > 0 ? known : (meant as string[])
  if (!read.includes(ANY)) readTypes(r, read)
}

/** JSON's own types. */
export type TypeName = "null" | "boolean" | "number" | "string" | "array" | "object"

/** What a name in `type` stands for, read loosely; undefined: any type, or none that is known. */
export function typeMeantBy(name: unknown): TypeName | undefined {
  const meant = meantBy(name)
  if (meant === ANY) return undefined
  return meant === "integer" ? "number" : (meant as TypeName | undefined)
}

/** The type that a name stands for, in whatever letters; undefined where nobody calls one so. */
function meantBy(name: unknown): string | undefined {
  if (typeof name !== "string") return undefined
  const small = name.toLowerCase()
  if (typeMask(small) !== 0) return small
  return Object.hasOwn(otherNames, small) ? otherNames[small] : undefined
}

function shown(name: Json): string {
  return typeof name === "string" ? JSON.stringify(name.slice(0, 40)) : "what it holds"
}

function typeMask(name: Json): number {
  if (name === "boolean") return types.true | types.false
  if (name === "integer") return types.number
  if (typeof name !== "string" || !Object.hasOwn(types, name)) return 0
  return name === "true" || name === "false" ? 0 : types[name as keyof typeof types]
}
