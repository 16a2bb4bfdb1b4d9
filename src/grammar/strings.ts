// Strings as bytes of a JSON text: UTF-8 and escapes on one side, characters of a language on the other. The decoder says
// which characters a half-read one may still become, and the language whether one of them leads on. `\u0041` is `A`,
// surrogate escapes pair up, an unpaired one is refused. Length bounds are counters beside the automaton, not states of it.
// A text outside quotes is read by the same tables, where a quote and a backslash are characters like all others, and one
// between Python's quotes, whose escapes are those that Python and JSON read alike: a pair of surrogates is none.

import { anyChar, intersect, lastCodePoint } from "./charset.ts"
import { anything, classesIn, type Dfa, step } from "./dfa.ts"
import { TooLarge } from "./work.ts"

/** Between two characters of a string, or inside one. */
export interface Decoding {
  readonly id: number
  readonly kind:
    | "between"
    | "plain"
    | "utf8"
    | "backslash"
    | "hex"
    | "pairBackslash"
    | "pairU"
    | "pairHex"
    | "single"
    | "double"
    | "pythonBackslash"
    | "pythonHex"
  /** What has been read of the character: its bits so far, or the high surrogate's and its own; or the quote around it. */
  readonly value: number
  /** Bytes (utf8) or hexadecimal digits still to come. */
  readonly missing: number
  /** The characters it may still become. */
  readonly from: number
  readonly to: number
  next: (Decoding | number | undefined)[]
}

const known = new Map<string, Decoding>()

export const between = decoding("between", 0, 0, 0, lastCodePoint)
/** Between two characters of a text that is not quoted. */
export const plain = decoding("plain", 0, 0, 0, lastCodePoint)
/** Between two characters of a Python string, by its quotes. */
const single = decoding("single", 0, 0, 0, lastCodePoint)
const double = decoding("double", 0, 0, 0, lastCodePoint)

export const QUOTE = 0x22
export const APOSTROPHE = 0x27

/** After one more byte: a place inside a character, the finished character's code point, or -1. Quotes are the caller's. */
export function decode(at: Decoding, byte: number): Decoding | number {
  let to = at.next[byte]
  if (to === undefined) {
    to = read(at, byte)
    at.next[byte] = to
  }
  return to
}

function read(at: Decoding, byte: number): Decoding | number {
  switch (at.kind) {
    case "between":
      return first(byte)
    case "plain":
      return firstOfPlain(byte)
    case "utf8":
      return byte >= 0x80 && byte < 0xc0
        ? utf8((at.value << 6) | (byte & 63), at.missing - 1, at)
        : -1
    case "backslash": {
      if (byte === 0x75) return decoding("hex", 0, 4, 0, lastCodePoint)
      const escaped = '"\\/bfnrt'.indexOf(String.fromCharCode(byte))
      return escaped < 0 ? -1 : '"\\/\b\f\n\r\t'.charCodeAt(escaped)
    }
    case "hex":
      return hex(at, byte)
    case "pairBackslash":
      return byte === 0x5c ? decoding("pairU", at.value, 0, at.from, at.to) : -1
    case "pairU":
      return byte === 0x75 ? decoding("pairHex", at.value, 4, at.from, at.to) : -1
    case "pairHex":
      return pairHex(at, byte)
    case "single":
      return firstOfPython(byte, APOSTROPHE)
    case "double":
      return firstOfPython(byte, QUOTE)
    case "pythonBackslash": {
      if (byte === 0x75) return decoding("pythonHex", 0, 4, 0, 0xffff)
      const escaped = "\\bfnrt".indexOf(String.fromCharCode(byte))
      if (escaped >= 0) return "\\\b\f\n\r\t".charCodeAt(escaped)
      return byte === at.value ? byte : -1
    }
    case "pythonHex":
      return pythonHex(at, byte)
  }
}

function first(byte: number): Decoding | number {
  if (byte === 0x5c) return decoding("backslash", 0, 0, 0, lastCodePoint)
  return byte < 0x20 || byte === QUOTE ? -1 : firstOfPlain(byte)
}

function firstOfPython(byte: number, quote: number): Decoding | number {
  if (byte === 0x5c) return decoding("pythonBackslash", quote, 0, 0, 0xffff)
  return byte < 0x20 || byte === quote ? -1 : firstOfPlain(byte)
}

function firstOfPlain(byte: number): Decoding | number {
  if (byte < 0x80) return byte
  if (byte >= 0xc2 && byte < 0xe0) return utf8(byte & 31, 1)
  if (byte >= 0xe0 && byte < 0xf0) return utf8(byte & 15, 2)
  return byte >= 0xf0 && byte < 0xf5 ? utf8(byte & 7, 3) : -1
}

const shortest = [0, 0x80, 0x800, 0x10000]

function utf8(value: number, missing: number, after?: Decoding): Decoding | number {
  if (missing === 0) return value
  const low = Math.max(value << (6 * missing), after?.from ?? shortest[missing]!)
  const high = Math.min(((value + 1) << (6 * missing)) - 1, lastCodePoint)
  const isSurrogate = low >= 0xd800 && high <= 0xdfff
  return low > high || isSurrogate ? -1 : decoding("utf8", value, missing, low, high)
}

function hex(at: Decoding, byte: number): Decoding | number {
  const digit = hexDigit(byte)
  if (digit < 0) return -1
  const value = at.value * 16 + digit
  const missing = at.missing - 1
  const low = value << (4 * missing)
  const high = ((value + 1) << (4 * missing)) - 1
  if (missing === 0) {
    if (value >= 0xdc00 && value <= 0xdfff) return -1
    if (value < 0xd800 || value > 0xdfff) return value
    const pair = 0x10000 + (value - 0xd800) * 0x400
    return decoding("pairBackslash", pair, 0, pair, pair + 0x3ff)
  }
  if (low >= 0xdc00 && high <= 0xdfff) return -1
  if (low >= 0xd800 && high <= 0xdbff) {
    const end = 0x10000 + (high - 0xd800) * 0x400 + 0x3ff
    return decoding("hex", value, missing, 0x10000 + (low - 0xd800) * 0x400, end)
  }
  // A range that touches the high surrogates stands for every pair they begin, too.
  return decoding(
    "hex",
    value,
    missing,
    low,
    high >= 0xd800 && low <= 0xdbff ? lastCodePoint : high,
  )
}

function pythonHex(at: Decoding, byte: number): Decoding | number {
  const digit = hexDigit(byte)
  if (digit < 0) return -1
  const value = at.value * 16 + digit
  const missing = at.missing - 1
  const low = value << (4 * missing)
  if (low >= 0xd800 && low <= 0xdfff) return -1
  if (missing === 0) return value
  const high = ((value + 1) << (4 * missing)) - 1
  return decoding("pythonHex", value, missing, low, low === 0xd000 ? 0xd7ff : high)
}

function pairHex(at: Decoding, byte: number): Decoding | number {
  const digit = hexDigit(byte)
  if (digit < 0) return -1
  const missing = at.missing - 1
  if (missing === 3) return digit === 0xd ? decoding("pairHex", at.value, 3, at.from, at.to) : -1
  if (missing === 2) {
    if (digit < 0xc) return -1
    const from = at.value + (digit - 0xc) * 0x100
    return decoding("pairHex", from, 2, from, from + 0xff)
  }
  if (missing === 1) {
    const from = at.value + digit * 16
    return decoding("pairHex", from, 1, from, from + 15)
  }
  return at.value + digit
}

/** What an escape is needed for, or often used for. Were `\u0041` for `A` followed too, no text would be without a choice. */
const escapeWorthy: readonly [number, number][] = [
  [0, 0x1f],
  [0x22, 0x22],
  [0x2f, 0x2f],
  [0x5c, 0x5c],
  [0x7f, lastCodePoint],
]

const pythonEscapeWorthy: readonly [number, number][] = [
  [0, 0x1f],
  [QUOTE, QUOTE],
  [APOSTROPHE, APOSTROPHE],
  [0x5c, 0x5c],
  [0x7f, 0xd7ff],
  [0xe000, 0xffff],
]

/** The characters that a place may become, as far as that is worth following. */
export function rangesOf(decoding: Decoding): readonly (readonly [number, number])[] {
  if (decoding.kind === "pythonBackslash") return pythonEscapeWorthy
  return decoding.kind === "backslash" ? escapeWorthy : spansOf(decoding)
}

/** The characters that a place may become. After `\ud` these are the last before the surrogates, and all pairs. */
export function spansOf({ kind, from, to }: Decoding): readonly (readonly [number, number])[] {
  const isSplit = kind === "hex" && from === 0xd000 && to === lastCodePoint
  return isSplit
    ? [
        [from, 0xd7ff],
        [0x10000, to],
      ]
    : [[from, to]]
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}

function decoding(
  kind: Decoding["kind"],
  value: number,
  missing: number,
  from: number,
  to: number,
): Decoding {
  const key = `${kind} ${value} ${missing} ${from} ${to}`
  let entry = known.get(key)
  if (!entry) {
    entry = { id: known.size, kind, value, missing, from, to, next: [] }
    known.set(key, entry)
  }
  return entry
}

let made = 0
const endless = Number.POSITIVE_INFINITY
export const unread = -2

/** As the characters of a JSON string, escapes and all; of a Python string in one of its quotes; or as they are. */
export type TextForm = "quoted" | "single" | "double" | "plain"

const betweenIn: Readonly<Record<TextForm, Decoding>> = { quoted: between, single, double, plain }

/** The strings of a language whose lengths, in characters, lie within bounds. */
export class StringLanguage {
  readonly id = ++made
  readonly dfa: Dfa
  readonly min: number
  readonly max: number
  /** Where each of its characters begins. */
  readonly between: Decoding
  /** The byte that closes its quotes. */
  readonly quote: number
  /** Any characters will do; only their number counts. */
  readonly free: boolean
  readonly shortest: Float64Array // [states]  fewest characters to acceptance
  readonly longest: Float64Array // [states]  most characters to acceptance, perhaps Infinity
  private readonly ways: AcceptingLengths | undefined
  private readonly endlessStates: Uint8Array
  private readonly places = new Map<number, StringPlace>()
  private readonly list: StringPlace[] = []
  private readonly inOtherForms = new Map<TextForm, StringLanguage>()
  /** Where each byte leads from each place, by index; `unread` where nobody asked yet. It is replaced when it grows. */
  table = new Int32Array(16 * 256).fill(unread) // [places, 256]
  /** The fewest characters from each place to the end of a string, the one being read included. It is replaced, too. */
  least = new Float64Array(16) // [places]
  /** Whether each place is between two characters. It is replaced, too. */
  whole = new Uint8Array(16) // [places]
  /** The most that any place needs to its end. */
  readonly farthest: number

  /** @throws TooLarge when the lengths of the language repeat too late to be tabulated. */
  constructor(dfa: Dfa, min: number, max: number, form: TextForm = "quoted") {
    this.dfa = dfa
    this.min = min
    this.max = max
    this.between = betweenIn[form]
    this.quote = form === "single" ? APOSTROPHE : QUOTE
    this.free = dfa === anything
    this.shortest = shortestPaths(dfa)
    this.longest = longestPaths(dfa)
    this.ways = min > 0 && !this.free ? new AcceptingLengths(dfa) : undefined
    this.farthest = this.shortest.reduce((most, n) => (n > most && n < endless ? n : most), 0) + 1
    this.endlessStates = Uint8Array.from(this.longest, (n) => (n === endless ? 1 : 0))
  }

  /** The same texts in another form. */
  as(form: TextForm): StringLanguage {
    const known = this.inOtherForms.get(form)
    const language = known ?? new StringLanguage(this.dfa, this.min, this.max, form)
    this.inOtherForms.set(form, language)
    return language
  }

  /**
   * A length that stands for all with which tokens of at most so many characters can do the same inside a string:
   * undefined when no bound is in reach.
   */
  roomFor(length: number, chars: number): number | undefined {
    const above = this.max - length >= chars + this.farthest
    return above && (length >= this.min || this.free) ? undefined : length
  }

  /** Whether strings go on without end from every place. */
  get isWide(): boolean {
    return this.max === endless && this.endlessStates.every((yes) => yes === 1)
  }

  /** Whether strings without end, or too many to count, go on from a place. */
  isEndless(state: number, length: number): boolean {
    return this.endlessStates[state] === 1 && this.max - length > this.farthest + 8
  }

  isEmpty(): boolean {
    return this.dfa.start < 0 || !this.lives(this.dfa.start, 0)
  }

  has(text: string): boolean {
    let state = this.dfa.start
    let length = 0
    for (const character of text) {
      if (state < 0) return false
      const c = character.codePointAt(0)!
      state = c >= 0xd800 && c <= 0xdfff ? -1 : step(this.dfa, state, c)
      length++
    }
    return state >= 0 && this.accepts(state, length)
  }

  accepts(state: number, length: number): boolean {
    return this.dfa.accepts[state] === 1 && length >= this.min && length <= this.max
  }

  /** Whether a string of `length` characters that led to `state` can still be completed. */
  lives(state: number, length: number): boolean {
    const low = Math.max(0, this.min - length)
    const high = this.max - length
    if (this.shortest[state]! > high || this.longest[state]! < low) return false
    if (this.shortest[state]! >= low || this.free || !this.ways) return true
    return this.ways.between(state, low, high)
  }

  /** A number of characters, as far as it can matter. */
  counted(length: number): number {
    if (this.max !== Number.POSITIVE_INFINITY) return length
    return length < this.min ? length : this.min
  }

  /** All strings when they are at most `limit`; undefined otherwise. */
  words(limit: number): string[] | undefined {
    return this.isEmpty() ? [] : this.completions(this.dfa.start, 0, this.between, limit)
  }

  /** How strings go on from a place, when there are at most `limit` ways; undefined otherwise. */
  completions(state: number, length: number, at: Decoding, limit: number): string[] | undefined {
    const texts: string[] = []
    let front: [number, string][] = [[state, ""]]
    for (let far = length; front.length > 0; far++) {
      const ahead: [number, string][] = []
      const isFirst = far === length && at !== this.between
      for (const [q, text] of front) {
        if (!isFirst && this.accepts(q, far)) texts.push(text)
        for (const [from, to] of intervals(this.dfa, isFirst ? at : this.between)) {
          const next = step(this.dfa, q, from)
          if (next < 0 || !this.lives(next, far + 1)) continue
          if (texts.length + ahead.length + to - from + 1 > limit) return undefined
          for (let c = from; c <= to; c++) ahead.push([next, text + String.fromCodePoint(c)])
        }
      }
      front = ahead
    }
    return texts.length > limit ? undefined : texts
  }

  /** What `StringPlace.step` says, by index, and remembered: -1 for nothing. */
  read(index: number, byte: number): number {
    const to = this.list[index]!.step(byte)?.index ?? -1
    this.table[index * 256 + byte] = to
    return to
  }

  placeAt(index: number): StringPlace {
    return this.list[index]!
  }

  /** The place before the first character. */
  start(): StringPlace {
    return this.place(this.dfa.start, this.between)
  }

  private grow(): void {
    const table = new Int32Array(this.table.length * 2).fill(unread)
    table.set(this.table)
    this.table = table
    const least = new Float64Array(this.least.length * 2)
    least.set(this.least)
    this.least = least
    const whole = new Uint8Array(this.whole.length * 2)
    whole.set(this.whole)
    this.whole = whole
  }

  place(state: number, decoding: Decoding): StringPlace {
    const key = decoding.id * this.dfa.accepts.length + state
    let place = this.places.get(key)
    if (!place) {
      place = new StringPlace(this, state, decoding, this.list.length)
      this.places.set(key, place)
      this.list.push(place)
      if (place.index * 256 >= this.table.length) this.grow()
      let least = endless
      for (const to of place.targets) least = Math.min(least, this.shortest[to]!)
      this.least[place.index] = least + (place.isBetween ? 0 : 1)
      this.whole[place.index] = place.isBetween ? 1 : 0
    }
    return place
  }
}

/** A state of the language together with a place inside a character. */
export class StringPlace {
  readonly language: StringLanguage
  readonly state: number
  readonly decoding: Decoding
  readonly index: number
  /** States that the character being read may lead to; only the state itself between characters. */
  readonly targets: number[]
  readonly next: (StringPlace | null | undefined)[] = []

  constructor(language: StringLanguage, state: number, decoding: Decoding, index: number) {
    this.language = language
    this.index = index
    this.state = state
    this.decoding = decoding
    if (decoding === language.between) this.targets = [state]
    else {
      const { dfa } = language
      const classes = rangesOf(decoding).flatMap(([from, to]) => classesIn(dfa, from, to))
      const states = new Set(classes.map((c) => dfa.next[state * dfa.classes + c]!))
      this.targets = [...states].filter((to) => to >= 0)
    }
  }

  get isBetween(): boolean {
    return this.decoding === this.language.between
  }

  /** After a byte that is no closing quote; null when no string of the language goes on so, lengths aside. */
  step(byte: number): StringPlace | null {
    let to = this.next[byte]
    if (to === undefined) {
      to = this.after(byte)
      this.next[byte] = to
    }
    return to
  }

  /** Whether, `length` characters being finished, the string can still be completed. */
  lives(length: number): boolean {
    const { language } = this
    if (this.isBetween) return language.lives(this.state, length)
    return this.targets.some((to) => language.lives(to, length + 1))
  }

  private after(byte: number): StringPlace | null {
    const read = decode(this.decoding, byte)
    if (typeof read !== "number") {
      const place = this.language.place(this.state, read)
      return place.targets.length > 0 ? place : null
    }
    if (read < 0 || intersect([read, read], anyChar).length === 0) return null
    const state = step(this.language.dfa, this.state, read)
    return state < 0 ? null : this.language.place(state, this.language.between)
  }
}

/** The ranges of characters that no transition tells apart and that a place may become. */
function intervals(dfa: Dfa, decoding: Decoding): [number, number][] {
  const out: [number, number][] = []
  for (const [from, to] of spansOf(decoding)) {
    dfa.starts.forEach((start, i) => {
      const low = Math.max(start, from)
      const high = Math.min((dfa.starts[i + 1] ?? lastCodePoint + 1) - 1, to)
      if (low <= high && dfa.classOf[i] !== 0) out.push([low, high])
    })
  }
  return out
}

function shortestPaths(dfa: Dfa): Float64Array {
  const count = dfa.accepts.length
  const distances = Float64Array.from(dfa.accepts, (yes) => (yes ? 0 : Number.POSITIVE_INFINITY))
  const into = predecessors(dfa)
  let front: number[] = []
  for (let q = 0; q < count; q++) if (dfa.accepts[q]) front.push(q)
  for (let distance = 1; front.length > 0; distance++) {
    const ahead: number[] = []
    for (const q of front) {
      for (const from of into[q]!) {
        if (distances[from]! <= distance) continue
        distances[from] = distance
        ahead.push(from)
      }
    }
    front = ahead
  }
  return distances
}

// Every state lives, so a state that reaches a cycle has strings without end. The others form no cycle: take them in the
// order in which all their successors are known.
function longestPaths(dfa: Dfa): Float64Array {
  const count = dfa.accepts.length
  const distances = new Float64Array(count).fill(Number.POSITIVE_INFINITY)
  const into = predecessors(dfa)
  const open = new Int32Array(count)
  for (let q = 0; q < count; q++) for (const from of into[q]!) open[from]!++
  const ready: number[] = []
  for (let q = 0; q < count; q++) if (open[q] === 0) ready.push(q)
  for (let q = ready.pop(); q !== undefined; q = ready.pop()) {
    distances[q] = 0
    for (let c = 1; c < dfa.classes; c++) {
      const to = dfa.next[q * dfa.classes + c]!
      if (to >= 0) distances[q] = Math.max(distances[q]!, distances[to]! + 1)
    }
    for (const from of into[q]!) if (--open[from]! === 0) ready.push(from)
  }
  return distances
}

function predecessors({ accepts, next, classes }: Dfa): number[][] {
  const into = Array.from(accepts, (): number[] => [])
  for (let q = 0, i = 0; q < accepts.length; q++) {
    for (let c = 0; c < classes; c++, i++) {
      const to = next[i]!
      if (to >= 0 && into[to]!.at(-1) !== q) into[to]!.push(q)
    }
  }
  return into
}

/** From which states acceptance is exactly k characters away, for every k: a sequence of sets that repeats in the end. */
class AcceptingLengths {
  private readonly rounds: Uint8Array[] = []
  private readonly loopsTo: number

  constructor(dfa: Dfa) {
    const into = predecessors(dfa)
    const seen = new Map<string, number>()
    let current = Uint8Array.from(dfa.accepts)
    for (;;) {
      const key = Buffer.from(current).toString("latin1")
      const before = seen.get(key)
      if (before !== undefined) {
        this.loopsTo = before
        return
      }
      if (this.rounds.length * current.length > 4e6) {
        throw new TooLarge("its lengths and its pattern together are too intricate")
      }
      seen.set(key, this.rounds.length)
      this.rounds.push(current)
      const earlier = new Uint8Array(current.length)
      current.forEach((yes, q) => {
        if (yes) for (const from of into[q]!) earlier[from] = 1
      })
      current = earlier
    }
  }

  between(state: number, low: number, high: number): boolean {
    const last = Math.min(high, Math.max(low, this.loopsTo) + this.rounds.length - this.loopsTo)
    for (let k = low; k <= last; k++) if (this.rounds[this.wrap(k)]![state]) return true
    return false
  }

  private wrap(k: number): number {
    const period = this.rounds.length - this.loopsTo
    return k < this.rounds.length ? k : this.loopsTo + ((k - this.loopsTo) % period)
  }
}
