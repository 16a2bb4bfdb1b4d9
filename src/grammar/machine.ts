// How a value is read: what its first byte begins, and what stands between the items of an array and the members of an
// object. Punctuation is compact; where the format asks for it, one blank may follow a comma and a colon. In Python's notation
// words and texts are Python's; the names of members are in double quotes, as in JSON.

import { Distinct, type Kept } from "./distinct.ts"
import {
  type Context,
  Frame,
  FrameRest,
  type Inside,
  type Notation,
  type Reach,
  Rest,
  type Special,
  unmentioned,
} from "./frames.ts"
import type {
  ArrayPlaces,
  ArrayState,
  Case,
  Goal,
  NamePlace,
  ObjectPlaces,
  ObjectState,
} from "./goal.ts"
import { LiteralFrame } from "./literal-frame.ts"
import { beginMarked, isBare } from "./marked-text.ts"
import { NumberFrame, StringFrame, type Word, WordFrame } from "./scalars.ts"
import { types } from "./schema-node.ts"
import { APOSTROPHE, between, type Decoding, decode, QUOTE, type StringPlace } from "./strings.ts"

const comma = 0x2c
const blank = 0x20
const less = 0x3c
const NONE = "None".charCodeAt(0)

/** By their first bytes. */
const json = wordsOf({ true: "true", false: "false", null: "null" })
const python = wordsOf({ true: "True", false: "False", null: "None" })
const words: Readonly<Record<Notation, ReadonlyMap<number, Word>>> = {
  json,
  python,
  // A template in Python's hands shows null so.
  marked: new Map([...json, [NONE, python.get(NONE)!]]),
}

function wordsOf(written: Record<Word["value"], string>): ReadonlyMap<number, Word> {
  const values = ["true", "false", "null"] as const
  return new Map(
    values.map((value) => [written[value].charCodeAt(0), { value, written: written[value] }]),
  )
}

/** Before the first byte of a value. */
export class ValueFrame extends Frame {
  readonly goal: Goal
  private readonly rest: Rest
  private readonly kept: Kept | undefined
  private readonly mayBlank: boolean

  constructor(context: Context, goal: Goal, rest: Rest, kept?: Kept, mayBlank = false) {
    super(context)
    this.goal = goal
    this.rest = rest
    this.kept = kept
    this.mayBlank = mayBlank && context.spaced
  }

  step(byte: number, out: Frame[]): void {
    const { context, rest, kept } = this
    if (byte === blank && this.mayBlank) {
      out.push(new ValueFrame(context, this.goal, rest, kept))
      return
    }
    for (const c of this.goal.cases) {
      switch (byte) {
        case QUOTE:
          if (c.has(types.string)) {
            this.startString(c, context.notation === "python" ? "double" : "quoted", out)
          }
          break
        case 0x7b:
          if (c.has(types.object)) {
            const distinct = kept && Distinct.object(kept)
            pushLiving(
              new ObjectFrame(context, c.object, c.object.start, rest, "open", distinct),
              out,
            )
          }
          break
        case 0x5b:
          if (c.has(types.array)) {
            const distinct = Distinct.array(kept, c.array.unique)
            pushLiving(new ArrayFrame(context, c.array, c.array.start, rest, "open", distinct), out)
          }
          break
        case less:
          // Texts that are compared with others are in quotes.
          if (context.notation === "marked" && !kept && c.has(types.string)) {
            beginMarked(context, c, rest, out)
          }
          break
        case APOSTROPHE:
          // Texts that are compared with others have one spelling of their quotes.
          if (context.notation === "python" && !kept && c.has(types.string)) {
            this.startString(c, "single", out)
          }
          break
        default:
          this.startWord(c, byte, out)
          if (c.has(types.number)) this.startNumber(c, byte, out)
      }
    }
  }

  private startString(c: Case, form: "quoted" | "single" | "double", out: Frame[]): void {
    const { context, rest, kept } = this
    const language = form === "quoted" ? c.strings : c.strings.as(form)
    const frame = new StringFrame(context, language.start(), 0, rest, kept, "", 0)
    if (frame.lives()) out.push(frame)
  }

  private startNumber(c: Case, byte: number, out: Frame[]): void {
    const language = this.kept ? c.numbersWithout(this.kept.avoid) : c.numbers
    const node = language.start.step(byte)
    const raw = this.kept && String.fromCharCode(byte)
    if (node) out.push(new NumberFrame(this.context, node, this.rest, raw))
  }

  private startWord(c: Case, byte: number, out: Frame[]): void {
    const word = words[this.context.notation].get(byte)
    if (!word || !c.has(types[word.value]) || this.kept?.avoid.has(word.value)) return
    out.push(new WordFrame(this.context, word, 1, this.rest))
  }

  protected describe(reach: Reach): string {
    const kept = this.kept ? `!${[...this.kept.avoid].join()}` : ""
    return `v${this.goal.id}${this.mayBlank ? "_" : ""}${kept}|${this.rest.signature(reach)}`
  }
}

function pushLiving(frame: ArrayFrame | ObjectFrame, out: Frame[]): void {
  if (frame.lives()) out.push(frame)
}

type Phase = "open" | "after" | "next"

/** Between the items of an array. */
class ArrayFrame extends Frame {
  private readonly array: ArrayPlaces
  private readonly state: ArrayState
  private readonly rest: Rest
  private readonly phase: Phase
  private readonly distinct: Distinct | undefined

  constructor(
    context: Context,
    array: ArrayPlaces,
    state: ArrayState,
    rest: Rest,
    phase: Phase,
    distinct: Distinct | undefined,
  ) {
    super(context)
    this.array = array
    this.state = state
    this.rest = rest
    this.phase = phase
    this.distinct = distinct
  }

  lives(): boolean {
    return this.distinct?.leavesArray(this.array, this.state) ?? true
  }

  step(byte: number, out: Frame[]): void {
    if (byte === 0x5d && this.phase !== "next") {
      if (!this.array.canClose(this.state)) return
      const value = this.distinct?.arrayValue()
      if (value === undefined || !this.distinct?.avoids(value)) this.rest.resume(value, out)
    } else if (this.phase !== "after") this.item(byte, out)
    else if (byte === comma && this.grows()) {
      out.push(
        new ArrayFrame(this.context, this.array, this.state, this.rest, "next", this.distinct),
      )
    }
  }

  private grows(): boolean {
    const ways = this.array.ways(this.state)
    const { distinct } = this
    if (!distinct) return ways.length > 0
    return ways.some((way) => distinct.itemKept(this.array, way) !== undefined)
  }

  private item(byte: number, out: Frame[]): void {
    const { context, distinct } = this
    if (byte === blank && this.phase === "open") return
    for (const way of this.array.ways(this.state)) {
      const kept = distinct?.itemKept(this.array, way)
      if (distinct && !kept) continue
      const rest = new ArrayRest(context, this.array, way.to, this.rest, distinct)
      new ValueFrame(context, way.goal, rest, kept, true).step(byte, out)
    }
  }

  protected describe(reach: Reach): string {
    const { array, state, phase, rest } = this
    const distinct = this.distinct?.describe() ?? ""
    return `a${array.id}:${state.key}${phase}${distinct}|${rest.signature(reach)}`
  }
}

class ArrayRest extends Rest {
  private readonly array: ArrayPlaces
  private readonly to: ArrayState
  private readonly rest: Rest
  private readonly distinct: Distinct | undefined

  constructor(
    context: Context,
    array: ArrayPlaces,
    to: ArrayState,
    rest: Rest,
    distinct: Distinct | undefined,
  ) {
    super(context)
    this.array = array
    this.to = to
    this.rest = rest
    this.distinct = distinct
  }

  resume(value: string | undefined, out: Frame[]): void {
    const distinct = this.distinct?.withItem(value!)
    out.push(new ArrayFrame(this.context, this.array, this.to, this.rest, "after", distinct))
  }

  protected describe(reach: Reach): string {
    const { array, to, rest, distinct } = this
    return `A${array.id}:${to.key}${distinct?.describe() ?? ""}|${rest.signature(reach)}`
  }
}

/** Between the members of an object. */
class ObjectFrame extends Frame {
  readonly object: ObjectPlaces
  readonly state: ObjectState
  readonly rest: Rest
  readonly distinct: Distinct | undefined
  private readonly phase: Phase
  private nextMembers: number

  constructor(
    context: Context,
    object: ObjectPlaces,
    state: ObjectState,
    rest: Rest,
    phase: Phase,
    distinct: Distinct | undefined,
  ) {
    super(context)
    this.object = object
    this.state = state
    this.rest = rest
    this.phase = phase
    this.distinct = distinct
    this.nextMembers = 0
  }

  lives(): boolean {
    return this.distinct?.leavesObject(this.object, this.state) ?? true
  }

  step(byte: number, out: Frame[]): void {
    const { context, object, state, rest, distinct } = this
    if (byte === 0x7d && this.phase !== "next") {
      if (!object.canClose(state)) return
      const value = distinct?.objectValue()
      if (value === undefined || !distinct?.avoids(value)) rest.resume(value, out)
    } else if (byte === QUOTE && this.phase !== "after") {
      if (this.grows()) out.push(new NameFrame(context, this, object.firstPlace, between))
    } else if (byte === comma && this.phase === "after") {
      if (this.grows()) out.push(new ObjectFrame(context, object, state, rest, "next", distinct))
    } else if (byte === blank && this.phase === "next" && context.spaced) {
      out.push(new BlankFrame(context, this))
    } else if (this.phase !== "after" && context.notation === "marked") this.bareName(byte, out)
  }

  /** Mentioned names may stand without quotes. */
  private bareName(byte: number, out: Frame[]): void {
    const { context, object } = this
    object.names.forEach((name, k) => {
      const bytes = Buffer.from(name)
      if (bytes[0] !== byte || !isBare(name) || !this.grows()) return
      for (const frame of new NameFrame(context, this, object.endOf(k), between).ended()) {
        if (bytes.length === 1) out.push(frame)
        else out.push(new LiteralFrame(context, bytes, 1, new FrameRest(frame)))
      }
    })
  }

  private grows(): boolean {
    if (!this.object.canGrow(this.state)) return false
    return this.distinct?.objectGrows(this.object, this.state) ?? true
  }

  /** The signature of what is known of the members so far, wherever between them we are. */
  members(reach: Reach): number {
    if (reach === "all") return this.context.signature(this.describeMembers(reach))
    this.nextMembers ||= this.context.signature(this.describeMembers(reach))
    return this.nextMembers
  }

  protected describe(reach: Reach): string {
    return `o${this.phase}${this.members(reach)}`
  }

  private describeMembers(reach: Reach): string {
    const { context, object, state, rest, distinct } = this
    return `o${describeMembers(context, object, state, distinct, reach)}|${rest.signature(reach)}`
  }
}

// Members that are compared with others are told apart whole.
function describeMembers(
  { quotes }: Context,
  object: ObjectPlaces,
  state: ObjectState,
  distinct: Distinct | undefined,
  reach: Reach,
): string {
  if (distinct) return object.describe(state) + distinct.describe()
  return reach === "all" ? object.describe(state) : object.describeFor(state, quotes)
}

/** One blank has been taken; what follows is what was expected before it. */
class BlankFrame extends Frame {
  private readonly before: Frame

  constructor(context: Context, before: Frame) {
    super(context)
    this.before = before
  }

  step(byte: number, out: Frame[]): void {
    if (byte !== blank) this.before.step(byte, out)
  }

  protected describe(reach: Reach): string {
    return `_${this.before.signature(reach)}`
  }
}

/** Inside a member's name. */
export class NameFrame extends Frame {
  private readonly owner: ObjectFrame
  private readonly place: NamePlace
  private readonly decoding: Decoding

  constructor(context: Context, owner: ObjectFrame, place: NamePlace, decoding: Decoding) {
    super(context)
    this.owner = owner
    this.place = place
    this.decoding = decoding
  }

  step(byte: number, out: Frame[]): void {
    const { object, state, distinct } = this.owner
    if (byte === QUOTE && this.decoding === between) {
      out.push(...this.closed(this.place))
      return
    }
    const read = decode(this.decoding, byte)
    if (read === -1) return
    const finished = typeof read === "number"
    const place = finished ? object.advance(this.place, read) : this.place
    const decoding = finished ? between : read
    if (!object.placeLives(state, place, decoding)) return
    if (distinct?.nameLives(object, state, place, decoding) ?? true) {
      out.push(new NameFrame(this.context, this.owner, place, decoding))
    }
  }

  /** Undefined when it has to be asked byte by byte. */
  inside(): Inside | undefined {
    if (this.decoding !== between) return undefined
    const { place } = this
    const { object, state, distinct } = this.owner
    const others = object.otherNames(state, place)
    if (distinct?.isWatched && others && !others.language.isEndless(others.state, 0)) {
      return undefined
    }
    const special: Special[] = []
    for (let k = place.low; k < place.high; k++) {
      const end = object.endOf(k)
      const closed = () => this.closed(end)
      const leads = distinct ? closed().length > 0 : object.finished(state, end).length > 0
      special.push({ rest: object.names[k]!.slice(place.text.length), leads, closed })
    }
    for (const name of new Set([...state.others, ...(distinct?.mentions ?? [])])) {
      if (!name.startsWith(place.text)) continue
      const end = object.placeOf(name)
      if (end.low < end.high && object.names[end.low] === name) continue
      special.push({
        rest: name.slice(place.text.length),
        leads: false,
        closed: () => this.closed(end),
      })
    }
    const byState = new Map<number, Frame[]>()
    const closed = ({ state: at }: StringPlace) => {
      const frames =
        byState.get(at) ?? this.closed({ text: unmentioned, state: at, low: 0, high: 0 })
      byState.set(at, frames)
      return frames
    }
    return {
      place: others,
      length: 0,
      closed,
      special,
      isKept: true,
      key: this.owner.members("token"),
    }
  }

  /** What follows when the name ends here. */
  ended(): Frame[] {
    return this.closed(this.place)
  }

  /** What follows when the name is closed at a place. */
  private closed(place: NamePlace): Frame[] {
    const { context } = this
    const { object, state, rest: after, distinct } = this.owner
    const out: Frame[] = []
    for (const way of object.finished(state, place)) {
      const kept = distinct?.memberKept(object, state, place, way)
      if (distinct && !kept) continue
      const next = object.after(state, place, way.owed)
      const rest = new ObjectRest(context, object, next, after, place.text, distinct)
      out.push(new ColonFrame(context, new ValueFrame(context, way.goal, rest, kept, true)))
    }
    return out
  }

  protected describe(reach: Reach): string {
    const { owner, place, decoding } = this
    const { object, state, distinct } = owner
    const isNear = reach === "token" && !distinct
    const text = isNear
      ? object.describePlace(state, place, decoding, this.context.quotes)
      : `=${place.text}`
    return `k${owner.members(reach)}:${decoding.id}:${text}`
  }
}

class ColonFrame extends Frame {
  private readonly value: ValueFrame

  constructor(context: Context, value: ValueFrame) {
    super(context)
    this.value = value
  }

  step(byte: number, out: Frame[]): void {
    if (byte === 0x3a) out.push(this.value)
  }

  protected describe(reach: Reach): string {
    return `:${this.value.signature(reach)}`
  }
}

class ObjectRest extends Rest {
  private readonly object: ObjectPlaces
  private readonly state: ObjectState
  private readonly rest: Rest
  private readonly name: string
  private readonly distinct: Distinct | undefined

  constructor(
    context: Context,
    object: ObjectPlaces,
    state: ObjectState,
    rest: Rest,
    name: string,
    distinct: Distinct | undefined,
  ) {
    super(context)
    this.object = object
    this.state = state
    this.rest = rest
    this.name = name
    this.distinct = distinct
  }

  resume(value: string | undefined, out: Frame[]): void {
    const { context, object, state, rest } = this
    const distinct = this.distinct?.withMember(this.name, value!)
    out.push(new ObjectFrame(context, object, state, rest, "after", distinct))
  }

  protected describe(reach: Reach): string {
    const { context, object, state, rest, distinct } = this
    const name = distinct ? this.name : ""
    const members = describeMembers(context, object, state, distinct, reach)
    return `O${members}${name}|${rest.signature(reach)}`
  }
}
