// A reply to a conversation as JSON: whole, or as the chunks of a stream. Both walk the same events; text is never
// touched here, only wrapped, in the dialect's shapes.

import type { FinishReason, ReplyEvent, TokenNames } from "../../../chat/conversation.ts"
import { type Json, writeJson } from "../../json.ts"
import type { ToolText } from "../../service.ts"
import {
  answerPieces,
  type Collected,
  chunkWriter,
  type Envelope,
  failure,
  idsIn,
  tokenJson,
  tokenPieces,
  usageJson,
} from "../collected.ts"
import type { Deltas, Dialect, Said } from "./dialects/dialect.ts"

export interface Shape {
  dialect: Dialect
  toolText: ToolText
  names: TokenNames
  logprobs: boolean // whether they were asked for
  /** The prompt's tokens, where ids are told. */
  prompt: Int32Array | undefined
  usage: boolean // whether a stream ends with it
}

/** The pieces of one answer with every choice. Throws the first choice's problem when all of them failed. */
export function wholeAnswer(
  events: AsyncIterable<ReplyEvent>,
  envelope: Envelope,
  { dialect, names, logprobs, prompt }: Shape,
): AsyncGenerator<string, void, undefined> {
  const head = withPrompt(envelope, prompt)
  const tells = { ids: prompt !== undefined, logprobs }
  return answerPieces(events, head, tells, function* (index, choice) {
    yield `{"index":${index},"message":${writeJson(dialect.message(choice))},"logprobs":`
    if (logprobs) yield* logprobPieces(choice, names)
    else yield "null"
    const reason = isUnreadable(choice) ? dialect.unreadable : choice.reason
    yield `,"finish_reason":${JSON.stringify(reason)}`
    if (prompt) yield `,"token_ids":${JSON.stringify(choice.ids)}`
    yield "}"
  })
}

/**
 * The chunks of a streamed answer, as JSON texts, up to the end marker (which is the caller's). Throws the problem of a
 * choice that fails: a stream has no place for a failed choice among good ones.
 */
export async function* chunks(
  events: AsyncIterable<ReplyEvent>,
  envelope: Envelope,
  { dialect, toolText, names, logprobs, prompt, usage: wantsUsage }: Shape,
): AsyncGenerator<string> {
  const further = chunkWriter(envelope, wantsUsage)
  // The first chunk alone tells the prompt.
  let write: typeof further = (...given) => {
    write = further
    return chunkWriter(withPrompt(envelope, prompt), wantsUsage)(...given)
  }
  const ids = (tokens: readonly number[]) => prompt && { token_ids: tokens }
  const writers = new Map<number, Deltas>()
  for await (const event of events) {
    if (event.kind === "usage") {
      if (wantsUsage) yield write([], usageJson(event.usage))
      continue
    }
    if (event.kind === "prompt") throw new Error("internal: a conversation echoes its prompt")
    const index = event.choice
    const writer = writers.get(index) ?? dialect.begin(toolText)
    writers.set(index, writer)
    const isEnd = event.kind === "finish"
    if (isEnd && event.problem) throw failure(event)
    const deltas = isEnd ? writer.end() : writer.take(event)
    const last = deltas.pop()
    for (const delta of deltas)
      yield write([{ ...chunkChoice(index, delta, null, null), ...ids([]) }])
    if (last === undefined) continue
    const tokens = logprobs && !isEnd ? logprobsOf(event, names) : null
    const choice = chunkChoice(index, last, isEnd ? streamedReason(event) : null, tokens)
    yield write([{ ...choice, ...ids(idsIn(event)) }])
  }
}

function withPrompt(envelope: Envelope, prompt: Int32Array | undefined): Envelope {
  return prompt ? { ...envelope, prompt_token_ids: Array.from(prompt) } : envelope
}

type Finish = Extract<ReplyEvent, { kind: "finish" }>

/** Whether something was to be a call and cannot be read as one; its text has been sent as content. */
function isUnreadable({
  reason,
  problem,
}: Partial<Pick<Collected, "reason" | "problem">>): boolean {
  return reason === "error" && !problem
}

/** Streams know no reason "error": what failed is an event of its own. */
function streamedReason(finish: Finish): FinishReason {
  return isUnreadable(finish) ? "stop" : finish.reason
}

/** A chunk that says nothing, for clients that would take a long silence for a dead server. */
export function emptyChunk(envelope: Envelope, { dialect, toolText, usage }: Shape): string {
  const nothing = { kind: "content", choice: 0, text: "", logprobs: [] } as const
  const [delta = {}] = dialect.begin(toolText).take(nothing)
  return chunkWriter(envelope, usage)([chunkChoice(0, delta, null, null)])
}

function chunkChoice(index: number, delta: Json, reason: FinishReason | null, logprobs: Json) {
  return { index, delta, logprobs, finish_reason: reason }
}

/** `content` lists the tokens of the content, so that they join to it; those of thinking stand beside them. */
function logprobsOf(event: Said, names: TokenNames): Json {
  const list = "logprobs" in event ? event.logprobs.map((token) => tokenJson(token, names)) : []
  if (event.kind === "content") return { content: list, refusal: null }
  if (event.kind !== "reasoning") return null
  return { content: [], refusal: null, ...(list.length > 0 && { reasoning_content: list }) }
}

/** The same of a whole choice, in pieces. */
function* logprobPieces(
  { contentLogprobs, reasoningLogprobs }: Collected,
  names: TokenNames,
): Generator<string, void, undefined> {
  yield '{"content":['
  yield* tokenPieces(contentLogprobs, names)
  yield '],"refusal":null'
  if (reasoningLogprobs.length > 0) {
    yield ',"reasoning_content":['
    yield* tokenPieces(reasoningLogprobs, names)
    yield "]"
  }
  yield "}"
}
