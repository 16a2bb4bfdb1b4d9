// A schema document as a graph of nodes: one node for each position that is a schema, references resolved (schema-names.ts),
// keywords read (readers.ts). Unknown keywords are annotations; what needs a document from outside is a fault that names its place.

import { combine, type Dfa } from "./dfa.ts"
import { formats } from "./formats.ts"
import type { Json } from "./json.ts"
import { type Places, readKeywords } from "./readers.ts"
import { escapeToken, SchemaNames, valueAt } from "./schema-names.ts"
import { type Dialect, type Fault, isLegacy, SchemaFault, type SchemaNode } from "./schema-node.ts"
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

/** Reads a whole document. Nodes are made as references reach them. @throws SchemaFault */
export function readSchema(document: Json, options: ReadOptions): SchemaDocument {
  return new SchemaDocument(document, options)
}

export class SchemaDocument implements Places {
  readonly root: SchemaNode
  readonly nodes: SchemaNode[] = []
  /** What could not be read; empty unless lenient. */
  readonly faults: Fault[] = []
  /** Whether some format is asserted in its portable forms alone. */
  usesPortable = false
  private readonly document: Json
  private readonly options: ReadOptions
  private readonly reached: [SchemaNode, Map<string, Json>][] = [] // and not yet read
  private readonly byPointer = new Map<string, SchemaNode>()
  private readonly patterns = new Map<string, Dfa>()
  private readonly dialect: Dialect
  private readonly names: SchemaNames

  constructor(document: Json, options: ReadOptions) {
    this.document = document
    this.options = options
    this.dialect = options.dialect ?? dialectOf(document) ?? "2020-12"
    this.names = new SchemaNames(document, this.dialect)
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

  /** Whether the dynamic scope matters: without such references it need not be followed. */
  get usesDynamicScope(): boolean {
    return this.names.usesDynamicScope
  }

  dynamicTarget(resource: string, anchor: string): SchemaNode | undefined {
    const pointer = this.names.dynamicPointer(resource, anchor)
    if (pointer === undefined) return undefined
    const node = this.nodeAt(pointer, pointer, "$dynamicRef")
    this.readReached()
    return node
  }

  private nodeAt(pointer: string, from: string, keyword: string): SchemaNode {
    const known = this.byPointer.get(pointer)
    if (known) return known
    spend(2)
    const value = valueAt(this.document, pointer)
    if (value === undefined) throw new SchemaFault(from, keyword, `there is nothing at #${pointer}`)
    const isSchema = typeof value === "boolean" || value instanceof Map
    if (!isSchema) throw new SchemaFault(from, keyword, "is no schema: neither object nor boolean")
    const node: SchemaNode = {
      id: this.nodes.length,
      pointer,
      resource: this.names.resourceOf(pointer),
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
    const onlyRef = isLegacy(this.dialect) && schema.has("$ref")
    const isRead = (keyword: string) =>
      (!onlyRef || keyword === "$ref") && !dropped.has(`${node.pointer} ${keyword}`)
    this.faults.push(...readKeywords(this, node, schema, isRead, lenient))
  }

  child(node: SchemaNode, ...path: (string | number)[]): SchemaNode {
    const tail = path.map((token) => `/${escapeToken(String(token))}`).join("")
    return this.nodeAt(node.pointer + tail, node.pointer, String(path[0]))
  }

  reference(node: SchemaNode, keyword: string, value: Json): SchemaNode["dynamic"] & object {
    const { pointer, anchor } = this.names.target(value, node, keyword)
    return { fallback: this.nodeAt(pointer, node.pointer, keyword), anchor }
  }

  recursiveReference(node: SchemaNode): SchemaNode["dynamic"] & object {
    const { pointer, anchor } = this.names.recursiveTarget(node)
    return { fallback: this.nodeAt(pointer, node.pointer, "$recursiveRef"), anchor }
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
