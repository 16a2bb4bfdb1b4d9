// A reply as Ollama's lines: a piece each, a call in one, and last what it took. A whole answer is the last line with all of it.

import type { ReplyEvent, TokenLogprob, TokenNames } from "../../../chat/conversation.ts"
import { type Json, JsonText, type Members, writeJson } from "../../json.ts"
import { tokenPieces } from "../collected.ts"
import { endOf, type Part, partsOf, type ReplyEnd } from "../parts.ts"

/** How a kind of reply writes what is said. */
export interface Shape {
  model: string // as the request called it
  write: (said: Said) => Members
  /** What tokens of log probabilities are called, where they were asked for. */
  names?: TokenNames | undefined
}

interface Said {
  content: string
  thinking?: string
  calls?: readonly Json[]
}

export const shapes = {
  chat: ({ content, thinking, calls }: Said): Members => ({
    message: {
      role: "assistant",
      content,
      ...(thinking !== undefined && { thinking }),
      ...(calls && { tool_calls: calls }),
    },
  }),
  generate: ({ content, thinking }: Said): Members => ({
    response: content,
    ...(thinking !== undefined && { thinking }),
  }),
}

export async function* replyLines(
  events: AsyncIterable<ReplyEvent>,
  shape: Shape,
): AsyncGenerator<string> {
  const watch = new Watch()
  const calls: Part[] = []
  for await (const event of partsOf(watch.seeing(events))) {
    switch (event.kind) {
      case "piece":
        if (event.part.call) break
        yield emptyLine(shape, saidOf(event.part, event.text), [event.logprobs])
        break
      case "close":
        if (!event.part.call || event.part.isCut) break
        calls.push(event.part)
        yield emptyLine(shape, { content: "", calls: [callOf(event.part, calls.length - 1)] })
        break
      case "end":
        yield lastLine(shape, { content: "" }, event.end, watch)
    }
  }
}

export async function* wholeReply(
  events: AsyncIterable<ReplyEvent>,
  shape: Shape,
): AsyncGenerator<string> {
  const watch = new Watch()
  const end = await endOf(watch.seeing(events))
  const thinking = textOf(end.parts, "reasoning")
  const calls = end.parts.filter(({ call, isCut }) => call && !isCut).map(callOf)
  const said = {
    content: textOf(end.parts, "text"),
    ...(thinking !== "" && { thinking }),
    ...(calls.length > 0 && { calls }),
  }
  yield lastLine(
    shape,
    said,
    end,
    watch,
    end.parts.map(({ logprobs }) => logprobs),
  )
}

/** What is said when nothing is asked: the model is here. */
export function loadedLine(shape: Shape, reason: "load" | "unload"): string {
  return line(shape, { content: "" }, { done: true, done_reason: reason })
}

/** A line that goes on; without a text it says that the server lives. */
export function emptyLine(
  shape: Shape,
  said: Said = { content: "" },
  tokens: readonly Iterable<TokenLogprob>[] = [],
): string {
  return line(shape, said, { done: false, ...logprobsOf(shape, tokens) })
}

/** Of parts one behind the other; nothing where they tell none. */
function logprobsOf({ names }: Shape, parts: readonly Iterable<TokenLogprob>[]): Members {
  if (!names) return {}
  const pieces = parts.map((tokens) => [...tokenPieces(tokens, names)].join(""))
  const text = pieces.filter((piece) => piece !== "").join(",")
  return text === "" ? {} : { logprobs: new JsonText(`[${text}]`) }
}

function line({ model, write }: Shape, said: Said, more: Members): string {
  return writeJson({ model, created_at: new Date().toISOString(), ...write(said), ...more })
}

function lastLine(
  shape: Shape,
  said: Said,
  { reason, usage }: ReplyEnd,
  watch: Watch,
  tokens: readonly Iterable<TokenLogprob>[] = [],
): string {
  return line(shape, said, {
    ...logprobsOf(shape, tokens),
    done: true,
    done_reason: reason === "length" ? "length" : "stop",
    total_duration: watch.until("end"),
    load_duration: 0,
    prompt_eval_count: usage.promptTokens,
    prompt_eval_duration: watch.until("first"),
    eval_count: usage.completionTokens,
    eval_duration: watch.until("end") - watch.until("first"),
  })
}

function saidOf({ kind }: Part, text: string): Said {
  return kind === "reasoning" ? { content: "", thinking: text } : { content: text }
}

function callOf({ call, text }: Part, index: number): Json {
  const { id, name } = call!
  return { id, function: { index, name, arguments: new JsonText(text || "{}") } }
}

function textOf(parts: readonly Part[], wanted: Part["kind"]): string {
  return parts.flatMap(({ kind, text }) => (kind === wanted ? [text] : [])).join("")
}

/** When a reply began to speak, and when it ended. */
class Watch {
  readonly #begun = performance.now()
  #first: number | undefined
  #end = 0

  async *seeing(events: AsyncIterable<ReplyEvent>): AsyncGenerator<ReplyEvent> {
    for await (const event of events) {
      this.#end = performance.now()
      this.#first ??= this.#end
      yield event
    }
  }

  /** Nanoseconds from the beginning. */
  until(moment: "first" | "end"): number {
    const then = moment === "first" ? (this.#first ?? this.#end) : this.#end
    return Math.round((then - this.#begun) * 1e6)
  }
}
