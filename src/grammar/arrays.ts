// One case of an array: what each item has to satisfy, how many of them have to satisfy more, and how many there may be.
// A state is a place between items: how many there are and how often each of the "some" has been met, both only as far as
// it still matters. Before an item begins it is decided which of the "some" it will meet; each decision is a way on.

import type { Facts, Literal } from "./facts.ts"
import type { Goal, Goals, Probe } from "./goals.ts"
import { canSeat, Values } from "./values.ts"

export interface ArrayState {
  readonly key: string
  readonly count: number
  /** How often each of the "some" has been met. */
  readonly met: readonly number[]
  ways: readonly ItemWay[] | undefined
  closes: boolean | undefined
}

/** An item that may come next, and where it leads. */
export interface ItemWay {
  readonly goal: Goal
  readonly to: ArrayState
}

const endless = Number.POSITIVE_INFINITY
const maxSome = 6
const maxSearch = 50_000

let made = 0

export class ArrayCase {
  readonly id = ++made
  readonly start: ArrayState
  readonly unique: boolean
  private readonly goals: Goals
  private readonly goal: Goal
  private readonly min: number
  private readonly max: number
  private readonly some: Facts["someItems"]
  /** From here on all items are alike. */
  private readonly prefix: number
  private readonly literals: Literal[][] // [prefix + 1]  of each place, the last for all that follow
  private readonly states = new Map<string, ArrayState>()
  private settled = false

  constructor(goals: Goals, facts: Facts, goal: Goal) {
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
    this.literals = Array.from({ length: this.prefix + 1 }, (_, i) =>
      facts.items.filter(({ from, to }) => from <= i && i < to).flatMap((item) => item.literals),
    )
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

  /** From here on what is found out stays true. */
  settle(): void {
    this.settled = true
    for (const state of this.states.values()) state.ways = undefined
  }

  /** Whether items that may not repeat have too few values for as many as there have to be. Asked once it is settled. */
  lacksValues(): boolean {
    if (!this.unique) return false
    const missing = this.missing(this.start)
    const places: ReadonlySet<string>[] = []
    for (let i = 0; i < missing; i++) {
      const values = new Values(missing).ofGoal(this.plainGoal(i))
      if (values) places.push(values)
      // Alike and many: those that follow have enough, too.
      else if (i >= this.prefix) break
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

  /** The items that may come next such that the array can be finished after them. */
  ways(state: ArrayState): readonly ItemWay[] {
    state.ways ??= this.open(state, alive).filter(({ to }) => this.completes(to, alive))
    if (!this.settled) throw new Error("internal: arrays are walked once they are settled")
    return state.ways
  }

  /** How many items still have to come at least. */
  missing(state: ArrayState): number {
    return Math.max(0, this.min - state.count)
  }

  /** The goal of the item at a place, the "some" aside. */
  plainGoal(at: number): Goal {
    return this.itemGoal(Math.min(at, this.prefix), [])
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
