// A continued text as JSON, in the shapes of OpenAI's older endpoint: no roles, logprobs as four parallel lists. Several
// prompts are several generations side by side whose choices are counted through.

import type { ChatReply, ReplyEvent, TokenLogprob, Usage } from "../chat/conversation.ts"
import {
  chunkWriter,
  collect,
  type Envelope,
  failure,
  logprobJson,
  usageJson,
} from "./collected.ts"
import { type Json, writeJson } from "./json.ts"

export interface TextShape {
  logprobs: boolean // whether they were asked for
  usage: boolean // whether a stream ends with it
}

/** One answer with every choice. Throws the first choice's problem when all of them failed. */
export async function wholeText(
  events: AsyncIterable<ReplyEvent>,
  envelope: Envelope,
  { logprobs }: TextShape,
): Promise<string> {
  const { choices, usage } = await collect(events)
  return writeJson({
    ...envelope,
    choices: choices.map(([index, { content, contentLogprobs, reason }]) => ({
      index,
      text: content,
      logprobs: logprobs ? logprobLists(contentLogprobs) : null,
      finish_reason: reason,
    })),
    usage: usageJson(usage),
  })
}

/** The chunks of a streamed answer, as JSON texts. Throws the problem of a choice that fails. */
export async function* textChunks(
  events: AsyncIterable<ReplyEvent>,
  envelope: Envelope,
  { logprobs, usage: wantsUsage }: TextShape,
): AsyncGenerator<string> {
  const write = chunkWriter(envelope, wantsUsage)
  for await (const event of events) {
    if (event.kind === "usage") {
      if (wantsUsage) yield write([], usageJson(event.usage))
      continue
    }
    const index = event.choice
    if (event.kind === "finish") {
      if (event.problem) throw failure(event)
      yield write([{ index, text: "", logprobs: null, finish_reason: event.reason }])
      continue
    }
    if (event.kind !== "content") throw new Error(`internal: plain text holds a ${event.kind}`)
    const lists = logprobs ? logprobLists(event.logprobs) : null
    yield write([{ index, text: event.text, logprobs: lists, finish_reason: null }])
  }
}

/** A chunk that says nothing. */
export function emptyTextChunk(envelope: Envelope, { usage }: TextShape): string {
  return chunkWriter(envelope, usage)([{ index: 0, text: "", logprobs: null, finish_reason: null }])
}

/** The events of several generations as they come, each with `choices` choices, with one usage for all at the end. */
export async function* sideBySide(
  replies: readonly ChatReply[],
  choices: number,
): AsyncGenerator<ReplyEvent> {
  const sources = replies.map((reply) => reply.events[Symbol.asyncIterator]())
  const next = async (index: number) => ({ index, result: await sources[index]!.next() })
  const pending = new Map(sources.map((_, index) => [index, next(index)]))
  const total: Usage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0, reasoningTokens: 0 }
  try {
    while (pending.size > 0) {
      const { index, result } = await Promise.race(pending.values())
      if (result.done) {
        pending.delete(index)
        continue
      }
      pending.set(index, next(index))
      const event = result.value
      if (event.kind === "usage") addTo(total, event.usage)
      else yield { ...event, choice: index * choices + event.choice }
    }
    yield { kind: "usage", usage: total }
  } finally {
    await Promise.allSettled(sources.map(async (source) => source.return?.()))
  }
}

function addTo(total: Usage, usage: Usage): void {
  for (const key of Object.keys(total) as (keyof Usage)[]) total[key] += usage[key]
}

function logprobLists(tokens: readonly TokenLogprob[]): Json {
  return {
    tokens: tokens.map(nameOf),
    token_logprobs: tokens.map(({ logprob }) => logprobJson(logprob)),
    top_logprobs: tokens.map((token) => (token.logprob === undefined ? null : alternatives(token))),
    text_offset: tokens.map(({ offset }) => offset),
  }
}

function alternatives(token: TokenLogprob): Json {
  const named = [...token.top, token].map((each) => [nameOf(each), logprobJson(each.logprob)])
  return Object.fromEntries(named)
}

// As OpenAI writes them: tokens whose bytes are no text of their own would all be called U+FFFD.
function nameOf({ token, bytes }: { token: string; bytes: Uint8Array }): string {
  if (!token.includes("\ufffd")) return token
  return `bytes:${[...bytes].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("")}`
}
