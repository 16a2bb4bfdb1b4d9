// Calls of Solar Open: a message of its own, and in it for each call an id, a name and JSON between marks. The form is that of Upstage's
// own parser and of vLLM's (tests/tool_parsers/test_solar_open_tool_parser.py); the message ends with `<|calls|>`, which ends the
// reply. Ids are ten small letters and digits, also those of earlier calls (../call-ids.ts). What tells thinking and answers, messages
// as well, is in reasoning.ts.
//
//     <|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>NAME<|tool_call:args|>{…}<|tool_call:end|>

import { createHash } from "node:crypto"
import { choice, list, literal, type Part, sequence, text } from "../../grammar/grammar.ts"
import type { CallableTool, CallGrammar, CallText } from "./call-grammar.ts"
import type { Family } from "./families.ts"
import { type Input, NotACall, type Reading, type Tools } from "./input.ts"
import { readValue } from "./json.ts"
import { upTo } from "./parameters.ts"

const CALLS = "<|tool_calls|>"
const CALL = "<|tool_call:begin|>"
const NAMED = "<|tool_call:name|>"
const ARGUMENTS = "<|tool_call:args|>"
const CALL_END = "<|tool_call:end|>"
const ID_LENGTH = 10
const ID_CHARACTERS = Array.from("0123456789abcdefghijklmnopqrstuvwxyz", literal)

export const solar = {
  marks: [CALLS, CALL, NAMED, ARGUMENTS, CALL_END],
  family: family as Family,
  grammar: {
    calls: (tools, most) => sequence(literal(CALLS + CALL), callsPart(tools, most)),
    text: (tools, most) => text(triggers(tools, most), false),
  } satisfies CallGrammar,
  written: (calls: readonly CallText[]) => CALLS + calls.map(written).join(""),
  callId,
  // Between the mark of a call and its name stands an id.
  opening: { mark: CALLS, heads: () => [CALL] },
}

function callId(name: string, number: number): string {
  return createHash("sha256").update(`${name} ${number}`).digest("hex").slice(0, ID_LENGTH)
}

function written(call: CallText, number: number): string {
  const { name, arguments: json, id = callId(name, number) } = call
  return CALL + id + NAMED + name + ARGUMENTS + json + CALL_END
}

/** A message that a model opens with its first call is read, too. */
function triggers(tools: readonly CallableTool[], most: number) {
  return [
    // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
    { open: CALLS, then: sequence(literal(CALL), callsPart(tools, most)) },
    // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
    { open: CALL, then: callsPart(tools, most) },
  ]
}

/** Calls, the first of which is open. */
function callsPart(tools: readonly CallableTool[], most: number): Part {
  const id = list(choice(...ID_CHARACTERS), literal(""), ID_LENGTH, ID_LENGTH)
  const named = choice(
    ...tools.map(({ name, json }) => sequence(literal(name + ARGUMENTS), json, literal(CALL_END))),
  )
  return list(sequence(id, literal(NAMED), named), literal(CALL), 1, most)
}

function* family(input: Input, tools: Tools): Reading<void> {
  for (let open = yield* opened(input); open !== ""; open = yield* opened(input)) {
    if (!(yield* input.attempt(true, readCalls(input, tools, open === CALL))))
      return yield* input.restIsText()
  }
}

function opened(input: Input): Reading<string> {
  return input.textUntil([CALLS, CALL])
}

function* readCalls(input: Input, tools: Tools, isOpen: boolean): Reading<void> {
  if (!isOpen) {
    yield* input.blanks()
    yield* input.expect(CALL)
  }
  yield* upTo(input, /</)
  yield* input.expect(NAMED)
  const name = yield* upTo(input, /</)
  yield* input.expect(ARGUMENTS)
  if (!tools.has(name)) throw new NotACall()
  input.announce(name)
  yield* input.blanks()
  if ((yield* input.peek()) !== "{") throw new NotACall()
  yield* readValue(input, (character) => input.argue(character))
  input.settle("end")
  yield* input.blanks()
  if ((yield* input.peek()) !== "") yield* input.expect(CALL_END)
  yield* input.blanks()
  input.settle("nothing")
}
