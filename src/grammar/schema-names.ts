// The names of a schema document's places: URIs of resources, anchors, and JSON pointers, all as pointers from the document's
// root. Only positions that hold schemas have names: an `$id` in an example means nothing.

import type { Json } from "./json.ts"
import { type Dialect, isLegacy, SchemaFault, type SchemaNode } from "./schema-node.ts"
import { spend } from "./work.ts"

const rootBase = "schema:///"
// The dynamic anchor that `$recursiveAnchor: true` stands for; no plain name can hold a blank.
const recursive = "recursive anchor"

const inOne = ["additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if"]
inOne.push("items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties")
const inList = ["allOf", "anyOf", "items", "oneOf", "prefixItems"]
const inMap = ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"]
inMap.push("properties")

/** What a reference leads to. */
interface Target {
  pointer: string
  /** The dynamic anchor that it named; absent: it means this place whoever asks. */
  anchor?: string | undefined
}

export class SchemaNames {
  /** Whether the dynamic scope matters: without such references it need not be followed. */
  usesDynamicScope = false
  private readonly dialect: Dialect
  private readonly resources = new Map<string, string>() // URI → pointer of its root
  private readonly resourceAt = new Map<string, string>() // pointer of a root → URI
  private readonly anchors = new Map<string, string>() // URI#name → pointer
  private readonly dynamicAnchors = new Map<string, string>() // URI#name → pointer

  constructor(document: Json, dialect: Dialect) {
    this.dialect = dialect
    this.resources.set(rootBase, "")
    this.resourceAt.set("", rootBase)
    this.scan(document, "", rootBase)
  }

  /** The URI of the resource that a place belongs to. */
  resourceOf(pointer: string): string {
    for (let at = pointer; ; at = at.slice(0, at.lastIndexOf("/"))) {
      const uri = this.resourceAt.get(at)
      if (uri !== undefined) return uri
    }
  }

  /** Where a dynamic anchor of a resource stands. */
  dynamicPointer(resource: string, anchor: string): string | undefined {
    return this.dynamicAnchors.get(`${resource}#${anchor}`)
  }

  /** What `$recursiveRef` leads to: the root of its resource. */
  recursiveTarget({ resource }: SchemaNode): Target {
    const pointer = this.resources.get(resource)!
    const isDynamic = this.dynamicPointer(resource, recursive) === pointer
    return { pointer, anchor: isDynamic ? recursive : undefined }
  }

  /** @throws SchemaFault for what is not in the document */
  target(ref: Json, from: SchemaNode, keyword: string): Target {
    const { pointer, name } = this.resolve(ref, from, keyword)
    const isDynamic = this.dynamicPointer(this.resourceOf(pointer), name) === pointer
    return { pointer, anchor: name !== "" && isDynamic ? name : undefined }
  }

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

  private scan(schema: Json, pointer: string, base: string): void {
    if (!(schema instanceof Map)) return
    spend(1)
    const id = schema.get("$id") ?? (this.dialect === "draft-04" ? schema.get("id") : undefined)
    const overridden = isLegacy(this.dialect) && schema.has("$ref")
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
}

/** The value at a JSON pointer; undefined where there is none. */
export function valueAt(document: Json, pointer: string): Json | undefined {
  let value: Json | undefined = document
  for (const token of pointer.split("/").slice(1).map(unescapeToken)) {
    if (value instanceof Map) value = value.get(token)
    else if (Array.isArray(value) && /^(0|[1-9]\d*)$/.test(token)) value = value[Number(token)]
    else value = undefined
  }
  return value
}

function absolute(ref: string, base: string): string {
  if (ref.startsWith("#")) return base + ref
  try {
    return new URL(ref, base).href
  } catch {
    return ref
  }
}

export function escapeToken(token: string): string {
  return token.replaceAll("~", "~0").replaceAll("/", "~1")
}

function unescapeToken(token: string): string {
  return token.replaceAll("~1", "/").replaceAll("~0", "~")
}
