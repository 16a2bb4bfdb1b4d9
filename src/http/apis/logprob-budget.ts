// How many log probabilities one answer may hold. A whole answer keeps eight bytes for each until its choice has ended, and
// writes some sixty; what is sent as it is generated is not kept, so that of a stream only the echoed prompts count. The ids of
// tokens are told within the same bounds.

import { type Problem, problem } from "../../errors.ts"

/** 4 million: a context of 131,072 tokens with 20 alternatives to each, and half as much again. */
export const MAX_LOGPROBS = 2 ** 22
/** Of an answer that is one JSON text, as the other APIs write it, and not written in pieces. */
export const MAX_LOGPROBS_AT_ONCE = 2 ** 20

/** How many tokens an answer may tell of. */
export interface Told {
  choices: number // of all prompts
  /** The most tokens that a choice may have. */
  tokens: number
  /** Tokens of all prompts that are told together, once for each choice. */
  echoed: number
  stream: boolean
}

export interface Logprobs extends Told {
  /** The field that asked for them. */
  field: string
  /** Told of each token: its own, and that many alternatives. */
  top: number
  /** How many an answer may hold, where that is not as many as elsewhere, and what else than asking for fewer makes them fit. */
  most?: number
  cure?: string
}

/** Throws `invalid_value` when there may be more of them than an answer holds. */
export function assertLogprobsFit(asked: Logprobs): void {
  const { field, top, stream } = asked
  const {
    most = MAX_LOGPROBS,
    cure = stream ? "or ask for fewer choices" : "n or max_tokens, or stream the answer",
  } = asked
  const count = (1 + top) * tokensIn(asked)
  if (count > most) throw tooMany(field, `${count} log probabilities`, most, `lower it, ${cure}`)
}

/** The same of the ids of tokens, which return_token_ids asks for. */
export function assertIdsFit(told: Told): void {
  const count = tokensIn(told)
  if (count <= MAX_LOGPROBS) return
  const cure = told.stream ? "ask for fewer choices" : "lower n or max_tokens, or stream the answer"
  throw tooMany("return_token_ids", `${count} token ids`, MAX_LOGPROBS, cure)
}

function tokensIn({ choices, tokens, echoed, stream }: Told): number {
  return (stream ? 0 : choices * tokens) + echoed
}

function tooMany(field: string, what: string, most: number, cure: string): Problem {
  const words = `${field} asks for ${what} in one answer, which holds at most ${most}; ${cure}.`
  return problem("invalid_value", { problem: words }, field)
}
