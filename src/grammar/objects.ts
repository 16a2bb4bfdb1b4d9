// One case of an object: what each member has to satisfy by its name, which names have to come, how many members there may
// be, and what some member has to be. Names that the schema mentions are told apart one by one; all others fall into
// classes, one for each combination of patterns they match. A name is finished before its value's goal is known, so a
// half-written name lives as long as it can become one that is allowed, new, and leaves the rest of the object possible.

import { type Dfa, matches } from "./dfa.ts"
import { type Facts, includes, type Literal, type NameSet, namesOf, othersThan } from "./facts.ts"
import type { Quotes } from "./frames.ts"
import type {
  Goal,
  GoalSource,
  MemberWay,
  NamePlace,
  ObjectPlaces,
  ObjectState,
  Probe,
} from "./goal.ts"
import { type NameProduct, productOf } from "./names.ts"
import { between, type Decoding, rangesOf, type StringPlace, spansOf } from "./strings.ts"
import { spend } from "./work.ts"

const maxSome = 6
const maxSearch = 20_000

let made = 0

export class ObjectCase implements ObjectPlaces {
  readonly id = ++made
  readonly start: ObjectState
  readonly firstPlace: NamePlace
  readonly names: string[]
  private readonly goals: GoalSource
  private readonly goal: Goal
  /** What members have to satisfy: by name, and by sets that more than list names. */
  private readonly byName = new Map<string, Literal[]>()
  private readonly byPattern: { where: NameSet; literals: readonly Literal[] }[] = []
  private readonly some: { where: NameSet; literals: readonly Literal[] }[]
  private readonly required: number[]
  private readonly isRequired: Uint8Array // [names]
  private readonly min: number
  private readonly max: number
  private readonly product: NameProduct
  /** Literals and "some" bits of each mentioned name, then of each class. */
  private readonly kinds: { literals: Literal[]; some: number }[]
  private readonly goalCache: (Goal | undefined)[][] = []
  private readonly ends: NamePlace[] = []

  constructor(goals: GoalSource, facts: Facts, goal: Goal) {
    this.goals = goals
    this.goal = goal
    const members = [...facts.members]
    this.some = [...facts.someMembers]
    if (facts.names.length > 0) {
      const where = othersThan(namesOf([], [goals.language(facts.names)]))
      members.push({ where, literals: [goals.literals.never] })
    }
    if (goals.without) {
      members.push({
        where: namesOf([], [goals.without.holding]),
        literals: [goals.literals.never],
      })
    }
    for (const literal of facts.someNames) {
      this.some.push({ where: namesOf([], [goals.language([literal])]), literals: [] })
    }
    if (this.some.length > maxSome) throw goals.fault(goal, "too many conditions on some members")
    const sets = [...members, ...this.some].map(({ where }) => where)
    for (const { where, literals } of members) {
      if (!isList(where)) this.byPattern.push({ where, literals })
      else
        for (const name of where.names)
          this.byName.set(name, [...(this.byName.get(name) ?? []), ...literals])
    }
    const languages = [...new Set(sets.flatMap((set) => set.languages))]
    spend(2 + members.length / 2)
    this.product = productOf(languages)
    const mentioned = new Set([...facts.required, ...sets.flatMap((set) => [...set.names])])
    for (const name of this.product.fewNames()) mentioned.add(name)
    this.names = [...mentioned].sort()
    spend(this.names.length * (1 + (languages.length + this.byPattern.length) / 8))
    // Half a surrogate pair is no character, so that no member can have such a name.
    for (const name of this.names)
      if (!name.isWellFormed()) this.byName.set(name, [goals.literals.never])
    const index = new Map(this.names.map((name, i) => [name, i]))
    this.required = [...facts.required].map((name) => index.get(name)!)
    this.isRequired = Uint8Array.from(this.names, (name) => (facts.required.has(name) ? 1 : 0))
    this.min = facts.minProperties
    this.max = facts.maxProperties
    this.kinds = [
      ...this.names.map((name) => {
        const matched = new Set(languages.filter((language) => matches(language, name)))
        return this.kind(name, matched)
      }),
      ...this.product.classes.map((matched) => this.kind(undefined, matched)),
    ]
    this.start = {
      seen: new Uint32Array((this.names.length + 31) >> 5),
      others: [],
      count: 0,
      owed: (1 << this.some.length) - 1,
      ways: [],
      description: undefined,
      missing: undefined,
    }
    this.firstPlace = { text: "", state: 0, low: 0, high: this.names.length }
  }

  *leadsTo(): Iterable<Goal> {
    for (let k = 0; k < this.kinds.length; k++) {
      if (k >= this.names.length && !this.product.isEndless(k - this.names.length)) continue
      for (const owed of subsets(this.kinds[k]!.some)) yield this.memberGoal(k, owed)
    }
  }

  lives(probe: Probe): boolean {
    if (this.min > this.max || this.required.length > this.max) return false
    return this.completes(this.start, undefined, this.start.owed, probe)
  }

  settle(): void {
    this.start.ways.length = 0
    this.start.missing = undefined
  }

  canClose(state: ObjectState): boolean {
    return (
      state.owed === 0 &&
      state.count >= this.min &&
      state.count <= this.max &&
      this.required.every((k) => has(state.seen, k))
    )
  }

  canGrow(state: ObjectState): boolean {
    if (state.count >= this.max) return false
    return this.placeLives(state, this.firstPlace, between)
  }

  advance(place: NamePlace, codePoint: number): NamePlace {
    const text = place.text + String.fromCodePoint(codePoint)
    const low = this.firstName(place, (name) => name >= text)
    const high = this.firstName({ low, high: place.high }, (name) => !name.startsWith(text))
    return { text, state: this.product.step(place.state, codePoint), low, high }
  }

  /** Of the names between two places, the first of those at the end for which something is so. */
  private firstName({ low, high }: { low: number; high: number }, isSo: (name: string) => boolean) {
    while (low < high) {
      const middle = (low + high) >> 1
      if (isSo(this.names[middle]!)) high = middle
      else low = middle + 1
    }
    return low
  }

  finished(state: ObjectState, place: NamePlace): readonly MemberWay[] {
    if (this.names[place.low] === place.text && place.low < place.high) {
      return this.waysFor(state, place.low)
    }
    if (state.others.includes(place.text)) return []
    return this.waysFor(state, this.names.length + this.product.classOf(place.state))
  }

  placeLives(state: ObjectState, place: NamePlace, decoding: Decoding): boolean {
    if (decoding === between) return this.textLives(state, place)
    const ranges = rangesOf(decoding)
    for (let k = place.low; k < place.high; k++) {
      const next = this.names[k]!.codePointAt(place.text.length) ?? -1
      if (!ranges.some(([from, to]) => next >= from && next <= to)) continue
      if (this.waysFor(state, k).length > 0) return true
    }
    return ranges.some(([from, to]) =>
      this.product.after(place.state, from, to).some((next) => {
        const characters = this.product.between(place.state, next, from, to)
        return this.othersLive(state, next, place.text, characters)
      }),
    )
  }

  after(state: ObjectState, place: NamePlace, owed: number): ObjectState {
    const mentioned = this.names[place.low] === place.text && place.low < place.high
    const seen = mentioned ? Uint32Array.from(state.seen) : state.seen
    if (mentioned) seen[place.low >> 5]! |= 1 << (place.low & 31)
    const others = mentioned ? state.others : [...state.others, place.text]
    const count = state.count + 1
    return { seen, others, count, owed, ways: [], description: undefined, missing: undefined }
  }

  describe(state: ObjectState): string {
    if (state.description === undefined) {
      const others = state.others.length > 0 ? JSON.stringify([...state.others].sort()) : ""
      state.description = `${this.id}:${state.seen.join()}:${state.owed}${others}`
    }
    return state.description
  }

  describeFor(state: ObjectState, { around }: Quotes): string {
    if (!this.product.isTrivial) return this.describe(state)
    const others = state.others.filter((name) => around.has(name)).sort()
    const count =
      this.max === Number.POSITIVE_INFINITY ? Math.min(state.count, this.min) : state.count
    return `${this.id}:${state.seen.join()}:${state.owed}~${count}${JSON.stringify(others)}`
  }

  describePlace(
    state: ObjectState,
    { text, low, high }: NamePlace,
    decoding: Decoding,
    { around, behind }: Quotes,
  ): string {
    if (!this.product.isTrivial) return `=${text}`
    const closes = (name: string) =>
      name.startsWith(text) && (decoding !== between || behind.has(name.slice(text.length)))
    const refused = state.others.filter(closes).map((name) => name.slice(text.length))
    const mentioned = low < high ? `${text.length}:${low}-${high}` : ""
    // Closed in a token that holds the same text again, it matters which it is.
    const again = [...around].some(closes) ? `=${text}` : ""
    return `~${mentioned}${JSON.stringify(refused.sort())}${again}`
  }

  placeOf(name: string): NamePlace {
    let place = this.firstPlace
    for (const character of name) place = this.advance(place, character.codePointAt(0)!)
    return place
  }

  endOf(k: number): NamePlace {
    this.ends[k] ??= this.placeOf(this.names[k]!)
    return this.ends[k]
  }

  otherNames(state: ObjectState, place: NamePlace): StringPlace | undefined {
    let allowed = 0
    this.product.classes.forEach((_, index) => {
      const isOpen = this.waysFor(state, this.names.length + index).length > 0
      if (isOpen && this.product.isEndless(index)) allowed |= 1 << index
    })
    return this.product.namesFrom(place.state, allowed)
  }

  hasEndlessNames(state: ObjectState, place: NamePlace, decoding: Decoding = between): boolean {
    const ends = (at: number) =>
      this.product
        .endlessFrom(at)
        .some((index) => this.waysFor(state, this.names.length + index).length > 0)
    if (decoding === between) return ends(place.state)
    return spansOf(decoding)
      .flatMap(([from, to]) => this.product.after(place.state, from, to))
      .some(ends)
  }

  mentionedWays(
    state: ObjectState,
    place: NamePlace,
    decoding: Decoding = between,
  ): [string, MemberWay][] {
    const out: [string, MemberWay][] = []
    for (let k = place.low; k < place.high; k++) {
      const name = this.names[k]!
      const next = name.codePointAt(place.text.length) ?? -1
      const fits =
        decoding === between || spansOf(decoding).some(([from, to]) => next >= from && next <= to)
      if (fits) for (const way of this.waysFor(state, k)) out.push([name, way])
    }
    return out
  }

  private textLives(state: ObjectState, place: NamePlace): boolean {
    for (let k = place.low; k < place.high; k++) {
      if (this.waysFor(state, k).length > 0) return true
    }
    return this.othersLive(state, place.state, place.text, [""])
  }

  /** Whether a new name goes on so: a text, one of some characters, which lead to a state, and more from there. */
  private othersLive(
    state: ObjectState,
    at: number,
    text: string,
    characters: Iterable<string>,
  ): boolean {
    const allowed = (index: number) => this.waysFor(state, this.names.length + index).length > 0
    if (this.product.endlessFrom(at).some(allowed)) return true
    // Few names are left from here: is one of them new?
    for (const [word, index] of this.product.wordsFrom(at)) {
      if (!allowed(index)) continue
      for (const character of characters) {
        const name = text + character + word
        if (!state.others.includes(name) && !this.names.includes(name)) return true
      }
    }
    return false
  }

  private waysFor(state: ObjectState, k: number): readonly MemberWay[] {
    state.ways[k] ??= this.findWays(state, k)
    return state.ways[k]
  }

  private findWays(state: ObjectState, k: number): MemberWay[] {
    if (state.count >= this.max || (k < this.names.length && has(state.seen, k))) return []
    const ways: MemberWay[] = []
    for (const met of subsets(this.kinds[k]!.some & state.owed)) {
      const goal = this.memberGoal(k, met)
      if (!goal.alive) continue
      const owed = state.owed & ~met
      if (this.completes(state, k, owed, alive)) ways.push({ goal, owed })
    }
    return ways
  }

  private memberGoal(k: number, met: number): Goal {
    this.goalCache[k] ??= []
    this.goalCache[k][met] ??= this.goals.goal([
      ...this.kinds[k]!.literals,
      ...this.some.flatMap(({ literals }, i) => ((met >> i) & 1 ? literals : [])),
    ])
    return this.goalCache[k][met]
  }

  private kind(name: string | undefined, matched: ReadonlySet<Dfa>) {
    const literals = this.byPattern
      .filter(({ where }) => includes(where, name, matched))
      .flatMap((member) => member.literals)
    if (name !== undefined) literals.push(...(this.byName.get(name) ?? []))
    let some = 0
    this.some.forEach(({ where }, i) => {
      if (includes(where, name, matched)) some |= 1 << i
    })
    return { literals, some }
  }

  /** Whether the object can be finished once `next`, if any, has joined the members. */
  private completes(
    state: ObjectState,
    next: number | undefined,
    owed: number,
    probe: Probe,
  ): boolean {
    const isFree = (k: number) => k !== next && !has(state.seen, k)
    const count = state.count + (next === undefined ? 0 : 1)
    const missing = this.missing(state, probe)
    if (missing === undefined) return false
    const needed = missing - (next !== undefined && this.isRequired[next] === 1 ? 1 : 0)
    if (count + needed > this.max) return false
    if (owed === 0 && count + needed >= this.min) return true
    const grows = this.product.classes.some(
      (_, i) => this.product.isEndless(i) && probe(this.memberGoal(this.names.length + i, 0)),
    )
    if (!grows && count + needed < this.min) {
      let free = 0
      for (let k = 0; k < this.names.length; k++) {
        if (isFree(k) && probe(this.memberGoal(k, 0))) free++
      }
      if (count + free < this.min) return false
    }
    return owed === 0 || this.pays(owed, isFree, this.max - count - needed, probe)
  }

  /** How many required members still have to come; undefined when one of them cannot. */
  private missing(state: ObjectState, probe: Probe): number | undefined {
    if (probe === alive && state.missing !== undefined) return state.missing
    let missing = 0
    for (const k of this.required) {
      if (has(state.seen, k)) continue
      if (!probe(this.memberGoal(k, 0))) return undefined
      missing++
    }
    if (probe === alive) state.missing = missing
    return missing
  }

  /** Whether members still to come can meet all that is owed, at most `spare` of them beyond the required ones. */
  private pays(owed: number, isFree: (k: number) => boolean, spare: number, probe: Probe): boolean {
    let work = 0
    const assign = (left: number, taken: { k: number; met: number }[], extra: number): boolean => {
      if (left === 0) return true
      if (++work > maxSearch) throw this.goals.fault(this.goal, "too many conditions on members")
      const bit = left & -left
      // Together with a member that meets something else already.
      for (const [i, { k, met }] of taken.entries()) {
        if ((this.kinds[k]!.some & bit) === 0 || !probe(this.memberGoal(k, met | bit))) continue
        const joined = taken.with(i, { k, met: met | bit })
        if (assign(left & ~bit, joined, extra)) return true
      }
      for (let k = 0; k < this.kinds.length; k++) {
        if ((this.kinds[k]!.some & bit) === 0) continue
        const isName = k < this.names.length
        if (isName && (!isFree(k) || taken.some((t) => t.k === k))) continue
        if (!isName && !this.product.isEndless(k - this.names.length)) continue
        const costs = isName && this.isRequired[k] === 1 ? 0 : 1
        if (extra + costs > spare || !probe(this.memberGoal(k, bit))) continue
        if (assign(left & ~bit, [...taken, { k, met: bit }], extra + costs)) return true
      }
      return false
    }
    return assign(owed, [], 0)
  }
}

function* subsets(bits: number): Iterable<number> {
  for (let subset = bits; ; subset = (subset - 1) & bits) {
    yield subset
    if (subset === 0) return
  }
}

function isList({ languages, outside }: NameSet): boolean {
  return languages.length === 0 && !outside
}

function has(bits: Uint32Array, index: number): boolean {
  return ((bits[index >> 5]! >> (index & 31)) & 1) === 1
}

const alive: Probe = (goal) => goal.alive === true
