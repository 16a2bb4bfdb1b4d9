// Sends chunks as a stream, and behind them what the API ends its streams with. A failure on the way becomes events: by then
// the status has been sent.

import { type Answer, type Exchange, problemOf } from "../exchange.ts"
import { EventStream } from "../sse.ts"
import type { ServerEvent } from "./api.ts"

/** @param signOfLife asked what breaks a long silence: a whole event or a comment */
export async function stream(
  exchange: Exchange,
  chunks: AsyncIterable<ServerEvent>,
  signOfLife: () => string,
): Promise<Answer> {
  const events = new EventStream(exchange, signOfLife, exchange.api.framing)
  try {
    for await (const chunk of chunks) await events.send(chunk)
    for (const last of exchange.api.streamEnd) await events.send(last)
  } catch (error) {
    if (exchange.signal.aborted) return endOf(events)
    for (const last of exchange.api.streamFailure(problemOf(error, exchange))) {
      await events.send(last)
    }
  }
  return endOf(events)
}

function endOf(events: EventStream): Answer {
  events.end()
  return "sent"
}
