// Sends chunks as a stream with its end marker. A failure on the way becomes one event with the error: by then the
// status has been sent.

import { errorBody, problemOf } from "../error-body.ts"
import type { Answer, Exchange } from "../exchange.ts"
import { EventStream } from "../sse.ts"

/** @param signOfLife what breaks a long silence: a whole event or a comment. */
export async function stream(
  exchange: Exchange,
  chunks: AsyncIterable<string>,
  signOfLife: string,
): Promise<Answer> {
  const { raw, headers } = exchange.takeOver()
  const events = new EventStream(raw, headers, exchange.options.timeouts, signOfLife)
  try {
    for await (const chunk of chunks) await events.send(chunk)
    await events.send("[DONE]")
  } catch (error) {
    if (!exchange.signal.aborted) await events.send(errorBody(problemOf(error, exchange)))
  }
  events.end()
  return "sent"
}
