// Lists of all values, for languages that have only a few. "More than the limit" is an answer too, and what leads back to
// itself always has more.

import type { ArrayPlaces, ArrayState, Goal, ObjectPlaces, ObjectState } from "./goal.ts"
import { decimalText } from "./json.ts"
import { types } from "./schema-node.ts"
import { spend } from "./work.ts"

const maxWork = 20_000

/** Values as canonical texts; undefined when there are more than the limit. */
export class Values {
  private limit: number
  private readonly active = new Set<Goal>()
  private work = 0

  constructor(limit: number) {
    this.limit = limit
  }

  /** @param spent how many values the caller cannot use, so that as many more are listed */
  ofGoal(goal: Goal, spent = 0): ReadonlySet<string> | undefined {
    if (this.active.has(goal)) return undefined
    this.active.add(goal)
    this.limit += spent
    const values = this.ofCases(goal)
    this.limit -= spent
    this.active.delete(goal)
    return values
  }

  ofArray(array: ArrayPlaces, state: ArrayState, items: readonly string[]) {
    const values = new Set<string>()
    return this.listArray(array, state, items, values) ? values : undefined
  }

  ofObject(object: ObjectPlaces, state: ObjectState, members: ReadonlyMap<string, string>) {
    const values = new Set<string>()
    return this.listObject(object, state, members, 0, values) ? values : undefined
  }

  private ofCases(goal: Goal): ReadonlySet<string> | undefined {
    const values = new Set<string>()
    for (const c of goal.cases) {
      for (const word of ["null", "true", "false"] as const) {
        if (c.has(types[word])) values.add(word)
      }
      if (c.has(types.number)) {
        const numbers = c.numbers.values(this.limit)
        if (!numbers) return undefined
        for (const number of numbers) values.add(decimalText(number))
      }
      if (c.has(types.string)) {
        const words = c.strings.words(this.limit)
        if (!words) return undefined
        for (const word of words) values.add(JSON.stringify(word))
      }
      if (c.has(types.array) && !this.listArray(c.array, c.array.start, [], values))
        return undefined
      if (c.has(types.object)) {
        if (!this.listObject(c.object, c.object.start, new Map(), 0, values)) return undefined
      }
      spend(values.size / 8)
      if (values.size > this.limit) return undefined
    }
    return values
  }

  /** Adds all arrays that go on from a state; false when they are too many. */
  private listArray(
    array: ArrayPlaces,
    state: ArrayState,
    items: readonly string[],
    found: Set<string>,
  ): boolean {
    spend(1)
    if (++this.work > maxWork) return false
    if (array.canClose(state)) found.add(`[${items.join()}]`)
    if (found.size > this.limit) return false
    for (const { goal, to } of array.ways(state)) {
      const values = this.ofGoal(goal, array.unique ? items.length : 0)
      if (!values) return false
      for (const value of values) {
        if (array.unique && items.includes(value)) continue
        if (!this.listArray(array, to, [...items, value], found)) return false
      }
    }
    return true
  }

  private listObject(
    object: ObjectPlaces,
    state: ObjectState,
    members: ReadonlyMap<string, string>,
    from: number,
    found: Set<string>,
  ): boolean {
    spend(1)
    if (++this.work > maxWork) return false
    if (object.canClose(state)) found.add(objectText(members))
    if (found.size > this.limit || object.hasEndlessNames(state, object.firstPlace)) return false
    for (let k = from; k < object.names.length; k++) {
      const name = object.names[k]!
      const place = object.placeOf(name)
      for (const way of object.finished(state, place)) {
        const values = this.ofGoal(way.goal)
        if (!values) return false
        const after = object.after(state, place, way.owed)
        for (const value of values) {
          const more = new Map(members).set(name, value)
          if (!this.listObject(object, after, more, k + 1, found)) return false
        }
      }
    }
    return true
  }
}

export function objectText(members: ReadonlyMap<string, string>): string {
  const names = [...members.keys()].sort()
  return `{${names.map((name) => `${JSON.stringify(name)}:${members.get(name)}`).join()}}`
}

/** Whether every place can have a value of its own, none of those taken (Kuhn's matching). */
export function canSeat(
  places: readonly ReadonlySet<string>[],
  taken: ReadonlySet<string>,
): boolean {
  const [first] = places
  if (first && places.every((values) => values === first)) {
    let free = first.size
    for (const value of taken) if (first.has(value)) free--
    return free >= places.length
  }
  const owner = new Map<string, number>()
  const seat = (place: number, tried: Set<string>): boolean => {
    spend(places[place]!.size / 8)
    for (const value of places[place]!) {
      if (taken.has(value) || tried.has(value)) continue
      tried.add(value)
      const other = owner.get(value)
      if (other === undefined || seat(other, tried)) {
        owner.set(value, place)
        return true
      }
    }
    return false
  }
  return places.every((_, place) => seat(place, new Set()))
}
