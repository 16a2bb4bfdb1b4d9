// Items that must not repeat. Finished items are remembered by their canonical texts, and the item being written carries
// the values it must avoid; an object or array passes on to its parts what would make the whole a repetition. Languages
// with many values need no care: only where few are left are they listed and compared.

import type {
  ArrayPlaces,
  ArrayState,
  Goal,
  ItemWay,
  MemberWay,
  NamePlace,
  ObjectPlaces,
  ObjectState,
} from "./goal.ts"
import { canonical, type Json, parseJson } from "./json.ts"
import type { Decoding, StringPlace } from "./strings.ts"
import { canSeat, objectText, Values } from "./values.ts"

/** A value somebody wants to know when it is finished, and what it must not be. */
export class Kept {
  /** Canonical texts. */
  readonly avoid: ReadonlySet<string>
  private readonly within: Distinct | undefined
  private mentioned: ReadonlySet<string> | undefined

  constructor(avoid: ReadonlySet<string>, within: Distinct | undefined) {
    this.avoid = avoid
    this.within = within
  }

  /** Every string and name that the value, or what it is part of, is compared with: all others are alike. */
  get mentions(): ReadonlySet<string> {
    this.mentioned ??= new Set([...stringsIn(this.avoid), ...(this.within?.mentions ?? [])])
    return this.mentioned
  }

  /** Whether a string that begins with `text` can still become one that need not be avoided. */
  leavesString(place: StringPlace, length: number, text: string): boolean {
    const { language, decoding } = place
    const banned = new Set<string>()
    for (const value of this.avoid) {
      if (!value.startsWith('"')) continue
      const string = parseJson(value) as string
      if (string.startsWith(text) && language.has(string)) banned.add(string.slice(text.length))
    }
    if (banned.size === 0) return true
    const left = language.completions(place.state, length, decoding, banned.size)
    return left === undefined || left.some((rest) => !banned.has(rest))
  }
}

const nothing: ReadonlySet<string> = new Set()

/** What an array or object that is being written has so far, and what it must not become. */
export class Distinct {
  private readonly avoid: ReadonlySet<string>
  private readonly unique: boolean
  private readonly items: readonly string[]
  private readonly members: ReadonlyMap<string, string>
  private readonly kept: Kept | undefined // the whole

  private constructor(
    kept: Kept | undefined,
    unique: boolean,
    items: readonly string[],
    members: ReadonlyMap<string, string>,
  ) {
    this.avoid = kept?.avoid ?? nothing
    this.unique = unique
    this.items = items
    this.members = members
    this.kept = kept
  }

  static array(kept: Kept | undefined, unique: boolean): Distinct | undefined {
    if (!kept && !unique) return undefined
    return new Distinct(kept, unique, [], new Map())
  }

  static object(kept: Kept): Distinct {
    return new Distinct(kept, false, [], new Map())
  }

  withItem(value: string): Distinct {
    return new Distinct(this.kept, this.unique, [...this.items, value], this.members)
  }

  withMember(name: string, value: string): Distinct {
    const members = new Map(this.members).set(name, value)
    return new Distinct(this.kept, this.unique, this.items, members)
  }

  get mentions(): ReadonlySet<string> {
    return new Set([...stringsIn(this.items), ...(this.kept?.mentions ?? [])])
  }

  /** Whether it matters which members there are. */
  get isWatched(): boolean {
    return this.avoid.size > 0
  }

  avoids(value: string): boolean {
    return this.avoid.has(value)
  }

  arrayValue(): string {
    return `[${this.items.join()}]`
  }

  objectValue(): string {
    return objectText(this.members)
  }

  describe(): string {
    const members = JSON.stringify([...this.members])
    return `!${this.unique ? "u" : ""}${this.items.join()};${members};${[...this.avoid].join()}`
  }

  // ---- arrays ----

  leavesArray(array: ArrayPlaces, state: ArrayState): boolean {
    if (this.avoid.size === 0) return true
    return this.escapes(new Values(this.avoid.size).ofArray(array, state, this.items))
  }

  /** What the item of a way must avoid; undefined when nothing would be left of it. */
  itemKept(array: ArrayPlaces, way: ItemWay): Kept | undefined {
    const avoid = new Set(this.unique ? this.items : [])
    for (const value of this.wholes()) {
      const next = [...this.items, value]
      const values = new Values(this.avoid.size).ofArray(array, way.to, next)
      if (!this.escapes(values)) avoid.add(value)
    }
    if (this.unique) this.addHoarded(array, way, avoid)
    return leaves(way.goal, avoid) ? new Kept(avoid, this) : undefined
  }

  /** Items that would make the array begin like one to avoid. */
  private *wholes(): Iterable<string> {
    const at = this.items.length
    for (const text of this.avoid) {
      if (!text.startsWith("[")) continue
      const value = (parseJson(text) as Json[]).map(canonical)
      if (value.length > at && this.items.every((item, i) => item === value[i])) yield value[at]!
    }
  }

  // Where items still to come have few values, this one must not take what the last of them needs.
  private addHoarded(array: ArrayPlaces, way: ItemWay, avoid: Set<string>): void {
    const places = array.scarcePlaces(way.to)
    if (places.length === 0) return
    const candidates = new Set([...new Set(places)].flatMap((values) => [...values]))
    for (const value of candidates) {
      if (!avoid.has(value) && !canSeat(places, new Set([...this.items, value]))) avoid.add(value)
    }
  }

  // ---- objects ----

  leavesObject(object: ObjectPlaces, state: ObjectState): boolean {
    if (this.avoid.size === 0) return true
    return this.escapes(new Values(this.avoid.size).ofObject(object, state, this.members))
  }

  /** Whether some further member leads to an object that need not be avoided. */
  objectGrows(object: ObjectPlaces, state: ObjectState): boolean {
    return this.nameLives(object, state, object.firstPlace)
  }

  nameLives(
    object: ObjectPlaces,
    state: ObjectState,
    place: NamePlace,
    decoding?: Decoding,
  ): boolean {
    if (this.avoid.size === 0) return true
    if (object.hasEndlessNames(state, place, decoding)) return true
    return object.mentionedWays(state, place, decoding).some(([name, way]) => {
      return this.valueKept(object, state, object.placeOf(name), way) !== undefined
    })
  }

  /** What the value of a member must avoid; undefined when nothing would be left of it. */
  memberKept(
    object: ObjectPlaces,
    state: ObjectState,
    place: NamePlace,
    way: MemberWay,
  ): Kept | undefined {
    return this.avoid.size === 0
      ? new Kept(nothing, this)
      : this.valueKept(object, state, place, way)
  }

  private valueKept(
    object: ObjectPlaces,
    state: ObjectState,
    place: NamePlace,
    way: MemberWay,
  ): Kept | undefined {
    const avoid = new Set<string>()
    const after = object.after(state, place, way.owed)
    for (const text of this.avoid) {
      if (!text.startsWith("{")) continue
      const whole = parseJson(text) as Map<string, Json>
      const own = whole.get(place.text)
      const agrees = [...this.members].every(([name, value]) => {
        const other = whole.get(name)
        return other !== undefined && canonical(other) === value
      })
      if (own === undefined || !agrees) continue
      const members = new Map(this.members).set(place.text, canonical(own))
      const values = new Values(this.avoid.size).ofObject(object, after, members)
      if (!this.escapes(values)) avoid.add(canonical(own))
    }
    return leaves(way.goal, avoid) ? new Kept(avoid, this) : undefined
  }

  private escapes(values: ReadonlySet<string> | undefined): boolean {
    if (values === undefined) return true
    for (const value of values) if (!this.avoid.has(value)) return true
    return false
  }
}

function stringsIn(texts: Iterable<string>): Set<string> {
  const strings = new Set<string>()
  const add = (value: Json) => {
    if (typeof value === "string") strings.add(value)
    else if (Array.isArray(value)) value.forEach(add)
    else if (value instanceof Map) {
      for (const [name, member] of value) {
        strings.add(name)
        add(member)
      }
    }
  }
  for (const text of texts) add(parseJson(text))
  return strings
}

function leaves(goal: Goal, avoid: ReadonlySet<string>): boolean {
  if (avoid.size === 0) return true
  const values = new Values(avoid.size).ofGoal(goal)
  return values === undefined || [...values].some((value) => !avoid.has(value))
}
