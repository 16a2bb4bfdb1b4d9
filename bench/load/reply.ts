// A streamed answer as a client reads it, with the times of its pieces, and what is wrong with it: a stream is complete
// when it has one finish_reason, no content after it, then usage, and [DONE] last.

import type { IncomingMessage } from "node:http"
import { setTimeout as sleep } from "node:timers/promises"

export interface Reply {
  text: string
  /** Names and arguments of all calls, one after the other. */
  calls: string
  finish: string | undefined
  promptTokens: number
  completionTokens: number
  /** When each piece of text came, on performance.now()'s clock. */
  times: number[]
  /** What is wrong with the stream; undefined: it is complete. */
  fault: string | undefined
}

/** How a stream is read: to its end at once, with pauses, or only so far. */
export interface Manner {
  /** Milliseconds of not reading after each piece the socket gives. */
  pause?: number
  /** Told of every event; true ends the reading and cuts the connection. */
  leave?: (events: number) => boolean
}

export async function readStream(response: IncomingMessage, manner: Manner = {}): Promise<Reply> {
  const reply: Reply = {
    text: "",
    calls: "",
    finish: undefined,
    promptTokens: -1,
    completionTokens: -1,
    times: [],
    fault: undefined,
  }
  let buffer = ""
  let events = 0
  let done = false
  const blame = (fault: string) => {
    reply.fault ??= fault
  }
  if (response.statusCode !== 200) blame(`status ${response.statusCode}`)
  try {
    for await (const piece of response.setEncoding("utf8")) {
      buffer += piece
      for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n")) {
        const line = buffer.slice(0, end)
        buffer = buffer.slice(end + 2)
        if (line.startsWith(":")) continue
        if (done) blame("an event after [DONE]")
        if (line === "data: [DONE]") done = true
        else take(reply, JSON.parse(line.slice("data: ".length)), blame)
        if (manner.leave?.(++events)) return reply // leaving the loop destroys the response
      }
      if (manner.pause) await sleep(manner.pause)
    }
  } catch (error) {
    blame(`the connection broke: ${(error as Error).message}`)
  }
  if (!done) blame("no [DONE]")
  if (buffer !== "") blame("half an event at the end")
  if (reply.finish === undefined) blame("no finish_reason")
  if (reply.completionTokens < 0) blame("no usage")
  return reply
}

/** A call, or a piece of one. */
export interface Call {
  function: { name?: string; arguments?: string }
}

interface Chunk {
  error?: { message: string }
  choices: { delta: { content?: string; tool_calls?: Call[] }; finish_reason: string | null }[]
  usage?: { prompt_tokens: number; completion_tokens: number } | null
}

export function callsText(calls: readonly Call[] = []): string {
  return calls.map(({ function: { name = "", arguments: text = "" } }) => name + text).join("")
}

function take(reply: Reply, chunk: Chunk, blame: (fault: string) => void): void {
  if (chunk.error) {
    blame(`an error on the way: ${chunk.error.message}`)
    return
  }
  if (reply.completionTokens >= 0) blame("a chunk after the usage")
  for (const { delta, finish_reason } of chunk.choices) {
    if (reply.finish !== undefined) blame("a choice after its finish_reason")
    const calls = callsText(delta.tool_calls)
    if (delta.content || calls) {
      reply.text += delta.content ?? ""
      reply.calls += calls
      reply.times.push(performance.now())
    }
    if (finish_reason !== null) reply.finish = finish_reason
  }
  if (!chunk.usage) return
  reply.promptTokens = chunk.usage.prompt_tokens
  reply.completionTokens = chunk.usage.completion_tokens
}
