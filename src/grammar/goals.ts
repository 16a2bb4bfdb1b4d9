// Goals: sets of literals that one value has to satisfy together, and whether any value can. A goal's cases are made when
// somebody asks; equal sets are one goal, so a recursive schema has finitely many. Satisfiability is the least fixed
// point: a goal lives when one of its cases has a value, and what only itself could satisfy does not live.

import { ArrayCase } from "./arrays.ts"
import { anything, combine, type Dfa, finite, lengths, matches } from "./dfa.ts"
import type { Literals } from "./expand.ts"
import type { Facts, Literal } from "./facts.ts"
import { everyForm } from "./formats.ts"
import type { Case, Goal, GoalSource, Probe } from "./goal.ts"
import { canonical, type Decimal, parseDecimal } from "./json.ts"
import { NumberLanguage } from "./numbers.ts"
import { ObjectCase } from "./objects.ts"
import { type Mark, markOf } from "./plain.ts"
import { SchemaFault, types } from "./schema-node.ts"
import { StringLanguage } from "./strings.ts"
import { spend, TooLarge, TooMuchWork } from "./work.ts"

const maxGoals = 20_000
const mostBounds = 1000
let made = 0

class LiteralsGoal implements Goal {
  readonly id = ++made
  readonly literals: readonly Literal[]
  alive: boolean | undefined
  private readonly goals: Goals
  private made: Case[] | undefined

  constructor(goals: Goals, literals: readonly Literal[]) {
    this.goals = goals
    this.literals = literals
  }

  get cases(): Case[] {
    this.made ??= this.goals.literals
      .cases(this.literals)
      .map((facts) => new FactsCase(this.goals, facts, this))
    return this.made
  }

  get pointer(): string {
    return this.literals.length === 0 ? "" : this.goals.literals.pointer(this.literals[0]!)
  }

  settle(alive: boolean): void {
    this.alive = alive
    this.made = alive ? this.cases.filter((c) => c.mask !== 0) : []
    for (const c of this.made) {
      if (c.has(types.array)) c.array.settle()
      if (c.has(types.object)) c.object.settle()
    }
  }
}

export class Goals implements GoalSource {
  readonly literals: Literals
  readonly portable: boolean
  readonly without: Mark | undefined
  private readonly byKey = new Map<string, Goal>()

  /**
   * @param portable whether integers are written as digits alone
   * @param without what no text holds, names included
   */
  constructor(literals: Literals, portable: boolean, without?: string) {
    this.literals = literals
    this.portable = portable
    this.without = without === undefined ? undefined : markOf(without)
    literals.mayLive = (facts) => this.mayLive(facts, 2)
  }

  goal(literals: Iterable<Literal>): Goal {
    const list = [...new Set(literals)].sort((a, b) => a - b)
    spend(1 + list.length / 8)
    const key = list.join()
    let goal = this.byKey.get(key)
    if (!goal) {
      goal = new LiteralsGoal(this, list)
      if (this.byKey.size >= maxGoals)
        throw this.fault(goal, "the schema has too many combinations")
      this.byKey.set(key, goal)
    }
    return goal
  }

  /** Settles a goal and everything it leads to, and makes all cases there are, so that none is left to surprise later. */
  settle(root: Goal): boolean {
    const goals = new Set([root])
    for (const goal of goals) {
      this.at(goal, () => {
        for (const c of goal.cases) for (const next of c.leadsTo()) goals.add(next)
      })
    }
    const open = [...goals].filter((goal) => goal.alive === undefined)
    do this.findLiving(open)
    while (this.at(root, () => this.dropBarren(open)))
    return root.alive === true
  }

  private lives(goal: Goal, probe: Probe): boolean {
    spend(goal.cases.length)
    return goal.cases.some((c) => c.lives(probe))
  }

  /** What grows too large is told with the place of its goal. */
  private at<Result>(goal: Goal, work: () => Result): Result {
    try {
      return work()
    } catch (error) {
      if (error instanceof TooLarge) throw this.fault(goal, error.message)
      throw error
    }
  }

  private findLiving(open: readonly Goal[]): void {
    const living = new Set<Goal>()
    const probe: Probe = (goal) => goal.alive ?? living.has(goal)
    // What is reached last leads least far: from there up most of them are told in one round.
    const upwards = [...open].reverse()
    for (let before = -1; before !== living.size; ) {
      before = living.size
      for (const goal of upwards) {
        if (living.has(goal)) continue
        if (this.at(goal, () => this.lives(goal, probe))) living.add(goal)
      }
    }
    for (const goal of open) {
      this.at(goal, () => {
        for (const c of goal.cases) c.prune(probe)
      })
    }
    for (const goal of open) this.at(goal, () => goal.settle(living.has(goal)))
  }

  // Arrays whose items may not repeat but are too few; whether they are shows only when everything else is settled, and
  // when one is dropped, what needed it may have to go as well.
  private dropBarren(open: readonly Goal[]): boolean {
    const cases = open.flatMap((goal) => goal.cases).filter((c) => c.has(types.array))
    const barren = cases.filter((c) => c.array.lacksValues())
    for (const c of barren) c.mask &= ~types.array
    if (barren.length > 0) for (const goal of open) goal.alive = undefined
    return barren.length > 0
  }

  language(literals: readonly Literal[]): Dfa {
    const parts = this.goal(literals).cases.filter((c) => (c.mask & types.string) !== 0)
    const whole = parts.map((c) => c.wholeLanguage())
    if (whole.length === 1) return whole[0]!
    return combine([anything, ...whole], ([, ...accepted]) => accepted.includes(true))
  }

  private readonly glances = new WeakMap<Facts, boolean[]>()

  // A quick look that never says no to what lives, nor to what a validator may take for it: a few levels deep, then yes.
  private mayLive(facts: Facts, depth: number): boolean {
    if (depth === 0) return true
    let known = this.glances.get(facts)
    if (!known) {
      known = []
      this.glances.set(facts, known)
    }
    try {
      known[depth] ??= this.glance(facts, depth)
    } catch (error) {
      if (!(error instanceof SchemaFault)) throw error
      known[depth] = true // it will be met again, where it counts
    }
    return known[depth]
  }

  private glance(facts: Facts, depth: number): boolean {
    spend(4)
    if (facts.repeats !== undefined) return true
    const c = new FactsCase(this, inEveryForm(facts), this.goal([]))
    const probe: Probe = (goal) => {
      try {
        const cases = this.literals.cases(goal.literals)
        return cases.some((deeper) => this.mayLive(deeper, depth - 1))
      } catch (error) {
        if (error instanceof SchemaFault) return true // as above
        throw error
      }
    }
    return c.lives(probe)
  }

  unenforceable(pointer: string, keyword: string, reason: string): SchemaFault {
    return new SchemaFault(pointer, keyword, reason)
  }

  fault(goal: Goal, reason: string): SchemaFault {
    return new SchemaFault(goal.pointer, "", reason)
  }
}

class FactsCase implements Case {
  mask: number
  private readonly goals: Goals
  private readonly facts: Facts
  private readonly goal: Goal
  private numberLanguage: NumberLanguage | undefined
  private stringLanguage: StringLanguage | undefined
  private arrayCase: ArrayCase | undefined
  private objectCase: ObjectCase | undefined

  constructor(goals: Goals, facts: Facts, goal: Goal) {
    this.goals = goals
    this.facts = facts
    this.goal = goal
    this.mask = facts.mask
  }

  get numbers(): NumberLanguage {
    this.numberLanguage ??= numberLanguage(this.facts, this.goals.portable)
    return this.numberLanguage
  }

  numbersWithout(avoid: ReadonlySet<string>): NumberLanguage {
    const numbers = [...avoid].flatMap((text) => parseDecimal(text) ?? [])
    if (numbers.length === 0) return this.numbers
    const excludedNumbers = [...this.facts.excludedNumbers, ...numbers]
    return numberLanguage({ ...this.facts, excludedNumbers }, this.goals.portable)
  }

  get strings(): StringLanguage {
    this.stringLanguage ??= this.guarded(() => stringLanguage(this.facts, this.goals.without))
    return this.stringLanguage
  }

  get array(): ArrayCase {
    this.arrayCase ??= this.guarded(() => new ArrayCase(this.goals, this.facts, this.goal))
    return this.arrayCase
  }

  get object(): ObjectCase {
    this.objectCase ??= this.guarded(() => new ObjectCase(this.goals, this.facts, this.goal))
    return this.objectCase
  }

  leadsTo(): Iterable<Goal> {
    return new Set([
      ...(this.has(types.array) ? this.array.leadsTo() : []),
      ...(this.has(types.object) ? this.object.leadsTo() : []),
    ])
  }

  lives(probe: Probe): boolean {
    return (
      this.has(types.null | types.true | types.false) ||
      (this.has(types.number) && !this.numbers.isEmpty()) ||
      (this.has(types.string) && !this.strings.isEmpty()) ||
      (this.has(types.array) && this.array.lives(probe)) ||
      (this.has(types.object) && this.object.lives(probe))
    )
  }

  prune(probe: Probe): void {
    if (this.has(types.number) && this.numbers.isEmpty()) this.mask &= ~types.number
    if (this.has(types.string) && this.strings.isEmpty()) this.mask &= ~types.string
    if (this.has(types.array) && !this.array.lives(probe)) this.mask &= ~types.array
    if (this.has(types.object) && !this.object.lives(probe)) this.mask &= ~types.object
  }

  has(mask: number): boolean {
    return (this.mask & mask) !== 0
  }

  wholeLanguage(): Dfa {
    return this.guarded(() => languageOf(this.facts, true, this.goals.without))
  }

  private guarded<T>(make: () => T): T {
    try {
      return make()
    } catch (error) {
      if (error instanceof TooLarge) throw this.goals.fault(this.goal, error.message)
      throw error
    }
  }
}

function inEveryForm(facts: Facts): Facts {
  return facts.languages.length === 0
    ? facts
    : { ...facts, languages: facts.languages.map(everyForm) }
}

const plainNumbers = new Map<string, NumberLanguage>()

function numberLanguage(facts: Facts, plainIntegers: boolean): NumberLanguage {
  const { integer, fractional, minimum, maximum, multiples, notMultiples, numbers } = facts
  const lists = [multiples, notMultiples, facts.excludedNumbers, numbers ?? []]
  const isPlain = !minimum && !maximum && !numbers && lists.every((list) => list.length === 0)
  const key = `${integer} ${fractional} ${plainIntegers}`
  const known = isPlain ? plainNumbers.get(key) : undefined
  if (known) return known
  const language = new NumberLanguage({
    integer,
    fractional,
    minimum,
    maximum,
    multiples,
    notMultiples,
    excluded: facts.excludedNumbers,
    only: numbers && distinct(numbers),
    plainIntegers,
  })
  if (isPlain) plainNumbers.set(key, language)
  return language
}

function distinct(numbers: readonly Decimal[]): Decimal[] {
  return [...new Map(numbers.map((n) => [canonical(n), n])).values()]
}

const stringLanguages = new WeakMap<Dfa, Map<string, StringLanguage>>()

/** Equal automata and bounds share a language, and with it what has been found out of it. */
function stringLanguage(facts: Facts, without: Mark | undefined): StringLanguage {
  const { minLength, maxLength } = facts
  const dfa = languageOf(facts, false, without)
  const byBounds = stringLanguages.get(dfa) ?? new Map<string, StringLanguage>()
  stringLanguages.set(dfa, byBounds)
  const bounds = `${minLength} ${maxLength}`
  const language = byBounds.get(bounds) ?? new StringLanguage(dfa, minLength, maxLength)
  if (byBounds.size < mostBounds) byBounds.set(bounds, language)
  return language
}

/**
 * @param counted whether length bounds are part of the automaton or kept beside it
 * @param without a mark that none of the texts holds, unless they are too many to keep apart from it
 */
function languageOf(facts: Facts, counted: boolean, without: Mark | undefined): Dfa {
  if (!without) return textsOf(facts, counted)
  try {
    const notLanguages = [...facts.notLanguages, without.holding]
    const isAny = facts.strings === undefined && textsOf(facts, counted) === anything
    return isAny ? without.others : textsOf({ ...facts, notLanguages }, counted)
  } catch (error) {
    if (!(error instanceof TooLarge) || error instanceof TooMuchWork) throw error
    return textsOf(facts, counted)
  }
}

function textsOf(facts: Facts, counted: boolean): Dfa {
  const { minLength: min, maxLength: max, languages, notLanguages, excludedStrings } = facts
  const bounded = min > 0 || max < Number.POSITIVE_INFINITY
  const bounds = counted && bounded ? [lengths(min, max)] : []
  const banned = [...notLanguages]
  if (facts.strings) {
    // Few enough to ask each: lengths aside, which are counted anyway.
    const allowed = [...languages, ...bounds]
    return finite(
      [...facts.strings].filter((text) => wanted(text, allowed, banned, excludedStrings)),
    )
  }
  if (excludedStrings.length > 0) banned.push(finite(excludedStrings))
  const wantedDfas = [...languages, ...bounds]
  if (wantedDfas.length + banned.length === 0) return anything
  if (wantedDfas.length === 1 && banned.length === 0) return wantedDfas[0]!
  const count = wantedDfas.length
  return combine([...wantedDfas, ...banned], (accepted) =>
    accepted.every((yes, i) => yes === i < count),
  )
}

function wanted(
  text: string,
  allowed: readonly Dfa[],
  banned: readonly Dfa[],
  excluded: readonly string[],
): boolean {
  return (
    !excluded.includes(text) &&
    allowed.every((dfa) => matches(dfa, text)) &&
    !banned.some((dfa) => matches(dfa, text))
  )
}
