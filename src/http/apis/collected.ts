// The whole answer is the stream collected: this is the collecting, and what chat and plain completions say alike. An
// answer may be far larger than what is held of it: log probabilities are kept as numbers and become text as they are sent.

import { randomBytes } from "node:crypto"
import type {
  FinishReason,
  ReplyEvent,
  TokenLogprob,
  TokenNames,
  Usage,
} from "../../chat/conversation.ts"
import { type Problem, problem } from "../../errors.ts"
import type { Json } from "../json.ts"
import type { Call, Said } from "./chat/dialects/dialect.ts"
import { TokenColumns } from "./token-columns.ts"

/** What every chunk of one answer repeats. */
export interface Envelope {
  id: string
  object: string
  created: number // unix seconds
  model: string // as the request called it
  system_fingerprint: string
  prompt_token_ids?: readonly number[] // of a conversation, where they are told
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

/** One choice, as far as it has come. */
export interface Collected {
  content: string
  reasoning: string
  /** What the content begins with, where the prompt is echoed: one list for all choices. */
  promptLogprobs: Iterable<TokenLogprob>
  contentLogprobs: TokenColumns
  reasoningLogprobs: TokenColumns
  /** The ids of all its tokens, in order, where they are told. */
  ids: number[]
  calls: Call[]
  reason: FinishReason
  problem: Problem | undefined
  hasEnded: boolean
}

/**
 * The text of a whole answer, in pieces. Each choice is written, and forgotten, as soon as it and those before it have ended,
 * and one of all has come to a good end: until then the status may still be that of a failure. Throws the first choice's
 * problem when all of them failed.
 * @param tells whether choices are to know the ids of their tokens, and the log probabilities
 */
export async function* answerPieces(
  events: AsyncIterable<ReplyEvent>,
  envelope: Envelope,
  tells: { ids: boolean; logprobs: boolean },
  write: (index: number, choice: Collected) => Iterable<string>,
): AsyncGenerator<string, void, undefined> {
  const choices = new Map<number, Collected>()
  let usage: Usage | undefined
  let isGood = false
  let next = 0
  const written = function* () {
    for (let choice = choices.get(next); choice?.hasEnded; choice = choices.get(next)) {
      choices.delete(next)
      yield next === 0 ? `${JSON.stringify(envelope).slice(0, -1)},"choices":[` : ","
      yield* write(next++, choice)
    }
  }
  for await (const event of events) {
    if (event.kind === "usage") {
      usage = event.usage
      continue
    }
    const choice = choices.get(event.choice) ?? nothing()
    choices.set(event.choice, choice)
    if (tells.ids) for (const id of idsIn(event)) choice.ids.push(id)
    if (event.kind !== "finish") {
      take(choice, event, tells.logprobs)
      continue
    }
    choice.reason = event.reason
    choice.problem = event.problem
    choice.hasEnded = true
    isGood ||= !event.problem
    if (isGood) yield* written()
  }
  if (!isGood) throw failure(choices.get(0))
  if (!usage || choices.size > 0) throw new Error("internal: a reply ended without its usage")
  yield `],"usage":${JSON.stringify(usageJson(usage))}}`
}

function take(choice: Collected, event: Said | PromptEvent, tellsLogprobs: boolean): void {
  switch (event.kind) {
    case "prompt":
      choice.content += event.text
      choice.promptLogprobs = event.logprobs
      break
    case "content":
      choice.content += event.text
      if (tellsLogprobs) choice.contentLogprobs.add(event.logprobs)
      break
    case "reasoning":
      choice.reasoning += event.text
      if (tellsLogprobs) choice.reasoningLogprobs.add(event.logprobs)
      break
    case "call":
      choice.calls[event.index] = { id: event.id, name: event.name, arguments: "" }
      break
    case "arguments":
      choice.calls[event.index]!.arguments += event.text
  }
}

/** The ids of the reply's tokens that an event tells. */
export function idsIn(event: Said | PromptEvent | FinishEvent): readonly number[] {
  if (event.kind === "finish") return event.token === undefined ? [] : [event.token]
  if (event.kind !== "content" && event.kind !== "reasoning") return []
  return event.logprobs.map(({ token }) => token)
}

/** Names that tell ids instead of texts. */
export function asIds(names: TokenNames): TokenNames {
  return { ...names, text: (token) => `token_id:${token}` }
}

type FinishEvent = Extract<ReplyEvent, { kind: "finish" }>
type PromptEvent = Extract<ReplyEvent, { kind: "prompt" }>

function nothing(): Collected {
  return {
    content: "",
    reasoning: "",
    promptLogprobs: [],
    contentLogprobs: new TokenColumns(),
    reasoningLogprobs: new TokenColumns(),
    ids: [],
    calls: [],
    reason: "stop",
    problem: undefined,
    hasEnded: false,
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

const MIN_LOGPROB = -9999 // OpenAI's word for "never"; JSON has no -Infinity

export function logprobJson(logprob: number): number {
  return Math.max(logprob, MIN_LOGPROB)
}

/** The JSON of tokens, in pieces. */
export function* tokenPieces(
  tokens: Iterable<TokenLogprob>,
  names: TokenNames,
): Generator<string, void, undefined> {
  yield* joined(tokens, (token) => JSON.stringify(tokenJson(token, names)))
}

export function tokenJson({ token, shows, logprob, top }: TokenLogprob, names: TokenNames) {
  return {
    ...tokenFields(token, logprob!, shows, names), // of a reply's token it is known
    top_logprobs: top.map((each) =>
      tokenFields(each.token, each.logprob, !names.isSilent(each.token), names),
    ),
  }
}

function tokenFields(
  token: number,
  logprob: number,
  shows: boolean,
  names: TokenNames,
): { token: string; logprob: number; bytes: number[] } {
  return {
    token: names.text(token),
    logprob: logprobJson(logprob),
    bytes: shows ? Array.from(names.bytes(token)) : [],
  }
}

const PIECE = 4 * 1024 // characters

/** Texts with commas between, in pieces that leave the event loop its turns. */
export function* joined<Value>(
  values: Iterable<Value>,
  text: (value: Value) => string,
): Generator<string, void, undefined> {
  let piece = ""
  let comma = ""
  for (const value of values) {
    piece += comma + text(value)
    comma = ","
    if (piece.length < PIECE) continue
    yield piece
    piece = ""
  }
  if (piece !== "") yield piece
}
