// Calls of Apertus: a list of objects between marks, whose one member has the function's name and holds its arguments. The form is that
// of the chat template that the models are published with.
//
//     <|tools_prefix|>[{"NAME": {…}}, {"NAME": {…}}]<|tools_suffix|>

import type { Family } from "./families.ts"
import { type Input, NotACall, type Reading, type Tools } from "./input.ts"
import { readValue, textOfValue } from "./json.ts"
import { COMMA, markedJson, spelled } from "./marked-json.ts"

const OPEN = "<|tools_prefix|>"
const CLOSE = "<|tools_suffix|>"
const OBJECT = '{"'

export const apertus = {
  family: family as Family,
  ...markedJson({
    open: `${OPEN}[`,
    between: COMMA,
    close: `]${CLOSE}`,
    call: [OBJECT, ['": ', '":'], "}"],
    triggers: [{ before: OPEN, rest: spelled("[", OBJECT) }],
    textAfter: false,
  }),
}

function* family(input: Input, tools: Tools): Reading<void> {
  while (yield* input.textUntil(OPEN)) {
    if (!(yield* input.attempt(true, readCalls(input, tools)))) return yield* input.restIsText()
  }
}

function* readCalls(input: Input, tools: Tools): Reading<void> {
  yield* input.blanks()
  yield* input.expect("[")
  do {
    yield* input.blanks()
    yield* input.expect("{")
    yield* input.blanks()
    if ((yield* input.peek()) !== '"') throw new NotACall()
    const name: string = JSON.parse(yield* textOfValue(input))
    if (!tools.has(name)) throw new NotACall()
    yield* input.blanks()
    yield* input.expect(":")
    yield* input.blanks()
    if ((yield* input.peek()) !== "{") throw new NotACall()
    input.announce(name)
    yield* readValue(input, (character) => input.argue(character))
    yield* input.blanks()
    yield* input.expect("}")
    input.settle("end")
    yield* input.blanks()
  } while (yield* input.comma())
  yield* input.expect("]")
  yield* input.blanks()
  if ((yield* input.peek()) !== "") yield* input.expect(CLOSE)
  yield* input.blanks()
  input.settle("nothing")
}
