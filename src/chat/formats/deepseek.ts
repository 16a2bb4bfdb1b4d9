// Calls of DeepSeek V3 and R1: function tokens, between them a type, a name and JSON in a fence. V3.1 leaves out type and fence. The
// forms are those of the chat templates that the models are published with, and of R1's distillates.
//
//     <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME
//     ```json
//     {…}
//     ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>

import type { Family } from "./families.ts"
import { readFencedArguments } from "./fenced.ts"
import { type Input, NotACall, type Reading, type Tools } from "./input.ts"
import { markedJson } from "./marked-json.ts"
import { upTo } from "./parameters.ts"

const CALLS = "<｜tool▁calls▁begin｜>"
const CALLS_END = "<｜tool▁calls▁end｜>"
const CALL = "<｜tool▁call▁begin｜>"
const CALL_END = "<｜tool▁call▁end｜>"
const NAMED = "<｜tool▁sep｜>"

const marks = [CALLS, CALLS_END, CALL, CALL_END, NAMED]

export const deepseek = form(
  [`${CALL}function${NAMED}`, "\n```json\n", `\n\`\`\`${CALL_END}`],
  "\n",
)
export const deepseek31 = form([CALL, NAMED, CALL_END], "")

function form(call: readonly [before: string, after: string, end: string], between: string) {
  const triggers = [{ before: CALLS, rest: call[0] }]
  const spelling = { open: CALLS, between, close: CALLS_END, call, triggers, textAfter: false }
  return { marks, family: family as Family, ...markedJson(spelling) }
}

/** Either form, whatever the template shows. */
function* family(input: Input, tools: Tools): Reading<void> {
  for (let open = yield* opened(input); open !== ""; open = yield* opened(input)) {
    if (!(yield* input.attempt(true, readCalls(input, tools, open))))
      return yield* input.restIsText()
  }
}

function opened(input: Input): Reading<string> {
  return input.textUntil([CALLS, CALL])
}

function* readCalls(input: Input, tools: Tools, open: string): Reading<void> {
  yield* input.blanks()
  if (open === CALLS) yield* input.expect(CALL)
  do {
    yield* readCall(input, tools)
    yield* input.blanks()
  } while (yield* goesOn(input))
  yield* input.blanks()
  input.settle("nothing")
}

function* readCall(input: Input, tools: Tools): Reading<void> {
  const head = yield* upTo(input, /</)
  yield* input.expect(NAMED)
  const name = (yield* input.peek()) === "{" ? head : yield* upTo(input, /[\n{`]/)
  if (!tools.has(name)) throw new NotACall()
  input.announce(name)
  yield* readFencedArguments(input)
  yield* input.blanks()
  if ((yield* input.peek()) !== "") yield* input.expect(CALL_END)
  input.settle("nothing")
}

/** Whether another call opens; what closes them all is read. */
function* goesOn(input: Input): Reading<boolean> {
  if ((yield* input.peek()) !== "<") return false
  const mark = `${yield* upTo(input, />/)}${yield* input.take()}`
  if (mark !== CALL && mark !== CALLS_END) throw new NotACall()
  return mark === CALL
}
