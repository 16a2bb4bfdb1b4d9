// Gemma 4's calls: names without quotes, texts between marks of their own instead, all else as JSON has it. Its template shows null as
// Python does.
// https://ai.google.dev/gemma/docs/core/prompt-formatting-gemma4
//
//     <|tool_call>call:NAME{place:<|"|>Köln<|"|>,days:[1,2]}<tool_call|>

import {
  choice,
  inNotation,
  list,
  literal,
  type Part,
  sequence,
  text,
} from "../../grammar/grammar.ts"
import { type CallableTool, type CallGrammar, type CallText, namesWithout } from "./call-grammar.ts"
import { type Input, NotACall, type Reading, type Tools } from "./input.ts"
import { readValue } from "./json.ts"
import { ANY, readUntil, upTo } from "./parameters.ts"

const OPEN = "<|tool_call>"
const CALL = "call:"
const CLOSE = "<tool_call|>"
const QUOTE = '<|"|>'

export const gemma4 = {
  marks: [OPEN, CLOSE, QUOTE],
  family,
  grammar: {
    form: {
      before: "",
      between: ",",
      nameEnd: ":",
      names: namesWithout(':,{}"<>'),
      value: (kind, { json, plain }) => {
        const marked = kind === "text" ? plain({ end: QUOTE }) : undefined
        return sequence(
          literal(":"),
          marked ? sequence(literal(QUOTE), marked) : inNotation("marked", json),
        )
      },
    },
    calls: (tools, most) => list(sequence(literal(OPEN), rests(tools)), literal(""), 1, most),
    // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
    text: (tools, most) => text([{ open: OPEN, then: rests(tools) }], most > 1),
  } satisfies CallGrammar,
  written: (calls: readonly CallText[]) => calls.map(written).join(""),
}

// ---- what a model may write ----

function rests(tools: readonly CallableTool[]): Part {
  return choice(
    ...tools.map(({ name, members }) =>
      sequence(literal(`${CALL}${name}{`), members, literal(`}${CLOSE}`)),
    ),
  )
}

function written({ name, arguments: json }: CallText): string {
  const members = Object.entries(JSON.parse(json) as object).map(([key, value]) => {
    const text = typeof value === "string" ? QUOTE + value + QUOTE : JSON.stringify(value)
    return `${key}:${text}`
  })
  return `${OPEN}${CALL}${name}{${members.join(",")}}${CLOSE}`
}

// ---- what is read ----

function* family(input: Input, tools: Tools): Reading<void> {
  while (yield* input.textUntil(OPEN)) {
    if (!(yield* input.attempt(true, readCall(input, tools)))) return yield* input.restIsText()
  }
}

function* readCall(input: Input, tools: Tools): Reading<void> {
  yield* input.blanks()
  yield* input.expect(CALL)
  const name = yield* upTo(input, /\{/)
  if (!tools.has(name)) throw new NotACall()
  input.announce(name)
  yield* readMembers(input)
  input.settle("end")
  yield* input.blanks()
  if ((yield* input.peek()) !== "") yield* input.expect(CLOSE)
  yield* input.blanks()
  input.settle("nothing")
}

/** A value, handed on as JSON. */
function* readAny(input: Input): Reading<void> {
  const next = yield* input.peek()
  if (next === "<") yield* readQuoted(input)
  else if (next === "{") yield* readMembers(input)
  else if (next === "[") yield* readItems(input)
  else if (next === "N") {
    yield* input.expect("None")
    input.argue("null")
  } else yield* readValue(input, (character) => input.argue(character))
}

function* readMembers(input: Input): Reading<void> {
  const seen = new Set<string>()
  yield* readGroup(input, "{", "}", function* () {
    const key = yield* readName(input)
    yield* input.blanks()
    if (seen.has(key)) throw new NotACall()
    yield* input.expect(":")
    input.argue(`${JSON.stringify(key)}: `)
    seen.add(key)
    yield* input.blanks()
    yield* readAny(input)
  })
}

function* readItems(input: Input): Reading<void> {
  yield* readGroup(input, "[", "]", () => readAny(input))
}

function* readGroup(
  input: Input,
  open: string,
  close: string,
  readOne: () => Reading<void>,
): Reading<void> {
  yield* input.expect(open)
  input.argue(open)
  yield* input.blanks()
  for (let count = 0; (yield* input.peek()) !== close; count++) {
    if (count > 0) {
      yield* input.expect(",")
      input.argue(", ")
      yield* input.blanks()
    }
    yield* readOne()
    yield* input.blanks()
  }
  yield* input.expect(close)
  input.argue(close)
}

function* readQuoted(input: Input): Reading<void> {
  yield* input.expect(QUOTE)
  input.argue('"')
  yield* readUntil(input, QUOTE, (piece) => input.argue(JSON.stringify(piece).slice(1, -1)))
  input.argue('"')
}

/** Some quote names all the same, in either way. */
function* readName(input: Input): Reading<string> {
  const next = yield* input.peek()
  if (next !== '"' && next !== "<") return yield* upTo(input, /:/, ANY)
  let quoted = ""
  const add = (piece: string) => {
    quoted += piece
  }
  if (next === '"') {
    yield* readValue(input, add)
    return JSON.parse(quoted) as string
  }
  yield* input.expect(QUOTE)
  yield* readUntil(input, QUOTE, add)
  return quoted
}
