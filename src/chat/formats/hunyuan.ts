// Calls of Hunyuan: a name, and JSON in a fence, each between marks and all of them between others. The form is that of the chat
// template that the models are published with; objects and lists of them, which they write as well, are read.
//
//     <tool_calls>
//     <tool_call>NAME
//     ```json
//     {…}
//     ```</tool_call>
//     </tool_calls>

import { readList } from "./families.ts"
import { readFencedArguments } from "./fenced.ts"
import { type Input, NotACall, type Reading, type Tools } from "./input.ts"
import { readCallObject } from "./json.ts"
import { markedJson } from "./marked-json.ts"
import { tag, upTo } from "./parameters.ts"

const CALLS = "<tool_calls>"
const CALLS_END = "</tool_calls>"
const CALL = "<tool_call>"
const CALL_END = "</tool_call>"

export const hunyuan = {
  marks: [CALLS, CALLS_END, CALL, CALL_END],
  family,
  ...markedJson({
    open: `${CALLS}\n`,
    between: "\n",
    close: `\n${CALLS_END}`,
    call: [CALL, "\n```json\n", `\n\`\`\`${CALL_END}`],
    triggers: [{ before: CALLS, rest: `\n${CALL}` }],
    textAfter: false,
  }),
}

function* family(input: Input, tools: Tools): Reading<void> {
  for (let open = yield* opened(input); open !== ""; open = yield* opened(input)) {
    if (!(yield* input.attempt(true, readCalls(input, tools, open === CALLS))))
      return yield* input.restIsText()
  }
}

function opened(input: Input): Reading<string> {
  return input.textUntil([CALLS, CALL])
}

/** @param several whether what closes all of them comes */
function* readCalls(input: Input, tools: Tools, several: boolean): Reading<void> {
  for (let isOpen = !several; ; ) {
    yield* input.blanks()
    const next = yield* input.peek()
    if (next === "") break
    if (next !== "<") {
      yield* readCall(input, tools, next)
      continue
    }
    const mark = yield* tag(input)
    if (mark === (several ? "/tool_calls" : "/tool_call")) break
    if (mark !== (isOpen ? "/tool_call" : "tool_call")) throw new NotACall()
    isOpen = !isOpen
  }
  yield* input.blanks()
  input.settle("nothing")
}

function* readCall(input: Input, tools: Tools, next: string): Reading<void> {
  if (next === "[") return yield* readList(input, tools)
  if (next === "{") return yield* readCallObject(input, tools)
  const name = yield* upTo(input, /[\n{`<]/)
  if (!tools.has(name)) throw new NotACall()
  input.announce(name)
  yield* readFencedArguments(input)
}
