// What arrays, objects and everybody who walks them know of goals: a goal is a set of literals that one value has to satisfy
// together, a case one way to do so, type by type. They are made and settled in goals.ts, arrays.ts and objects.ts.

import type { Dfa } from "./dfa.ts"
import type { Literal } from "./facts.ts"
import type { Quotes } from "./frames.ts"
import type { NumberLanguage } from "./numbers.ts"
import type { Mark } from "./plain.ts"
import type { SchemaFault } from "./schema-node.ts"
import type { Decoding, StringLanguage, StringPlace } from "./strings.ts"

export interface Goal {
  readonly id: number
  readonly literals: readonly Literal[]
  /** Whether a value satisfies it; set once it is settled. */
  alive: boolean | undefined
  readonly cases: readonly Case[]
  /** Where its first literal stands, for errors. */
  readonly pointer: string
  /** Forgets the cases that no value satisfies. */
  settle(alive: boolean): void
}

/** Whether a goal lives, as far as is known. */
export type Probe = (goal: Goal) => boolean

/** One way for a value to satisfy a goal. */
export interface Case {
  /** The types it may be of, fewer as it is settled. */
  mask: number
  /** Whether it may be of one of these types. */
  has(mask: number): boolean
  /** Goals of what may lie in it. */
  leadsTo(): Iterable<Goal>
  lives(probe: Probe): boolean
  /** Leaves only the types that have a value. */
  prune(probe: Probe): void
  /** The texts it may be, bounds on their length included. */
  wholeLanguage(): Dfa
  readonly numbers: NumberLanguage
  /** The numbers but those of some canonical texts. */
  numbersWithout(avoid: ReadonlySet<string>): NumberLanguage
  readonly strings: StringLanguage
  readonly array: ArrayPlaces
  readonly object: ObjectPlaces
}

/** Where goals come from, and what is said when one cannot be kept to. */
export interface GoalSource {
  /** Equal sets are one goal. */
  goal(literals: Iterable<Literal>): Goal
  /** The names, as texts, that satisfy the literals. */
  language(literals: readonly Literal[]): Dfa
  readonly literals: { negated(literal: Literal): Literal; readonly never: Literal }
  /** What no text holds, names included. */
  readonly without: Mark | undefined
  fault(goal: Goal, reason: string): SchemaFault
  unenforceable(pointer: string, keyword: string, reason: string): SchemaFault
}

/** The places between the items of an array. */
export interface ArrayPlaces {
  readonly id: number
  readonly start: ArrayState
  /** Whether items may not repeat. */
  readonly unique: boolean
  /** From here on what is found out stays true. */
  settle(): void
  /** Whether items that may not repeat have too few values for as many as there have to be. Asked once it is settled. */
  lacksValues(): boolean
  canClose(state: ArrayState): boolean
  /** The items that may come next such that the array can be finished after them. */
  ways(state: ArrayState): readonly ItemWay[]
  /** Of the items that still have to come those that have few values, each with its values. */
  scarcePlaces(state: ArrayState): ReadonlySet<string>[]
}

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

/** The places between the members of an object, and those inside their names. */
export interface ObjectPlaces {
  readonly id: number
  readonly start: ObjectState
  readonly firstPlace: NamePlace
  /** Mentioned names, sorted. */
  readonly names: readonly string[]
  /** From here on what is found out stays true. */
  settle(): void
  canClose(state: ObjectState): boolean
  /** Whether any member may follow. */
  canGrow(state: ObjectState): boolean
  /** After a character of a name. */
  advance(place: NamePlace, codePoint: number): NamePlace
  /** The ways on when a name ends here; none when it may not. */
  finished(state: ObjectState, place: NamePlace): readonly MemberWay[]
  /** Whether a name that has come so far can still become one that may come next. */
  placeLives(state: ObjectState, place: NamePlace, decoding: Decoding): boolean
  after(state: ObjectState, place: NamePlace, owed: number): ObjectState
  describe(state: ObjectState): string
  /**
   * The same as far as one token can tell. Which other names there were shows only where one of them is closed again, and
   * where any name may come they never run out.
   */
  describeFor(state: ObjectState, quotes: Quotes): string
  /** What one token can tell of a half-written name: which mentioned ones it may become, and which others it would close. */
  describePlace(state: ObjectState, place: NamePlace, decoding: Decoding, quotes: Quotes): string
  placeOf(name: string): NamePlace
  /** Where a mentioned name ends. */
  endOf(k: number): NamePlace
  /** The place, in the language of the names that are neither mentioned nor seen, of a name that has come so far. */
  otherNames(state: ObjectState, place: NamePlace): StringPlace | undefined
  /** Whether names without end, all of them new, are allowed from here. */
  hasEndlessNames(state: ObjectState, place: NamePlace, decoding?: Decoding): boolean
  /** The mentioned names that may still come of a half-written one, and their ways on. */
  mentionedWays(state: ObjectState, place: NamePlace, decoding?: Decoding): [string, MemberWay][]
}

/** A member that may come next, its name being chosen, and what is still owed after it. */
export interface MemberWay {
  readonly goal: Goal
  readonly owed: number
}

/** The members so far. */
export interface ObjectState {
  /** One bit for each mentioned name. */
  readonly seen: Uint32Array
  /** Names that are not mentioned. */
  readonly others: readonly string[]
  readonly count: number
  /** Bits of the "some" that no member has met yet. */
  readonly owed: number
  /** What is known of each mentioned name, then of each class, as the next one. */
  readonly ways: (readonly MemberWay[] | undefined)[]
  /** Equal states of an object have equal descriptions; set when asked for. */
  description: string | undefined
  /** How many required members are not among them; set when asked for. */
  missing: number | undefined
}

/** A place in a name. Names from `low` up to, not including, `high` begin like it. */
export interface NamePlace {
  readonly text: string
  readonly state: number
  readonly low: number
  readonly high: number
}
