// A reply to a conversation as JSON: whole, or as the chunks of a stream. Both walk the same events; text is never
// touched here, only wrapped, in the dialect's shapes.

import type { FinishReason, ReplyEvent, TokenLogprob } from "../chat/conversation.ts"
import {
  assertText,
  chunkWriter,
  collect,
  type Envelope,
  failure,
  tokenJson,
  usageJson,
} from "./collected.ts"
import type { Dialect } from "./dialects/dialect.ts"
import { type Json, writeJson } from "./json.ts"

export interface Shape {
  dialect: Dialect
  logprobs: boolean // whether they were asked for
  usage: boolean // whether a stream ends with it
}

/** One answer with every choice. Throws the first choice's problem when all of them failed. */
export async function wholeAnswer(
  events: AsyncIterable<ReplyEvent>,
  envelope: Envelope,
  { dialect, logprobs }: Shape,
): Promise<string> {
  const { choices, usage } = await collect(events)
  return writeJson({
    ...envelope,
    choices: choices.map(([index, choice]) => ({
      index,
      message: dialect.message(choice),
      logprobs: logprobs ? logprobsJson(choice.contentLogprobs, choice.reasoningLogprobs) : null,
      finish_reason: choice.reason,
    })),
    usage: usageJson(usage),
  })
}

/**
 * The chunks of a streamed answer, as JSON texts, up to the end marker (which is the caller's). Throws the problem of a
 * choice that fails: a stream has no place for a failed choice among good ones.
 */
export async function* chunks(
  events: AsyncIterable<ReplyEvent>,
  envelope: Envelope,
  { dialect, logprobs, usage: wantsUsage }: Shape,
): AsyncGenerator<string> {
  const write = chunkWriter(envelope, wantsUsage)
  const opened = new Set<number>()
  for await (const event of events) {
    if (event.kind === "usage") {
      if (wantsUsage) yield write([], usageJson(event.usage))
      continue
    }
    const index = event.choice
    if (!opened.has(index)) {
      opened.add(index)
      if (dialect.opening) yield write([chunkChoice(index, dialect.opening, null, null)])
    }
    if (event.kind === "finish") {
      if (event.reason === "error") throw failure(event)
      yield write([chunkChoice(index, dialect.closing, event.reason, null)])
      continue
    }
    assertText(event)
    const isContent = event.kind === "content"
    const delta = dialect.delta(isContent ? { content: event.text } : { reasoning: event.text })
    const tokens = isContent ? logprobsJson(event.logprobs, []) : logprobsJson([], event.logprobs)
    yield write([chunkChoice(index, delta, null, logprobs ? tokens : null)])
  }
}

/** A chunk that says nothing, for clients that would take a long silence for a dead server. */
export function emptyChunk(envelope: Envelope, { dialect, usage }: Shape): string {
  const delta = dialect.delta({ content: "" })
  return chunkWriter(envelope, usage)([chunkChoice(0, delta, null, null)])
}

function chunkChoice(index: number, delta: Json, reason: FinishReason | null, logprobs: Json) {
  return { index, delta, logprobs, finish_reason: reason }
}

/** `content` lists the tokens of the content, so that they join to it; those of thinking stand beside them. */
function logprobsJson(content: readonly TokenLogprob[], reasoning: readonly TokenLogprob[]): Json {
  return {
    content: content.map(tokenJson),
    refusal: null,
    ...(reasoning.length > 0 && { reasoning_content: reasoning.map(tokenJson) }),
  }
}
