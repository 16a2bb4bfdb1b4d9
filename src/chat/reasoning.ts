// Thinking, told from the answer. A model thinks at the start of its reply, between two markers; some templates write the
// opening one themselves. The markers belong to neither side, nor do the line breaks next to them. A marker further on is
// text like any other. Models that speak in channels are read by channels.ts.

import { CHANNEL, ChannelSplitter, channels } from "./channels.ts"
import type { Markers, Piece, Splitter } from "./markers.ts"
import { overlap } from "./stops.ts"
import type { Template } from "./template.ts"
import type { Tokenizer } from "./tokenizer.ts"

const KNOWN: readonly Markers[] = [
  {
    open: "<|START_THINKING|>",
    close: "<|END_THINKING|>",
    answer: ["<|START_RESPONSE|>", "<|END_RESPONSE|>"], // Command R7B and A
  },
  { open: "<think>", close: "</think>", answer: ["<answer>", "</answer>"] }, // Hunyuan
  { open: "<think>", close: "</think>", answer: ["<response>", "</response>"] }, // Granite 3.3
  { open: "<think>", close: "</think>" },
  { open: "[THINK]", close: "[/THINK]" },
  { open: "<seed:think>", close: "</seed:think>" },
  { open: "<|channel>thought\n", close: "<channel|>", marks: ["<|channel>", "<channel|>"] },
]

/** Special tokens that show, where thinking is looked for. */
export const marksOf = ({
  open,
  close,
  answer,
  marks = [open, close, ...(answer ?? [])],
}: Markers): readonly string[] => marks

/** The markers of this model; undefined for one that knows none, whose text is never searched for them. */
export function markersOf(template: Template, tokenizer: Tokenizer): Markers | undefined {
  if (template.source.includes(CHANNEL)) return channels
  const { source } = template
  return KNOWN.find(({ close, answer }) =>
    answer
      ? source.includes(close) && source.includes(answer[0])
      : source.includes(close) || tokenizer.control(close) !== undefined,
  )
}

/** Where the thinking of a reply that has `begun` like this stands: not begun, begun, or over. */
export function thinkingIn(
  begun: string,
  { open, close, inChannels }: Markers,
  continues = false,
): ThinkingAt {
  if (inChannels && continues) return "over"
  if (inChannels) return begun.endsWith(open) ? "inside" : "ahead"
  const closed = begun.lastIndexOf(close)
  if (begun.lastIndexOf(open) > closed) return "inside"
  return closed < 0 ? "ahead" : "over"
}

/** Whether a reply begins before its thinking, in it, or behind it. */
export type ThinkingAt = "ahead" | "inside" | "over"

export function splitterFor(markers: Markers, at: ThinkingAt): Splitter {
  return markers.inChannels
    ? new ChannelSplitter(at === "inside")
    : new ReasoningSplitter(markers, at)
}

/** `answer` is behind a mark, and its own is looked for; `content` is text to the end. */
type State = "start" | "inside" | "after" | "over" | "answer" | "content"

class ReasoningSplitter implements Splitter {
  readonly #markers: Markers
  #state: State
  #fresh = true // nothing of the thinking, or of a marked answer, has been sent
  #waiting = ""

  constructor(markers: Markers, at: ThinkingAt) {
    this.#markers = markers
    this.#state = at === "ahead" ? "start" : at
  }

  /** Whether the thinking has begun and not ended. */
  get inside(): boolean {
    return this.#state === "inside"
  }

  push(text: string): Piece[] {
    if (this.#state === "content") return [{ kind: "content", text }]
    this.#waiting += text
    const pieces: Piece[] = []
    while (this.#waiting !== "" && this.#step(pieces)) {
      // one step for each part that is decided
    }
    return pieces
  }

  flush(): Piece[] {
    const text = this.#waiting
    this.#waiting = ""
    if (text === "") return []
    return [{ kind: this.#state === "inside" ? "reasoning" : "content", text }]
  }

  /** Decides one more part of what waits; false when it has to wait on. */
  #step(pieces: Piece[]): boolean {
    switch (this.#state) {
      case "start":
        return this.#begin(pieces)
      case "inside":
        return this.#think(pieces)
      case "after":
      case "over":
        this.#take(pieces, this.#state === "over" ? "mark" : "nothing", lineBreaks(this.#waiting))
        return this.#waiting === "" || this.#open(pieces)
      case "answer":
        return this.#answer(pieces)
      case "content":
        this.#take(pieces, "content", this.#waiting.length)
        return true
    }
  }

  #begin(pieces: Piece[]): boolean {
    const { open } = this.#markers
    const text = this.#waiting.trimStart()
    if (text.startsWith(open)) {
      this.#take(pieces, "nothing", this.#waiting.length - text.length + open.length)
      this.#state = "inside"
      return true
    }
    if (open.startsWith(text)) return false
    return this.#open(pieces)
  }

  /** The answer, behind its mark or without one. */
  #open(pieces: Piece[]): boolean {
    const text = this.#waiting.trimStart()
    const mark = this.#markers.answer?.[0]
    if (mark !== undefined && text.startsWith(mark)) {
      this.#take(pieces, "mark", this.#waiting.length - text.length + mark.length)
      this.#state = "answer"
      this.#fresh = true
      return true
    }
    if (mark?.startsWith(text)) return false
    this.#state = "content"
    return true
  }

  #answer(pieces: Piece[]): boolean {
    return this.#upTo(this.#markers.answer![1], pieces, ["content", "mark"], "content")
  }

  #think(pieces: Piece[]): boolean {
    return this.#upTo(this.#markers.close, pieces, ["reasoning", "nothing"], "after")
  }

  /** Text up to its mark, without the line breaks that stand beside marks; false where more of it may come. */
  #upTo(
    close: string,
    pieces: Piece[],
    [kind, hidden]: readonly [Piece["kind"], Piece["kind"]],
    next: State,
  ): boolean {
    if (this.#fresh) this.#take(pieces, hidden, lineBreaks(this.#waiting))
    const end = this.#waiting.indexOf(close)
    const known = end < 0 ? this.#waiting.length - overlap(this.#waiting, close) : end
    const text = this.#waiting.slice(0, known).replace(/[\r\n]+$/, "")
    if (text !== "") this.#fresh = false
    this.#take(pieces, kind, text.length)
    if (end < 0) return false
    this.#take(pieces, hidden, known - text.length + close.length)
    this.#state = next
    return true
  }

  #take(pieces: Piece[], kind: Piece["kind"], length: number): void {
    if (length === 0) return
    pieces.push({ kind, text: this.#waiting.slice(0, length) })
    this.#waiting = this.#waiting.slice(length)
  }
}

function lineBreaks(text: string): number {
  return /^[\r\n]*/.exec(text)![0].length
}
