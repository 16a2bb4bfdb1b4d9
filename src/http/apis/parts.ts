// A reply as APIs see it that speak of blocks or items: thinking, texts and calls, one behind the other, of which one is open
// at a time. A whole answer is what the last event lists, so that it cannot differ from the stream.

import type { FinishReason, ReplyEvent, TokenLogprob, Usage } from "../../chat/conversation.ts"
import { failure } from "./collected.ts"
import { TokenColumns } from "./token-columns.ts"

export interface Part {
  index: number
  kind: "reasoning" | "text" | "call"
  /** As far as it has come; of a call its arguments, JSON text of an object. */
  text: string
  /** Of its tokens, where they were asked for; none of a call. */
  logprobs: TokenColumns
  call?: { id: string; name: string }
  /** The reply ended within it. */
  isCut: boolean
}

export interface ReplyEnd {
  parts: readonly Part[]
  reason: FinishReason
  /** The stop string that ended it. */
  stop: string | undefined
  usage: Usage
}

export type PartEvent =
  | { kind: "open" | "close"; part: Part }
  | { kind: "piece"; part: Part; text: string; logprobs: readonly TokenLogprob[] }
  | { kind: "end"; end: ReplyEnd }

/** Of a reply of one choice. Throws the problem of one that fails. */
export async function* partsOf(events: AsyncIterable<ReplyEvent>): AsyncGenerator<PartEvent> {
  const parts: Part[] = []
  let open: Part | undefined
  let finish: Finish | undefined
  let early: TokenLogprob[] = [] // of tokens that show nothing yet, before their part is open
  for await (const event of events) {
    if (event.kind === "usage") {
      if (!finish) throw new Error("internal: a reply ended without its reason")
      const { reason, stop } = finish
      yield { kind: "end", end: { parts, reason, stop, usage: event.usage } }
      continue
    }
    if (event.kind === "prompt") throw new Error("internal: a conversation echoes its prompt")
    if (event.kind === "finish") {
      if (event.problem) throw failure(event)
      finish = event
    }
    const next = partOf(event, open, parts.length)
    if (open && open !== next) {
      open.isCut = event.kind === "finish" && event.reason === "length"
      yield { kind: "close", part: open }
    }
    if (next && open !== next) {
      parts.push(next)
      yield { kind: "open", part: next }
    }
    open = next
    if (!("text" in event)) continue
    const { text } = event
    if ("logprobs" in event && !open?.call) early.push(...event.logprobs)
    if (open?.kind !== KINDS[event.kind]) continue
    const logprobs = early
    early = []
    if (text === "" && logprobs.length === 0) continue
    open.text += text
    open.logprobs.add(logprobs)
    yield { kind: "piece", part: open, text, logprobs }
  }
}

const KINDS = { content: "text", reasoning: "reasoning", arguments: "call" } as const

type Finish = Extract<ReplyEvent, { kind: "finish" }>

/** The part that an event goes on with or begins; none behind the last. */
function partOf(
  event: Exclude<ReplyEvent, { kind: "usage" | "prompt" }>,
  open: Part | undefined,
  index: number,
): Part | undefined {
  switch (event.kind) {
    case "finish":
      return undefined
    case "call": {
      const { id, name } = event
      return { ...blank(index, "call"), call: { id, name } }
    }
    case "arguments":
      return open
    default: {
      const kind = KINDS[event.kind]
      if (event.text === "" || open?.kind === kind) return open
      return blank(index, kind)
    }
  }
}

export function blank(index: number, kind: Part["kind"]): Part {
  return { index, kind, text: "", logprobs: new TokenColumns(), isCut: false }
}

/** The end of a reply that nobody streams. */
export async function endOf(events: AsyncIterable<ReplyEvent>): Promise<ReplyEnd> {
  let end: ReplyEnd | undefined
  for await (const event of partsOf(events)) if (event.kind === "end") end = event.end
  if (!end) throw failure(undefined)
  return end
}
