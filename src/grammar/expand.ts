// From schema nodes to cases. A literal is a node that has to hold, or not to hold, under a dynamic scope; expanding it
// gives the list of cases in which that is so. `not` is pushed inwards until it meets keywords, whose negations are facts
// again ("not every member" becomes "some member not"). Branches that exclude each other are recognised, so that a oneOf
// with a discriminator costs what an anyOf costs. Everything is counted, and what grows past the bounds is refused.

import { both, type Facts, facts, type Literal, noFacts } from "./facts.ts"
import { canonical, type Json } from "./json.ts"
import { type Expansion, Place, type Seen } from "./keywords.ts"
import type { SchemaDocument } from "./schema.ts"
import { SchemaFault, type SchemaNode, types } from "./schema-node.ts"
import { MAX_WORK, spend, TooMuchWork, unitsLeft } from "./work.ts"

const maxCases = 3000
const fewCases = 24 // of those that are too many
const MAX_NESTED = 200 // schemas for one value, each inside another
const UNITS_A_CASE = 8 // to put two together
const KEPT_BACK = 0.6 // of the work, for what can do with less
const maxScopes = 500

type Entry =
  | { node: SchemaNode; scope: number; negative: boolean }
  | { any: readonly Literal[]; node: SchemaNode }

export class Literals implements Expansion {
  readonly document: SchemaDocument
  private readonly entries: Entry[] = []
  private readonly ids = new Map<string, Literal>()
  private readonly scopes: string[][] = [[]]
  private readonly scopeIds = new Map<string, number>([["", 0]])
  private readonly expanded = new Map<string, Facts[]>()
  private readonly open = new Set<string>()
  private readonly exclusive = new Map<string, boolean>()
  private readonly constants = new Map<string, SchemaNode>()
  /** Whether somewhere only some of the cases are known; then those of two schemas tell nothing about both together. */
  private isPartial = false
  /** Tells whether a case might have a value, looking a few levels deep; set by whoever can look. */
  mayLive: (facts: Facts) => boolean = () => true

  constructor(document: SchemaDocument) {
    this.document = document
  }

  literal(node: SchemaNode, scope: number, negative: boolean): Literal {
    return this.intern(`${node.id} ${scope} ${negative}`, { node, scope, negative })
  }

  /** One of several holds. */
  private any(literals: readonly Literal[], node: SchemaNode): Literal {
    return this.intern(`any ${literals.join()}`, { any: literals, node })
  }

  negated(literal: Literal): Literal {
    const entry = this.entries[literal]!
    if ("any" in entry) throw new Error("internal: alternatives are never negated")
    return this.literal(entry.node, entry.scope, !entry.negative)
  }

  /** Where a literal comes from, for errors. */
  pointer(literal: Literal): string {
    return this.entries[literal]!.node.pointer
  }

  /** The cases in which all of the literals hold. */
  cases(literals: readonly Literal[]): Facts[] {
    let all: Facts[] = [noFacts]
    for (const literal of literals) {
      all = this.product(all, this.expand(literal, "ignored"), this.entries[literal]!.node)
    }
    return coalesce(this.steerable(all))
  }

  /** Two equal items cannot be steered towards, but where there are other ways nobody has to. */
  private steerable(cases: Facts[]): Facts[] {
    const others = cases.filter(({ repeats }) => repeats === undefined)
    if (others.length === 0) return cases
    this.isPartial ||= others.length < cases.length
    return others
  }

  private intern(key: string, entry: Entry): Literal {
    let id = this.ids.get(key)
    if (id === undefined) {
      id = this.entries.push(entry) - 1
      this.ids.set(key, id)
    }
    return id
  }

  private expand(literal: Literal, seen: Seen): Facts[] {
    const key = `${literal} ${seen}`
    const known = this.expanded.get(key)
    if (known) return known
    const entry = this.entries[literal]!
    spend(1)
    if (this.open.size > MAX_NESTED) {
      const reason = `more than ${MAX_NESTED} schemas of one value lie in each other`
      throw new SchemaFault(entry.node.pointer, "", reason)
    }
    if (this.open.has(key)) {
      throw new SchemaFault(entry.node.pointer, "$ref", "refers back to itself for the same value")
    }
    this.open.add(key)
    try {
      const result = this.expandEntry(entry, seen)
      this.expanded.set(key, result)
      return result
    } finally {
      this.open.delete(key) // also when it is refused: whoever only took a look goes on
    }
  }

  private expandEntry(entry: Entry, seen: Seen): Facts[] {
    if ("any" in entry) return entry.any.flatMap((option) => this.expand(option, "ignored"))
    const place = new Place(this, entry.node, this.entered(entry.scope, entry.node))
    return entry.negative ? place.negative() : place.positive(seen)
  }

  holds(node: SchemaNode, scope: number, seen: Seen): Facts[] {
    return this.expand(this.literal(node, scope, false), seen)
  }

  fails(node: SchemaNode, scope: number): Facts[] {
    return this.expand(this.literal(node, scope, true), "ignored")
  }

  product(left: readonly Facts[], right: readonly Facts[], blame: SchemaNode, keyword = "") {
    const out = this.combined(left, right, blame, keyword)
    if (out.length > maxCases) {
      throw new SchemaFault(blame.pointer, keyword, `more than ${maxCases} cases to keep apart`)
    }
    return out
  }

  /** As product, but of too many cases the plainest: what satisfies one of them satisfies the schema. */
  plainProduct(
    left: readonly Facts[],
    right: readonly Facts[],
    blame: SchemaNode,
    keyword: string,
  ): Facts[] {
    if (!this.isLong(left, right)) {
      const all = this.combined(left, right, blame, keyword)
      if (all.length <= maxCases) return all
    }
    return this.combined(this.plainest(left), this.plainest(right), blame, keyword)
  }

  /** All cases, but of too many the plainest of each list. */
  plainUnion(lists: readonly Facts[][]): Facts[] {
    const all = lists.flat()
    return all.length > maxCases ? lists.flatMap((cases) => this.plainest(cases)) : all
  }

  private isLong(left: readonly Facts[], right: readonly Facts[]): boolean {
    return UNITS_A_CASE * left.length * right.length > unitsLeft() - KEPT_BACK * MAX_WORK
  }

  private plainest(cases: readonly Facts[]): Facts[] {
    this.isPartial ||= cases.length > fewCases
    const weights = new Map(cases.map((facts) => [facts, this.weight(facts)]))
    const few: Facts[] = []
    for (const facts of [...cases].sort((a, b) => weights.get(a)! - weights.get(b)!)) {
      if (few.length < fewCases && this.mayLive(facts)) few.push(facts)
    }
    return few
  }

  /** What is asked of members that nobody would write on purpose. */
  private weight({ members, someMembers, someItems, required }: Facts): number {
    const literals = [...members, ...someMembers, ...someItems].flatMap((each) => each.literals)
    spend(1 + literals.length / 8)
    const negated = literals.filter((literal) => {
      const entry = this.entries[literal]!
      return !("any" in entry) && entry.negative
    })
    return 8 * someMembers.length + 2 * negated.length + required.size
  }

  private combined(
    left: readonly Facts[],
    right: readonly Facts[],
    blame: SchemaNode,
    keyword: string,
  ): Facts[] {
    const out: Facts[] = []
    try {
      for (const a of left) {
        for (const b of right) {
          const merged = both(a, b)
          if (!merged || this.contradicts(merged)) continue
          out.push(merged)
          if (out.length > maxCases) return out // too many, however many more
        }
      }
    } catch (error) {
      if (!(error instanceof TooMuchWork)) throw error
      throw new SchemaFault(blame.pointer, keyword, error.message)
    }
    return out
  }

  /** Whether no value satisfies both: then "one but not the other" is just "one". */
  exclude(a: SchemaNode, b: SchemaNode, scope: number): boolean {
    const key = `${a.id} ${b.id} ${scope}`
    let known = this.exclusive.get(key)
    if (known === undefined) {
      this.exclusive.set(key, false) // while looking: not known to be so
      const [left, right] = [a, b].map((node) => this.holds(node, scope, "ignored"))
      const merged = this.isLong(left!, right!)
        ? [noFacts]
        : this.combined(left!, right!, a, "oneOf")
      known = merged.length <= maxCases && !merged.some((facts) => this.mayLive(facts))
      if (this.isPartial) known = false // what was looked at is not all there is
      this.exclusive.set(key, known)
    }
    return known
  }

  anyItem(literals: readonly Literal[], node: SchemaNode): Literal {
    return literals.length === 1 ? literals[0]! : this.any(literals, node)
  }

  /** A required member that may not be, or whose constants exclude each other: what tells most branches apart. */
  private contradicts(merged: Facts): boolean {
    if (merged.mask !== types.object || merged.required.size === 0) return false
    spend(merged.members.length / 8)
    const left = new Map<string, ReadonlySet<string>>() // of each name, the constants it may be
    for (const { where, literals } of merged.members) {
      if (where.outside) continue
      for (const literal of literals) {
        const own = this.constantsOf(literal)
        if (!own) continue
        spend(own.size / 8)
        for (const name of where.names) {
          if (!merged.required.has(name)) continue
          const before = left.get(name)
          const values = before ? new Set([...own].filter((value) => before.has(value))) : own
          if (values.size === 0) return true
          left.set(name, values)
        }
      }
    }
    return false
  }

  private readonly constantSets = new Map<Literal, Set<string> | undefined>()

  private constantsOf(literal: Literal): Set<string> | undefined {
    if (!this.constantSets.has(literal)) {
      const values = this.valuesOf(this.entries[literal]!)
      this.constantSets.set(literal, values && new Set(values.map(canonical)))
    }
    return this.constantSets.get(literal)
  }

  /** All values that it may be, where they are listed: none where it never holds, as of a member that is not to be there. */
  private valuesOf(entry: Entry): readonly Json[] | undefined {
    if ("any" in entry) return undefined
    const { node, negative } = entry
    if (node.always === negative) return []
    return negative ? undefined : node.values
  }

  /** The schema that only this value satisfies. */
  constant(value: Json, near: SchemaNode): SchemaNode {
    const key = canonical(value)
    let node = this.constants.get(key)
    if (node) return node
    node = this.document.synthetic(near.pointer, near.resource)
    this.constants.set(key, node)
    if (Array.isArray(value)) {
      node.type = { mask: types.array, integer: false }
      node.prefix = value.map((item) => this.constant(item, near))
      node.minItems = value.length
      node.maxItems = value.length
    } else if (value instanceof Map) {
      node.type = { mask: types.object, integer: false }
      node.properties = new Map([...value].map(([k, member]) => [k, this.constant(member, near)]))
      node.required = [...value.keys()]
      node.maxProperties = value.size
    } else node.values = [value]
    return node
  }

  /** The literal that never holds. */
  get never(): Literal {
    this.falseNode ??= this.document.synthetic("", this.document.root.resource, false)
    return this.literal(this.falseNode, 0, false)
  }

  private falseNode: SchemaNode | undefined

  // ---- dynamic scope: the resources entered, outermost first, each once ----

  private entered(scope: number, node: SchemaNode): number {
    if (!this.document.usesDynamicScope) return 0
    const resources = this.scopes[scope]!
    if (resources.includes(node.resource)) return scope
    const deeper = [...resources, node.resource]
    const key = deeper.join(" ")
    let id = this.scopeIds.get(key)
    if (id === undefined) {
      id = this.scopes.push(deeper) - 1
      this.scopeIds.set(key, id)
      if (id > maxScopes) {
        throw new SchemaFault(node.pointer, "$dynamicRef", "too many dynamic scopes")
      }
    }
    return id
  }

  dynamicTarget(node: SchemaNode, scope: number): SchemaNode {
    const { fallback, anchor } = node.dynamic!
    if (anchor === undefined) return fallback
    for (const resource of this.scopes[scope]!) {
      const target = this.document.dynamicTarget(resource, anchor)
      if (target) return target
    }
    return fallback
  }
}

/** Cases that are nothing but lists of constants become one. */
function coalesce(cases: Facts[]): Facts[] {
  const simple = types.null | types.false | types.true | types.string | types.number
  const isList = (c: Facts) => {
    const stringsListed = (c.mask & types.string) === 0 || c.strings !== undefined
    const numbersListed = (c.mask & types.number) === 0 || c.numbers !== undefined
    const plain = c.languages.length + c.notLanguages.length + c.multiples.length === 0
    const unbounded = !c.integer && !c.fractional && !c.minimum && !c.maximum
    const whole = c.minLength === 0 && c.maxLength === Number.POSITIVE_INFINITY
    const kept = c.excludedNumbers.length + c.excludedStrings.length + c.notMultiples.length === 0
    const listed = stringsListed && numbersListed && (c.mask & ~simple) === 0
    return listed && plain && unbounded && whole && kept
  }
  const lists = cases.filter(isList)
  if (lists.length < 2) return cases
  const merged = facts({
    mask: lists.reduce((mask, c) => mask | c.mask, 0),
    strings: new Set(lists.flatMap((c) => [...(c.strings ?? [])])),
    numbers: lists.flatMap((c) => [...(c.numbers ?? [])]),
  })
  return [merged, ...cases.filter((c) => !isList(c))]
}
