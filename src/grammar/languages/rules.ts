// Rules of a context-free grammar as a part that the running automaton takes. It reads from left to right and must know at each
// byte that the text can be finished, so rules are rewritten first, without a change to what they describe: what is regular
// becomes one automaton, nothing is empty where it need not be, what never ends is left out, and no rule begins with itself.

import { combine, type Dfa, lengths } from "../dfa.ts"
import { hasLook } from "../looks.ts"
import { determinize, type Re } from "../nfa.ts"
import { choice, literal, type Part, sequence } from "../parts.ts"
import type { Mark } from "../plain.ts"
import { StringLanguage, type TextForm } from "../strings.ts"
import { spend, TooLarge, TooMuchWork } from "../work.ts"

/** What a rule says, as it was read. */
export type Expression =
  | { re: Re }
  | { rule: string; line: number }
  | { seq: readonly Expression[] }
  | { alt: readonly Expression[] }
  | Repetition

interface Repetition {
  repeat: Expression
  min: number
  max: number
}

/** A grammar that is not one, or cannot be kept to; the message names the line where there is one. */
export class GrammarFault extends Error {
  constructor(reason: string, line?: number) {
    super(line === undefined ? reason : `line ${line}: ${reason}`)
  }
}

/** The grammar has no text at all. */
export class NoText extends GrammarFault {
  constructor() {
    super("no text satisfies it")
  }
}

const ENDLESS = Number.POSITIVE_INFINITY
const MAX_COPIES = 2000 // of what is repeated and is not regular
const MAX_SIZE = 4000 // of a regular expression that rules are put together to
const MAX_ALTERNATIVES = 5000 // of a rule that no longer begins with itself

/**
 * @param without what no text holds within one automaton; what two of them make together is not looked at
 * @throws GrammarFault, TooLarge
 */
export function partOfRules(
  rules: ReadonlyMap<string, Expression>,
  start: string,
  form: TextForm,
  without?: Mark,
): Part {
  assertDefined(rules)
  const lowering = new Lowering(rules, form, without)
  const root = lowering.rule(start)
  const all = lowering.all
  const empty = nullable(all)
  for (const rule of all) rule.alternatives = rule.alternatives.flatMap((it) => filled(it, empty))
  keepProductive(all)
  if (root.alternatives.length === 0) {
    if (empty.has(root)) return literal("")
    throw new NoText()
  }
  for (const group of leftRecursive(all)) unwind(group)
  const part = new Parts().ofRule(root)
  return empty.has(root) ? choice(part, literal("")) : part
}

/** @throws NoText */
export function partOfDfa(language: Dfa, form: TextForm): Part {
  const part = filledPart(language, form)
  if (!part && !hasEmpty(language)) throw new NoText()
  if (!part) return literal("")
  return hasEmpty(language) ? choice(part, literal("")) : part
}

function hasEmpty({ start, accepts }: Dfa): boolean {
  return start >= 0 && accepts[start] === 1
}

/** Of the texts of a language that are not empty; undefined when there are none. */
function filledPart(language: Dfa, form: TextForm): Part | undefined {
  const both = ([has, isFilled]: boolean[]) => Boolean(has && isFilled)
  const full = hasEmpty(language) ? combine([language, lengths(1, ENDLESS)], both) : language
  if (full.start < 0) return undefined
  return { kind: "language", language: new StringLanguage(full, 0, ENDLESS, form) }
}

function assertDefined(rules: ReadonlyMap<string, Expression>): void {
  for (const expression of rules.values()) {
    for (const { rule, line } of references(expression)) {
      if (!rules.has(rule)) throw new GrammarFault(`${rule} is defined nowhere`, line)
    }
  }
}

function* references(of: Expression): Generator<{ rule: string; line: number }> {
  if ("rule" in of) yield of
  for (const child of childrenOf(of)) yield* references(child)
}

function childrenOf(of: Expression): readonly Expression[] {
  if ("seq" in of) return of.seq
  if ("alt" in of) return of.alt
  return "repeat" in of ? [of.repeat] : []
}

// ---- from expressions to alternatives of symbols ----

interface Rule {
  alternatives: Alternative[]
}

type Alternative = readonly Item[]

interface Item {
  symbol: Rule | Terminal
  isOptional: boolean
}

/** Texts of a language without the empty one. */
class Terminal {
  readonly part: Part
  constructor(part: Part) {
    this.part = part
  }
}

const isRule = (symbol: Rule | Terminal): symbol is Rule => !(symbol instanceof Terminal)

class Lowering {
  readonly all: Rule[] = []
  readonly #rules: ReadonlyMap<string, Expression>
  readonly #form: TextForm
  readonly #without: Mark | undefined
  readonly #named = new Map<string, Rule>()
  readonly #regular = new Map<string, Sized | undefined>()

  constructor(rules: ReadonlyMap<string, Expression>, form: TextForm, without: Mark | undefined) {
    this.#rules = rules
    this.#form = form
    this.#without = without
  }

  rule(name: string): Rule {
    const known = this.#named.get(name)
    if (known) return known
    const rule = this.#new([])
    this.#named.set(name, rule)
    rule.alternatives = this.#alternatives(this.#rules.get(name)!)
    return rule
  }

  #new(alternatives: Alternative[]): Rule {
    const rule: Rule = { alternatives }
    this.all.push(rule)
    spend(1)
    return rule
  }

  #alternatives(expression: Expression): Alternative[] {
    const whole = this.#terminal(expression)
    if (whole) return whole
    if ("alt" in expression) return expression.alt.flatMap((one) => this.#alternatives(one))
    return [this.#items(expression)]
  }

  #items(expression: Expression): Alternative {
    if ("seq" in expression) return this.#joined(expression.seq).map((one) => this.#item(one))
    return "repeat" in expression ? this.#repeated(expression) : [this.#item(expression)]
  }

  #item(expression: Expression): Item {
    if ("rule" in expression) return must(this.rule(expression.rule))
    return must(this.#new(this.#alternatives(expression)))
  }

  /** Neighbours that are regular together become one expression. */
  #joined(seq: readonly Expression[]): readonly Expression[] {
    const joined: Expression[] = []
    let run: Expression[] = []
    const finish = () => {
      const isNew = run.length > 1 && run.length < seq.length
      if (isNew && this.#terminal({ seq: run })) joined.push({ seq: run })
      else joined.push(...run)
      run = []
    }
    for (const one of seq) {
      if (this.#re(one)) run.push(one)
      else {
        finish()
        joined.push(one)
      }
    }
    finish()
    return joined
  }

  #repeated({ repeat, min, max }: Repetition): Alternative {
    const item = this.#item(repeat)
    const isEndless = max === ENDLESS
    if ((isEndless ? min : max) > MAX_COPIES) {
      throw new GrammarFault(`what is not regular can be repeated ${MAX_COPIES} times at most`)
    }
    const items = Array.from({ length: min }, () => item)
    if (isEndless) {
      const more = this.#new([])
      more.alternatives = [[item, may(more)]]
      return [...items, may(more)]
    }
    let more: Rule | undefined
    for (let left = max - min; left > 0; left--)
      more = this.#new([more ? [item, may(more)] : [item]])
    return more ? [...items, may(more)] : items
  }

  /** The alternatives of what is regular and not too large; undefined for all else. */
  #terminal(expression: Expression): Alternative[] | undefined {
    const sized = this.#re(expression)
    if (!sized) return undefined
    const language = this.#language(sized.re, "re" in expression)
    if (!language) return undefined
    const part = filledPart(language, this.#form)
    const alternatives: Alternative[] = part ? [[must(new Terminal(part))]] : []
    return hasEmpty(language) ? [[], ...alternatives] : alternatives
  }

  /** @param isWritten as one pattern, so that there is nothing to take apart when it is too large */
  #language(re: Re, isWritten: boolean): Dfa | undefined {
    try {
      const language = determinize(re)
      return this.#without ? apartFrom(this.#without, language) : language
    } catch (error) {
      if (isWritten || !(error instanceof TooLarge) || error instanceof TooMuchWork) throw error
      return undefined
    }
  }

  /** As a regular expression, rules put in their places; undefined when it is none, or too large. */
  #re(expression: Expression): Sized | undefined {
    if ("re" in expression) return { re: expression.re, size: sizeOf(expression.re) }
    if ("rule" in expression) return this.#reOfRule(expression.rule)
    const children: Sized[] = []
    for (const child of childrenOf(expression)) {
      const sized = this.#re(child)
      if (!sized) return undefined
      children.push(sized)
    }
    const size = children.reduce((sum, child) => sum + child.size, 1)
    if (size > MAX_SIZE) return undefined
    const parts = children.map(({ re }) => re)
    if ("seq" in expression) return { re: { seq: parts }, size }
    if ("alt" in expression) return { re: { alt: parts }, size }
    const { min, max } = expression as Repetition
    return { re: { repeat: parts[0]!, min, max }, size }
  }

  #reOfRule(name: string): Sized | undefined {
    if (this.#regular.has(name)) return this.#regular.get(name)
    this.#regular.set(name, undefined) // what comes back to itself is not regular, as far as can be told
    const sized = this.#re(this.#rules.get(name)!)
    this.#regular.set(name, sized)
    return sized
  }
}

/** The language itself where its texts are too many to keep apart from the mark. */
function apartFrom({ holding }: Mark, language: Dfa): Dfa {
  try {
    return combine([language, holding], ([has, holds]) => Boolean(has && !holds))
  } catch (error) {
    if (!(error instanceof TooLarge) || error instanceof TooMuchWork) throw error
    return language
  }
}

interface Sized {
  re: Re
  size: number
}

const must = (symbol: Rule | Terminal): Item => ({ symbol, isOptional: false })
const may = (symbol: Rule | Terminal): Item => ({ symbol, isOptional: true })

function sizeOf(re: Re): number {
  if ("seq" in re) return re.seq.reduce((sum, one) => sum + sizeOf(one), 1)
  if ("alt" in re) return re.alt.reduce((sum, one) => sum + sizeOf(one), 1)
  return "repeat" in re ? 1 + sizeOf(re.repeat) : 1
}

/** Whether an expression says something of what stands around it. */
export function looksAround(re: Re): boolean {
  if (hasLook(re) || "assert" in re) return true
  if ("seq" in re) return re.seq.some(looksAround)
  if ("alt" in re) return re.alt.some(looksAround)
  return "repeat" in re && looksAround(re.repeat)
}

// ---- rewriting ----

/** The rules that the empty text satisfies. */
function nullable(rules: readonly Rule[]): Set<Rule> {
  return closure(rules, ({ alternatives }, found) =>
    alternatives.some((items) =>
      items.every(({ symbol, isOptional }) => isOptional || found.has(symbol as Rule)),
    ),
  )
}

/** The same without the empty text: what may be empty is optional, and one of them has to be there. */
function filled(items: Alternative, empty: ReadonlySet<Rule>): Alternative[] {
  return withSomething(
    items.map((item) => (empty.has(item.symbol as Rule) ? may(item.symbol) : item)),
  )
}

/** If all items are optional, each of them may be the first. */
function withSomething(items: Alternative): Alternative[] {
  return items.every(({ isOptional }) => isOptional) ? beginnings(items) : [items]
}

/** The same as alternatives whose first items are not optional. */
function beginnings(items: Alternative): Alternative[] {
  const out: Alternative[] = []
  for (const [at, { symbol, isOptional }] of items.entries()) {
    out.push([must(symbol), ...items.slice(at + 1)])
    spend(items.length - at)
    if (!isOptional) break
  }
  return out
}

/** Leaves out what can never be finished. */
function keepProductive(rules: readonly Rule[]): void {
  const ends = ({ symbol }: Item, found: ReadonlySet<Rule>) => !isRule(symbol) || found.has(symbol)
  const productive = closure(rules, ({ alternatives }, found) =>
    alternatives.some((items) => items.every((item) => item.isOptional || ends(item, found))),
  )
  for (const rule of rules) {
    rule.alternatives = rule.alternatives
      .filter((items) => items.every((item) => item.isOptional || ends(item, productive)))
      .map((items) => items.filter((item) => ends(item, productive)))
  }
}

/** The rules that satisfy a condition which those found before decide. */
function closure(
  rules: readonly Rule[],
  satisfies: (rule: Rule, found: ReadonlySet<Rule>) => boolean,
): Set<Rule> {
  const found = new Set<Rule>()
  for (let before = -1; before !== found.size; ) {
    before = found.size
    for (const rule of rules) {
      spend(1 + rule.alternatives.length / 4)
      if (!found.has(rule) && satisfies(rule, found)) found.add(rule)
    }
  }
  return found
}

/** The symbols that a text of an alternative may begin with. */
function* leading(items: Alternative): Generator<Rule> {
  for (const { symbol, isOptional } of items) {
    if (isRule(symbol)) yield symbol
    if (!isOptional) return
  }
}

/** Groups of rules that may begin with each other, or with themselves. */
function leftRecursive(rules: readonly Rule[]): Rule[][] {
  const reach = new Map<Rule, Set<Rule>>()
  for (const rule of rules) {
    const seen = new Set<Rule>()
    const queue = [rule]
    for (let one = queue.pop(); one; one = queue.pop()) {
      for (const items of one.alternatives) {
        for (const next of leading(items)) {
          spend(1)
          if (seen.has(next)) continue
          seen.add(next)
          queue.push(next)
        }
      }
    }
    reach.set(rule, seen)
  }
  const groups: Rule[][] = []
  const grouped = new Set<Rule>()
  for (const rule of rules) {
    if (grouped.has(rule) || !reach.get(rule)!.has(rule)) continue
    const group = [...reach.get(rule)!].filter((other) => reach.get(other)!.has(rule))
    for (const member of group) grouped.add(member)
    groups.push(group)
  }
  return groups
}

/** Rewrites rules such that none begins with itself, one after the other (Paull, as in Aho and Ullman, 1972, 2.4). */
function unwind(group: readonly Rule[]): void {
  for (const [at, rule] of group.entries()) {
    rule.alternatives = rule.alternatives.flatMap(beginnings)
    for (const earlier of group.slice(0, at)) {
      rule.alternatives = rule.alternatives.flatMap(([first, ...rest]) => {
        if (first!.symbol !== earlier) return [[first!, ...rest]]
        spend(earlier.alternatives.length * (1 + rest.length))
        return earlier.alternatives.map((items) => [...items, ...rest])
      })
      assertFew(rule)
    }
    withoutItself(rule)
    assertFew(rule)
  }
}

function withoutItself(rule: Rule): void {
  const begins = ([first]: Alternative) => first!.symbol === rule
  const own = rule.alternatives.filter(begins)
  if (own.length === 0) return
  const more: Rule = { alternatives: [] }
  const rests = own.map((items) => items.slice(1)).filter((items) => items.length > 0)
  more.alternatives = rests.flatMap(withSomething).map((items) => [...items, may(more)])
  const others = rule.alternatives.filter((items) => !begins(items))
  rule.alternatives =
    more.alternatives.length > 0 ? others.map((items) => [...items, may(more)]) : others
}

function assertFew({ alternatives }: Rule): void {
  if (alternatives.length > MAX_ALTERNATIVES) {
    throw new TooLarge("rules that begin with each other have too many combinations")
  }
}

// ---- parts ----

class Parts {
  readonly #known = new Map<Rule, Part>()

  ofRule(rule: Rule): Part {
    const known = this.#known.get(rule)
    if (known) return known
    const made = { part: literal("") }
    const part: Part = { kind: "rule", rule: made }
    this.#known.set(rule, part)
    made.part = oneOf(rule.alternatives.map((items) => this.#ofItems(items)))
    return part
  }

  #ofItems(items: Alternative): Part {
    const parts = items.map(({ symbol, isOptional }) => {
      const part = isRule(symbol) ? this.ofRule(symbol) : symbol.part
      return isOptional ? choice(part, literal("")) : part
    })
    return parts.length === 1 ? parts[0]! : sequence(...parts)
  }
}

function oneOf(parts: readonly Part[]): Part {
  return parts.length === 1 ? parts[0]! : choice(...parts)
}
