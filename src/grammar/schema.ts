// A schema document as a graph of nodes: one node for each position that is a schema, references resolved, keywords read
// (readers.ts). Unknown keywords are annotations; what needs a document from outside is a fault that names its place.

import { combine, type Dfa } from "./dfa.ts"
import { formats } from "./formats.ts"
import type { Json } from "./json.ts"
import { type Places, readKeywords } from "./readers.ts"
import { type Dialect, type Fault, SchemaFault, type SchemaNode } from "./schema-node.ts"
import { spend } from "./work.ts"

export interface ReadOptions {
  dialect: Dialect | undefined
  /** Whether known formats are asserted, in all of their forms or in portable ones; otherwise they are annotations. */
  formats: "ignored" | "whole" | "portable"
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

export class SchemaDocument implements Places {
  readonly root: SchemaNode
  readonly nodes: SchemaNode[] = []
  /** What could not be read; empty unless lenient. */
  readonly faults: Fault[] = []
  /** Whether the dynamic scope matters: without such references it need not be followed. */
  usesDynamicScope = false
  /** Whether some format is asserted in its portable forms alone. */
  usesPortable = false
  private readonly document: Json
  private readonly options: ReadOptions
  private readonly reached: [SchemaNode, Map<string, Json>][] = [] // and not yet read
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
    this.readReached()
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
    if (pointer === undefined) return undefined
    const node = this.nodeAt(pointer, pointer, "$dynamicRef")
    this.readReached()
    return node
  }

  // ---- identifiers ----

  private scan(schema: Json, pointer: string, base: string): void {
    if (!(schema instanceof Map)) return
    spend(1)
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
    spend(2)
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
    if (value instanceof Map) this.reached.push([node, value])
    return node
  }

  // ---- keywords ----

  /** One after the other, as references may lead from schema to schema any number of times. */
  private readReached(): void {
    for (const [node, schema] of this.reached) this.fill(node, schema)
    this.reached.length = 0
  }

  private fill(node: SchemaNode, schema: Map<string, Json>): void {
    const { dropped, lenient } = this.options
    const onlyRef = this.legacy() && schema.has("$ref")
    const isRead = (keyword: string) =>
      (!onlyRef || keyword === "$ref") && !dropped.has(`${node.pointer} ${keyword}`)
    this.faults.push(...readKeywords(this, node, schema, isRead, lenient))
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

  language(key: string, make: () => Dfa): Dfa {
    const known = this.patterns.get(key)
    if (known) return known
    const language = make()
    this.patterns.set(key, language)
    return language
  }

  get assertsFormats(): boolean {
    return this.options.formats !== "ignored"
  }

  formatOf(name: string, node: SchemaNode): { language: Dfa; maxLength: number } | undefined {
    const format = this.options.formats === "ignored" ? undefined : formats[name]
    if (!format) return undefined
    const isPortable = this.options.formats === "portable" && hasPortable(node, format.portable())
    this.usesPortable ||= isPortable
    const language = isPortable ? format.portable() : format.language()
    return { language, maxLength: format.maxLength ?? Number.POSITIVE_INFINITY }
  }

  private legacy(): boolean {
    return this.dialect === "draft-04" || this.dialect === "draft-07"
  }
}

/** Values that are listed, and patterns that only other forms match, say that other forms are wanted. */
function hasPortable({ values, languages = [] }: SchemaNode, portable: Dfa): boolean {
  if (values) return false
  if (languages.length === 0) return true
  return combine([portable, ...languages], (accepted) => !accepted.includes(false)).start >= 0
}

function dialectOf(document: Json): Dialect | undefined {
  const uri = document instanceof Map ? document.get("$schema") : undefined
  if (typeof uri !== "string") return undefined
  if (/draft-0[34]/.test(uri)) return "draft-04"
  if (/draft-0[67]/.test(uri)) return "draft-07"
  return /2019-09/.test(uri) ? "2019-09" : "2020-12"
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
