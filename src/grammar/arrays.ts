// One case of an array: what each item has to satisfy, how many of them have to satisfy more, and how many there may be.
// A state is a place between items: how many there are and how often each of the "some" has been met, both only as far as
// it still matters. Before an item begins it is decided which of the "some" it will meet; each decision is a way on.

import type { Facts, Literal } from "./facts.ts"
import type { ArrayPlaces, ArrayState, Goal, GoalSource, ItemWay, Probe } from "./goal.ts"
import { canSeat, Values } from "./values.ts"
import { spend } from "./work.ts"

const endless = Number.POSITIVE_INFINITY
const maxSome = 6
const maxSearch = 50_000
// Items that have to differ and have few values: alike, or of several kinds, which are compared one by one.
const maxScarce = 256
const maxMixed = 32

let made = 0

export class ArrayCase implements ArrayPlaces {
  readonly id = ++made
  readonly start: ArrayState
  readonly unique: boolean
  private readonly goals: GoalSource
  private readonly goal: Goal
  private readonly min: number
  private readonly max: number
  private readonly some: Facts["someItems"]
  /** From here on all items are alike. */
  private readonly prefix: number
  private readonly literals: Literal[][] // [prefix + 1]  of each place, the last for all that follow
  private readonly states = new Map<string, ArrayState>()
  private readonly scarce = new Map<number, ReadonlySet<string> | undefined>()
  private settled = false

  constructor(goals: GoalSource, facts: Facts, goal: Goal) {
    if (facts.repeats !== undefined) {
      throw goals.unenforceable(facts.repeats, "uniqueItems", "two equal items cannot be asked for")
    }
    this.goals = goals
    this.goal = goal
    this.some = facts.someItems.filter((s) => s.min > 0 || s.max < endless)
    if (this.some.length > maxSome) throw goals.fault(goal, "too many conditions on some items")
    const needed = this.some.map((s) => s.from + s.min)
    this.min = Math.max(facts.minItems, ...needed)
    this.max = facts.maxItems
    this.unique = facts.unique && this.max > 1
    const edges = facts.items.flatMap(({ from, to }) => [from, to === endless ? 0 : to])
    this.prefix = Math.max(0, ...edges, ...this.some.map((s) => s.from))
    spend(this.prefix + facts.items.length)
    this.literals = Array.from({ length: this.prefix + 1 }, () => [])
    for (const { from, to, literals } of facts.items) {
      const end = Math.min(to, this.prefix + 1)
      spend((end - from) / 4)
      for (let at = from; at < end; at++) this.literals[at]!.push(...literals)
    }
    this.start = this.state(
      0,
      this.some.map(() => 0),
    )
  }

  /** Every goal that an item may have to satisfy. */
  *leadsTo(): Iterable<Goal> {
    if (this.max === 0) return
    for (let i = 0; i <= Math.min(this.prefix, this.max - 1); i++) {
      for (const taken of this.choices(i)) yield this.itemGoal(i, taken)
    }
  }

  lives(probe: Probe): boolean {
    return this.min <= this.max && this.completes(this.start, probe)
  }

  settle(): void {
    this.settled = true
    for (const state of this.states.values()) state.ways = undefined
  }

  lacksValues(): boolean {
    if (!this.unique) return false
    const places = this.scarcePlaces(this.start)
    const kinds = new Set(places).size
    if (places.length > maxScarce || (kinds > 1 && places.length > maxMixed)) {
      const { pointer } = this.goal
      const most = kinds > 1 ? maxMixed : maxScarce
      const reason = `more than ${most} items have to differ that have few values`
      throw this.goals.unenforceable(pointer, "uniqueItems", reason)
    }
    if (this.hasSome && [...this.leadsTo()].some((goal) => new Values(64).ofGoal(goal))) {
      const { pointer } = this.goal
      const reason = "together with contains, too few values for different items"
      throw this.goals.unenforceable(pointer, "uniqueItems", reason)
    }
    return !canSeat(places, new Set())
  }

  canClose(state: ArrayState): boolean {
    state.closes ??=
      state.count >= this.min &&
      state.count <= this.max &&
      this.some.every((s, k) => state.met[k]! >= s.min && state.met[k]! <= s.max)
    return state.closes
  }

  ways(state: ArrayState): readonly ItemWay[] {
    state.ways ??= this.open(state, alive).filter(({ to }) => this.completes(to, alive))
    if (!this.settled) throw new Error("internal: arrays are walked once they are settled")
    return state.ways
  }

  scarcePlaces({ count }: ArrayState): ReadonlySet<string>[] {
    const places: ReadonlySet<string>[] = []
    for (let i = count; i < this.min; i++) {
      const values = this.scarceValues(Math.min(i, this.prefix))
      if (values) places.push(values)
      // Alike and many: those that follow have enough, too.
      else if (i >= this.prefix) break
      if (places.length > maxScarce) break
    }
    return places
  }

  /** Of an item's goal, the "some" aside. Undefined: more than there have to be items, so that they never run out. */
  private scarceValues(place: number): ReadonlySet<string> | undefined {
    if (!this.scarce.has(place)) {
      this.scarce.set(place, new Values(this.min).ofGoal(this.itemGoal(place, [])))
    }
    return this.scarce.get(place)
  }

  get hasSome(): boolean {
    return this.some.length > 0
  }

  private open(state: ArrayState, probe: Probe): ItemWay[] {
    if (state.count >= this.max) return []
    const place = Math.min(state.count, this.prefix)
    const out: ItemWay[] = []
    for (const taken of this.choices(state.count)) {
      const met = state.met.map((n, k) => this.capped(k, n + (taken[k] === true ? 1 : 0)))
      const useful = taken.every((yes, k) => !yes || met[k] !== state.met[k])
      const tooMany = this.some.some((s, k) => met[k]! > s.max)
      if (!useful || tooMany) continue
      const goal = this.itemGoal(place, taken)
      if (probe(goal)) out.push({ goal, to: this.state(state.count + 1, met) })
    }
    return out
  }

  /** For each of the "some": met (true), not met (false), or not looked at (undefined: more of them never hurt). */
  private *choices(at: number): Iterable<(boolean | undefined)[]> {
    const count = this.some.length
    for (let bits = 0; bits < 1 << count; bits++) {
      spend(2)
      const taken = this.some.map((s, k) => {
        if (at < s.from) return undefined
        return ((bits >> k) & 1) === 1 || (s.max < endless ? false : undefined)
      })
      if (this.some.every((s, k) => at >= s.from || ((bits >> k) & 1) === 0)) yield taken
    }
  }

  private itemGoal(place: number, taken: (boolean | undefined)[]): Goal {
    const literals = [...this.literals[Math.min(place, this.prefix)]!]
    taken.forEach((yes, k) => {
      const own = this.some[k]!.literals
      if (yes) literals.push(...own)
      else if (yes === false) {
        if (own.length !== 1) throw new Error("internal: only single conditions have a maximum")
        literals.push(this.goals.literals.negated(own[0]!))
      }
    })
    return this.goals.goal(literals)
  }

  private capped(k: number, met: number): number {
    const { min, max } = this.some[k]!
    return Math.min(met, max === endless ? min : max + 1)
  }

  private state(count: number, met: number[]): ArrayState {
    const last = this.max === endless ? Math.max(this.prefix, this.min) : this.max
    const capped = Math.min(count, last)
    const key = `${capped}:${met.join()}`
    let state = this.states.get(key)
    if (!state) {
      state = { key, count: capped, met, ways: undefined, closes: undefined }
      if (this.settled || this.states.size < maxSearch) this.states.set(key, state)
      else throw this.goals.fault(this.goal, "too many items to count")
    }
    return state
  }

  private completes(from: ArrayState, probe: Probe): boolean {
    if (!this.hasSome) {
      for (let i = from.count; i < this.min; i++) {
        if (!probe(this.itemGoal(Math.min(i, this.prefix), []))) return false
        if (i >= this.prefix) break
      }
      return from.count <= this.max
    }
    const seen = new Set([from])
    for (const state of seen) {
      if (this.canClose(state)) return true
      if (seen.size > maxSearch) throw this.goals.fault(this.goal, "too many items to count")
      for (const { to } of this.open(state, probe)) seen.add(to)
    }
    return false
  }
}

const alive: Probe = (goal) => goal.alive === true
