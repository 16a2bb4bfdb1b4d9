// Calls of Muse Glimmer: each is a message to a function, which its header names, and in it XML as MiniMax M2 has it, in tags of its own.
// The form is that of its chat template. What tells thinking and answers, messages to the model itself and to its user, is in
// ../reasoning.ts; what header stands before a call is read here, as is one of an answer behind a call.
//
//     <|start|>assistant to=NAME<|message|><atem:function_calls>
//     <atem:invoke name="NAME">
//     <atem:parameter name="KEY">VALUE</atem:parameter>
//     </atem:invoke>
//     </atem:function_calls><|eom|>

import { choice, list, literal, type Part, sequence, text } from "../../grammar/grammar.ts"
import { asSpelled, asTokens, type Spelling } from "../markers.ts"
import type { CallableTool, CallGrammar, CallText } from "./call-grammar.ts"
import { type Input, NotACall, type Reading, type Tools } from "./input.ts"
import { formOf, invokes, marks, readInvokes, rest, upTo, written } from "./parameters.ts"

const PREFIX = "atem:"
const CALLS = `<${PREFIX}function_calls>`
const spelling = invokes(PREFIX, CALLS, `</${PREFIX}function_calls>`)
const readCalls = readInvokes(PREFIX, spelling)

const TO = "to="
const MESSAGE = "<|message|>"
const END = "<|eom|>"
const START = "<|start|>assistant"
/** Between two messages; the prompt ends with the second of them. */
const NEXT = `${END}${START} `
const USER = "user"

export const atem = {
  family,
  marks: ["<|start|>", MESSAGE, END, CALLS, spelling.all[1]],
  grammar: grammarBy(asSpelled),
  byTokens: grammarBy(asTokens),
  written: (calls: readonly CallText[]) => calls.map(message).join(NEXT),
}

function grammarBy(marked: Spelling): CallGrammar {
  return {
    form: formOf(spelling),
    calls: (tools, most) => {
      const messages = tools.map((tool) =>
        sequence(literal(TO + tool.name + marked(MESSAGE) + CALLS), callPart([tool])),
      )
      return list(choice(...messages), literal(marked(NEXT)), 1, most)
    },
    // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
    text: (tools, most) => text([{ open: CALLS, then: callPart(tools) }], most > 1),
  }
}

/** Behind the mark. */
function callPart(tools: readonly CallableTool[]): Part {
  const { all, open } = spelling
  const each = choice(...tools.map((tool) => rest(tool, spelling)))
  return sequence(marks(all[0] + open), each, literal(all[1]))
}

function message(call: CallText): string {
  const [between, end] = spelling.all
  return TO + call.name + MESSAGE + CALLS + between + written(call, spelling) + end
}

function* family(input: Input, tools: Tools): Reading<void> {
  for (let open = yield* opened(input); open !== ""; open = yield* opened(input)) {
    if (open === END) input.settle("nothing")
    else if (open !== CALLS) yield* input.attempt(false, readHeader(input, tools, open))
    else if (!(yield* input.attempt(true, readCalls(input, tools))))
      return yield* input.restIsText()
  }
}

function opened(input: Input): Reading<string> {
  return input.textUntil([CALLS, TO, END, START])
}

/** An answer's header begins a message. A call's may have lost that mark (../reasoning.ts), but calls follow it: a text may speak of either. */
function* readHeader(input: Input, tools: Tools, open: string): Reading<void> {
  if (open === START) {
    input.settle("nothing")
    yield* input.blanks()
    yield* input.expect(TO)
  }
  const name = yield* upTo(input, /[\s<]/)
  yield* input.expect(MESSAGE)
  const isAnswer = name === USER && open === START
  if (!isAnswer && !(tools.has(name) && (yield* input.follows(CALLS)))) throw new NotACall()
  input.settle("nothing")
}
