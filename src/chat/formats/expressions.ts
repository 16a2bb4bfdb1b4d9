// Call expressions: name(key="value", …) with values as Python literals, and lists of them. One parser turns the arguments
// into JSON while they are being written. Numbers pass as they are spelled.

import { type Input, NotACall, type Reading } from "./input.ts"

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
    while (/[\w\u0080-\uffff]/.test(yield* input.peek())) key += yield* input.take()
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
}

const WORDS: Readonly<Record<string, string>> = {
  True: "true",
  False: "false",
  None: "null",
  true: "true",
  false: "false",
  null: "null",
}
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

function* readWord(input: Input): Reading<void> {
  let word = ""
  while (/[-+.\w]/.test(yield* input.peek())) {
    word += yield* input.take()
    if (word.length > 400) throw new NotACall()
  }
  const json = Object.hasOwn(WORDS, word) ? WORDS[word] : NUMBER.test(word) ? word : undefined
  if (json === undefined) throw new NotACall()
  input.argue(json)
}

function* readString(input: Input): Reading<void> {
  const quote = yield* input.take()
  input.argue('"')
  for (;;) {
    const character = yield* input.take()
    if (character === quote) break
    if (character === "" || character === "\n") throw new NotACall()
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
  if (!Object.hasOwn(DIGITS, kind)) throw new NotACall()
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
