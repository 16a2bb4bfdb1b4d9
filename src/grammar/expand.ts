// From schema nodes to cases. A literal is a node that has to hold, or not to hold, under a dynamic scope; expanding it
// gives the list of cases in which that is so. `not` is pushed inwards until it meets keywords, whose negations are facts
// again ("not every member" becomes "some member not"). Branches that exclude each other are recognised, so that a oneOf
// with a discriminator costs what an anyOf costs. Everything is counted, and what grows past the bounds is refused.

import {
  allNames,
  both,
  type Facts,
  facts,
  type Literal,
  namesOf,
  noFacts,
  othersThan,
  unseen,
} from "./facts.ts"
import { canonical, type Decimal, isDecimal, type Json } from "./json.ts"
import { anyType, type SchemaDocument, SchemaFault, type SchemaNode, types } from "./schema.ts"

/** How much a case has to tell of what it evaluated: nothing; at least this; exactly this. */
type Seen = "ignored" | "some" | "exact"

const maxCases = 3000
const fewCases = 24 // of those that are too many
const maxWork = 600_000
const maxExact = 400_000 // of it for what can do with less
const maxScopes = 500

type Entry =
  | { node: SchemaNode; scope: number; negative: boolean }
  | { any: readonly Literal[]; node: SchemaNode }

export class Literals {
  readonly document: SchemaDocument
  private readonly entries: Entry[] = []
  private readonly ids = new Map<string, Literal>()
  private readonly scopes: string[][] = [[]]
  private readonly scopeIds = new Map<string, number>([["", 0]])
  private readonly expanded = new Map<string, Facts[]>()
  private readonly open = new Set<string>()
  private readonly exclusive = new Map<string, boolean>()
  private readonly constants = new Map<string, SchemaNode>()
  private work = 0
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
    return this.work + left.length * right.length > maxExact
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
    for (const a of left) {
      for (const b of right) {
        if (++this.work > maxWork) {
          throw new SchemaFault(blame.pointer, keyword, "the schema has too many combinations")
        }
        const merged = both(a, b)
        if (!merged || this.contradicts(merged)) continue
        out.push(merged)
        if (out.length > maxCases) return out // too many, however many more
      }
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

  /** A required member whose constants exclude each other: what tells most branches apart. */
  private contradicts(merged: Facts): boolean {
    if (merged.mask !== types.object) return false
    for (const name of merged.required) {
      let values: Set<string> | undefined
      for (const { where, literals } of merged.members) {
        if (where.outside || !where.names.has(name)) continue
        for (const literal of literals) {
          const own = this.constantsOf(literal)
          if (!own) continue
          const before: Set<string> | undefined = values
          values = before ? new Set([...own].filter((value) => before.has(value))) : own
          if (values.size === 0) return true
        }
      }
    }
    return false
  }

  private readonly constantSets = new Map<Literal, Set<string> | undefined>()

  private constantsOf(literal: Literal): Set<string> | undefined {
    if (!this.constantSets.has(literal)) {
      const entry = this.entries[literal]!
      const values = "any" in entry || entry.negative ? undefined : entry.node.values
      this.constantSets.set(literal, values && new Set(values.map(canonical)))
    }
    return this.constantSets.get(literal)
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

/** One node under one scope, expanded keyword by keyword. */
class Place {
  private readonly all: Literals
  private readonly node: SchemaNode
  private readonly scope: number

  constructor(all: Literals, node: SchemaNode, scope: number) {
    this.all = all
    this.node = node
    this.scope = scope
  }

  positive(seen: Seen): Facts[] {
    const { node, all } = this
    if (node.always !== undefined) return node.always ? [noFacts] : []
    const asks = node.unevaluatedItems !== undefined || node.unevaluatedProperties !== undefined
    const inner: Seen = asks && seen === "ignored" ? "some" : seen
    let cases = this.conjunction(inner)
    if (node.unevaluatedProperties) {
      const literals = [this.literal(node.unevaluatedProperties)]
      cases = cases.map((c) => ({
        ...c,
        members: [...c.members, { where: othersThan(c.seenNames), literals }],
        seenNames: allNames,
      }))
    }
    if (node.unevaluatedItems) {
      const own = this.literal(node.unevaluatedItems)
      cases = cases.map((c) => {
        if (c.seenItems === Number.POSITIVE_INFINITY) return c
        const literals = [all.anyItem([own, ...c.seenContained], node)]
        const item = { from: c.seenItems, to: Number.POSITIVE_INFINITY, literals }
        return { ...c, items: [...c.items, item], seenItems: Number.POSITIVE_INFINITY }
      })
    }
    return cases
  }

  /** All keywords but the unevaluated ones. */
  private conjunction(seen: Seen): Facts[] {
    let cases: Facts[] = [noFacts]
    for (const [keyword, part] of this.parts(seen)) {
      cases = this.all.product(cases, part, this.node, keyword)
    }
    return cases
  }

  private parts(seen: Seen): [string, Facts[]][] {
    const { node, all, scope } = this
    const parts: [string, Facts[]][] = this.assertions().map(([k, yes]) => [k, [yes]])
    const holds = (child: SchemaNode) => all.holds(child, scope, seen)
    if (node.values) parts.push(["enum", this.oneOfValues(node.values)])
    if (node.ref) parts.push(["$ref", holds(node.ref)])
    if (node.dynamic) parts.push(["$dynamicRef", holds(all.dynamicTarget(node, scope))])
    for (const child of node.allOf ?? []) parts.push(["allOf", holds(child)])
    if (node.not) parts.push(["not", all.fails(node.not, scope)])
    for (const [name, names] of node.dependentRequired ?? []) {
      const together = facts({ mask: types.object, required: new Set([name, ...names]) })
      parts.push(["dependentRequired", [this.without(name), together, notObject]])
    }
    for (const [name, child] of node.dependentSchemas ?? []) {
      const present = [facts({ mask: types.object, required: new Set([name]) })]
      const together = all.product(present, holds(child), node, "dependentSchemas")
      parts.push(["dependentSchemas", [this.without(name), ...together, notObject]])
    }
    if (node.if) parts.push(["if", this.conditional(node.if, seen)])
    if (node.oneOf) parts.push(["oneOf", this.exactlyOne(node.oneOf, seen)])
    if (node.anyOf) parts.push(["anyOf", this.atLeastOne(node.anyOf, seen)])
    return parts
  }

  negative(): Facts[] {
    const { node, all, scope } = this
    if (node.always !== undefined) return node.always ? [] : [noFacts]
    const out: Facts[] = this.assertions().flatMap(([, , no]) => no)
    const fails = (child: SchemaNode) => all.fails(child, scope)
    if (node.values) out.push(...this.noneOfValues(node.values))
    if (node.ref) out.push(...fails(node.ref))
    if (node.dynamic) out.push(...fails(all.dynamicTarget(node, scope)))
    for (const child of node.allOf ?? []) out.push(...fails(child))
    if (node.not) out.push(...all.holds(node.not, scope, "ignored"))
    for (const [name, names] of node.dependentRequired ?? []) {
      for (const other of names) {
        const present = facts({ mask: types.object, required: new Set([name]) })
        out.push(...all.product([present], [this.without(other)], node, "dependentRequired"))
      }
    }
    for (const [name, child] of node.dependentSchemas ?? []) {
      const present = facts({ mask: types.object, required: new Set([name]) })
      out.push(...all.product([present], fails(child), node, "dependentSchemas"))
    }
    if (node.if) {
      const { ifMet: yes, ifNot: no } = node
      const met = all.holds(node.if, scope, "ignored")
      if (yes) out.push(...all.product(met, fails(yes), node, "then"))
      if (no) out.push(...all.product(fails(node.if), fails(no), node, "else"))
    }
    if (node.oneOf) out.push(...this.noneOrTwo(node.oneOf))
    if (node.anyOf) out.push(...this.none(node.anyOf, "anyOf"))
    out.push(...this.someUnevaluated())
    return out.map(unseen)
  }

  private someUnevaluated(): Facts[] {
    const { node, all } = this
    const out: Facts[] = []
    if (!node.unevaluatedProperties && !node.unevaluatedItems) return out
    for (const c of this.conjunction("exact")) {
      if (node.unevaluatedProperties && (c.mask & types.object) !== 0) {
        const literals = [all.negated(this.literal(node.unevaluatedProperties))]
        const some = { where: othersThan(c.seenNames), literals }
        if (c.seenNames !== allNames) {
          out.push({ ...c, mask: types.object, someMembers: [...c.someMembers, some] })
        }
      }
      if (node.unevaluatedItems && (c.mask & types.array) !== 0 && Number.isFinite(c.seenItems)) {
        const literals = [this.literal(node.unevaluatedItems), ...c.seenContained].map((l) =>
          all.negated(l),
        )
        const some = { from: c.seenItems, literals, min: 1, max: Number.POSITIVE_INFINITY }
        out.push({ ...c, mask: types.array, someItems: [...c.someItems, some] })
      }
    }
    return out
  }

  // ---- keywords that look at the value itself: [keyword, what it says, the cases of its negation] ----

  private assertions(): [string, Facts, Facts[]][] {
    const out: [string, Facts, Facts[]][] = []
    this.typeAndNumbers(out)
    this.strings(out)
    this.arrays(out)
    this.objects(out)
    return out
  }

  private typeAndNumbers(out: [string, Facts, Facts[]][]): void {
    const { node } = this
    if (node.type) {
      const { mask, integer } = node.type
      const others = [facts({ mask: anyType & ~mask })]
      if (integer) others.push(facts({ mask: types.number, fractional: true }))
      out.push(["type", facts({ mask, integer }), others.filter((f) => f.mask !== 0)])
    }
    const { minimum, maximum, multipleOf } = node
    const mask = types.number
    if (minimum) {
      const below = { value: minimum.value, open: !minimum.open }
      out.push(["minimum", facts({ minimum }), [facts({ mask, maximum: below })]])
    }
    if (maximum) {
      const above = { value: maximum.value, open: !maximum.open }
      out.push(["maximum", facts({ maximum }), [facts({ mask, minimum: above })]])
    }
    if (multipleOf) {
      const not = facts({ mask, notMultiples: [multipleOf] })
      out.push(["multipleOf", facts({ multiples: [multipleOf] }), [not]])
    }
  }

  private strings(out: [string, Facts, Facts[]][]): void {
    const { minLength, maxLength, languages } = this.node
    const mask = types.string
    if (minLength) {
      const shorter = facts({ mask, maxLength: minLength - 1 })
      out.push(["minLength", facts({ minLength }), [shorter]])
    }
    if (maxLength !== undefined && Number.isFinite(maxLength)) {
      out.push(["maxLength", facts({ maxLength }), [facts({ mask, minLength: maxLength + 1 })]])
    }
    for (const language of languages ?? []) {
      const not = facts({ mask, notLanguages: [language] })
      out.push(["pattern", facts({ languages: [language] }), [not]])
    }
  }

  private arrays(out: [string, Facts, Facts[]][]): void {
    const { node, all } = this
    const mask = types.array
    const endless = Number.POSITIVE_INFINITY
    const { minItems, maxItems, contains } = node
    if (minItems) {
      out.push(["minItems", facts({ minItems }), [facts({ mask, maxItems: minItems - 1 })]])
    }
    if (maxItems !== undefined) {
      out.push(["maxItems", facts({ maxItems }), [facts({ mask, minItems: maxItems + 1 })]])
    }
    node.prefix?.forEach((child, i) => {
      const literals = [this.literal(child)]
      const not = { from: i, to: i + 1, literals: [all.negated(literals[0]!)] }
      const fact = facts({ items: [{ from: i, to: i + 1, literals }], seenItems: i + 1 })
      out.push(["prefixItems", fact, [facts({ mask, items: [not], minItems: i + 1 })]])
    })
    if (node.rest) {
      const from = node.prefix?.length ?? 0
      const literals = [this.literal(node.rest)]
      const some = { from, literals: literals.map((l) => all.negated(l)), min: 1, max: endless }
      const fact = facts({ items: [{ from, to: endless, literals }], seenItems: endless })
      out.push(["items", fact, [facts({ mask, someItems: [some] })]])
    }
    if (contains) {
      const literals = [this.literal(contains.schema)]
      const { min, max } = contains
      const of = (least: number, most: number) => ({ from: 0, literals, min: least, max: most })
      const opposite: Facts[] = []
      if (min > 0) opposite.push(facts({ mask, someItems: [of(0, min - 1)] }))
      if (max < endless) opposite.push(facts({ mask, someItems: [of(max + 1, endless)] }))
      const someItems = min > 0 || max < endless ? [of(min, max)] : []
      const seenContained = node.dialect === "2020-12" ? literals : []
      out.push(["contains", facts({ someItems, seenContained }), opposite])
    }
    if (node.unique) out.push(["uniqueItems", facts({ unique: true }), [this.twins()]])
  }

  // "Some two items are equal" would have to remember a value and ask for it again.
  private twins(): Facts {
    return facts({ mask: types.array, repeats: this.node.pointer })
  }

  private objects(out: [string, Facts, Facts[]][]): void {
    const { node, all } = this
    const mask = types.object
    if (node.required) {
      const lacking = node.required.map((name) => this.without(name))
      out.push(["required", facts({ required: new Set(node.required) }), lacking])
    }
    const { minProperties, maxProperties } = node
    if (minProperties) {
      const fewer = facts({ mask, maxProperties: minProperties - 1 })
      out.push(["minProperties", facts({ minProperties }), [fewer]])
    }
    if (maxProperties !== undefined) {
      const more = facts({ mask, minProperties: maxProperties + 1 })
      out.push(["maxProperties", facts({ maxProperties }), [more]])
    }
    if (node.properties) {
      const members = Array.from(node.properties, ([name, child]) => {
        return { where: namesOf([name], []), literals: [this.literal(child)] }
      })
      const wrong = members.map(({ where, literals }) => {
        const not = { where, literals: [all.negated(literals[0]!)] }
        return facts({ mask, members: [not], required: where.names })
      })
      const seenNames = namesOf(node.properties.keys(), [])
      out.push(["properties", facts({ members, seenNames }), wrong])
    }
    for (const [language, child] of node.patterns ?? []) {
      const where = namesOf([], [language])
      out.push(["patternProperties", ...this.everyMember(where, where, this.literal(child))])
    }
    if (node.additional) {
      const languages = (node.patterns ?? []).map(([language]) => language)
      const where = othersThan(namesOf(node.properties?.keys() ?? [], languages))
      const literal = this.literal(node.additional)
      out.push(["additionalProperties", ...this.everyMember(where, allNames, literal)])
    }
    if (node.names) {
      const literal = this.literal(node.names)
      const fact = facts({ names: [literal] })
      out.push(["propertyNames", fact, [facts({ mask, someNames: [all.negated(literal)] })]])
    }
  }

  private everyMember(
    where: Facts["seenNames"],
    seenNames: Facts["seenNames"],
    literal: Literal,
  ): [Facts, Facts[]] {
    const some = { where, literals: [this.all.negated(literal)] }
    const opposite = facts({ mask: types.object, someMembers: [some] })
    return [facts({ members: [{ where, literals: [literal] }], seenNames }), [opposite]]
  }

  // ---- applicators ----

  private atLeastOne(children: SchemaNode[], seen: Seen): Facts[] {
    const { all, scope, node } = this
    if (seen === "ignored") return children.flatMap((child) => all.holds(child, scope, seen))
    // Every set of branches that hold together evaluates something else.
    const plain = seen === "exact" ? [] : children.filter((child) => this.showsNothing(child, seen))
    let chosen = plain.flatMap((child) => all.holds(child, scope, seen))
    let none: Facts[] = [noFacts]
    for (const child of children.filter((c) => !plain.includes(c))) {
      const yes = all.holds(child, scope, seen)
      const no = seen === "exact" ? all.fails(child, scope) : [noFacts]
      const also = all.product(chosen, yes, node, "anyOf")
      const first = all.product(none, yes, node, "anyOf")
      chosen = [...all.product(chosen, no, node, "anyOf"), ...also, ...first]
      none = all.product(none, no, node, "anyOf")
    }
    return chosen
  }

  private showsNothing(child: SchemaNode, seen: Seen): boolean {
    return this.all
      .holds(child, this.scope, seen)
      .every(
        (c) =>
          unseen(c).seenNames === c.seenNames && c.seenItems === 0 && c.seenContained.length === 0,
      )
  }

  private exactlyOne(children: SchemaNode[], seen: Seen): Facts[] {
    const { all, scope, node } = this
    const lists = children.map((child, i) => {
      let cases = all.holds(child, scope, seen)
      children.forEach((other, j) => {
        if (i === j || cases.length === 0) return
        const [a, b] = i < j ? [child, other] : [other, child]
        if (all.exclude(a, b, scope)) return
        cases = all.plainProduct(cases, all.fails(other, scope), node, "oneOf")
      })
      return cases
    })
    return all.plainUnion(lists)
  }

  private noneOrTwo(children: SchemaNode[]): Facts[] {
    const { all, scope, node } = this
    const out = this.none(children, "oneOf")
    children.forEach((a, i) => {
      for (const b of children.slice(i + 1)) {
        if (all.exclude(a, b, scope)) continue
        const two = [a, b].map((child) => all.holds(child, scope, "ignored"))
        out.push(...all.plainProduct(two[0]!, two[1]!, node, "oneOf"))
      }
    })
    return out
  }

  private none(children: SchemaNode[], keyword: string): Facts[] {
    let cases: Facts[] = [noFacts]
    for (const child of children) {
      cases = this.all.plainProduct(cases, this.all.fails(child, this.scope), this.node, keyword)
    }
    return cases
  }

  private conditional(condition: SchemaNode, seen: Seen): Facts[] {
    const { all, scope, node } = this
    if (!node.ifMet && !node.ifNot && seen === "ignored") return [noFacts]
    const branch = (child: SchemaNode | undefined) =>
      child ? all.holds(child, scope, seen) : [noFacts]
    const met = all.product(all.holds(condition, scope, seen), branch(node.ifMet), node, "then")
    const failed = all.fails(condition, scope)
    return [...met, ...all.product(failed, branch(node.ifNot), node, "else")]
  }

  // ---- constants ----

  private oneOfValues(values: Json[]): Facts[] {
    const { all, node } = this
    const simple = values.filter((value) => !isCompound(value))
    const out: Facts[] = []
    let mask = 0
    for (const value of simple) mask |= typeOf(value)
    const strings = new Set(simple.filter((value) => typeof value === "string"))
    if (mask !== 0) out.push(facts({ mask, strings, numbers: simple.filter(isDecimal) }))
    for (const value of values.filter(isCompound)) {
      out.push(...all.holds(all.constant(value, node), 0, "ignored"))
    }
    return out
  }

  private noneOfValues(values: Json[]): Facts[] {
    const { all, node } = this
    let mask = anyType
    const excludedNumbers: Decimal[] = []
    const excludedStrings: string[] = []
    for (const value of values) {
      if (typeof value === "string") excludedStrings.push(value)
      else if (isDecimal(value)) excludedNumbers.push(value)
      else if (!isCompound(value)) mask &= ~typeOf(value)
    }
    let cases = [facts({ mask, excludedNumbers, excludedStrings })]
    for (const value of values.filter(isCompound)) {
      cases = all.product(cases, all.fails(all.constant(value, node), 0), node, "enum")
    }
    return cases
  }

  private literal(child: SchemaNode): Literal {
    return this.all.literal(child, this.scope, false)
  }

  private without(name: string): Facts {
    const members = [{ where: namesOf([name], []), literals: [this.all.never] }]
    return facts({ mask: types.object, members })
  }
}

const notObject = facts({ mask: anyType & ~types.object })

function isCompound(value: Json): boolean {
  return Array.isArray(value) || value instanceof Map
}

function typeOf(value: Json): number {
  if (value === null) return types.null
  if (typeof value === "boolean") return value ? types.true : types.false
  return typeof value === "string" ? types.string : types.number
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
