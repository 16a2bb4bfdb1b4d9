// How the values of arguments are written where texts stand without quotes, by what their schema says. The grammar and the parser of
// a format both ask here, so that 5 is a text to both, or a number. What cannot be told from the schema alone may be of any type.

import { type TypeName, typeMeantBy } from "../../grammar/grammar.ts"

/**
 * A text, which stands as it is; a text or null; JSON of other types alone; or JSON of any type, texts in quotes, where what is
 * read and is no JSON is a text, too.
 */
export type ArgumentKind = "text" | "text or null" | "no text" | "any"

/** Of the argument of a name, as the schema of all arguments says. */
export function kindOfArgument(schema: unknown, name: string): ArgumentKind {
  const types = new Types(schema, name).ofMember(schema) ?? ALL
  if (!types.has("string")) return "no text"
  if (types.size === 1) return "text"
  return types.size === 2 && types.has("null") ? "text or null" : "any"
}

/** The names that a schema of arguments mentions, and whether it says that there may be others. */
export function namesOfArguments(schema: unknown): { names: readonly string[]; isOpen: boolean } {
  const names = new Set<string>()
  const seen = new Set<unknown>()
  let isOpen = false
  const visit = (one: unknown): void => {
    if (!isSchema(one) || seen.has(one)) return
    if (seen.size === MAX_VISITED) isOpen = true
    if (isOpen) return
    seen.add(one)
    for (const name of Object.keys(mapIn(one.properties))) names.add(name)
    for (const name of listIn(one.required)) names.add(String(name))
    const others = [one.additionalProperties, one.unevaluatedProperties]
    isOpen = isSchema(one.patternProperties) || others.some((it) => it === true || isSchema(it))
    for (const key of ["allOf", "anyOf", "oneOf"]) listIn(one[key]).forEach(visit)
    for (const key of ["if", "then", "else"]) visit(one[key])
    for (const key of ["dependencies", "dependentSchemas"])
      Object.values(mapIn(one[key])).forEach(visit)
    visit(referred(schema, one))
  }
  visit(schema)
  return { names: [...names], isOpen: isOpen || names.size === 0 }
}

type Schema = Readonly<Record<string, unknown>>
type TypeSet = ReadonlySet<TypeName>

const ALL: TypeSet = new Set(["null", "boolean", "number", "string", "array", "object"])

// Of one value; who writes more of them gets its texts in quotes.
const MAX_VISITED = 500

/** What types a schema leaves: all that it may allow, and perhaps more. */
class Types {
  readonly #root: unknown
  readonly #name: string
  readonly #members = new Map<Schema, TypeSet | undefined>()
  readonly #values = new Map<Schema, TypeSet>()

  constructor(root: unknown, name: string) {
    this.#root = root
    this.#name = name
  }

  /** Of the member of what the schema describes; undefined where it does not speak of it. */
  ofMember(schema: unknown): TypeSet | undefined {
    if (!isSchema(schema)) return undefined
    if (this.#members.has(schema)) return this.#members.get(schema)
    if (this.#members.size === MAX_VISITED || leadsAway(this.#root, schema)) return ALL
    this.#members.set(schema, undefined) // what comes back to itself says nothing more
    const of = (one: unknown) => this.ofMember(one)
    const types = common([
      this.#own(schema),
      ...listIn(schema.allOf).map(of),
      union(listIn(schema.anyOf).map(of)),
      union(listIn(schema.oneOf).map(of)),
      of(referred(this.#root, schema)),
    ])
    this.#members.set(schema, types)
    return types
  }

  /** What an object's own keywords say of the member. Which patterns its name fits is not asked. */
  #own({ properties, patternProperties, additionalProperties }: Schema): TypeSet | undefined {
    const named = mapIn(properties)
    if (Object.hasOwn(named, this.#name)) return this.#of(named[this.#name])
    const patterns = Object.values(mapIn(patternProperties))
    if (additionalProperties === undefined || additionalProperties === true)
      return patterns.length > 0 ? ALL : undefined
    return union([...patterns, additionalProperties].map((one) => this.#of(one)))
  }

  #of(schema: unknown): TypeSet {
    if (schema === false) return new Set()
    if (!isSchema(schema)) return ALL
    const known = this.#values.get(schema)
    if (known) return known
    if (this.#values.size === MAX_VISITED || leadsAway(this.#root, schema)) return ALL
    this.#values.set(schema, ALL)
    const of = (one: unknown) => this.#of(one)
    const values = schema.enum ?? (Object.hasOwn(schema, "const") ? [schema.const] : undefined)
    const types = common([
      ALL,
      typesNamed(schema),
      Array.isArray(values) ? new Set(values.map(typeOf)) : undefined,
      ...listIn(schema.allOf).map(of),
      union(listIn(schema.anyOf).map(of)),
      union(listIn(schema.oneOf).map(of)),
      schema.$ref === undefined ? undefined : of(referred(this.#root, schema)),
    ])!
    this.#values.set(schema, types)
    return types
  }
}

/** What a reference within the document leads to. */
function referred(root: unknown, { $ref }: Schema): unknown {
  if (typeof $ref !== "string" || !/^#(?:\/|$)/.test($ref)) return undefined
  let at = root
  for (const token of $ref.split("/").slice(1)) {
    const key = decoded(token)
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return undefined
    at = (at as Schema)[key]
    if (isSchema(at) && typeof at.$id === "string") return undefined // what it refers to stands elsewhere
  }
  return at
}

/** Whether a reference says what is not followed here. */
function leadsAway(root: unknown, schema: Schema): boolean {
  if (schema.$dynamicRef !== undefined || schema.$recursiveRef !== undefined) return true
  return schema.$ref !== undefined && referred(root, schema) === undefined
}

function typesNamed({ type, nullable }: Schema): TypeSet | undefined {
  if (type === undefined) return undefined
  const types = new Set<TypeName>(nullable === true ? ["null"] : [])
  const named = [type].flat().map(typeMeantBy)
  for (const one of named) if (one) types.add(one)
  return named.includes(undefined) ? ALL : types
}

function typeOf(value: unknown): TypeName {
  if (value === null) return "null"
  if (Array.isArray(value)) return "array"
  return typeof value === "bigint" ? "number" : (typeof value as TypeName)
}

function union(sets: readonly (TypeSet | undefined)[]): TypeSet | undefined {
  const known = sets.filter((set) => set !== undefined)
  return known.length === 0 ? undefined : new Set(known.flatMap((set) => [...set]))
}

function common(sets: readonly (TypeSet | undefined)[]): TypeSet | undefined {
  const known = sets.filter((set) => set !== undefined)
  if (known.length === 0) return undefined
  return new Set([...known[0]!].filter((type) => known.every((set) => set.has(type))))
}

function isSchema(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

function mapIn(value: unknown): Schema {
  return isSchema(value) ? value : {}
}

function listIn(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function decoded(token: string): string {
  try {
    return decodeURIComponent(token).replaceAll("~1", "/").replaceAll("~0", "~")
  } catch {
    return token
  }
}
