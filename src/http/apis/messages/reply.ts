// A reply in the blocks of Anthropic's API: whole, or as its named events.

import type { ReplyEvent } from "../../../chat/conversation.ts"
import { type Json, JsonText, writeJson } from "../../json.ts"
import type { ServerEvent } from "../api.ts"
import { endOf, type Part, partsOf, type ReplyEnd } from "../parts.ts"
import { messagesEvent } from "./api.ts"

/** What is known before the first token. */
export interface Head {
  id: string
  model: string // as the request called it
  promptTokens: number
}

export async function* wholeMessage(
  events: AsyncIterable<ReplyEvent>,
  head: Head,
): AsyncGenerator<string> {
  const end = await endOf(events)
  yield writeJson(message(head, end.parts.map(blockOf), stopOf(end), usageOf(end)))
}

export async function* messageEvents(
  events: AsyncIterable<ReplyEvent>,
  head: Head,
): AsyncGenerator<ServerEvent> {
  const { promptTokens } = head
  const unread = usageJson({ promptTokens, cachedTokens: 0, completionTokens: 0 })
  const stop = { stop_reason: null, stop_sequence: null }
  yield messagesEvent("message_start", { message: message(head, [], stop, unread) })
  for await (const event of partsOf(events)) {
    if (event.kind === "end") {
      const { end } = event
      yield messagesEvent("message_delta", { delta: stopOf(end), usage: usageOf(end) })
      yield messagesEvent("message_stop")
      continue
    }
    const { index } = event.part
    switch (event.kind) {
      case "open":
        yield messagesEvent("content_block_start", { index, content_block: opened(event.part) })
        break
      case "piece":
        yield messagesEvent("content_block_delta", { index, delta: delta(event.part, event.text) })
        break
      case "close":
        if (event.part.kind === "reasoning") {
          const signed = { type: "signature_delta", signature: SIGNATURE }
          yield messagesEvent("content_block_delta", { index, delta: signed })
        }
        yield messagesEvent("content_block_stop", { index })
    }
  }
}

/** A whole event, for clients that would take a long silence for a dead server. */
export const PING = messagesEvent("ping")

// Clients want one and hand it back unread, as it is here.
const SIGNATURE = "c2ludGVy"

function message({ id, model }: Head, content: Json, stop: Stop, usage: Json): Json {
  return { id, type: "message", role: "assistant", model, content, ...stop, usage }
}

function opened({ kind, call }: Part): Json {
  if (call) return { type: "tool_use", ...call, input: {} }
  if (kind === "text") return { type: "text", text: "" }
  return { type: "thinking", thinking: "", signature: "" }
}

function delta({ kind }: Part, text: string): Json {
  if (kind === "call") return { type: "input_json_delta", partial_json: text }
  if (kind === "text") return { type: "text_delta", text }
  return { type: "thinking_delta", thinking: text }
}

/** What was cut of a call is no JSON yet, and its input a map all the same. */
function blockOf({ kind, text, call, isCut }: Part): Json {
  if (call) return { type: "tool_use", ...call, input: isCut || !text ? {} : new JsonText(text) }
  if (kind === "text") return { type: "text", text }
  return { type: "thinking", thinking: text, signature: SIGNATURE }
}

interface Stop {
  stop_reason: string | null
  stop_sequence: string | null
  readonly [name: string]: Json
}

function stopOf({ reason, stop }: ReplyEnd): Stop {
  if (reason === "length") return { stop_reason: "max_tokens", stop_sequence: null }
  if (reason === "tool_calls") return { stop_reason: "tool_use", stop_sequence: null }
  if (stop === undefined) return { stop_reason: "end_turn", stop_sequence: null }
  return { stop_reason: "stop_sequence", stop_sequence: stop }
}

function usageOf({ usage }: ReplyEnd): Json {
  const output_tokens_details = { thinking_tokens: usage.reasoningTokens }
  return { ...usageJson(usage), output_tokens_details }
}

type Counts = Pick<ReplyEnd["usage"], "promptTokens" | "cachedTokens" | "completionTokens">

function usageJson({ promptTokens, cachedTokens, completionTokens }: Counts) {
  return {
    input_tokens: promptTokens - cachedTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cachedTokens,
    output_tokens: completionTokens,
  }
}
