// Thinking, told from the answer. A model thinks at the start of its reply, between two markers; some templates write the
// opening one themselves. The markers belong to neither side, nor do the line breaks next to them. A marker further on is
// text like any other.

import { overlap } from "./stops.ts"
import type { Template } from "./template.ts"
import type { Tokenizer } from "./tokenizer.ts"

export interface Markers {
  open: string
  close: string
}

const KNOWN: readonly Markers[] = [
  { open: "<think>", close: "</think>" },
  { open: "[THINK]", close: "[/THINK]" },
  { open: "<seed:think>", close: "</seed:think>" },
]

/** The markers of this model; undefined for one that knows none, whose text is never searched for them. */
export function markersOf(template: Template, tokenizer: Tokenizer): Markers | undefined {
  return KNOWN.find(
    ({ close }) => template.source.includes(close) || tokenizer.control(close) !== undefined,
  )
}

/** Where the thinking of a reply that has `begun` like this stands: not begun, begun, or over. */
export function thinkingIn(begun: string, { open, close }: Markers): "ahead" | "inside" | "over" {
  const closed = begun.lastIndexOf(close)
  if (begun.lastIndexOf(open) > closed) return "inside"
  return closed < 0 ? "ahead" : "over"
}

/** A run of text and what it is: `nothing` is markers and the line breaks around them. */
export interface Piece {
  kind: "reasoning" | "content" | "nothing"
  text: string
}

type State = "start" | "inside" | "after" | "content"

/** Gives back all text it is given, in order, as pieces; what may be part of a marker waits. */
export class ReasoningSplitter {
  readonly #markers: Markers
  #state: State
  #fresh = true // nothing of the thinking has been sent
  #waiting = ""

  constructor(markers: Markers, inside: boolean) {
    this.#markers = markers
    this.#state = inside ? "inside" : "start"
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

  /** What waited, when nothing more comes. */
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
        this.#take(pieces, "nothing", lineBreaks(this.#waiting))
        if (this.#waiting !== "") this.#state = "content"
        return true
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
    this.#state = "content"
    return true
  }

  #think(pieces: Piece[]): boolean {
    if (this.#fresh) this.#take(pieces, "nothing", lineBreaks(this.#waiting))
    const { close } = this.#markers
    const end = this.#waiting.indexOf(close)
    const known = end < 0 ? this.#waiting.length - overlap(this.#waiting, close) : end
    const thought = this.#waiting.slice(0, known).replace(/[\r\n]+$/, "")
    if (thought !== "") this.#fresh = false
    this.#take(pieces, "reasoning", thought.length)
    if (end < 0) return false
    this.#take(pieces, "nothing", known - thought.length + close.length)
    this.#state = "after"
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
