// Calls of gpt-oss: messages to functions (../channels.ts). One ends a reply, since the token behind it does. The header of a message
// names the function behind its channel, as the models write it, or before it, as their template shows past calls:
//
//     <|start|>assistant<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{…}
//     <|start|>assistant to=functions.NAME<|channel|>commentary json<|message|>{…}

import { choice, literal, type Part, sequence, type Trigger, text } from "../../grammar/grammar.ts"
import { CHANNEL, START } from "../channels.ts"
import { asSpelled, asTokens, type Spelling } from "../markers.ts"
import type { CallableTool, CallGrammar, CallText } from "./call-grammar.ts"
import { type Input, NotACall, type Reading, type Tools } from "./input.ts"
import { readValue } from "./json.ts"

const CALL = " to=functions."
const MESSAGE = "<|message|>"
const OPEN = `${CHANNEL}commentary${CALL}`
const THOUGHT = `${CHANNEL}analysis${CALL}`
const NAMED = ` <|constrain|>json${MESSAGE}`

/** Behind a function's name that stands before the channel. */
const CHANNELS = ["commentary", "analysis"].flatMap((channel) =>
  [NAMED, ` json${MESSAGE}`].map((rest) => CHANNEL + channel + rest),
)

const OPENS = [OPEN, THOUGHT, CALL]
const MAX_HEADER = 256 // characters

export const harmony = {
  family,
  grammar: grammarBy(asSpelled),
  byTokens: grammarBy(asTokens),
  written: (calls: readonly CallText[]) =>
    calls.map(({ name, arguments: json }) => OPEN + name + NAMED + json).join("\n"),
}

function grammarBy(spelling: Spelling): CallGrammar {
  // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
  const opens = (open: string, part: Part): Trigger => ({ open: spelling(open), then: part })
  /** A call from its name on. */
  const rests = (tools: readonly CallableTool[], headers: readonly string[] = [NAMED]): Part => {
    const header = choice(...headers.map((each) => literal(spelling(each))))
    return choice(...tools.map(({ name, json }) => sequence(literal(name), header, json)))
  }
  return {
    calls: (tools) =>
      choice(
        sequence(literal(spelling(OPEN)), rests(tools)),
        sequence(literal(CALL), rests(tools, CHANNELS)),
      ),
    text: (tools) => {
      const named = rests(tools)
      const namedFirst = rests(tools, CHANNELS)
      const anywhere = [opens(OPEN, named), opens(THOUGHT, named), opens(START + CALL, namedFirst)]
      // The prompt ends with the role, and the reply begins behind it.
      return text(anywhere, false, [opens(CALL, namedFirst)])
    },
  }
}

function* family(input: Input, tools: Tools): Reading<void> {
  for (let open = yield* opened(input); open !== ""; open = yield* opened(input)) {
    const isMarked = open !== CALL
    if (yield* input.attempt(isMarked, readName(input, tools, isMarked))) {
      if (!(yield* input.attempt(true, readArguments(input)))) return yield* input.restIsText()
    } else if (isMarked) return yield* input.restIsText()
  }
}

function opened(input: Input): Reading<string> {
  return input.textUntil(OPENS)
}

/** Without a mark before it a name is a call's only in a header, which goes on with the channel: a text may speak of it. */
function* readName(input: Input, tools: Tools, isMarked: boolean): Reading<void> {
  let name = ""
  while (/[\w.-]/.test(yield* input.peek())) name += yield* input.take()
  if (!tools.has(name)) throw new NotACall()
  if (!isMarked) yield* input.expect(CHANNEL)
  input.announce(name)
}

function* readArguments(input: Input): Reading<void> {
  for (let length = 0; !(yield* input.follows(MESSAGE)); length++)
    if (length > MAX_HEADER || (yield* input.take()) === "") throw new NotACall()
  yield* input.expect(MESSAGE)
  yield* input.blanks()
  if ((yield* input.peek()) !== "{") throw new NotACall()
  yield* readValue(input, (character) => input.argue(character))
  input.settle("end")
}
