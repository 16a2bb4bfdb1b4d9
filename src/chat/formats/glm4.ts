// Calls of GLM-4 as of April 2025: the reply is the name of a function and, on the next line, its arguments. It is the form that the
// models' own description gives (github.com/zai-org/GLM-4); their template shows tools, and calls only as messages with metadata.
//
//     NAME
//     {…}

import { choice, list, literal, type Part, sequence, text } from "../../grammar/grammar.ts"
import type { CallableTool, CallGrammar, CallText } from "./call-grammar.ts"
import { type Input, NotACall, type Reading, type Tools } from "./input.ts"
import { readValue } from "./json.ts"

export const glm4 = {
  marks: [],
  family,
  grammar: {
    calls: (tools, most) => list(callPart(tools), literal("\n"), 1, most),
    text: (tools, most) => {
      const further = list(sequence(literal("\n"), callPart(tools)), literal(""), 0, most - 1)
      const opened = tools.map(({ name, json }) => {
        // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
        return { open: `${name}\n`, then: sequence(json, further) }
      })
      return text([], false, opened)
    },
  } satisfies CallGrammar,
  written: (calls: readonly CallText[]) =>
    calls.map(({ name, arguments: json }) => `${name}\n${json}`).join("\n"),
}

function callPart(tools: readonly CallableTool[]): Part {
  return choice(...tools.map(({ name, json }) => sequence(literal(`${name}\n`), json)))
}

function* family(input: Input, tools: Tools): Reading<void> {
  while (yield* input.attempt(false, readCall(input, tools))) {
    yield* input.blanks()
    input.settle("nothing")
    if ((yield* input.peek()) === "") return
  }
}

function* readCall(input: Input, tools: Tools): Reading<void> {
  yield* input.blanks()
  let name = ""
  while (/[\w.-]/.test(yield* input.peek())) name += yield* input.take()
  yield* input.expect("\n")
  yield* input.blanks()
  if (!tools.has(name) || (yield* input.peek()) !== "{") throw new NotACall()
  input.announce(name)
  yield* readValue(input, (character) => input.argue(character))
  input.settle("end")
}
