// A schema document as a graph of nodes: one node for each position that is a schema, keywords read and checked, references
// resolved. Older drafts' spellings are read as what they mean. Unknown keywords are annotations; a keyword whose value is
// malformed, or that needs a document from outside, is a fault that names its place.

import { type Dfa, TooLarge } from "./dfa.ts"
import { formats } from "./formats.ts"
import { canonical, type Decimal, isDecimal, type Json } from "./json.ts"
import { countedPattern, PatternFault, patternLanguage } from "./regex.ts"

export const types = {
  null: 1,
  false: 2,
  true: 4,
  number: 8,
  string: 16,
  array: 32,
  object: 64,
} as const
export const anyType = 127

export type Dialect = "draft-04" | "draft-07" | "2019-09" | "2020-12"

export interface Fault {
  /** JSON pointer of the schema that holds the keyword. */
  pointer: string
  keyword: string
  reason: string
}

export class SchemaFault extends Error {
  readonly fault: Fault
  constructor(pointer: string, keyword: string, reason: string) {
    super(`${pointer || "/"} ${keyword}: ${reason}`)
    this.fault = { pointer, keyword, reason }
  }
}

export interface SchemaNode {
  readonly id: number
  readonly pointer: string
  /** URI of the schema resource it belongs to. */
  readonly resource: string
  readonly dialect: Dialect
  /** A boolean schema; then it has no keywords. */
  readonly always?: boolean
  type?: { mask: number; integer: boolean }
  values?: Json[] // enum, const
  minimum?: Bound
  maximum?: Bound
  multipleOf?: Decimal
  minLength?: number
  maxLength?: number
  languages?: Dfa[] // pattern, format
  prefix?: SchemaNode[]
  rest?: SchemaNode
  contains?: { schema: SchemaNode; min: number; max: number }
  minItems?: number
  maxItems?: number
  unique?: boolean
  unevaluatedItems?: SchemaNode
  properties?: Map<string, SchemaNode>
  patterns?: [Dfa, SchemaNode][]
  additional?: SchemaNode
  names?: SchemaNode
  required?: string[]
  minProperties?: number
  maxProperties?: number
  dependentRequired?: Map<string, string[]>
  dependentSchemas?: Map<string, SchemaNode>
  unevaluatedProperties?: SchemaNode
  allOf?: SchemaNode[]
  anyOf?: SchemaNode[]
  oneOf?: SchemaNode[]
  not?: SchemaNode
  if?: SchemaNode
  ifMet?: SchemaNode // then
  ifNot?: SchemaNode // else
  ref?: SchemaNode
  /** The node it means unless an outer resource in the dynamic scope has the anchor too. */
  dynamic?: { fallback: SchemaNode; anchor: string | undefined }
}

export interface Bound {
  value: Decimal
  open: boolean
}

export interface ReadOptions {
  dialect: Dialect | undefined
  /** Whether known formats are asserted; otherwise they are annotations. */
  formats: boolean
  /** Keywords to leave out: pointer + " " + keyword. */
  dropped: ReadonlySet<string>
  /** Leave out what cannot be read, too, and list it. */
  lenient: boolean
}

const rootBase = "schema:///"
// The dynamic anchor that `$recursiveAnchor: true` stands for; no plain name can hold a blank.
const recursive = "recursive anchor"

const inOne = ["additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if"]
inOne.push("items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties")
const inList = ["allOf", "anyOf", "items", "oneOf", "prefixItems"]
const inMap = ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"]
inMap.push("properties")

/** Reads a whole document. Nodes are made as references reach them. @throws SchemaFault */
export function readSchema(document: Json, options: ReadOptions): SchemaDocument {
  return new SchemaDocument(document, options)
}

export class SchemaDocument {
  readonly root: SchemaNode
  readonly nodes: SchemaNode[] = []
  /** What could not be read; empty unless lenient. */
  readonly faults: Fault[] = []
  /** Whether the dynamic scope matters: without such references it need not be followed. */
  usesDynamicScope = false
  private readonly document: Json
  private readonly options: ReadOptions
  private readonly byPointer = new Map<string, SchemaNode>()
  private readonly resources = new Map<string, string>() // URI → pointer of its root
  private readonly resourceAt = new Map<string, string>() // pointer of a root → URI
  private readonly anchors = new Map<string, string>() // URI#name → pointer
  private readonly dynamicAnchors = new Map<string, string>() // URI#name → pointer
  private readonly patterns = new Map<string, Dfa>()
  private readonly dialect: Dialect

  constructor(document: Json, options: ReadOptions) {
    this.document = document
    this.options = options
    this.dialect = options.dialect ?? dialectOf(document) ?? "2020-12"
    this.resources.set(rootBase, "")
    this.resourceAt.set("", rootBase)
    this.scan(document, "", rootBase)
    this.root = this.nodeAt("", "", "$ref")
  }

  /** A schema without a place of its own: consts of enumerated values and the like. */
  synthetic(pointer: string, resource: string, always?: boolean): SchemaNode {
    const place = { id: this.nodes.length, pointer, resource, dialect: this.dialect }
    const node: SchemaNode = always === undefined ? place : { ...place, always }
    this.nodes.push(node)
    return node
  }

  dynamicTarget(resource: string, anchor: string): SchemaNode | undefined {
    const pointer = this.dynamicAnchors.get(`${resource}#${anchor}`)
    return pointer === undefined ? undefined : this.nodeAt(pointer, pointer, "$dynamicRef")
  }

  // ---- identifiers ----

  private scan(schema: Json, pointer: string, base: string): void {
    if (!(schema instanceof Map)) return
    const id = schema.get("$id") ?? (this.dialect === "draft-04" ? schema.get("id") : undefined)
    const overridden = this.legacy() && schema.has("$ref")
    if (typeof id === "string" && !overridden) {
      if (id.startsWith("#")) this.anchors.set(`${base}${id}`, pointer)
      else {
        base = absolute(id, base).replace(/#$/, "")
        this.resources.set(base, pointer)
        this.resourceAt.set(pointer, base)
      }
    }
    const anchor = schema.get("$anchor")
    if (typeof anchor === "string") this.anchors.set(`${base}#${anchor}`, pointer)
    const dynamic =
      schema.get("$recursiveAnchor") === true ? recursive : schema.get("$dynamicAnchor")
    if (typeof dynamic === "string") {
      this.anchors.set(`${base}#${dynamic}`, pointer)
      this.dynamicAnchors.set(`${base}#${dynamic}`, pointer)
    }
    if (schema.has("$dynamicRef") || schema.has("$recursiveRef")) this.usesDynamicScope = true
    for (const [keyword, value] of schema) {
      const at = `${pointer}/${escapeToken(keyword)}`
      if (inOne.includes(keyword)) this.scan(value, at, base)
      if (inList.includes(keyword) && Array.isArray(value)) {
        for (const [i, item] of value.entries()) this.scan(item, `${at}/${i}`, base)
      }
      if (inMap.includes(keyword) && value instanceof Map) {
        for (const [name, item] of value) this.scan(item, `${at}/${escapeToken(name)}`, base)
      }
    }
  }

  private resourceOf(pointer: string): string {
    for (let at = pointer; ; at = at.slice(0, at.lastIndexOf("/"))) {
      const uri = this.resourceAt.get(at)
      if (uri !== undefined) return uri
    }
  }

  /** The pointer into the document that a reference means. */
  private resolve(ref: Json, from: SchemaNode, keyword: string): { pointer: string; name: string } {
    if (typeof ref !== "string") throw new SchemaFault(from.pointer, keyword, "is not a string")
    const target = absolute(ref, from.resource)
    const hash = target.indexOf("#")
    const uri = hash < 0 ? target : target.slice(0, hash)
    const root = this.resources.get(uri)
    if (root === undefined) {
      const reason = `${ref} is not part of this document, and documents from outside are not read`
      throw new SchemaFault(from.pointer, keyword, reason)
    }
    let fragment = hash < 0 ? "" : target.slice(hash + 1)
    try {
      fragment = decodeURIComponent(fragment)
    } catch {
      throw new SchemaFault(from.pointer, keyword, `${ref} is not a URI reference`)
    }
    if (fragment === "" || fragment.startsWith("/")) return { pointer: root + fragment, name: "" }
    const pointer = this.anchors.get(`${uri}#${fragment}`)
    if (pointer === undefined) {
      throw new SchemaFault(from.pointer, keyword, `${ref} names no anchor of this document`)
    }
    return { pointer, name: fragment }
  }

  private nodeAt(pointer: string, from: string, keyword: string): SchemaNode {
    const known = this.byPointer.get(pointer)
    if (known) return known
    let value: Json | undefined = this.document
    for (const token of pointer.split("/").slice(1).map(unescapeToken)) {
      if (value instanceof Map) value = value.get(token)
      else if (Array.isArray(value) && /^(0|[1-9]\d*)$/.test(token)) value = value[Number(token)]
      else value = undefined
    }
    if (value === undefined) throw new SchemaFault(from, keyword, `there is nothing at #${pointer}`)
    const isSchema = typeof value === "boolean" || value instanceof Map
    if (!isSchema) throw new SchemaFault(from, keyword, "is no schema: neither object nor boolean")
    const node: SchemaNode = {
      id: this.nodes.length,
      pointer,
      resource: this.resourceOf(pointer),
      dialect: this.dialect,
      ...(typeof value === "boolean" ? { always: value } : {}),
    }
    if (this.nodes.length >= 50_000) throw new SchemaFault(pointer, "$ref", "too many subschemas")
    this.nodes.push(node)
    this.byPointer.set(pointer, node)
    if (value instanceof Map) this.fill(node, value)
    return node
  }

  // ---- keywords ----

  private fill(node: SchemaNode, schema: Map<string, Json>): void {
    const onlyRef = this.legacy() && schema.has("$ref")
    for (const [keyword, read] of Object.entries(keywords)) {
      const value = schema.get(keyword)
      if (value === undefined || (onlyRef && keyword !== "$ref")) continue
      if (this.options.dropped.has(`${node.pointer} ${keyword}`)) continue
      const reader = new KeywordReader(this, node, schema, keyword)
      try {
        read(reader, value)
      } catch (error) {
        const fault = reader.faultOf(error)
        if (!this.options.lenient) throw fault
        this.faults.push(fault.fault)
        if (keyword === "type") readLoosely(reader, value)
      }
    }
  }

  child(node: SchemaNode, ...path: (string | number)[]): SchemaNode {
    const tail = path.map((token) => `/${escapeToken(String(token))}`).join("")
    return this.nodeAt(node.pointer + tail, node.pointer, String(path[0]))
  }

  reference(node: SchemaNode, keyword: string, value: Json): SchemaNode["dynamic"] & object {
    const { pointer, name } = this.resolve(value, node, keyword)
    const isDynamic = this.dynamicAnchors.get(`${this.resourceOf(pointer)}#${name}`) === pointer
    const fallback = this.nodeAt(pointer, node.pointer, keyword)
    return { fallback, anchor: name !== "" && isDynamic ? name : undefined }
  }

  recursiveReference(node: SchemaNode): SchemaNode["dynamic"] & object {
    const root = this.resources.get(node.resource)!
    const isDynamic = this.dynamicAnchors.get(`${node.resource}#${recursive}`) === root
    const fallback = this.nodeAt(root, node.pointer, "$recursiveRef")
    return { fallback, anchor: isDynamic ? recursive : undefined }
  }

  /** The texts a pattern is found in; equal patterns are one automaton. */
  language(key: string, make: () => Dfa): Dfa {
    const known = this.patterns.get(key)
    if (known) return known
    const language = make()
    this.patterns.set(key, language)
    return language
  }

  assertsFormats(): boolean {
    return this.options.formats
  }

  private legacy(): boolean {
    return this.dialect === "draft-04" || this.dialect === "draft-07"
  }
}

/** What a keyword's reader sees: the node it fills, and checks that speak of this keyword. */
class KeywordReader {
  readonly document: SchemaDocument
  readonly node: SchemaNode
  readonly schema: Map<string, Json>
  readonly keyword: string

  constructor(
    document: SchemaDocument,
    node: SchemaNode,
    schema: Map<string, Json>,
    keyword: string,
  ) {
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
    if (!names.every((name) => typeMask(name) !== 0)) r.fail("names no type")
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
    r.node.minLength = Math.max(r.node.minLength ?? 0, counted.min)
    r.node.maxLength = Math.min(r.node.maxLength ?? Infinity, counted.max)
  },
  format: (r, v) => {
    if (!r.document.assertsFormats() || typeof v !== "string") return
    const bits = integerBits[v]
    if (bits !== undefined) return r.integer(bits)
    const format = formats[v]
    if (format === undefined) return
    r.node.languages = [...(r.node.languages ?? []), format.language()]
    r.node.maxLength = Math.min(r.node.maxLength ?? Infinity, format.maxLength ?? Infinity)
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
    r.node.allOf = r.list(v)
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
const otherNames: Record<string, string> = {
  arraylist: "array",
  bigint: "integer",
  bool: "boolean",
  char: "string",
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
  tuple: "array",
}

/** A type that JSON Schema does not know; where one that it knows stands beside it, that one. */
function readLoosely(r: KeywordReader, value: Json): void {
  const names = [value].flat().filter((name) => typeof name === "string")
  const known = names.filter((name) => typeMask(name) !== 0)
  const meant = names.map((name) => otherNames[name.toLowerCase()] ?? name.toLowerCase())
  const read = known.length > 0 ? known : meant
  if (read.length > 0 && read.every((name) => typeMask(name) !== 0)) readTypes(r, read)
}

function typeMask(name: Json): number {
  if (name === "boolean") return types.true | types.false
  if (name === "integer") return types.number
  if (typeof name !== "string" || !Object.hasOwn(types, name)) return 0
  return name === "true" || name === "false" ? 0 : types[name as keyof typeof types]
}

function dialectOf(document: Json): Dialect | undefined {
  const uri = document instanceof Map ? document.get("$schema") : undefined
  if (typeof uri !== "string") return undefined
  if (/draft-0[34]/.test(uri)) return "draft-04"
  if (/draft-0[67]/.test(uri)) return "draft-07"
  return /2019-09/.test(uri) ? "2019-09" : "2020-12"
}

export function compare(a: Decimal, b: Decimal): number {
  const scale = Math.max(a.scale, b.scale)
  const left = a.digits * 10n ** BigInt(scale - a.scale)
  const right = b.digits * 10n ** BigInt(scale - b.scale)
  return left < right ? -1 : left > right ? 1 : 0
}

function absolute(ref: string, base: string): string {
  if (ref.startsWith("#")) return base + ref
  try {
    return new URL(ref, base).href
  } catch {
    return ref
  }
}

function escapeToken(token: string): string {
  return token.replaceAll("~", "~0").replaceAll("/", "~1")
}

function unescapeToken(token: string): string {
  return token.replaceAll("~1", "/").replaceAll("~0", "~")
}
