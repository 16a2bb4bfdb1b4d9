// JSON as the grammar reads it: numbers stay exact decimals (a bound of 2^64 is a bound of 2^64, 0.1 is a tenth), objects
// are maps, so that a member called `__proto__` is a member. Two values are equal when their canonical texts are.

/** digits · 10^-scale; scale is 0 or the least that keeps the value, so equal numbers are equal records. */
export interface Decimal {
  readonly digits: bigint
  readonly scale: number
}

export type Json = null | boolean | string | Decimal | Json[] | Map<string, Json>

/** What cannot be read as JSON; `at` is an offset into the text. */
export class JsonFault extends Error {
  readonly at: number
  constructor(problem: string, at: number) {
    super(`${problem} at offset ${at}`)
    this.at = at
  }
}

const maxDepth = 256
// A schema constant beyond the range of doubles is of no use to anybody, and its digits would cost quadratic time.
const maxExponent = 400

export function isDecimal(value: Json): value is Decimal {
  return typeof value === "object" && value !== null && "digits" in value
}

/** Reads a JSON text. Of a repeated key the last member wins. @throws JsonFault */
export function parseJson(text: string): Json {
  const reader = new Reader(text)
  reader.blanks()
  const value = reader.value(0)
  reader.blanks()
  if (reader.at < text.length) throw new JsonFault("text after the value", reader.at)
  return value
}

/** A parsed value (numbers, or bigints where a double would lose digits) as exact JSON. @throws JsonFault */
export function fromValue(value: unknown, depth = 0): Json {
  if (depth > maxDepth) throw new JsonFault(`deeper than ${maxDepth} levels`, 0)
  if (value === null || typeof value === "boolean" || typeof value === "string") return value
  if (typeof value === "bigint") return decimal(value, 0)
  if (typeof value === "number" && Number.isFinite(value)) return parseDecimal(String(value))!
  if (Array.isArray(value)) return value.map((item) => fromValue(item, depth + 1))
  if (typeof value !== "object") throw new JsonFault(`a ${typeof value} is not JSON`, 0)
  const members = Object.entries(value).filter(([, member]) => member !== undefined)
  return new Map(members.map(([key, member]) => [key, fromValue(member, depth + 1)]))
}

/** Equal values, and only they, have equal canonical texts: members sorted, numbers without trailing zeros. */
export function canonical(value: Json): string {
  if (value === null || typeof value === "boolean") return String(value)
  if (typeof value === "string") return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (isDecimal(value)) return decimalText(value)
  const keys = [...value.keys()].sort()
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value.get(key)!)}`).join()}}`
}

export function decimal(digits: bigint, scale: number): Decimal {
  if (scale < 0) return { digits: digits * 10n ** BigInt(-scale), scale: 0 }
  while (scale > 0 && digits % 10n === 0n) {
    digits /= 10n
    scale--
  }
  return { digits, scale }
}

/** Reads a JSON number; undefined when it is none or its exponent is beyond ±400. */
export function parseDecimal(text: string): Decimal | undefined {
  const match = /^(-?(?:0|[1-9]\d*))(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text)
  if (!match) return undefined
  const [, whole = "", fraction = "", exponent = "0"] = match
  if (Math.abs(Number(exponent)) > maxExponent) return undefined
  return decimal(BigInt(whole + fraction), fraction.length - Number(exponent))
}

export function decimalText(value: Decimal): string {
  if (value.scale === 0) return value.digits.toString()
  const sign = value.digits < 0n ? "-" : ""
  const digits = (value.digits < 0n ? -value.digits : value.digits).toString()
  const padded = digits.padStart(value.scale + 1, "0")
  return `${sign}${padded.slice(0, -value.scale)}.${padded.slice(-value.scale)}`
}

class Reader {
  readonly text: string
  at = 0

  constructor(text: string) {
    this.text = text
  }

  blanks(): void {
    while (" \t\n\r".includes(this.text[this.at] ?? "x")) this.at++
  }

  value(depth: number): Json {
    if (depth > maxDepth) throw new JsonFault(`deeper than ${maxDepth} levels`, this.at)
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

  private object(depth: number): Json {
    const members = new Map<string, Json>()
    this.at++
    this.blanks()
    if (this.taken("}")) return members
    do {
      this.blanks()
      if (this.text[this.at] !== '"') throw new JsonFault("a key is missing", this.at)
      const key = this.string()
      this.blanks()
      if (!this.taken(":")) throw new JsonFault("a colon is missing", this.at)
      this.blanks()
      members.set(key, this.value(depth + 1))
      this.blanks()
    } while (this.taken(","))
    if (!this.taken("}")) throw new JsonFault("an object is not closed", this.at)
    return members
  }

  private array(depth: number): Json {
    const items: Json[] = []
    this.at++
    this.blanks()
    if (this.taken("]")) return items
    do {
      this.blanks()
      items.push(this.value(depth + 1))
      this.blanks()
    } while (this.taken(","))
    if (!this.taken("]")) throw new JsonFault("an array is not closed", this.at)
    return items
  }

  private string(): string {
    const start = this.at
    this.at++
    while (this.at < this.text.length && this.text[this.at] !== '"') {
      this.at += this.text[this.at] === "\\" ? 2 : 1
    }
    this.at++
    try {
      return JSON.parse(this.text.slice(start, this.at))
    } catch {
      throw new JsonFault("a string is malformed", start)
    }
  }

  private number(): Json {
    const pattern = /[-+.\deE]*/y
    pattern.lastIndex = this.at
    const value = parseDecimal(pattern.exec(this.text)![0])
    if (value === undefined) throw new JsonFault("no JSON value", this.at)
    this.at = pattern.lastIndex
    return value
  }

  private word<T extends Json>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) throw new JsonFault("no JSON value", this.at)
    this.at += word.length
    return value
  }

  private taken(character: string): boolean {
    if (this.text[this.at] !== character) return false
    this.at++
    return true
  }
}

/** Below, at or above 0 as `a` is less than, equal to or more than `b`. */
export function compare(a: Decimal, b: Decimal): number {
  const scale = Math.max(a.scale, b.scale)
  const left = a.digits * 10n ** BigInt(scale - a.scale)
  const right = b.digits * 10n ** BigInt(scale - b.scale)
  return left < right ? -1 : left > right ? 1 : 0
}
