// Calls of Kimi K2: a section, and in it for each call an id and JSON between marks. The id names the function and numbers the calls of
// the whole conversation, so that templates want it in what came before, too (../call-ids.ts). The form is that of the chat templates
// and of the guide to tool calls that the models are published with. Read as well, as vLLM does: a section in the singular or none,
// blanks, and names without `functions.`.
//
//     <|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{…}<|tool_call_end|><|tool_calls_section_end|>

import { choice, list, literal, type Part, sequence, text } from "../../grammar/grammar.ts"
import { type CallableTool, type CallGrammar, type CallText, callNumber } from "./call-grammar.ts"
import type { Family } from "./families.ts"
import { type Input, NotACall, type Reading, type Tools } from "./input.ts"
import { readValue } from "./json.ts"
import { upTo } from "./parameters.ts"

const SECTION = "<|tool_calls_section_begin|>"
const SECTION_END = "<|tool_calls_section_end|>"
const SINGULAR = "<|tool_call_section_begin|>"
const SINGULAR_END = "<|tool_call_section_end|>"
const CALL = "<|tool_call_begin|>"
const CALL_END = "<|tool_call_end|>"
const ARGUMENTS = "<|tool_call_argument_begin|>"
const FUNCTIONS = "functions."

const callId = (name: string, number: number) => `${FUNCTIONS}${name}:${number}`

export const kimi = {
  marks: [SECTION, SECTION_END, CALL, CALL_END, ARGUMENTS],
  family: family as Family,
  grammar: {
    calls: (tools, most) =>
      sequence(literal(SECTION + CALL), callsPart(tools, most, [SECTION_END])),
    text: (tools, most) => text(triggers(tools, most), false),
  } satisfies CallGrammar,
  written: (calls: readonly CallText[]) => SECTION + calls.map(written).join("") + SECTION_END,
  callId,
  opening: { mark: SECTION, heads: (name: string) => [`${CALL}${FUNCTIONS}${name}:`] },
}

function written(call: CallText, number: number): string {
  const { name, arguments: json, id = callId(name, number) } = call
  return CALL + id + ARGUMENTS + json + CALL_END
}

// ---- what a model may write ----

/** A section that a model leaves out need not be closed. */
function triggers(tools: readonly CallableTool[], most: number) {
  return [
    // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
    { open: SECTION, then: sequence(literal(CALL), callsPart(tools, most, [SECTION_END])) },
    // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
    { open: CALL, then: callsPart(tools, most, ["", SECTION_END]) },
  ]
}

/** Calls, the first of which is open. */
function callsPart(tools: readonly CallableTool[], most: number, ends: readonly string[]): Part {
  const calls = list(callPart(tools), literal(CALL), 1, most)
  return sequence(calls, choice(...ends.map(literal)))
}

function callPart(tools: readonly CallableTool[]): Part {
  const named = ({ name, json }: CallableTool) =>
    sequence(literal(`${FUNCTIONS}${name}:`), callNumber, literal(ARGUMENTS), json)
  return sequence(choice(...tools.map(named)), literal(CALL_END))
}

// ---- what is read ----

/** Marks around calls say nothing by themselves, wherever they stand. */
function* family(input: Input, tools: Tools): Reading<void> {
  for (let mark = yield* next(input); mark !== ""; mark = yield* next(input)) {
    const isRead = mark !== CALL || (yield* input.attempt(true, readCall(input, tools)))
    if (!isRead) return yield* input.restIsText()
    yield* input.blanks()
    input.settle("nothing")
  }
}

function next(input: Input): Reading<string> {
  return input.textUntil([SECTION, SINGULAR, CALL, CALL_END, SECTION_END, SINGULAR_END])
}

function* readCall(input: Input, tools: Tools): Reading<void> {
  const name = nameIn(yield* upTo(input, /</), tools)
  yield* input.expect(ARGUMENTS)
  input.announce(name)
  yield* input.blanks()
  if ((yield* input.peek()) !== "{") throw new NotACall()
  yield* readValue(input, (character) => input.argue(character))
  input.settle("end")
}

/** The tool that an id names. */
function nameIn(id: string, tools: Tools): string {
  const numbered = id.trim().replace(/:\d+$/, "")
  const plain = numbered.startsWith(FUNCTIONS) ? numbered.slice(FUNCTIONS.length) : numbered
  const name = [plain, numbered].find((each) => tools.has(each))
  if (name === undefined) throw new NotACall()
  return name
}
