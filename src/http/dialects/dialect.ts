// What a dialect decides: the last mile from a reply to JSON. Both dialects see the same events; none may change a word
// of the text. Everything that is the same in both (ids, usage, logprobs, errors, framing) is not here.

import type { Json } from "../json.ts"

export interface Dialect {
  /** The message of a whole answer. */
  message(reply: { content: string; reasoning: string }): Json
  /** The delta that goes ahead of a choice's first words, where the dialect wants one. */
  opening: Json | undefined
  /** The delta for a piece of the reply. */
  delta(piece: { content?: string; reasoning?: string }): Json
  /** The delta that carries the finish reason. */
  closing: Json
  /** What breaks a long silence: a chunk with an empty delta, or a comment that parsers skip. */
  signOfLife: "chunk" | "comment"
}
