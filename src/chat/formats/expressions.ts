// Call expressions: name(key="value", …) with values as Python literals. They are written from JSON, and read by one parser
// that turns the arguments into JSON while they are being written. Numbers pass as they are spelled, where JSON has them so.

import type { CallText } from "./call-grammar.ts"
import { Input, NotACall, type Reading, type Tools } from "./input.ts"

// ---- what is written ----

/**
 * `mayBeKey`: which names stand before an equals sign; with another one all arguments are one map. Words among the values are
 * Python's or JSON's.
 */
export function writeCall(
  { name, arguments: json }: CallText,
  mayBeKey: (name: string) => boolean,
  words: "python" | "json" = "python",
): string {
  const keys = Object.keys(JSON.parse(json) as object)
  return keys.every(mayBeKey)
    ? `${name}(${literalsOf(json, words, true)})`
    : `${name}(**${literalsOf(json, words, false)})`
}

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g
const WRITTEN: Readonly<Record<string, string>> = { true: "True", false: "False", null: "None" }

/** JSON as Python's literals; the outermost map as keyword arguments. */
function literalsOf(json: string, words: "python" | "json", asArguments: boolean): string {
  let depth = 0
  const tokens = json.match(TOKEN)!
  const written = tokens.map((token, index) => {
    if (token === "{" || token === "[") depth++
    if (token === "}" || token === "]") depth--
    const outermost = asArguments && (depth === 0 || (depth === 1 && token === "{" && index === 0))
    if (outermost && (token === "{" || token === "}")) return ""
    if (token === ",") return ", "
    if (token === ":") return asArguments && depth === 1 ? "=" : ": "
    if (!token.startsWith('"')) return (words === "python" && WRITTEN[token]) || token
    const text = JSON.parse(token) as string
    return asArguments && depth === 1 && tokens[index + 1] === ":" ? text : JSON.stringify(text)
  })
  return written.join("")
}

/** Whether a name can stand before an equals sign as models write it, be it a word of Python's or none. */
export function isKey(name: string): boolean {
  return KEY.test(name)
}

export const KEY = /^[^\s=,:*()[\]{}"'\\]+$/

// ---- what is read ----

/** Reads one call, and its name only where it is that of a tool. */
export function* readExpression(input: Input, tools: Tools): Reading<void> {
  let name = ""
  while (/[\w.-]/.test(yield* input.peek())) name += yield* input.take()
  yield* input.expect("(")
  if (!tools.has(name)) throw new NotACall()
  input.announce(name)
  yield* readArgumentList(input)
  input.settle("end")
}

/** Reads the arguments after "(" up to and with ")", and hands them on as the JSON text of an object. */
export function* readArgumentList(input: Input): Reading<void> {
  yield* input.blanks()
  if ((yield* input.peek()) === "*") {
    yield* input.expect("**")
    yield* input.blanks()
    if ((yield* input.peek()) !== "{") throw new NotACall()
    yield* readLiteral(input)
    yield* input.blanks()
    yield* input.expect(")")
    return
  }
  const seen = new Set<string>()
  input.argue("{")
  while ((yield* input.peek()) !== ")") {
    let key = ""
    while (isKey(yield* input.peek())) key += yield* input.take()
    yield* input.blanks()
    yield* input.expect("=")
    if (key === "" || seen.has(key)) throw new NotACall()
    input.argue(`${seen.size === 0 ? "" : ", "}${JSON.stringify(key)}: `)
    seen.add(key)
    yield* input.blanks()
    yield* readLiteral(input)
    yield* input.blanks()
    if ((yield* input.peek()) !== ",") break
    yield* input.take()
    yield* input.blanks()
  }
  yield* input.expect(")")
  input.argue("}")
}

/** A Python literal as JSON; undefined where it is none. */
export function jsonOfLiteral(text: string): string | undefined {
  const input = new Input()
  input.append(`${text})`) // a word is over where something else begins
  input.close()
  const reading = input.attempt(
    false,
    (function* () {
      yield* input.blanks()
      yield* readLiteral(input)
      yield* input.blanks()
      yield* input.expect(")")
      if ((yield* input.peek()) !== "") throw new NotACall()
    })(),
  )
  if (reading.next().value !== true) return undefined
  return input.pieces.map((piece) => (piece.kind === "arguments" ? piece.text : "")).join("")
}

/** Reads one Python literal and hands it on as JSON. */
function* readLiteral(input: Input): Reading<void> {
  const first = yield* input.peek()
  if (first === '"' || first === "'") yield* readString(input)
  else if (first === "[") yield* readGroup(input, "[", "]")
  else if (first === "(") yield* readGroup(input, "(", ")")
  else if (first === "{") yield* readMap(input)
  else yield* readWord(input)
}

function* readGroup(input: Input, open: string, close: string): Reading<void> {
  yield* input.expect(open)
  input.argue("[")
  yield* input.blanks()
  for (let count = 0; (yield* input.peek()) !== close; count++) {
    if (count > 0) input.argue(", ")
    yield* readLiteral(input)
    yield* separator(input, close)
  }
  yield* input.expect(close)
  input.argue("]")
}

function* readMap(input: Input): Reading<void> {
  yield* input.expect("{")
  input.argue("{")
  yield* input.blanks()
  for (let count = 0; (yield* input.peek()) !== "}"; count++) {
    if (count > 0) input.argue(", ")
    const quote = yield* input.peek()
    if (quote !== '"' && quote !== "'") throw new NotACall()
    yield* readString(input)
    yield* input.blanks()
    yield* input.expect(":")
    input.argue(": ")
    yield* input.blanks()
    yield* readLiteral(input)
    yield* separator(input, "}")
  }
  yield* input.expect("}")
  input.argue("}")
}

function* separator(input: Input, close: string): Reading<void> {
  yield* input.blanks()
  if ((yield* input.peek()) === close) return
  yield* input.expect(",")
  yield* input.blanks()
  if ((yield* input.peek()) === "") throw new NotACall() // it may have been the last
}

const WORDS: Readonly<Record<string, string>> = {
  True: "true",
  False: "false",
  None: "null",
  true: "true",
  false: "false",
  null: "null",
}
// As Python spells numbers, and models: points at an end, zeros before a whole number, _ between digits.
const NUMBER = /^([-+]?)(\d[\d_]*)?(?:(\.)(\d[\d_]*)?)?([eE][+-]?\d+)?$/

function* readWord(input: Input): Reading<void> {
  let word = ""
  while (/[-+.\w]/.test(yield* input.peek())) {
    word += yield* input.take()
    if (word.length > 400) throw new NotACall()
  }
  if ((yield* input.peek()) === "") throw new NotACall() // who knows how it would have gone on
  const json = Object.hasOwn(WORDS, word) ? WORDS[word] : numberOf(word)
  if (json === undefined) throw new NotACall()
  input.argue(json)
}

function numberOf(word: string): string | undefined {
  const [whole, sign, before, point, behind, exponent = ""] = NUMBER.exec(word) ?? []
  if (whole === undefined || (before ?? behind) === undefined) return undefined
  const digits = (before ?? "0").replaceAll("_", "").replace(/^0+(?=\d)/, "")
  const fraction = point ? `.${(behind ?? "0").replaceAll("_", "")}` : ""
  return (sign === "-" ? "-" : "") + digits + fraction + exponent
}

function* readString(input: Input): Reading<void> {
  const quote = yield* input.take()
  input.argue('"')
  for (;;) {
    const character = yield* input.take()
    if (character === quote) break
    if (character === "") throw new NotACall()
    input.argue(character === "\\" ? yield* readEscape(input) : inJson(character))
  }
  input.argue('"')
}

function inJson(text: string): string {
  // A half of a surrogate pair must stay as it is: its other half comes next.
  return text >= "\ud800" && text <= "\udfff" ? text : JSON.stringify(text).slice(1, -1)
}

// Python's escapes of one character; \u also stands alone in JSON, pairs of surrogates included.
const ESCAPES: Readonly<Record<string, string>> = {
  "\\": "\\\\",
  '"': '\\"',
  "'": "'",
  "/": "/",
  a: "\\u0007",
  b: "\\b",
  f: "\\f",
  n: "\\n",
  r: "\\r",
  t: "\\t",
  v: "\\u000b",
}
const DIGITS: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 }

function* readEscape(input: Input): Reading<string> {
  const kind = yield* input.take()
  if (Object.hasOwn(ESCAPES, kind)) return ESCAPES[kind]!
  if (kind === "" || kind === "N" || /\d/.test(kind)) throw new NotACall()
  if (!Object.hasOwn(DIGITS, kind)) return `\\\\${inJson(kind)}` // a backslash that escapes nothing stays, as in Python
  let digits = ""
  while (digits.length < DIGITS[kind]!) {
    if (!/[0-9a-fA-F]/.test(yield* input.peek())) throw new NotACall()
    digits += yield* input.take()
  }
  if (kind === "u") return `\\u${digits}`
  const code = Number.parseInt(digits, 16)
  if (code > 0x10ffff) throw new NotACall()
  return inJson(String.fromCodePoint(code))
}
