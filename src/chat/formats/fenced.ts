// Arguments as JSON in a fence of Markdown, between a call's name and its end mark: DeepSeek's and Hunyuan's.

import { type Input, NotACall, type Reading } from "./input.ts"
import { readValue } from "./json.ts"
import { upTo } from "./parameters.ts"

const FENCE = "```"

/** Reads the arguments of the call that was announced, which end it, with their fence or without one. */
export function* readFencedArguments(input: Input): Reading<void> {
  yield* input.blanks()
  const isFenced = (yield* input.peek()) === FENCE[0]
  if (isFenced) {
    yield* input.expect(FENCE)
    yield* upTo(input, /[\n{]/)
    yield* input.blanks()
  }
  if ((yield* input.peek()) !== "{") throw new NotACall()
  yield* readValue(input, (character) => input.argue(character))
  input.settle("end")
  yield* input.blanks()
  if (isFenced && (yield* input.peek()) !== "") yield* input.expect(FENCE)
}
