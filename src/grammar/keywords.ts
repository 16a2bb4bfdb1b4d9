// What the keywords of one schema node say: the cases in which the node holds under a dynamic scope, and those in which it
// does not. Every keyword is a pair of facts and their opposite, or an applicator, which asks for the cases of its children.

import {
  allNames,
  type Facts,
  facts,
  type Literal,
  namesOf,
  noFacts,
  othersThan,
  unseen,
} from "./facts.ts"
import { everyForm } from "./formats.ts"
import { type Decimal, isDecimal, type Json } from "./json.ts"
import { anyType, SchemaFault, type SchemaNode, types } from "./schema-node.ts"
import { TooMuchWork } from "./work.ts"

/** How much a case has to tell of what it evaluated: nothing; at least this; exactly this. */
export type Seen = "ignored" | "some" | "exact"

/** What keywords ask of the whole schema. `blame`, `keyword`: what is named where cases become too many. */
export interface Expansion {
  /** The literal that never holds. */
  readonly never: Literal
  literal(node: SchemaNode, scope: number, negative: boolean): Literal
  negated(literal: Literal): Literal
  /** One of them holds. */
  anyItem(literals: readonly Literal[], node: SchemaNode): Literal
  /** The cases in which a node holds, and in which it does not. */
  holds(node: SchemaNode, scope: number, seen: Seen): Facts[]
  fails(node: SchemaNode, scope: number): Facts[]
  /** Each case of one list with each of the other; refused where they are too many, or the plainest of them. */
  product(
    left: readonly Facts[],
    right: readonly Facts[],
    blame: SchemaNode,
    keyword: string,
  ): Facts[]
  plainProduct(
    left: readonly Facts[],
    right: readonly Facts[],
    blame: SchemaNode,
    keyword: string,
  ): Facts[]
  plainUnion(lists: readonly Facts[][]): Facts[]
  /** Whether no value satisfies both. */
  exclude(a: SchemaNode, b: SchemaNode, scope: number): boolean
  /** The node that only this value satisfies. */
  constant(value: Json, near: SchemaNode): SchemaNode
  dynamicTarget(node: SchemaNode, scope: number): SchemaNode
}

/** One node under one scope, expanded keyword by keyword. */
export class Place {
  private readonly all: Expansion
  private readonly node: SchemaNode
  private readonly scope: number

  constructor(all: Expansion, node: SchemaNode, scope: number) {
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
    const { values } = node
    if (values) parts.push(["enum", this.under("enum", () => this.oneOfValues(values))])
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
    const { oneOf, anyOf } = node
    if (oneOf) parts.push(["oneOf", this.under("oneOf", () => this.exactlyOne(oneOf, seen))])
    if (anyOf) parts.push(["anyOf", this.under("anyOf", () => this.atLeastOne(anyOf, seen))])
    return parts
  }

  /** Of work that is too much it is told which keyword asks for it. */
  private under<Result>(keyword: string, work: () => Result): Result {
    try {
      return work()
    } catch (error) {
      if (!(error instanceof TooMuchWork)) throw error
      throw new SchemaFault(this.node.pointer, keyword, error.message)
    }
  }

  negative(): Facts[] {
    const { node, all, scope } = this
    if (node.always !== undefined) return node.always ? [] : [noFacts]
    const out: Facts[] = this.assertions().flatMap(([, , no]) => no)
    const fails = (child: SchemaNode) => all.fails(child, scope)
    const { values, oneOf, anyOf } = node
    if (values) out.push(...this.under("enum", () => this.noneOfValues(values)))
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
    if (oneOf) out.push(...this.under("oneOf", () => this.noneOrTwo(oneOf)))
    if (anyOf) out.push(...this.under("anyOf", () => this.none(anyOf, "anyOf")))
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
      const not = facts({ mask, notLanguages: [everyForm(language)] })
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
    if (node.prefix) {
      const items = node.prefix.map((child, i) => {
        return { from: i, to: i + 1, literals: [this.literal(child)] }
      })
      const wrong = items.map((item) => {
        const not = { ...item, literals: item.literals.map((l) => all.negated(l)) }
        return facts({ mask, items: [not], minItems: item.to })
      })
      out.push(["prefixItems", facts({ items, seenItems: items.length }), wrong])
    }
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
