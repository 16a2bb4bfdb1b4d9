// A continued text as JSON, in the shapes of OpenAI's older endpoint: no roles, logprobs as four parallel lists. Several
// prompts are several generations side by side whose choices are counted through.

import type {
  ChatReply,
  ReplyEvent,
  TokenLogprob,
  TokenNames,
  Usage,
} from "../../../chat/conversation.ts"
import { merged } from "../../../chat/merged.ts"
import type { Json } from "../../json.ts"
import {
  answerPieces,
  chunkWriter,
  type Envelope,
  failure,
  idsIn,
  joined,
  logprobJson,
  usageJson,
} from "../collected.ts"

export interface TextShape {
  names: TokenNames
  logprobs: boolean // whether they were asked for
  /** The tokens of a choice's prompt, where ids are told. */
  promptOf: ((choice: number) => Int32Array) | undefined
  usage: boolean // whether a stream ends with it
}

/** The pieces of one answer with every choice. Throws the first choice's problem when all of them failed. */
export function wholeText(
  events: AsyncIterable<ReplyEvent>,
  envelope: Envelope,
  { names, logprobs, promptOf }: TextShape,
): AsyncGenerator<string, void, undefined> {
  const tells = { ids: promptOf !== undefined, logprobs }
  return answerPieces(events, envelope, tells, function* (index, choice) {
    const { content, promptLogprobs, contentLogprobs, reason } = choice
    yield `{"index":${index},"text":${JSON.stringify(content)},"logprobs":`
    if (logprobs) yield* logprobPieces([promptLogprobs, contentLogprobs], names)
    else yield "null"
    yield `,"finish_reason":${JSON.stringify(reason)}`
    if (promptOf) {
      yield `,"prompt_token_ids":${JSON.stringify(Array.from(promptOf(index)))}`
      yield `,"token_ids":${JSON.stringify(choice.ids)}`
    }
    yield "}"
  })
}

/** Tokens of a prompt that one chunk tells. */
const PROMPT_TOKENS = 64

/** The chunks of a streamed answer, as JSON texts. Throws the problem of a choice that fails. */
export async function* textChunks(
  events: AsyncIterable<ReplyEvent>,
  envelope: Envelope,
  { names, logprobs, promptOf, usage: wantsUsage }: TextShape,
): AsyncGenerator<string> {
  const write = chunkWriter(envelope, wantsUsage)
  const begun = new Set<number>()
  const ids = (index: number, tokens: readonly number[] = []) => {
    if (!promptOf) return {}
    const isFirst = !begun.has(index)
    begun.add(index)
    const prompt = isFirst && { prompt_token_ids: Array.from(promptOf(index)) }
    return { ...prompt, token_ids: tokens }
  }
  const lists = (tokens: readonly TokenLogprob[]) => (logprobs ? logprobLists(tokens, names) : null)
  for await (const event of events) {
    if (event.kind === "usage") {
      if (wantsUsage) yield write([], usageJson(event.usage))
      continue
    }
    const index = event.choice
    if (event.kind === "finish") {
      if (event.problem) throw failure(event)
      const end = { index, text: "", logprobs: null, finish_reason: event.reason }
      yield write([{ ...end, ...ids(index, idsIn(event)) }])
      continue
    }
    if (event.kind === "prompt") {
      let text = event.text
      for (const tokens of slices(event.logprobs, PROMPT_TOKENS)) {
        const part = { index, text, logprobs: lists(tokens), finish_reason: null }
        yield write([{ ...part, ...ids(index) }])
        text = ""
      }
      continue
    }
    if (event.kind !== "content") throw new Error(`internal: plain text holds a ${event.kind}`)
    const part = { index, text: event.text, logprobs: lists(event.logprobs), finish_reason: null }
    yield write([{ ...part, ...ids(index, idsIn(event)) }])
  }
}

/** At least one, which may be empty. */
function* slices<Value>(values: Iterable<Value>, length: number): Generator<Value[]> {
  let slice: Value[] = []
  for (const value of values) {
    if (slice.length === length) {
      yield slice
      slice = []
    }
    slice.push(value)
  }
  yield slice
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
  const total: Usage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0, reasoningTokens: 0 }
  const sources = replies.map(({ events }) => events[Symbol.asyncIterator]())
  for await (const { index, value: event } of merged(sources)) {
    if (event.kind === "usage") addTo(total, event.usage)
    else yield { ...event, choice: index * choices + event.choice }
  }
  yield { kind: "usage", usage: total }
}

function addTo(total: Usage, usage: Usage): void {
  for (const key of Object.keys(total) as (keyof Usage)[]) total[key] += usage[key]
}

/** What is told of each token, by the list it stands in. */
const LISTS = {
  tokens: ({ token }, names) => nameOf(token, names),
  token_logprobs: ({ logprob }) => (logprob === undefined ? null : logprobJson(logprob)),
  top_logprobs: (token, names) => (token.logprob === undefined ? null : alternatives(token, names)),
  text_offset: ({ offset }) => offset,
} as const satisfies Record<string, (token: TokenLogprob, names: TokenNames) => Json>

const LIST_NAMES = Object.keys(LISTS) as (keyof typeof LISTS)[]

function logprobLists(tokens: readonly TokenLogprob[], names: TokenNames): Json {
  return Object.fromEntries(
    LIST_NAMES.map((name) => [name, tokens.map((token) => LISTS[name](token, names))]),
  )
}

/** The same lists of tokens one after the other, in pieces. */
function* logprobPieces(
  parts: readonly Iterable<TokenLogprob>[],
  names: TokenNames,
): Generator<string, void, undefined> {
  for (const [i, name] of LIST_NAMES.entries()) {
    yield `${i === 0 ? "{" : ","}"${name}":[`
    yield* joined(chained(parts), (token) => JSON.stringify(LISTS[name](token, names)))
    yield "]"
  }
  yield "}"
}

function* chained<Value>(parts: readonly Iterable<Value>[]): Generator<Value> {
  for (const part of parts) yield* part
}

/** Of tokens that go by the same name the likeliest is told. */
function alternatives({ token, logprob, top }: TokenLogprob, names: TokenNames): Json {
  const likeliest = new Map<string, number>()
  const tell = (id: number, value: number) => {
    const name = nameOf(id, names)
    const known = likeliest.get(name)
    if (known === undefined || known < value) likeliest.set(name, value)
  }
  for (const each of top) tell(each.token, each.logprob)
  tell(token, logprob!)
  for (const [name, value] of likeliest) likeliest.set(name, logprobJson(value))
  return Object.fromEntries(likeliest)
}

// As OpenAI writes them: tokens whose bytes are no text of their own would all be called U+FFFD.
function nameOf(token: number, names: TokenNames): string {
  const text = names.text(token)
  if (!text.includes("\ufffd")) return text
  const bytes = Array.from(names.bytes(token), (byte) => `\\x${byte.toString(16).padStart(2, "0")}`)
  return `bytes:${bytes.join("")}`
}
