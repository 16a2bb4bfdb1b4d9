// What a template computes with: Python's values as far as chat templates use them. Lists are arrays, maps are `Dict`,
// whole numbers are numbers (bigints where a double would lose digits), and a float stays a float so that 1.0 prints as
// Python prints it. Printing, comparing, truth and JSON follow Python 3 and its json module.

import { spend, spendOnCharacters, spendOnEach, TemplateError } from "./meter.ts"
import { foreign, join, nextCodePoint, positionOf, replaceEach, Text } from "./text.ts"

export type Value =
  | Undefined
  | None
  | boolean
  | number // a whole number
  | bigint // one beyond 2^53
  | Float
  | Text
  | Value[]
  | Tuple
  | Lazy
  | Dict
  | Namespace
  | Callable

/** What a name or an attribute that does not exist gives: prints as nothing, refuses to be used. */
export class Undefined {
  readonly what: string
  constructor(what: string) {
    this.what = what
  }
}

/** Python's None. Not JavaScript's null, which `??` takes for something absent. */
export class None {}
export const NONE = new None()

/** What `map`, `select` and their like give: computed when it is walked over, and empty the second time. */
export class Lazy {
  #compute: (() => readonly Value[]) | undefined
  constructor(compute: () => readonly Value[]) {
    this.#compute = compute
  }

  take(): readonly Value[] {
    const compute = this.#compute
    this.#compute = undefined
    return compute?.() ?? []
  }
}

export class Float {
  readonly value: number
  constructor(value: number) {
    this.value = value
  }
}

export class Tuple {
  readonly items: Value[]
  readonly #names: readonly string[]

  /** `names` are those of a named tuple's items, in their order. */
  constructor(items: Value[], names: readonly string[] = []) {
    this.items = items
    this.#names = names
  }

  named(name: string): Value | undefined {
    const index = this.#names.indexOf(name)
    return index < 0 ? undefined : this.items[index]
  }
}

// JavaScript's maps tell longer texts apart by their length alone until they compare them.
const MAX_HASHED = 16_383

/** A map in order of insertion. Keys are kept as they came: a key can be somebody else's text, too. */
export class Dict {
  readonly #entries = new Map<string, readonly [key: Value, value: Value]>()

  get size(): number {
    return this.#entries.size
  }

  get(key: Value): Value | undefined {
    return this.#entries.get(this.#idOf(key))?.[1]
  }

  has(key: Value): boolean {
    return this.#entries.has(this.#idOf(key))
  }

  #idOf(key: Value): string {
    const id = idOf(key)
    spendOnCharacters(id.length > MAX_HASHED ? id.length * (this.size + 1) : id.length)
    return id
  }

  set(key: Value, value: Value): this {
    spend(1)
    const id = this.#idOf(key)
    this.#entries.set(id, [this.#entries.get(id)?.[0] ?? key, value])
    return this
  }

  /** By a name the product itself gave. */
  named(name: string): Value | undefined {
    return this.#entries.get(name)?.[1]
  }

  entries(): Iterable<readonly [Value, Value]> {
    return this.#entries.values()
  }

  keys(): Value[] {
    return Array.from(this.#entries.values(), ([key]) => key)
  }

  values(): Value[] {
    return Array.from(this.#entries.values(), ([, value]) => value)
  }
}

/** `namespace()`, the one thing a template may assign into; and `loop`, which a recursive one may call. */
export class Namespace {
  readonly members = new Map<string, Value>()
  call: ((given: Arguments) => Value) | undefined = undefined
}

export interface Arguments {
  readonly positional: readonly Value[]
  readonly named: ReadonlyMap<string, Value>
}

export class Callable {
  readonly name: string
  readonly call: (given: Arguments) => Value
  constructor(name: string, call: (given: Arguments) => Value) {
    this.name = name
    this.call = call
  }
}

/** A text stands for itself, and what is no text begins with a zero byte. Numbers' own hashes would be anybody's to guess. */
function idOf(key: Value): string {
  if (key instanceof Text) return key.value.startsWith("\0") ? `\0t${key.value}` : key.value
  if (key === NONE) return "\0None"
  if (key instanceof Undefined) return "\0Undefined" // all of them are equal
  if (typeof key === "bigint") return `\0n${digitsOf(key)}`
  const number = numberOf(key) // True and 1 are one key in Python, and so is 1.0
  if (number === undefined) throw new TemplateError(`unhashable type: '${typeName(key)}'`)
  return `\0n${number}`
}

/** A JavaScript value as a template sees it, an object `Number` as a float; its texts come from `source`. */
export function fromHost(value: unknown, source: number): Value {
  spend(1)
  if (value === null) return NONE
  if (typeof value === "boolean" || typeof value === "bigint") return value
  if (typeof value === "string") return foreign(value, source)
  if (typeof value === "number") return Number.isInteger(value) ? value : new Float(value)
  if (value instanceof Number) return new Float(value.valueOf())
  if (Array.isArray(value)) return value.map((item) => fromHost(item, source))
  if (typeof value === "object") {
    const dict = new Dict()
    for (const [key, member] of Object.entries(value)) {
      if (member !== undefined) dict.set(foreign(key, source), fromHost(member, source))
    }
    return dict
  }
  throw new Error(`internal: a template cannot be given a ${typeof value}`)
}

export function typeName(value: Value): string {
  if (value instanceof Undefined) return "Undefined"
  if (value instanceof None) return "NoneType"
  if (typeof value === "boolean") return "bool"
  if (typeof value === "number" || typeof value === "bigint") return "int"
  if (value instanceof Float) return "float"
  if (value instanceof Text) return "str"
  if (Array.isArray(value)) return "list"
  if (value instanceof Tuple) return "tuple"
  if (value instanceof Lazy) return "generator"
  if (value instanceof Dict) return "dict"
  if (value instanceof Namespace) return "Namespace"
  return "function"
}

export function isTrue(value: Value): boolean {
  if (value instanceof Undefined || value instanceof None) return false
  if (typeof value === "boolean") return value
  if (typeof value === "number") return value !== 0
  if (typeof value === "bigint") return value !== 0n
  if (value instanceof Float) return value.value !== 0
  if (value instanceof Text) return value.value !== ""
  if (Array.isArray(value)) return value.length > 0
  if (value instanceof Tuple) return value.items.length > 0
  if (value instanceof Dict) return value.size > 0
  return true
}

/** The number behind an int, a float or a truth value; undefined for everything else. */
export function numberOf(value: Value): number | undefined {
  if (typeof value === "number") return value
  if (typeof value === "boolean" || typeof value === "bigint") return Number(value)
  return value instanceof Float ? value.value : undefined
}

export function isNumber(value: Value): boolean {
  return typeof value === "number" || typeof value === "bigint" || value instanceof Float
}

/** The members that a loop, a filter or `list` walks over; the walk is paid for here. */
export function iterate(value: Value): readonly Value[] {
  const members = membersOf(value)
  spend(1 + members.length)
  return members
}

function membersOf(value: Value): readonly Value[] {
  if (Array.isArray(value)) return value
  if (value instanceof Tuple) return value.items
  if (value instanceof Lazy) return value.take()
  if (value instanceof Dict) return value.keys()
  if (value instanceof Text) return characters(value)
  if (value instanceof Undefined) return []
  throw new TemplateError(`'${typeName(value)}' object is not iterable`)
}

/** A text as a list of its characters, code points as in Python. */
export function characters(text: Text): Text[] {
  const parts: Text[] = []
  for (let at = 0, next = 0; at < text.length; at = next) {
    next = nextCodePoint(text.value, at)
    parts.push(text.slice(at, next))
  }
  return parts
}

/** The character of a number, counted from the end when negative. */
export function characterAt(text: Text, index: number): Text | undefined {
  const at = positionOf(text.value, index)
  if (at === undefined || at === text.length) return undefined
  return text.slice(at, nextCodePoint(text.value, at))
}

export function equal(a: Value, b: Value): boolean {
  spend(1)
  if (a === b) return true
  if (a instanceof Undefined || b instanceof Undefined) {
    return a instanceof Undefined && b instanceof Undefined
  }
  if (a instanceof Text || b instanceof Text) {
    if (!(a instanceof Text && b instanceof Text) || a.length !== b.length) return false
    spendOnCharacters(a.length)
    return a.value === b.value
  }
  if (typeof a === "bigint" && typeof b === "bigint") return a === b
  const x = numberOf(a)
  if (x !== undefined) return x === numberOf(b)
  if (Array.isArray(a)) return Array.isArray(b) && allEqual(a, b)
  if (a instanceof Tuple) return b instanceof Tuple && allEqual(a.items, b.items)
  if (a instanceof Dict && b instanceof Dict) {
    if (a.size !== b.size) return false
    for (const [key, value] of a.entries()) {
      if (!b.has(key) || !equal(value, b.get(key)!)) return false
    }
    return true
  }
  return false
}

function allEqual(a: readonly Value[], b: readonly Value[]): boolean {
  return a.length === b.length && a.every((item, index) => equal(item, b[index]!))
}

/** Below, at or above 0 as `a` sorts before, with or after `b`. `operator` is for the error's words. */
export function compare(a: Value, b: Value, operator: string): number {
  spend(1)
  const x = numberOf(a)
  const y = numberOf(b)
  if (x !== undefined && y !== undefined) return x - y
  if (a instanceof Text && b instanceof Text) return compareTexts(a, b)
  const left = Array.isArray(a) && Array.isArray(b) ? a : a instanceof Tuple ? a.items : undefined
  const right = Array.isArray(b) ? b : b instanceof Tuple ? b.items : undefined
  if (left && right && typeName(a) === typeName(b)) {
    for (let i = 0; i < Math.min(left.length, right.length); i++) {
      if (!equal(left[i]!, right[i]!)) return compare(left[i]!, right[i]!, operator)
    }
    return left.length - right.length
  }
  throw new TemplateError(
    `'${operator}' not supported between instances of '${typeName(a)}' and '${typeName(b)}'`,
  )
}

function compareTexts(a: Text, b: Text): number {
  spendOnCharacters(Math.min(a.length, b.length))
  return a.value === b.value ? 0 : a.value < b.value ? -1 : 1
}

/** `str(value)`: what printing it gives. */
export function print(value: Value): Text {
  if (value instanceof Text) return value
  if (value instanceof Undefined) return new Text("")
  return repr(value)
}

/** `repr(value)`. */
export function repr(value: Value): Text {
  spend(1)
  if (value instanceof None) return new Text("None")
  if (value === true) return new Text("True")
  if (value === false) return new Text("False")
  if (typeof value === "number") return new Text(String(value))
  if (typeof value === "bigint") return new Text(digitsOf(value))
  if (value instanceof Float) return new Text(floatText(value.value))
  if (value instanceof Text) return quoted(value)
  if (Array.isArray(value)) return wrapped("[", value.map(repr), "]")
  if (value instanceof Tuple) {
    return wrapped("(", value.items.map(repr), value.items.length === 1 ? ",)" : ")")
  }
  if (value instanceof Dict) {
    const members = Array.from(value.entries(), ([key, member]) =>
      join([repr(key), repr(member)], new Text(": ")),
    )
    return wrapped("{", members, "}")
  }
  if (value instanceof Undefined) return new Text("Undefined")
  if (value instanceof Namespace) return new Text("<Namespace>")
  if (value instanceof Lazy) return new Text("<generator>")
  return new Text(`<function ${value.name}>`)
}

// Python's own bound, and for the same reason: time to print a number grows faster than its digits.
export const MAX_DIGITS = 4300
const BEYOND_DIGITS = 10n ** BigInt(MAX_DIGITS)

const TOO_MANY_DIGITS = `Exceeds the limit (${MAX_DIGITS} digits) for integer string conversion`

function digitsOf(value: bigint): string {
  if (value >= BEYOND_DIGITS || value <= -BEYOND_DIGITS) throw new TemplateError(TOO_MANY_DIGITS)
  const digits = String(value)
  spendOnEach(digits.length)
  return digits
}

/** The whole number that decimal digits spell. */
export function integerOf(digits: string): number | bigint {
  if (digits.length > MAX_DIGITS + 1) throw new TemplateError(TOO_MANY_DIGITS)
  const value = Number(digits)
  return Number.isSafeInteger(value) ? value : BigInt(digits)
}

function wrapped(open: string, parts: readonly Text[], close: string): Text {
  return join([new Text(open), join(parts, new Text(", ")), new Text(close)])
}

// What str.isprintable() refuses but for a blank, half surrogate pairs included; and what is escaped in quotes.
const QUOTED = /[\\'"]|(?! )[\p{C}\p{Z}]/gu

// Python prefers single quotes, and doubles only for a text that holds single ones and no double ones.
function quoted(text: Text): Text {
  spendOnCharacters(4 * text.length) // classes of Unicode are looked up
  const quote = text.value.includes("'") && !text.value.includes('"') ? '"' : "'"
  const inner = text.mapRuns((run) =>
    replaceEach(run, QUOTED, (found) => {
      if (found === "\n") return "\\n"
      if (found === "\r") return "\\r"
      if (found === "\t") return "\\t"
      if (found === "\\") return "\\\\"
      if (found === "'" || found === '"') return found === quote ? `\\${found}` : found
      return codeOf(found.codePointAt(0)!)
    }),
  )
  return join([new Text(quote), inner, new Text(quote)])
}

function codeOf(character: number): string {
  const digits = character.toString(16)
  if (character <= 0xff) return `\\x${digits.padStart(2, "0")}`
  return character <= 0xffff ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`
}

/** Python's shortest spelling of a float: always with a point or an exponent. */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return "nan"
  if (!Number.isFinite(value)) return value < 0 ? "-inf" : "inf"
  if (Object.is(value, -0)) return "-0.0"
  if (value === 0) return "0.0"
  const size = Math.abs(value)
  if (size >= 1e-4 && size < 1e16) {
    const plain = size < 1e-6 ? value.toFixed(20) : String(value)
    return plain.includes(".") ? plain : `${plain}.0`
  }
  const [digits, exponent] = value.toExponential().split("e") as [string, string]
  return `${digits}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`
}

export interface JsonStyle {
  indent: string | undefined
  item: string
  key: string
  ascii: boolean
  sorted: boolean
}

/** `json.dumps(value)`. */
export function toJson(value: Value, style: JsonStyle, depth = 0): Text {
  spend(1)
  if (value instanceof Text) {
    const inner = value.mapRuns((run) => jsonString(run, style.ascii))
    return join([new Text('"'), inner, new Text('"')])
  }
  if (value instanceof None) return new Text("null")
  if (typeof value === "boolean" || typeof value === "number") return new Text(String(value))
  if (typeof value === "bigint") return new Text(digitsOf(value))
  if (value instanceof Float) {
    const text = floatText(value.value)
    return new Text(text.replace("inf", "Infinity").replace("nan", "NaN"))
  }
  if (Array.isArray(value) || value instanceof Tuple) {
    const items = iterate(value).map((item) => toJson(item, style, depth + 1))
    return jsonGroup("[", items, "]", style, depth)
  }
  if (value instanceof Dict) {
    const entries = Array.from(value.entries(), ([key, member]) => [jsonKey(key), member] as const)
    if (style.sorted) entries.sort(([a], [b]) => compare(a, b, "<"))
    const members = entries.map(([key, member]) =>
      join([toJson(key, style), toJson(member, style, depth + 1)], new Text(style.key)),
    )
    return jsonGroup("{", members, "}", style, depth)
  }
  throw new TemplateError(`Object of type ${typeName(value)} is not JSON serializable`)
}

function jsonKey(key: Value): Text {
  if (key instanceof Text) return key
  return toJson(key, { indent: undefined, item: ", ", key: ": ", ascii: false, sorted: false })
}

function jsonString(run: string, ascii: boolean): string {
  spendOnCharacters(2 * run.length) // up to six for one
  // JSON.stringify escapes lone surrogates, which Python writes as they are; in UTF-8 both end as U+FFFD.
  const escaped = JSON.stringify(run).slice(1, -1)
  if (!ascii) return escaped
  return replaceEach(
    escaped,
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  )
}

function jsonGroup(
  open: string,
  parts: readonly Text[],
  close: string,
  style: JsonStyle,
  depth: number,
): Text {
  if (parts.length === 0) return new Text(open + close)
  if (style.indent === undefined) {
    return join([new Text(open), join(parts, new Text(style.item)), new Text(close)])
  }
  const line = `\n${style.indent.repeat(depth)}`
  const inner = line + style.indent
  return join([
    new Text(open + inner),
    join(parts, new Text(style.item + inner)),
    new Text(line + close),
  ])
}

const JSON_TOKEN =
  /[\s]*(?:([{}[\],:])|("[^"\\]*(?:\\.[^"\\]*)*")|(-?\d+)((?:\.\d+)?(?:[eE][+-]?\d+)?)|(true|false|null))/y

/**
 * JSON text as a template's value, numbers exactly as Python's json.loads reads them: 1.0 stays a float, twenty digits stay
 * digits. Undefined when the text is not JSON.
 */
export function readJson(json: string, source: number): Value | undefined {
  spendOnCharacters(json.length)
  let valid = true
  try {
    JSON.parse(json)
  } catch {
    valid = false
  }
  if (!valid) return undefined
  const pattern = new RegExp(JSON_TOKEN)
  const next = (): RegExpExecArray => pattern.exec(json)!
  const value = (token: RegExpExecArray): Value => {
    spend(2)
    const [, mark, string, whole, rest, word] = token
    if (string !== undefined) return foreign(JSON.parse(string) as string, source)
    if (word !== undefined) return word === "null" ? NONE : word === "true"
    if (whole !== undefined) {
      if (rest !== "") return new Float(Number(whole + rest))
      return integerOf(whole)
    }
    return mark === "[" ? list() : dict()
  }
  const list = (): Value => {
    const items: Value[] = []
    for (let token = next(); token[1] !== "]"; token = next()) {
      if (token[1] !== ",") items.push(value(token))
    }
    return items
  }
  const dict = (): Value => {
    const members = new Dict()
    for (let token = next(); token[1] !== "}"; token = next()) {
      if (token[1] === ",") continue
      const key = value(token)
      next() // the colon
      members.set(key, value(next()))
    }
    return members
  }
  return value(next())
}
