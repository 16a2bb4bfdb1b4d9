// A transcript as JSON, as text, or as the events of a stream: what of a reply is no thinking.

import type { ReplyEvent, TokenLogprob, TokenNames, Usage } from "../../../chat/conversation.ts"
import { joined, tokenJson } from "../collected.ts"
import { endOf, partsOf, type ReplyEnd } from "../parts.ts"

export interface TranscriptShape {
  names: TokenNames
  logprobs: boolean // whether they were asked for
  /** Tokens of the prompt that are the recording's. */
  heard: number
  /** Where it is counted by its length. */
  seconds?: number
}

/** A header is a few words. */
const MAX_HEADER = 100 // characters

type Content = Extract<ReplyEvent, { kind: "content" }>

/**
 * The reply without what it says up to that mark, and blanks behind it, or all of it where the mark does not come soon. Of its tokens
 * those are left out that begin before the mark's end.
 */
export async function* headless(
  events: AsyncIterable<ReplyEvent>,
  mark: string,
): AsyncGenerator<ReplyEvent> {
  let held: Content[] | undefined = [] // until the mark
  let isBlank = false // nothing but blanks has come behind it
  for await (const event of events) {
    if (event.kind === "finish" && held) {
      yield* held
      held = undefined
    }
    if (event.kind !== "content") {
      yield event
      continue
    }
    let own = event
    if (held) {
      held.push(event)
      const text: string = held.map((each) => each.text).join("")
      const at = text.indexOf(mark)
      if (at < 0 && text.length <= MAX_HEADER) continue
      if (at < 0) {
        yield* held
        held = undefined
        continue
      }
      own = { ...event, ...behind(held, text, at + mark.length) }
      held = undefined
      isBlank = true
    }
    const shown: string = isBlank ? own.text.trimStart() : own.text
    isBlank &&= shown === ""
    if (shown !== "" || own.logprobs.length > 0) yield { ...own, text: shown }
  }
}

/** What of these stands behind so many characters of their text. */
function behind(
  held: readonly Content[],
  text: string,
  end: number,
): Omit<Content, "kind" | "choice"> {
  const tokens = held.flatMap(({ logprobs }) => logprobs)
  const first = (tokens[0]?.offset ?? 0) + Array.from(text.slice(0, end)).length
  return { text: text.slice(end), logprobs: tokens.filter(({ offset }) => offset >= first) }
}

/** The pieces of a whole one. Throws the problem of a reply that fails. */
export async function* wholeTranscript(
  events: AsyncIterable<ReplyEvent>,
  shape: TranscriptShape,
): AsyncGenerator<string, void, undefined> {
  const end = await endOf(events)
  yield `{"text":${JSON.stringify(textOf(end))}`
  if (shape.logprobs) {
    yield ',"logprobs":['
    yield* joined(tokensOf(end), (token) => JSON.stringify(logprobOf(token, shape)))
    yield "]"
  }
  yield `,"usage":${JSON.stringify(usageOf(end.usage, shape))}}`
}

/** The same alone. */
export async function plainTranscript(events: AsyncIterable<ReplyEvent>): Promise<string> {
  return textOf(await endOf(events))
}

/** The events of a stream, as JSON texts. Throws the problem of a reply that fails. */
export async function* transcriptEvents(
  events: AsyncIterable<ReplyEvent>,
  shape: TranscriptShape,
): AsyncGenerator<string> {
  const told = (tokens: Iterable<TokenLogprob>) =>
    shape.logprobs && { logprobs: Array.from(tokens, (token) => logprobOf(token, shape)) }
  for await (const event of partsOf(events)) {
    if (event.kind === "piece" && event.part.kind === "text") {
      const { text: delta, logprobs } = event
      yield JSON.stringify({ type: "transcript.text.delta", delta, ...told(logprobs) })
    } else if (event.kind === "end") {
      const { end } = event
      const usage = usageOf(end.usage, shape)
      const whole = { text: textOf(end), ...told(tokensOf(end)), usage }
      yield JSON.stringify({ type: "transcript.text.done", ...whole })
    }
  }
}

function textsOf({ parts }: ReplyEnd) {
  return parts.filter(({ kind }) => kind === "text")
}

export function textOf(end: ReplyEnd): string {
  return textsOf(end)
    .map(({ text }) => text)
    .join("")
}

function* tokensOf(end: ReplyEnd): Generator<TokenLogprob, void, undefined> {
  for (const { logprobs } of textsOf(end)) yield* logprobs
}

function logprobOf(token: TokenLogprob, { names }: TranscriptShape) {
  const { top_logprobs: _, ...own } = tokenJson(token, names)
  return own
}

export function usageOf(
  { promptTokens, completionTokens }: Usage,
  { heard, seconds }: TranscriptShape,
) {
  if (seconds !== undefined) return { type: "duration", seconds: Math.ceil(seconds) }
  return {
    type: "tokens",
    input_tokens: promptTokens,
    input_token_details: { audio_tokens: heard, text_tokens: promptTokens - heard },
    output_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  }
}
