// A reply as a response of items: whole, or as numbered events that the last one sums up.

import { randomBytes } from "node:crypto"
import type { ReplyEvent, TokenLogprob, TokenNames } from "../../../chat/conversation.ts"
import type { Problem } from "../../../errors.ts"
import { type Json, JsonText, type Members, writeJson } from "../../json.ts"
import { COMMENT, event as sseEvent } from "../../sse.ts"
import type { ServerEvent } from "../api.ts"
import { tokenPieces } from "../collected.ts"
import { blank, endOf, type Part, type PartEvent, partsOf, type ReplyEnd } from "../parts.ts"
import { unread } from "./items.ts"
import type { Callables } from "./tools.ts"
import { Unwrapped, unwrapped } from "./unwrapped.ts"

/** What is known before the first token. */
export interface Head {
  /** What its own id and those of its items have in common. */
  stem: string
  /** What a response repeats of its request. */
  repeated: Members
  createdAt: number // unix seconds
  callables: Callables
  wantsSummary: boolean
  wantsUnread: boolean
  /** What tokens of log probabilities are called. */
  names?: TokenNames | undefined
}

export function newStem(): string {
  return randomBytes(12).toString("hex")
}

export function responseId({ stem }: Pick<Head, "stem">): string {
  return `resp_${stem}`
}

/** @param done told of the response and its items */
export async function* wholeResponse(
  events: AsyncIterable<ReplyEvent>,
  head: Head,
  done: Done,
): AsyncGenerator<string> {
  yield writeJson(finished(head, await endOf(events), done))
}

export type Done = (response: Json, output: readonly Json[]) => void

/** A response as numbered events, and what is sent where they are silent. */
export class ResponseStream {
  readonly #head: Head
  #number = 0
  #isBetweenItems = false

  constructor(head: Head) {
    this.#head = head
  }

  /** @param told what a client is told of an error; throws one that nobody is there to be told */
  async *events(
    events: AsyncIterable<ReplyEvent>,
    done: Done,
    told: (error: unknown) => Problem,
  ): AsyncGenerator<ServerEvent> {
    const head = this.#head
    yield this.#event("response.created", this.#begun())
    yield this.#event("response.in_progress", this.#begun())
    this.#isBetweenItems = true
    try {
      for await (const event of partsOf(events)) {
        this.#isBetweenItems = false
        if (event.kind !== "end") {
          yield* this.#item(event)
          this.#isBetweenItems = event.kind === "close"
          continue
        }
        const { end } = event
        if (end.parts.length === 0) {
          const empty = emptyText(end)
          for (const kind of ["open", "close"] as const) yield* this.#item({ kind, part: empty })
        }
        const type = isCut(end) ? "response.incomplete" : "response.completed"
        yield this.#event(type, { response: finished(head, end, done) })
      }
    } catch (error) {
      this.#isBetweenItems = false
      const { message, type, code: own, param = null } = told(error)
      // What clients act on; any other error within a stream is the server's.
      const code = own === "context_length_exceeded" ? own : "server_error"
      const failure = { code, message }
      yield this.#event("error", { ...failure, param, error: { type, ...failure, param } })
      const response = responseJson(head, "failed", [], { error: failure })
      yield this.#event("response.failed", { response })
    }
  }

  /** Between items an event, which wakes clients that a comment does not; within one nothing may come but what is its own. */
  signOfLife(): string {
    return this.#isBetweenItems
      ? sseEvent(this.#event("response.in_progress", this.#begun()))
      : COMMENT
  }

  *#item(event: ItemEvent): Generator<ServerEvent> {
    for (const [type, members] of itemEvents(this.#head, event)) yield this.#event(type, members)
  }

  #begun(): Members {
    return { response: responseJson(this.#head, "in_progress", []) }
  }

  #event(type: string, members: Members): ServerEvent {
    const numbered = { type, sequence_number: this.#number++, ...members }
    return { name: type, data: writeJson(numbered) }
  }
}

type Named = [type: string, members: Members]
type ItemEvent = Exclude<PartEvent, { kind: "end" }>

/** What the texts of free-form calls are read with. */
const inputs = new WeakMap<Part, Unwrapped>()

function itemEvents(head: Head, event: ItemEvent): Named[] {
  const { part } = event
  const output_index = part.index
  const at = { item_id: itemId(head, part), output_index }
  switch (event.kind) {
    case "open": {
      const added: Named = [
        "response.output_item.added",
        { output_index, item: opened(head, part) },
      ]
      if (part.call) return [added]
      return [
        added,
        ["response.content_part.added", { ...at, ...FIRST, part: contentOf(head, part) }],
      ]
    }
    case "piece":
      return pieceEvents(head, event, at)
    case "close": {
      const item = itemOf(head, part)
      return [...doneEvents(head, part, at), ["response.output_item.done", { output_index, item }]]
    }
  }
}

const FIRST = { content_index: 0 }

type Piece = Extract<PartEvent, { kind: "piece" }>

function pieceEvents(head: Head, { part, text, logprobs: tokens }: Piece, at: Members): Named[] {
  switch (part.kind) {
    case "text": {
      const logprobs = logprobsOf(head, tokens)
      return [["response.output_text.delta", { ...at, ...FIRST, delta: text, logprobs }]]
    }
    case "reasoning":
      if (text === "") return []
      return [["response.reasoning_text.delta", { ...at, ...FIRST, delta: text }]]
    case "call": {
      if (!isFreeForm(head, part)) {
        return [["response.function_call_arguments.delta", { ...at, delta: text }]]
      }
      const input = inputs.get(part) ?? new Unwrapped()
      inputs.set(part, input)
      const delta = input.take(text)
      return delta === "" ? [] : [["response.custom_tool_call_input.delta", { ...at, delta }]]
    }
  }
}

/** In OpenAI's streams an alternative has no bytes; where it has some, clients leave them alone. */
function logprobsOf({ names }: Head, tokens: Iterable<TokenLogprob>): Json {
  return names ? new JsonText(`[${[...tokenPieces(tokens, names)].join("")}]`) : []
}

function doneEvents(head: Head, part: Part, at: Members): Named[] {
  const { kind, text } = part
  const wholePart: Named = [
    "response.content_part.done",
    { ...at, ...FIRST, part: contentOf(head, part) },
  ]
  switch (kind) {
    case "text": {
      const logprobs = logprobsOf(head, part.logprobs)
      return [["response.output_text.done", { ...at, ...FIRST, text, logprobs }], wholePart]
    }
    case "reasoning": {
      const done: Named = ["response.reasoning_text.done", { ...at, ...FIRST, text }]
      return [done, wholePart, ...(head.wantsSummary ? summaryEvents(text, at) : [])]
    }
    case "call": {
      if (isFreeForm(head, part)) {
        return [["response.custom_tool_call_input.done", { ...at, input: unwrapped(text) }]]
      }
      const { name } = callableOf(head, part)
      return [["response.function_call_arguments.done", { ...at, name, arguments: text }]]
    }
  }
}

/** A summary is the thinking itself: there is no summariser. */
function summaryEvents(text: string, at: Members): Named[] {
  const where = { ...at, summary_index: 0 }
  const part = (said: string) => ({ ...where, part: { type: "summary_text", text: said } })
  return [
    ["response.reasoning_summary_part.added", part("")],
    ["response.reasoning_summary_text.delta", { ...where, delta: text }],
    ["response.reasoning_summary_text.done", { ...where, text }],
    ["response.reasoning_summary_part.done", part(text)],
  ]
}

function contentOf(head: Head, { kind, text, logprobs }: Part): Json {
  if (kind === "reasoning") return { type: "reasoning_text", text }
  return { type: "output_text", text, annotations: [], logprobs: logprobsOf(head, logprobs) }
}

const PREFIXES = { text: "msg", reasoning: "rs", call: "fc" }

function itemId(head: Head, part: Part): string {
  const prefix = isFreeForm(head, part) ? "ctc" : PREFIXES[part.kind]
  return `${prefix}_${head.stem}${part.index}`
}

function isFreeForm(head: Head, part: Part): boolean {
  return part.call !== undefined && callableOf(head, part).kind === "custom"
}

function callableOf({ callables }: Head, { call }: Part) {
  return callables.byName.get(call!.name) ?? { kind: "function", name: call!.name }
}

function opened(head: Head, part: Part): Json {
  const item = itemOf(head, part)
  const empty = part.call ? {} : { content: [], ...(part.kind === "reasoning" && { summary: [] }) }
  return { ...(item as Members), ...empty, status: "in_progress" }
}

function itemOf(head: Head, part: Part): Json {
  const { kind, text, call, isCut: isPartial } = part
  const id = itemId(head, part)
  const status = isPartial ? "incomplete" : "completed"
  if (call) {
    const { name, ...rest } = callableOf(head, part)
    const namespace = "namespace" in rest && { namespace: rest.namespace }
    const named = { id, status, call_id: call.id, name, ...namespace }
    if (rest.kind === "custom")
      return { type: "custom_tool_call", ...named, input: unwrapped(text) }
    return { type: "function_call", ...named, arguments: text }
  }
  const content = [contentOf(head, part)]
  if (kind === "text") return { type: "message", id, status, role: "assistant", content }
  const summary = head.wantsSummary ? [{ type: "summary_text", text }] : []
  const carried = head.wantsUnread && { encrypted_content: unread(text) }
  return { type: "reasoning", id, status, summary, content, ...carried }
}

/** A reply without a word is an item all the same: clients go round and round on a response without any. */
function emptyText(end: ReplyEnd): Part {
  return { ...blank(0, "text"), isCut: isCut(end) }
}

function isCut({ reason }: ReplyEnd): boolean {
  return reason === "length"
}

function finished(head: Head, end: ReplyEnd, done: Done): Json {
  const parts = end.parts.length > 0 ? end.parts : [emptyText(end)]
  const output = parts.map((part) => itemOf(head, part))
  const { promptTokens, cachedTokens, completionTokens, reasoningTokens } = end.usage
  const response = responseJson(head, isCut(end) ? "incomplete" : "completed", output, {
    completed_at: Math.floor(Date.now() / 1000),
    incomplete_details: isCut(end) ? { reason: "max_output_tokens" } : null,
    usage: {
      input_tokens: promptTokens,
      input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: 0 },
      output_tokens: completionTokens,
      output_tokens_details: { reasoning_tokens: reasoningTokens },
      total_tokens: promptTokens + completionTokens,
    },
  })
  done(response, output)
  return response
}

function responseJson(
  head: Head,
  status: string,
  output: readonly Json[],
  more: Members = {},
): Json {
  return {
    id: responseId(head),
    object: "response",
    created_at: head.createdAt,
    completed_at: null,
    status,
    background: false,
    error: null,
    incomplete_details: null,
    ...head.repeated,
    output,
    ...more,
  }
}
