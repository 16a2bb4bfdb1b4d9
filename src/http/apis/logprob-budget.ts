// How many log probabilities one answer may hold. A whole answer keeps eight bytes for each until its choice has ended, and
// writes some sixty; what is sent as it is generated is not kept, so that of a stream only the echoed prompts count.

import { problem } from "../../errors.ts"

/** 4 million: a context of 131,072 tokens with 20 alternatives to each, and half as much again. */
export const MAX_LOGPROBS = 2 ** 22
/** Of an answer that is one JSON text, as the other APIs write it, and not written in pieces. */
export const MAX_LOGPROBS_AT_ONCE = 2 ** 20

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
  /** How many an answer may hold, where that is not as many as elsewhere, and what else than asking for fewer makes them fit. */
  most?: number
  cure?: string
}

/** Throws `invalid_value` when there may be more of them than an answer holds. */
export function assertLogprobsFit(asked: Logprobs): void {
  const { field, top, choices, tokens, echoed, stream } = asked
  const {
    most = MAX_LOGPROBS,
    cure = stream ? "or ask for fewer choices" : "n or max_tokens, or stream the answer",
  } = asked
  const count = (1 + top) * ((stream ? 0 : choices * tokens) + echoed)
  if (count <= most) return
  throw problem(
    "invalid_value",
    {
      problem: `${field} asks for ${count} log probabilities in one answer, which holds at most ${most}; lower it, ${cure}.`,
    },
    field,
  )
}
