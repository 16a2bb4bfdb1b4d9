// The texts of a transcript, as they come, as the events of a reply.

import type { ReplyEvent } from "../conversation.ts"

/** Of all that a recording took. */
export interface CountedUsage {
  promptTokens: number
  cachedTokens: number
  completionTokens: number
}

/** Without blanks around all of it. */
export async function* replyOf(
  texts: AsyncIterable<string>,
  usage: CountedUsage,
): AsyncGenerator<ReplyEvent> {
  for await (const text of trimmed(texts)) yield { kind: "content", choice: 0, text, logprobs: [] }
  yield { kind: "finish", choice: 0, reason: "stop" }
  yield { kind: "usage", usage: { ...usage, reasoningTokens: 0 } }
}

/** A text in parts, as they come, without blanks around all of it. */
export async function* trimmed(parts: AsyncIterable<string>): AsyncGenerator<string> {
  let held = "" // blanks that may be the last
  let isBegun = false
  for await (const part of parts) {
    const whole = isBegun ? held + part : part.trimStart()
    const text = whole.trimEnd()
    held = whole.slice(text.length)
    if (text === "") continue
    isBegun = true
    yield text
  }
}
