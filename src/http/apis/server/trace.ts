// What the trace holds, as one JSON text. It may be long, so it is written in pieces between which others are served.

import { setImmediate as breathe } from "node:timers/promises"
import { problem } from "../../../errors.ts"
import { type Answer, type Exchange, json } from "../../exchange.ts"

const PIECE = 1000 // events

/** The form: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU */
export async function eventTrace({ trace }: Exchange): Promise<Answer> {
  if (!trace) throw problem("tracing_off", {})
  const { traceEvents, ...head } = trace.toJSON()
  const pieces: string[] = []
  for (let at = 0; at < traceEvents.length; at += PIECE) {
    pieces.push(JSON.stringify(traceEvents.slice(at, at + PIECE)).slice(1, -1))
    await breathe()
  }
  return json(`${JSON.stringify(head).slice(0, -1)},"traceEvents":[${pieces.join(",")}]}`)
}
