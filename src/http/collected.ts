// The whole answer is the stream collected: this is the collecting, and what chat and plain completions say alike.

import { randomBytes } from "node:crypto"
import type { FinishReason, ReplyEvent, TokenLogprob, Usage } from "../chat/conversation.ts"
import { type Problem, problem } from "../errors.ts"
import type { Call, Said } from "./dialects/dialect.ts"
import type { Json } from "./json.ts"

/** What every chunk of one answer repeats. */
export interface Envelope {
  id: string
  object: string
  created: number // unix seconds
  model: string // as the request called it
  system_fingerprint: string
}

export function newEnvelope(
  prefix: "chatcmpl" | "cmpl",
  object: string,
  model: string,
  system_fingerprint: string,
): Envelope {
  const id = `${prefix}-${randomBytes(12).toString("hex")}`
  return { id, object, created: Math.floor(Date.now() / 1000), model, system_fingerprint }
}

/** Writes chunks. The head is written once: it is most of a chunk's JSON. */
export function chunkWriter(envelope: Envelope, wantsUsage: boolean) {
  const head = JSON.stringify(envelope).slice(0, -1)
  return (choices: Json[], usage: Json = null) => {
    const tail = wantsUsage ? `,"usage":${JSON.stringify(usage)}` : ""
    return `${head},"choices":${JSON.stringify(choices)}${tail}}`
  }
}

export interface Collected {
  content: string
  reasoning: string
  contentLogprobs: TokenLogprob[]
  reasoningLogprobs: TokenLogprob[]
  calls: Call[]
  reason: FinishReason
  problem: Problem | undefined
}

/** Every choice by its index, in order. Throws the first choice's problem when all of them failed. */
export async function collect(
  events: AsyncIterable<ReplyEvent>,
): Promise<{ choices: [index: number, Collected][]; usage: Usage }> {
  const choices = new Map<number, Collected>()
  let usage: Usage | undefined
  for await (const event of events) {
    if (event.kind === "usage") {
      usage = event.usage
      continue
    }
    const choice = choices.get(event.choice) ?? nothing()
    choices.set(event.choice, choice)
    if (event.kind === "finish") {
      choice.reason = event.reason
      choice.problem = event.problem
      continue
    }
    take(choice, event)
  }
  const inOrder = [...choices].sort(([a], [b]) => a - b)
  if (inOrder.every(([, choice]) => choice.problem)) throw failure(inOrder[0]?.[1])
  if (!usage) throw new Error("internal: a reply ended without its usage")
  return { choices: inOrder, usage }
}

function take(choice: Collected, event: Said): void {
  switch (event.kind) {
    case "content":
      choice.content += event.text
      choice.contentLogprobs.push(...event.logprobs)
      break
    case "reasoning":
      choice.reasoning += event.text
      choice.reasoningLogprobs.push(...event.logprobs)
      break
    case "call":
      choice.calls[event.index] = { id: event.id, name: event.name, arguments: "" }
      break
    case "arguments":
      choice.calls[event.index]!.arguments += event.text
  }
}

function nothing(): Collected {
  return {
    content: "",
    reasoning: "",
    contentLogprobs: [],
    reasoningLogprobs: [],
    calls: [],
    reason: "stop",
    problem: undefined,
  }
}

/** Why a choice failed. */
export function failure(choice: { problem?: Problem | undefined } | undefined): Problem {
  return choice?.problem ?? problem("generation_failed", { problem: "no reply came." })
}

export function usageJson(usage: Usage): Json {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.promptTokens + usage.completionTokens,
    prompt_tokens_details: { cached_tokens: usage.cachedTokens },
    completion_tokens_details: { reasoning_tokens: usage.reasoningTokens },
  }
}

const LEAST_LOGPROB = -9999 // OpenAI's word for "never"; JSON has no -Infinity

export function logprobJson(logprob: number | undefined): Json {
  return logprob === undefined ? null : Math.max(logprob, LEAST_LOGPROB)
}

export function tokenJson({ top, ...token }: TokenLogprob): Json {
  return { ...tokenFields(token), top_logprobs: top.map(tokenFields) }
}

function tokenFields({ token, bytes, logprob }: Omit<TokenLogprob, "top" | "offset">) {
  return {
    token,
    logprob: logprobJson(logprob),
    bytes: Array.from(bytes),
  }
}
