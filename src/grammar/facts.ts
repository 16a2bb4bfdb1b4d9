// Facts: what one case of a schema says about a value, all types at once. A case is a conjunction, folded into one record
// as keywords are met; a schema is a list of cases of which one has to hold. What lies deeper (members, items) stays a list
// of literals, which are looked at when a value begins there: that is what keeps recursion free.

import type { Dfa } from "./dfa.ts"
import { compare, type Decimal, decimalText } from "./json.ts"
import { anyType, type Bound, types } from "./schema-node.ts"
import { spend } from "./work.ts"

/** Number of a schema node that has to hold, or not to hold: see Literals. */
export type Literal = number

/** A set of member names: those listed and those of the languages, or all but them. */
export interface NameSet {
  readonly names: ReadonlySet<string>
  readonly languages: readonly Dfa[]
  readonly outside: boolean
}

export interface Facts {
  readonly mask: number
  readonly integer: boolean
  readonly fractional: boolean
  readonly minimum: Bound | undefined
  readonly maximum: Bound | undefined
  readonly multiples: readonly Decimal[]
  readonly notMultiples: readonly Decimal[]
  readonly numbers: readonly Decimal[] | undefined // only these
  readonly excludedNumbers: readonly Decimal[]
  readonly minLength: number
  readonly maxLength: number
  readonly languages: readonly Dfa[]
  readonly notLanguages: readonly Dfa[]
  readonly strings: ReadonlySet<string> | undefined // only these
  readonly excludedStrings: readonly string[]
  /** Every item from `from` up to, not including, `to`. */
  readonly items: readonly { from: number; to: number; literals: readonly Literal[] }[]
  /** Of the items from `from` on, at least `min` and at most `max`. */
  readonly someItems: readonly {
    from: number
    literals: readonly Literal[]
    min: number
    max: number
  }[]
  readonly minItems: number
  readonly maxItems: number
  readonly unique: boolean
  /** Pointer of a schema that asks for two equal items, which cannot be steered towards. */
  readonly repeats: string | undefined
  /** Every member whose name is in the set. */
  readonly members: readonly { where: NameSet; literals: readonly Literal[] }[]
  /** At least one member whose name is in the set. */
  readonly someMembers: readonly { where: NameSet; literals: readonly Literal[] }[]
  /** What every name, taken as a string, is. */
  readonly names: readonly Literal[]
  /** For each there is a name that, taken as a string, is so. */
  readonly someNames: readonly Literal[]
  readonly required: ReadonlySet<string>
  readonly minProperties: number
  readonly maxProperties: number
  /** What unevaluatedProperties and unevaluatedItems around this leave alone. */
  readonly seenNames: NameSet
  readonly seenItems: number
  readonly seenContained: readonly Literal[]
}

const nothing: NameSet = { names: new Set(), languages: [], outside: false }
export const allNames: NameSet = { names: new Set(), languages: [], outside: true }

export const noFacts: Facts = {
  mask: anyType,
  integer: false,
  fractional: false,
  minimum: undefined,
  maximum: undefined,
  multiples: [],
  notMultiples: [],
  numbers: undefined,
  excludedNumbers: [],
  minLength: 0,
  maxLength: Number.POSITIVE_INFINITY,
  languages: [],
  notLanguages: [],
  strings: undefined,
  excludedStrings: [],
  items: [],
  someItems: [],
  minItems: 0,
  maxItems: Number.POSITIVE_INFINITY,
  unique: false,
  repeats: undefined,
  members: [],
  someMembers: [],
  names: [],
  someNames: [],
  required: new Set(),
  minProperties: 0,
  maxProperties: Number.POSITIVE_INFINITY,
  seenNames: nothing,
  seenItems: 0,
  seenContained: [],
}

export function facts(some: Partial<Facts>): Facts {
  spend(1)
  return { ...noFacts, ...some }
}

/** Both; undefined when a glance shows that nothing can be both. */
export function both(a: Facts, b: Facts): Facts | undefined {
  spend(2)
  if (a === noFacts) return b
  if (b === noFacts) return a
  let mask = a.mask & b.mask
  if (a.integer && b.fractional) mask &= ~types.number
  if (b.integer && a.fractional) mask &= ~types.number
  const minimum = tighter(a.minimum, b.minimum, 1)
  const maximum = tighter(a.maximum, b.maximum, -1)
  if (minimum && maximum) {
    const order = compare(minimum.value, maximum.value)
    if (order > 0 || (order === 0 && (minimum.open || maximum.open))) mask &= ~types.number
  }
  const numbers = common(a.numbers, b.numbers, decimalText)
  if (numbers?.length === 0) mask &= ~types.number
  const strings = common(a.strings && [...a.strings], b.strings && [...b.strings], (s) => s)
  if (strings?.length === 0) mask &= ~types.string
  const minLength = Math.max(a.minLength, b.minLength)
  const maxLength = Math.min(a.maxLength, b.maxLength)
  if (minLength > maxLength) mask &= ~types.string
  const minItems = Math.max(a.minItems, b.minItems)
  const maxItems = Math.min(a.maxItems, b.maxItems)
  const repeats = a.repeats ?? b.repeats
  const unique = a.unique || b.unique
  if (minItems > maxItems || (unique && repeats !== undefined)) mask &= ~types.array
  const required = togetherRequired(a.required, b.required)
  const minProperties = Math.max(a.minProperties, b.minProperties)
  const maxProperties = Math.min(a.maxProperties, b.maxProperties)
  if (Math.max(minProperties, required.size) > maxProperties) mask &= ~types.object
  if (mask === 0) return undefined
  return {
    mask,
    integer: a.integer || b.integer,
    fractional: a.fractional || b.fractional,
    minimum,
    maximum,
    multiples: joined(a.multiples, b.multiples),
    notMultiples: joined(a.notMultiples, b.notMultiples),
    numbers,
    excludedNumbers: joined(a.excludedNumbers, b.excludedNumbers),
    minLength,
    maxLength,
    languages: joined(a.languages, b.languages),
    notLanguages: joined(a.notLanguages, b.notLanguages),
    strings: strings && new Set(strings),
    excludedStrings: joined(a.excludedStrings, b.excludedStrings),
    items: joined(a.items, b.items),
    someItems: joined(a.someItems, b.someItems),
    minItems,
    maxItems,
    unique,
    repeats,
    members: joined(a.members, b.members),
    someMembers: joined(a.someMembers, b.someMembers),
    names: joined(a.names, b.names),
    someNames: joined(a.someNames, b.someNames),
    required,
    minProperties,
    maxProperties,
    seenNames: eitherName(a.seenNames, b.seenNames),
    seenItems: Math.max(a.seenItems, b.seenItems),
    seenContained: joined(a.seenContained, b.seenContained),
  }
}

/** The same case without what it evaluated: nothing inside `not` reaches the outside. */
export function unseen(facts: Facts): Facts {
  return { ...facts, seenNames: nothing, seenItems: 0, seenContained: [] }
}

export function namesOf(names: Iterable<string>, languages: readonly Dfa[]): NameSet {
  return { names: new Set(names), languages, outside: false }
}

export function othersThan(set: NameSet): NameSet {
  return { ...set, outside: !set.outside }
}

/** @param matched the languages that the name is in */
export function includes(
  set: NameSet,
  name: string | undefined,
  matched: ReadonlySet<Dfa>,
): boolean {
  const listed = name !== undefined && set.names.has(name)
  return (listed || set.languages.some((language) => matched.has(language))) !== set.outside
}

// Of the sets that arise, only "all names" is an outside one here: what additionalProperties leaves unevaluated is nothing.
function eitherName(a: NameSet, b: NameSet): NameSet {
  if (a === allNames || b === allNames) return allNames
  if (a === nothing) return b
  if (b === nothing) return a
  return namesOf([...a.names, ...b.names], joined(a.languages, b.languages))
}

function togetherRequired(a: ReadonlySet<string>, b: ReadonlySet<string>): ReadonlySet<string> {
  if (a.size === 0) return b
  if (b.size === 0) return a
  spend((a.size + b.size) / 8)
  return new Set([...a, ...b])
}

function joined<T>(a: readonly T[], b: readonly T[]): readonly T[] {
  if (a.length === 0 || a === b) return b
  if (b.length === 0) return a
  spend((a.length + b.length) / 8)
  return [...new Set([...a, ...b])]
}

function tighter(a: Bound | undefined, b: Bound | undefined, sign: 1 | -1): Bound | undefined {
  if (!a || !b) return a ?? b
  const order = sign * compare(a.value, b.value)
  if (order === 0) return a.open ? a : b
  return order > 0 ? a : b
}

function common<T>(
  a: readonly T[] | undefined,
  b: readonly T[] | undefined,
  key: (value: T) => string,
): readonly T[] | undefined {
  if (!a || !b) return a ?? b
  spend((a.length + b.length) / 8)
  const known = new Set(b.map(key))
  return a.filter((value) => known.has(key(value)))
}
