// One position of a schema document that is a schema, its keywords read: what everybody behind schema.ts looks at. Older
// drafts' spellings have become what they mean, and references are the nodes they lead to.

import type { Dfa } from "./dfa.ts"
import type { Decimal, Json } from "./json.ts"

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

/** Whether nothing counts beside a `$ref`, as it was before 2019. */
export const isLegacy = (dialect: Dialect) => dialect === "draft-04" || dialect === "draft-07"

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

/** A fault that leniency does not leave out: a type that nobody knows is a slip, and without it anything would do. */
export class UnknownType extends SchemaFault {}

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
