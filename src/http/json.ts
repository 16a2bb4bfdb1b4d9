// JSON, exactly. Reading keeps what a double would lose: an integer beyond 2^53 becomes a bigint with every digit, so a
// seed arrives as it was sent. 1.0 is 1, but what is read remembers that it was spelled as a float, for who tells the two
// apart. Writing takes bigints and text that is JSON already. Duplicate keys: the last one wins, as everywhere; half a
// surrogate pair is no character and becomes U+FFFD, so whatever leaves here can be encoded.
//
// A text may be megabytes of whatever a client likes, so it is read in pieces (turns.ts), and what reading it may cost is
// bounded while it is read: its depth, the values that take memory, the members of one object, the digits of a number.

import { problem } from "../errors.ts"
import { atOnce, type Work } from "./turns.ts"

export type Json =
  | null
  | boolean
  | number
  | bigint
  | string
  | readonly Json[]
  | { readonly [key: string]: Json | undefined }
  | JsonText

/** A map of JSON, as it was read. */
export type Members = Readonly<Record<string, Json>>

export function isMembers(value: Json | undefined): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

/** Text that is JSON already and is written as it stands. */
export class JsonText {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

export const MAX_DEPTH = 256
/** Objects, lists and texts, names of members included; numbers and words in a list cost next to nothing. */
export const MAX_VALUES = 100_000
/** Of one object: beyond this only listing their names takes milliseconds. */
export const MAX_MEMBERS = 16_384
export const MAX_DIGITS = 400
/** Of one text: numbers whose spelling is remembered. More than tools and arguments hold. */
export const MAX_FLOATS = 4096

/** Characters read between two turns, each value counted as some more: a tenth of a millisecond or two. */
export const PIECE = 16_384
const VALUE_COST = 16 // characters

/** Reads one short JSON text. Throws the problem `invalid_json`, which says where. */
export function readJson(text: string): Json {
  return atOnce(reading(text))
}

/** Reads one JSON text of any length; yields the characters and values read. */
export function* reading(text: string): Work<Json> {
  const reader = new Reader(text)
  while (!reader.goOn()) yield reader.spent
  return reader.value
}

/**
 * Of what was read: the places of numbers that are whole and were spelled as Python spells floats, 1.0 or 1e3, and of what
 * holds such numbers.
 */
const floats = new WeakMap<object, Set<string | number>>()

/**
 * What was read for programs that tell 1.0 from 1, as Python's do: such numbers are objects, `Object(1)`, which other threads
 * receive as they are.
 */
export function withFloats(value: Json): unknown {
  const places = isContainer(value) ? floats.get(value) : undefined
  if (!places) return value
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<
    string | number,
    unknown
  >
  for (const place of places) {
    const own = copy[place] as Json
    copy[place] = typeof own === "number" ? Object(own) : withFloats(own)
  }
  return copy
}

/** Writes one value; members that are undefined are left out, as JSON.stringify does. */
export function writeJson(value: Json): string {
  if (value === null) return "null"
  if (typeof value === "bigint") return value.toString()
  if (typeof value !== "object") return JSON.stringify(value)
  if (value instanceof JsonText) return value.text
  if (Array.isArray(value)) return `[${(value as readonly Json[]).map(writeJson).join(",")}]`
  const members: string[] = []
  for (const [key, member] of Object.entries(value)) {
    if (member !== undefined) members.push(`${JSON.stringify(key)}:${writeJson(member as Json)}`)
  }
  return `{${members.join(",")}}`
}

const WRITTEN_AT_ONCE = 1024 // values

/** Writes one value of any size, floats as floats; yields the values written. */
export function* writing(value: Json): Work<string> {
  return yield* written(value, { left: WRITTEN_AT_ONCE })
}

function* written(value: Json, pace: { left: number }): Work<string> {
  if (!isContainer(value)) return writeJson(value)
  const own = floats.get(value)
  const isList = Array.isArray(value)
  let text = ""
  let members: string[] = []
  for (const [name, member] of isList ? value.entries() : Object.entries(value)) {
    if (member === undefined) continue
    if (pace.left-- === 0) {
      if (members.length > 0) text += `${members.join(",")},`
      members = []
      yield WRITTEN_AT_ONCE
      pace.left = WRITTEN_AT_ONCE - 1
    }
    const plain = isContainer(member) ? yield* written(member, pace) : writeJson(member)
    const inner = own?.has(name) && /^-?\d+$/.test(plain) ? `${plain}.0` : plain
    members.push(isList ? inner : `${JSON.stringify(name)}:${inner}`)
  }
  text += members.join(",")
  return isList ? `[${text}]` : `{${text}}`
}

type Container = readonly Json[] | Readonly<Record<string, Json | undefined>>

function isContainer(value: Json): value is Container {
  return typeof value === "object" && value !== null && !(value instanceof JsonText)
}

/** What may come next, blanks aside. */
type Expected =
  | "value"
  | "first item"
  | "after item"
  | "first name"
  | "name"
  | "colon"
  | "after member"
  | "rest of a text"
  | "nothing"

/** A list or an object that has been begun. */
type Open = { items: Json[] } | { members: Record<string, Json>; count: number; name: string }

const PLAIN = /[^"\\\u0000-\u001f]*/y
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y
const FEW_DIGITS = 15 // whichever they are, a double holds them

class Reader {
  /** What the last piece came to, in characters. */
  spent = 0
  /** Once all is read. */
  value: Json = null
  readonly #source: string
  readonly #open: Open[] = []
  #expected: Expected = "value"
  #at = 0
  #values = 0
  #floats = 0
  #isName = false // whether the text that is being read names a member
  #pieces: string[] = [] // of a text that is longer than what is read between two turns
  #quote = -1 // where the next one stands, unless it lies behind

  constructor(source: string) {
    this.#source = source
  }

  /** Reads a piece; true when the whole text has been read. */
  goOn(): boolean {
    const from = this.#at
    const values = this.#values
    for (;;) {
      this.spent = this.#at - from + VALUE_COST * (this.#values - values)
      if (this.spent >= PIECE) return false
      const code = this.#source.charCodeAt(this.#at)
      if (this.#expected === "rest of a text") this.#text(this.#at)
      else if (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) this.#at++
      else if (this.#expected === "nothing" && this.#at === this.#source.length) return true
      else this.#step()
    }
  }

  #fail(what: string): never {
    throw problem("invalid_json", { problem: `${what} (at character ${this.#at + 1}).` })
  }

  #step(): void {
    switch (this.#expected) {
      case "value":
        this.#begin()
        break
      case "first item":
        if (this.#take("]")) this.#close()
        else this.#begin()
        break
      case "after item":
        if (this.#take("]")) this.#close()
        else this.#pass(",", "value", 'a "," or "]" is missing')
        break
      case "first name":
        if (this.#take("}")) this.#close()
        else this.#name()
        break
      case "name":
        this.#name()
        break
      case "colon":
        this.#pass(":", "value", "a colon is missing")
        break
      case "after member":
        if (this.#take("}")) this.#close()
        else this.#pass(",", "name", 'a "," or "}" is missing')
        break
      default:
        this.#fail("more text follows the value")
    }
  }

  #begin(): void {
    const first = this.#source[this.#at]
    if (first === '"') this.#beginText(false)
    else if (first === "{") this.#enter({ members: {}, count: 0, name: "" }, "first name")
    else if (first === "[") this.#enter({ items: [] }, "first item")
    else if (first === "t") this.#word("true", true)
    else if (first === "f") this.#word("false", false)
    else if (first === "n") this.#word("null", null)
    else this.#done(this.#fewDigits() ?? this.#anyNumber())
  }

  #enter(open: Open, expected: Expected): void {
    if (this.#open.length === MAX_DEPTH) {
      this.#fail(`it is nested more than ${MAX_DEPTH} levels deep`)
    }
    this.#count()
    this.#open.push(open)
    this.#expected = expected
    this.#at++
  }

  #close(): void {
    const open = this.#open.pop()!
    this.#done("items" in open ? open.items : open.members)
  }

  #count(): void {
    if (++this.#values > MAX_VALUES) {
      this.#fail(`it holds more than ${MAX_VALUES} objects, lists and texts`)
    }
  }

  #name(): void {
    const first = this.#source[this.#at]
    if (first === "}") this.#fail('a "," stands before the "}" that ends its object')
    if (first !== '"') this.#fail("a member's name in double quotes is missing")
    const open = this.#open.at(-1) as Extract<Open, { members: object }>
    if (++open.count > MAX_MEMBERS) this.#fail(`an object has more than ${MAX_MEMBERS} members`)
    this.#beginText(true)
  }

  #done(value: Json): void {
    const open = this.#open.at(-1)
    if (!open) {
      this.value = value
      this.#expected = "nothing"
    } else if ("items" in open) {
      open.items.push(value)
      this.#expected = "after item"
    } else {
      addMember(open.members, open.name, value)
      this.#expected = "after member"
    }
  }

  #beginText(isName: boolean): void {
    this.#count()
    this.#isName = isName
    this.#text(++this.#at)
  }

  /** Reads the text that begins, or goes on, at `from`: to its end, or as far as one piece goes. */
  #text(from: number): void {
    const limit = from + PIECE
    const end = this.#closing(from, limit)
    const to = end ?? beforeEscape(this.#source, from, Math.min(limit, this.#source.length))
    this.#pieces.push(this.#unescaped(from, to))
    this.#at = to
    this.#expected = "rest of a text"
    if (end === undefined) {
      if (limit >= this.#source.length) this.#fail("a string has no end")
      return
    }
    this.#at++
    const text = this.#pieces.length === 1 ? this.#pieces[0]! : this.#pieces.join("")
    this.#pieces = []
    // Only an escape can spell half a pair: the source has been decoded from UTF-8.
    const whole = text.isWellFormed() ? text : text.toWellFormed()
    if (this.#isName) this.#named(whole)
    else this.#done(whole)
  }

  #named(name: string): void {
    const open = this.#open.at(-1) as Extract<Open, { members: object }>
    open.name = name
    this.#expected = "colon"
  }

  /** Where the text ends that goes on at `from`: at the next quote that no backslash escapes, if it stands before `limit`. */
  #closing(from: number, limit: number): number | undefined {
    const source = this.#source
    if (this.#quote < from) this.#quote = nextQuote(source, from)
    while (this.#quote < limit) {
      if (backslashes(source, from, this.#quote) % 2 === 0) return this.#quote
      this.#quote = nextQuote(source, this.#quote + 1)
    }
    return undefined
  }

  #unescaped(from: number, to: number): string {
    try {
      return JSON.parse(`"${this.#source.slice(from, to)}"`) as string
    } catch {
      return this.#faultInText(from)
    }
  }

  #faultInText(from: number): never {
    this.#at = from
    for (;;) {
      PLAIN.lastIndex = this.#at
      PLAIN.exec(this.#source)
      this.#at = PLAIN.lastIndex
      const end = this.#source[this.#at]
      if (end === undefined || end === '"') this.#fail("a string has no end")
      if (end !== "\\") this.#fail("a control character inside a string must be escaped")
      this.#escape()
    }
  }

  #escape(): void {
    const kind = this.#source[this.#at + 1] ?? ""
    const digits = this.#source.slice(this.#at + 2, this.#at + 6)
    if (kind === "u" && /^[0-9a-fA-F]{4}$/.test(digits)) this.#at += 6
    else if (kind !== "" && '"\\/bfnrt'.includes(kind)) this.#at += 2
    else this.#fail("an unknown escape in a string")
  }

  /** Most numbers are token ids; undefined for all that are not plain digits and few. */
  #fewDigits(): number | undefined {
    let value = 0
    let at = this.#at
    const first = this.#source.charCodeAt(at)
    for (; at - this.#at <= FEW_DIGITS; at++) {
      const code = this.#source.charCodeAt(at)
      if (code >= 0x30 && code <= 0x39) value = value * 10 + code - 0x30
      else if (code === 0x2e || code === 0x45 || code === 0x65) return undefined
      else break
    }
    const digits = at - this.#at
    if (digits === 0 || digits > FEW_DIGITS || (first === 0x30 && digits > 1)) return undefined
    this.#at = at
    return value
  }

  #anyNumber(): number | bigint {
    // Half a million digits would take seconds to become a bigint, and no field holds more than 64 bits.
    const near = this.#source.slice(this.#at, this.#at + MAX_DIGITS + 1)
    NUMBER.lastIndex = 0
    const match = NUMBER.exec(near)
    if (!match) {
      const character = this.#source[this.#at]
      const open = this.#open.at(-1)
      if (character === undefined) this.#fail("it ends too early")
      if (character === "'") this.#fail("a text stands in single quotes, not in double ones")
      if (character === "]" && open && "items" in open) {
        this.#fail('a "," stands before the "]" that ends its list')
      }
      this.#fail(`an unexpected ${JSON.stringify(character)}`)
    }
    const [digits, fraction, exponent] = match
    if (digits.length > MAX_DIGITS) this.#fail(`a number has more than ${MAX_DIGITS} digits`)
    const value = Number(digits)
    if (!Number.isFinite(value)) this.#fail(`the number ${digits.slice(0, 40)} is too large`)
    const isWhole = fraction === undefined && exponent === undefined
    this.#at += digits.length
    if (!isWhole && Number.isInteger(value)) this.#remember()
    return isWhole && !Number.isSafeInteger(value) ? BigInt(digits) : value
  }

  /** That the number which has been read is a float; what holds it is known to its own holder. */
  #remember(): void {
    if (this.#floats++ >= MAX_FLOATS) return
    for (const open of this.#open.toReversed()) {
      const [holder, place] =
        "items" in open ? [open.items, open.items.length] : [open.members, open.name]
      const places = floats.get(holder)
      if (places) {
        places.add(place)
        return
      }
      floats.set(holder, new Set([place]))
    }
  }

  #word(word: string, value: Json): void {
    if (!this.#source.startsWith(word, this.#at)) {
      this.#fail(`an unexpected ${JSON.stringify(this.#source[this.#at])}`)
    }
    this.#at += word.length
    this.#done(value)
  }

  #take(character: string): boolean {
    if (this.#source[this.#at] !== character) return false
    this.#at++
    return true
  }

  #pass(character: string, then: Expected, otherwise: string): void {
    if (!this.#take(character)) this.#fail(otherwise)
    this.#expected = then
  }
}

// Assigning to "__proto__" would change the object's kind instead of adding a member.
function addMember(members: Record<string, Json>, name: string, value: Json): void {
  if (name !== "__proto__") members[name] = value
  else
    Object.defineProperty(members, name, {
      value,
      enumerable: true,
      configurable: true,
      writable: true,
    })
}

function nextQuote(source: string, from: number): number {
  const at = source.indexOf('"', from)
  return at < 0 ? Number.POSITIVE_INFINITY : at
}

/** How many backslashes stand right before `at`, none of them before `from`. */
function backslashes(source: string, from: number, at: number): number {
  let count = 0
  while (at - count > from && source.charCodeAt(at - count - 1) === 0x5c) count++
  return count
}

/** The last place up to `to` at which a text that goes on at `from` can be cut without cutting an escape. */
function beforeEscape(source: string, from: number, to: number): number {
  if (to === source.length) return to
  if (backslashes(source, from, to) % 2 === 1) return to - 1
  for (let back = 2; back <= 5; back++) {
    const isUnicode = source[to - back + 1] === "u" && source[to - back] === "\\"
    if (isUnicode && backslashes(source, from, to - back + 1) % 2 === 1) return to - back
  }
  return to
}
