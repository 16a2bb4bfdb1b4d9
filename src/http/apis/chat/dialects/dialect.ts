// What a dialect decides: the last mile from a reply to JSON. Both dialects see the same events; none may change a word
// of the text. Everything that is the same in both (ids, usage, logprobs, errors, framing) is not here.

import type { FinishReason, ReplyEvent } from "../../../../chat/conversation.ts"
import type { Json } from "../../../json.ts"
import type { ToolText } from "../../../service.ts"

export interface Dialect {
  /** The message of a whole answer. */
  message(reply: { content: string; reasoning: string; calls: readonly Call[] }): Json
  /** The finish reason of a whole answer in which something was to be a call and cannot be read as one. */
  unreadable: FinishReason
  /** Begins a streamed choice. */
  begin(toolText: ToolText): Deltas
  /** What breaks a long silence: a chunk with an empty delta, or a comment that parsers skip. */
  signOfLife: "chunk" | "comment"
}

export interface Call {
  id: string
  name: string
  arguments: string // JSON text of an object; a beginning of one where the reply was cut
}

/** What a choice says: everything but its end, and a prompt, which no conversation echoes. */
export type Said = Exclude<ReplyEvent, { kind: "finish" | "usage" | "prompt" }>

/** The deltas of one streamed choice. */
export interface Deltas {
  /** Those that an event brings; some bring none. */
  take(event: Said): Json[]
  /** Those that are left, of which the last carries the finish reason. */
  end(): Json[]
}

/** A call as both dialects write it; they differ in what its arguments are. */
export function callJson({ id, name }: Call, given: Json) {
  return { id, type: "function", function: { name, arguments: given } }
}
