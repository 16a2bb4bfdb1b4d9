// Makes the schemas of the protocol. TypeBox gives them their types, and those alone: loading it takes longer than the rest
// of the server's modules, and the schemas are plain objects that check.ts reads.

import type { TProperties, TSchema, Type as TypeBox } from "typebox"

type Builders = Pick<
  typeof TypeBox,
  | "Array"
  | "Boolean"
  | "Enum"
  | "Integer"
  | "Literal"
  | "Null"
  | "Number"
  | "Object"
  | "Optional"
  | "Record"
  | "String"
  | "Union"
  | "Unknown"
  | "Unsafe"
>

type Options = Readonly<Record<string, unknown>>

const optional = new WeakSet<object>()

const builders = {
  Array: (items: TSchema, options?: Options) => ({ type: "array", items, ...options }),
  Boolean: (options?: Options) => ({ type: "boolean", ...options }),
  Enum: (values: readonly string[], options?: Options) => ({ enum: values, ...options }),
  Integer: (options?: Options) => ({ type: "integer", ...options }),
  Literal: (value: string | boolean, options?: Options) => ({
    type: typeof value,
    const: value,
    ...options,
  }),
  Null: (options?: Options) => ({ type: "null", ...options }),
  Number: (options?: Options) => ({ type: "number", ...options }),
  Object: (properties: TProperties, options?: Options) => {
    const required = Object.keys(properties).filter((name) => !optional.has(properties[name]!))
    return { type: "object", ...(required.length > 0 && { required }), properties, ...options }
  },
  /** Whatever object holds it may be without it. */
  Optional: (schema: TSchema) => {
    const copy = { ...schema }
    optional.add(copy)
    return copy
  },
  /** From any text: `_key` says so to the type. */
  Record: (_key: TSchema, values: TSchema, options?: Options) => ({
    type: "object",
    patternProperties: { "^.*$": values },
    ...options,
  }),
  String: (options?: Options) => ({ type: "string", ...options }),
  Union: (anyOf: readonly TSchema[], options?: Options) => ({ anyOf, ...options }),
  Unknown: (options?: Options) => ({ ...options }),
  Unsafe: (schema: TSchema) => schema,
}

export const Type = builders as unknown as Builders
