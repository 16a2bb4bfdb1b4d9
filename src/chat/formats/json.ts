// JSON as it is being written, checked character by character, and the object that most families write a call as:
// {"name": …, "arguments": {…}}.

import { type Input, NotACall, type Reading, type Tools } from "./input.ts"

/** Where the characters of a value go as they are read. */
type Sink = (character: string) => void

/** Reads one JSON value and hands on its characters as they stand. */
export function* readValue(input: Input, sink: Sink): Reading<void> {
  const first = yield* input.peek()
  if (first === "{") yield* readGroup(input, sink, "}", true)
  else if (first === "[") yield* readGroup(input, sink, "]", false)
  else if (first === '"') yield* readString(input, sink)
  else yield* readWord(input, sink)
}

function* readGroup(input: Input, sink: Sink, close: string, named: boolean): Reading<void> {
  yield* pass(input, sink)
  yield* passBlanks(input, sink)
  if ((yield* input.peek()) === close) return yield* pass(input, sink)
  for (;;) {
    if (named) {
      yield* readString(input, sink)
      yield* passBlanks(input, sink)
      if ((yield* input.peek()) !== ":") throw new NotACall()
      yield* pass(input, sink)
      yield* passBlanks(input, sink)
    }
    yield* readValue(input, sink)
    yield* passBlanks(input, sink)
    const next = yield* input.peek()
    if (next === close) return yield* pass(input, sink)
    if (next !== ",") throw new NotACall()
    yield* pass(input, sink)
    yield* passBlanks(input, sink)
  }
}

function* readString(input: Input, sink: Sink): Reading<void> {
  if ((yield* input.peek()) !== '"') throw new NotACall()
  yield* pass(input, sink)
  for (;;) {
    const character = yield* input.peek()
    if (character < " ") throw new NotACall() // the end of the reply, too
    yield* pass(input, sink)
    if (character === '"') return
    if (character === "\\") yield* readEscape(input, sink)
  }
}

function* readEscape(input: Input, sink: Sink): Reading<void> {
  const kind = yield* input.peek()
  if (kind === "" || !'"\\/bfnrtu'.includes(kind)) throw new NotACall()
  yield* pass(input, sink)
  for (let i = 0; kind === "u" && i < 4; i++) {
    if (!/[0-9a-fA-F]/.test(yield* input.peek())) throw new NotACall()
    yield* pass(input, sink)
  }
}

const WORD = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/
const WORD_BEGUN =
  /^(?:t(?:r(?:ue?)?)?|f(?:a(?:l(?:se?)?)?)?|n(?:u(?:ll?)?)?|-|-?(?:0|[1-9]\d*)(?:\.\d*)?(?:(?:\.\d+)?[eE][+-]?\d*)?)$/

function* readWord(input: Input, sink: Sink): Reading<void> {
  let word = ""
  for (;;) {
    const next = yield* input.peek()
    if (next === "" || !/[-+.\w]/.test(next)) break
    word += next
    if (!WORD_BEGUN.test(word)) throw new NotACall()
    yield* pass(input, sink)
  }
  if (!WORD.test(word)) throw new NotACall()
}

function* pass(input: Input, sink: Sink): Reading<void> {
  sink(yield* input.take())
}

function* passBlanks(input: Input, sink: Sink): Reading<void> {
  for (;;) {
    const next = yield* input.peek()
    if (next === "" || !" \n\r\t".includes(next)) return
    yield* pass(input, sink)
  }
}

/** Reads one value and gives its text. */
export function* textOfValue(input: Input): Reading<string> {
  let text = ""
  yield* readValue(input, (character) => {
    text += character
  })
  return text
}

/** Which members of an object name its function, and are passed over. */
export interface CallMembers {
  name: string
  others: readonly string[]
}

const MEMBERS: CallMembers = { name: "name", others: ["type", "id"] }

/**
 * Reads {"name": …, "arguments": {…}} in the spellings of the families: "parameters" for "arguments", arguments as a
 * string of JSON, all of it inside {"type": "function", "function": {…}}, members in any order. The call is announced when
 * its name is known to be one of `tools`; its arguments follow as they are written.
 */
export function* readCallObject(input: Input, tools: Tools, members = MEMBERS): Reading<void> {
  const call: Call = { members, name: undefined, early: undefined, argued: false }
  yield* readMembers(input, tools, call)
  if (call.name === undefined) throw new NotACall()
  if (!call.argued) input.argue("{}")
  input.settle("end")
}

interface Call {
  members: CallMembers
  name: string | undefined
  early: string | undefined // arguments that came before the name
  argued: boolean
}

function* readMembers(input: Input, tools: Tools, call: Call): Reading<void> {
  yield* input.expect("{")
  yield* input.blanks()
  if ((yield* input.peek()) === "}") return void (yield* input.take())
  for (;;) {
    const key = JSON.parse(yield* stringText(input)) as string
    yield* input.blanks()
    yield* input.expect(":")
    yield* input.blanks()
    yield* readMember(input, tools, call, key)
    yield* input.blanks()
    const next = yield* input.take()
    if (next === "}") return
    if (next !== ",") throw new NotACall()
    yield* input.blanks()
  }
}

function* readMember(input: Input, tools: Tools, call: Call, key: string): Reading<void> {
  if (call.members.others.includes(key)) return void (yield* textOfValue(input))
  switch (key) {
    case call.members.name: {
      const name: unknown = JSON.parse(yield* textOfValue(input))
      if (call.name !== undefined || typeof name !== "string" || !tools.has(name)) {
        throw new NotACall()
      }
      call.name = name
      input.announce(name)
      if (call.early !== undefined) argue(input, call, call.early)
      return
    }
    case "arguments":
    case "parameters":
      return yield* readArguments(input, call)
    case "function":
      return yield* readMembers(input, tools, call)
    default:
      // Before the name anything else shows that this is some other JSON.
      if (call.name === undefined) throw new NotACall()
      yield* textOfValue(input)
  }
}

function* readArguments(input: Input, call: Call): Reading<void> {
  if (call.argued || call.early !== undefined) throw new NotACall()
  if ((yield* input.peek()) === "{" && call.name !== undefined) {
    call.argued = true
    yield* readValue(input, (character) => input.argue(character))
    return
  }
  const value: unknown = yield* textOfValue(input)
  const text = objectText(value as string)
  if (text === undefined) throw new NotACall()
  if (call.name === undefined) call.early = text
  else argue(input, call, text)
}

/** The object that a value stands for: itself, one written as a string, none for null. */
function objectText(value: string): string | undefined {
  if (value === "null") return "{}"
  if (value.startsWith("{")) return value
  if (!value.startsWith('"')) return undefined
  const text = JSON.parse(value) as string
  try {
    const inner: unknown = JSON.parse(text)
    return typeof inner === "object" && inner !== null && !Array.isArray(inner) ? text : undefined
  } catch {
    return undefined
  }
}

function argue(input: Input, call: Call, text: string): void {
  call.argued = true
  input.argue(text)
}

function* stringText(input: Input): Reading<string> {
  if ((yield* input.peek()) !== '"') throw new NotACall()
  return yield* textOfValue(input)
}
