// JSON, exactly. Reading keeps what a double would lose: an integer beyond 2^53 becomes a bigint with every digit, so a
// seed arrives as it was sent. Writing takes bigints and text that is JSON already. Duplicate keys: the last one wins, as
// everywhere; half a surrogate pair is no character and becomes U+FFFD, so whatever leaves here can be encoded.

import { problem } from "../errors.ts"

export type Json =
  | null
  | boolean
  | number
  | bigint
  | string
  | readonly Json[]
  | { readonly [key: string]: Json | undefined }
  | JsonText

/** Text that is JSON already and is written as it stands. */
export class JsonText {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

const MOST_DEPTH = 256

/** Reads one JSON text. Throws the problem `invalid_json`, which says where. */
export function readJson(text: string): Json {
  // Most bodies hold nothing that JSON.parse would get wrong, and it reads them ten times as fast.
  if (!NEEDS_CARE.test(text)) {
    try {
      const value = JSON.parse(text) as Json
      if (isShallow(value, MOST_DEPTH)) return value
    } catch {
      // Read below, for a better sentence.
    }
  }
  const reader = new Reader(text)
  const value = reader.value(0)
  reader.blank()
  if (reader.at < text.length) reader.fail("more text follows the value")
  return value
}

// Sixteen digits in a row, an exponent of three, or half a surrogate pair, anywhere: in a string they do no harm.
const NEEDS_CARE = /[0-9]{16}|[eE][+-]?[0-9]{3}|\\u[dD][89a-fA-F]/

function isShallow(value: Json, levels: number): boolean {
  if (typeof value !== "object" || value === null) return true
  if (levels === 0) return false
  for (const member of Object.values(value)) if (!isShallow(member, levels - 1)) return false
  return true
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

const PLAIN = /[^"\\\u0000-\u001f]*/y
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y
const LONE_SURROGATE = /\p{Surrogate}/gu
class Reader {
  readonly text: string
  at = 0

  constructor(text: string) {
    this.text = text
  }

  value(depth: number): Json {
    this.blank()
    switch (this.text[this.at]) {
      case "{":
        return this.object(depth)
      case "[":
        return this.array(depth)
      case '"':
        return this.string()
      case "t":
        return this.word("true", true)
      case "f":
        return this.word("false", false)
      case "n":
        return this.word("null", null)
      default:
        return this.number()
    }
  }

  blank(): void {
    for (;;) {
      const code = this.text.charCodeAt(this.at)
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return
      this.at++
    }
  }

  fail(what: string): never {
    throw problem("invalid_json", { problem: `${what} (at character ${this.at + 1}).` })
  }

  private object(depth: number): Json {
    const members: Record<string, Json> = {}
    this.open(depth)
    this.blank()
    if (this.take("}")) return members
    do {
      this.blank()
      if (this.text[this.at] !== '"') this.fail("a member's name in double quotes is missing")
      const key = this.string()
      this.blank()
      if (!this.take(":")) this.fail("a colon is missing")
      const value = this.value(depth + 1)
      // Assigning to "__proto__" would change the object's kind instead of adding a member.
      if (key === "__proto__")
        Object.defineProperty(members, key, { value, enumerable: true, configurable: true })
      else members[key] = value
      this.blank()
    } while (this.take(","))
    if (!this.take("}")) this.fail('a "," or "}" is missing')
    return members
  }

  private array(depth: number): Json {
    const items: Json[] = []
    this.open(depth)
    this.blank()
    if (this.take("]")) return items
    do {
      items.push(this.value(depth + 1))
      this.blank()
    } while (this.take(","))
    if (!this.take("]")) this.fail('a "," or "]" is missing')
    return items
  }

  private open(depth: number): void {
    if (depth === MOST_DEPTH) this.fail(`it is nested more than ${MOST_DEPTH} levels deep`)
    this.at++
  }

  private string(): string {
    const raw = this.text.slice(this.at, this.closing() + 1)
    try {
      const text = JSON.parse(raw) as string
      this.at += raw.length
      return raw.includes("\\u") ? text.replace(LONE_SURROGATE, "\ufffd") : text
    } catch {
      return this.faultInString()
    }
  }

  /** Where the string that begins here ends: at the next quote that no backslash escapes. */
  private closing(): number {
    let end = this.at
    for (;;) {
      end = this.text.indexOf('"', end + 1)
      let slashes = 0
      while (this.text[end - 1 - slashes] === "\\") slashes++
      if (end < 0 || slashes % 2 === 0) return end
    }
  }

  private faultInString(): never {
    this.at++
    for (;;) {
      PLAIN.lastIndex = this.at
      PLAIN.exec(this.text)
      this.at = PLAIN.lastIndex
      const end = this.text[this.at]
      if (end === undefined || end === '"') this.fail("a string has no end")
      if (end !== "\\") this.fail("a control character inside a string must be escaped")
      this.escape()
    }
  }

  private escape(): void {
    const kind = this.text[this.at + 1] ?? ""
    const digits = this.text.slice(this.at + 2, this.at + 6)
    if (kind === "u" && /^[0-9a-fA-F]{4}$/.test(digits)) this.at += 6
    else if (kind !== "" && '"\\/bfnrt'.includes(kind)) this.at += 2
    else this.fail("an unknown escape in a string")
  }

  private number(): number | bigint {
    NUMBER.lastIndex = this.at
    const match = NUMBER.exec(this.text)
    if (!match) {
      const found = this.text[this.at]
      this.fail(
        found === undefined ? "it ends too early" : `an unexpected ${JSON.stringify(found)}`,
      )
    }
    const [digits, fraction, exponent] = match
    const value = Number(digits)
    if (!Number.isFinite(value)) this.fail(`the number ${digits.slice(0, 40)} is too large`)
    const whole = fraction === undefined && exponent === undefined
    const exact = whole && !Number.isSafeInteger(value)
    // Half a million digits would take seconds to become a bigint, and no field holds more than 64 bits.
    if (exact && digits.length > 400) this.fail("a number has more than 400 digits")
    this.at = NUMBER.lastIndex
    return exact ? BigInt(digits) : value
  }

  private word<Value extends Json>(word: string, value: Value): Value {
    if (!this.text.startsWith(word, this.at)) {
      this.fail(`an unexpected ${JSON.stringify(this.text[this.at])}`)
    }
    this.at += word.length
    return value
  }

  private take(character: string): boolean {
    if (this.text[this.at] !== character) return false
    this.at++
    return true
  }
}
