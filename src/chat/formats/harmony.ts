// Calls of gpt-oss: messages to functions (../channels.ts). One ends a reply, since the token behind it does.

import { choice, literal, type Part, sequence, text } from "../../grammar/grammar.ts"
import type { CallableTool, CallGrammar, CallText } from "./call-grammar.ts"
import { type Input, NotACall, type Reading, type Tools } from "./input.ts"
import { readValue } from "./json.ts"

const OPEN = "<|channel|>commentary to=functions."
const NAMED = " <|constrain|>json<|message|>"

/** The header of a message may name the function before the channel. */
const OPENS = [OPEN, "<|channel|>analysis to=functions.", " to=functions."]
const MAX_HEADER = 256 // characters

export const harmony = {
  family,
  grammar: {
    calls: (tools) => sequence(literal(OPEN), rests(tools)),
    // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
    text: (tools) => text([{ open: OPEN, then: rests(tools) }], false),
  } satisfies CallGrammar,
  written: (calls: readonly CallText[]) =>
    calls.map(({ name, arguments: json }) => OPEN + name + NAMED + json).join("\n"),
}

/** A call from its name on. */
function rests(tools: readonly CallableTool[]): Part {
  return choice(...tools.map(({ name, json }) => sequence(literal(name + NAMED), json)))
}

function* family(input: Input, tools: Tools): Reading<void> {
  while (yield* input.textUntil(OPENS)) {
    if (!(yield* input.attempt(true, readCall(input, tools)))) return yield* input.restIsText()
  }
}

function* readCall(input: Input, tools: Tools): Reading<void> {
  let name = ""
  while (/[\w.-]/.test(yield* input.peek())) name += yield* input.take()
  if (!tools.has(name)) throw new NotACall()
  input.announce(name)
  for (let header = ""; !header.endsWith("<|message|>"); header += yield* input.take())
    if (header.length > MAX_HEADER || (yield* input.peek()) === "") throw new NotACall()
  yield* input.blanks()
  if ((yield* input.peek()) !== "{") throw new NotACall()
  yield* readValue(input, (character) => input.argue(character))
  input.settle("end")
}
