// A reply as JSON: whole, or as the chunks of a stream. Both walk the same events; the whole answer is the stream
// collected. Text is never touched here, only wrapped.

import { randomBytes } from "node:crypto"
import type { ChatReply, FinishReason, TokenLogprob, Usage } from "../chat/conversation.ts"
import { type Problem, problem } from "../errors.ts"
import type { Dialect } from "./dialects/dialect.ts"
import { type Json, JsonText, writeJson } from "./json.ts"

/** What every chunk of one answer repeats. */
export interface Envelope {
  id: string
  created: number // unix seconds
  model: string // as the request called it
  fingerprint: string
}

export function newEnvelope(prefix: string, model: string, fingerprint: string): Envelope {
  const id = `${prefix}-${randomBytes(12).toString("hex")}`
  return { id, created: Math.floor(Date.now() / 1000), model, fingerprint }
}

export interface Shape {
  dialect: Dialect
  logprobs: boolean // whether they were asked for
  usage: boolean // whether a stream ends with it
}

/** One answer with every choice. Throws the first choice's problem when all of them failed. */
export async function wholeAnswer(
  reply: ChatReply,
  envelope: Envelope,
  shape: Shape,
): Promise<string> {
  const choices = new Map<number, Collected>()
  let usage: Usage | undefined
  for await (const event of reply.events) {
    if (event.kind === "usage") {
      usage = event.usage
      continue
    }
    const choice = choices.get(event.choice) ?? newCollected()
    choices.set(event.choice, choice)
    if (event.kind === "finish") {
      choice.reason = event.reason
      choice.problem = event.problem
      continue
    }
    choice[event.kind] += event.text
    choice[`${event.kind}Logprobs`].push(...event.logprobs)
  }
  const inOrder = [...choices].sort(([a], [b]) => a - b)
  if (inOrder.every(([, choice]) => choice.reason === "error")) throw failure(inOrder[0]?.[1])
  return writeJson({
    id: envelope.id,
    object: "chat.completion",
    created: envelope.created,
    model: envelope.model,
    system_fingerprint: envelope.fingerprint,
    choices: inOrder.map(([index, choice]) => ({
      index,
      message: shape.dialect.message(choice),
      logprobs: shape.logprobs
        ? logprobsJson(choice.contentLogprobs, choice.reasoningLogprobs)
        : null,
      finish_reason: choice.reason,
    })),
    usage: usageJson(usage),
  })
}

interface Collected {
  content: string
  reasoning: string
  contentLogprobs: TokenLogprob[]
  reasoningLogprobs: TokenLogprob[]
  reason: FinishReason
  problem: Problem | undefined
}

function newCollected(): Collected {
  return {
    content: "",
    reasoning: "",
    contentLogprobs: [],
    reasoningLogprobs: [],
    reason: "stop",
    problem: undefined,
  }
}

/**
 * The chunks of a streamed answer, as JSON texts, up to the end marker (which is the caller's). Throws the problem of a
 * choice that fails: a stream has no place for a failed choice among good ones.
 */
export async function* chunks(
  reply: ChatReply,
  envelope: Envelope,
  { dialect, logprobs, usage: wantsUsage }: Shape,
): AsyncGenerator<string> {
  const frame = chunkFrame(envelope, wantsUsage)
  const opened = new Set<number>()
  for await (const event of reply.events) {
    if (event.kind === "usage") {
      if (wantsUsage) yield frame([], usageJson(event.usage))
      continue
    }
    const index = event.choice
    if (!opened.has(index)) {
      opened.add(index)
      if (dialect.opening) yield frame([chunkChoice(index, dialect.opening, null, null)])
    }
    if (event.kind === "finish") {
      if (event.reason === "error") throw failure(event)
      const reason = dialect.streamedReason(event.reason)
      yield frame([chunkChoice(index, dialect.closing, reason, null)])
      continue
    }
    const isContent = event.kind === "content"
    const delta = dialect.delta(isContent ? { content: event.text } : { reasoning: event.text })
    const tokens = logprobs
      ? logprobsJson(isContent ? event.logprobs : [], isContent ? [] : event.logprobs)
      : null
    yield frame([chunkChoice(index, delta, null, tokens)])
  }
}

/** A chunk that says nothing, for clients that would take a long silence for a dead server. */
export function emptyChunk(envelope: Envelope, { dialect, usage }: Shape): string {
  const delta = dialect.delta({ content: "" })
  return chunkFrame(envelope, usage)([chunkChoice(0, delta, null, null)])
}

function chunkChoice(index: number, delta: Json, reason: FinishReason | null, logprobs: Json) {
  return { index, delta, logprobs, finish_reason: reason }
}

// The head is written once: it is most of a chunk's JSON.
function chunkFrame(envelope: Envelope, wantsUsage: boolean) {
  const head = writeJson({
    id: envelope.id,
    object: "chat.completion.chunk",
    created: envelope.created,
    model: envelope.model,
    system_fingerprint: envelope.fingerprint,
  }).slice(0, -1)
  return (choices: Json[], usage: Json = null) => {
    const tail = wantsUsage ? `,"usage":${writeJson(usage)}` : ""
    return `${head},"choices":${writeJson(choices)}${tail}}`
  }
}

function failure(choice: { problem?: Problem | undefined } | undefined): Problem {
  return choice?.problem ?? problem("generation_failed", { problem: "no reply came." })
}

function usageJson(usage: Usage | undefined): Json {
  if (!usage) throw new Error("internal: a reply ended without its usage")
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.promptTokens + usage.completionTokens,
    prompt_tokens_details: { cached_tokens: usage.cachedTokens },
    completion_tokens_details: { reasoning_tokens: usage.reasoningTokens },
  }
}

const LEAST_LOGPROB = -9999 // OpenAI's word for "never"; JSON has no -Infinity

/** `content` lists the tokens of the content, so that they join to it; those of thinking stand beside them. */
function logprobsJson(content: readonly TokenLogprob[], reasoning: readonly TokenLogprob[]): Json {
  return {
    content: content.map(tokenJson),
    refusal: null,
    ...(reasoning.length > 0 && { reasoning_content: reasoning.map(tokenJson) }),
  }
}

function tokenJson({ top, ...token }: TokenLogprob): Json {
  return { ...tokenFields(token), top_logprobs: top.map(tokenFields) }
}

function tokenFields({ token, bytes, logprob }: Omit<TokenLogprob, "top">) {
  return {
    token,
    logprob: Math.max(logprob, LEAST_LOGPROB),
    bytes: new JsonText(`[${bytes.join(",")}]`),
  }
}
