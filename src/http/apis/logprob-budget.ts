// How many log probabilities one answer may hold. A whole answer keeps eight bytes for each until its choice has ended, and
// writes some sixty; what is sent as it is generated is not kept, so that of a stream only the echoed prompts count.

import { problem } from "../../errors.ts"

/** 4 million: a context of 131,072 tokens with 20 alternatives to each, and half as much again. */
export const MAX_LOGPROBS = 2 ** 22

export interface Logprobs {
  /** The field that asked for them. */
  field: string
  /** Told of each token: its own, and that many alternatives. */
  top: number
  choices: number // of all prompts
  /** The most tokens that a choice may have. */
  tokens: number
  /** Tokens of all echoed prompts together, once for each choice. */
  echoed: number
  stream: boolean
}

/** Throws `invalid_value` when there may be more of them than an answer holds. */
export function assertLogprobsFit(asked: Logprobs): void {
  const { field, top, choices, tokens, echoed, stream } = asked
  const count = (1 + top) * ((stream ? 0 : choices * tokens) + echoed)
  if (count <= MAX_LOGPROBS) return
  const cure = stream ? "or ask for fewer choices" : "n or max_tokens, or stream the answer"
  throw problem(
    "invalid_value",
    {
      problem: `${field} asks for ${count} log probabilities in one answer, which holds at most ${MAX_LOGPROBS}; lower it, ${cure}.`,
    },
    field,
  )
}
