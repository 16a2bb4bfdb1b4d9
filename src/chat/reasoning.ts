// Thinking, told from the answer. A model thinks at the start of its reply, between two markers; some templates write the
// opening one themselves. The markers belong to neither side, nor do the line breaks next to them. A marker further on is
// text like any other. A call that begins in thinking ends it, too. Models that speak in channels are read by channels.ts.

import { CHANNEL, ChannelSplitter, channels } from "./channels.ts"
import type { Opening } from "./formats/formats.ts"
import { asSpelled, type Markers, type Piece, type Spelling, type Splitter } from "./markers.ts"
import { overlap } from "./stops.ts"
import type { Template } from "./template.ts"
import type { Tokenizer } from "./tokenizer.ts"

const KNOWN: readonly Markers[] = [
  {
    open: "to=self<|message|>",
    close: "<|eom|>",
    answer: ["to=user<|message|>", "<|eom|>"],
    begins: "<|start|>assistant ",
    lead: " ",
    sign: "<|start|>assistant to=self<|message|>",
    marks: ["<|start|>", "<|message|>", "<|eom|>"],
    byTokens: true, // Muse Glimmer
  },
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
  { open: "<think:opensource>", close: "</think:opensource>" }, // Hy 3
  { open: "<|inner_prefix|>", close: "<|inner_suffix|>" }, // Apertus
  {
    open: "<|think|>",
    close: "<|end|>",
    answer: ["<|content|>", "<|end|>"],
    begins: "<|begin|>assistant",
    marks: ["<|think|>", "<|end|>", "<|begin|>", "<|content|>"], // Solar Open
  },
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
  return KNOWN.find((markers) => {
    const { close, answer, sign } = markers
    if (sign) return source.includes(sign)
    return answer
      ? source.includes(shown(markers)) && source.includes(answer[0])
      : source.includes(close) || tokenizer.control(close) !== undefined
  })
}

/** Which of them a template shows where it has a place for thinking. */
const shown = ({ open, close, begins, sign }: Markers) => sign ?? (begins ? open : close)

/** Whether conversations have a place for thinking, by the template alone: a tokenizer may have markers that no reply has. */
export function showsThinking(source: string): boolean {
  return source.includes(CHANNEL) || KNOWN.some((markers) => source.includes(shown(markers)))
}

/** Where the thinking of a reply that has `begun` like this stands: not begun, begun, or over. */
export function thinkingIn(
  begun: string,
  { open, close, begins, inChannels }: Markers,
  continues = false,
): ThinkingAt {
  if (inChannels && continues) return "over"
  if (inChannels) return begun.endsWith(open) ? "inside" : "ahead"
  const closed = begun.lastIndexOf(close)
  const opened = begun.lastIndexOf(open)
  if (opened > closed) return "inside"
  return closed < 0 || (begins && opened < 0) ? "ahead" : "over"
}

/** Whether a reply begins before its thinking, in it, or behind it. */
export type ThinkingAt = "ahead" | "inside" | "over"

/** @param opening the calls that end thinking @param spelling how the text has the markers */
export function splitterFor(
  markers: Markers,
  at: ThinkingAt,
  opening?: Opening,
  spelling = asSpelled,
): Splitter {
  return markers.inChannels
    ? new ChannelSplitter(at === "inside", spelling)
    : new ReasoningSplitter(wordsOf(markers, spelling), at, opening)
}

/** What is looked for in a text, and held to. */
export type Words = Pick<Markers, "open" | "close" | "answer" | "begins">

export const wordsOf = ({ open, close, answer, begins }: Words, spelling: Spelling): Words => ({
  open: spelling(open),
  close: spelling(close),
  ...(answer && { answer: [spelling(answer[0]), spelling(answer[1])] }),
  ...(begins && { begins: spelling(begins) }),
})

/** `answer` is behind a mark, and its own is looked for; `content` is text to the end. */
type State = "start" | "inside" | "after" | "over" | "answer" | "content"

class ReasoningSplitter implements Splitter {
  readonly #markers: Words
  #state: State
  #fresh = true // nothing of the thinking, or of a marked answer, has been sent
  #waiting = ""
  readonly #opening: Opening | undefined
  #mark: number | undefined // where in what waits the last token stands that opens calls

  constructor(markers: Words, at: ThinkingAt, opening: Opening | undefined) {
    this.#markers = markers
    this.#opening = opening
    this.#state = at === "ahead" ? "start" : at
  }

  push(text: string, isMark = false): Piece[] {
    if (this.#state === "content") return [{ kind: "content", text }]
    this.#waiting += text
    if (isMark && this.#opening) this.#mark = this.#waiting.length - this.#opening.mark.length
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
    const isHeader = ["after", "over"].includes(this.#state) && this.#begins(text)
    if (isHeader) return [{ kind: "nothing", text }]
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

  /** Whether a text is what begins a message, or may become that. */
  #begins(text: string): boolean {
    return text !== "" && (this.#markers.begins?.startsWith(text) ?? false)
  }

  /** The answer, behind its mark or without one; of messages there may be more, also of thinking. */
  #open(pieces: Piece[]): boolean {
    const { begins, open } = this.#markers
    if (begins && this.#waiting.startsWith(begins)) {
      this.#take(pieces, "nothing", begins.length)
      return true
    }
    if (this.#begins(this.#waiting)) return false
    if (begins && this.#state !== "start") {
      if (this.#waiting.startsWith(open)) {
        this.#take(pieces, "nothing", open.length)
        this.#state = "inside"
        this.#fresh = true
        return true
      }
      if (open.startsWith(this.#waiting)) return false
    }
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
    const next = this.#markers.begins ? "after" : "content"
    return this.#upTo(this.#markers.answer![1], pieces, ["content", "mark"], next)
  }

  #think(pieces: Piece[]): boolean {
    const called = this.#called()
    if (called === "no") {
      return this.#upTo(this.#markers.close, pieces, ["reasoning", "nothing"], "after")
    }
    if (this.#fresh) this.#take(pieces, "nothing", lineBreaks(this.#waiting))
    const left = this.#textTo(this.#mark!, pieces, "reasoning")
    if (called === "perhaps") return false
    this.#take(pieces, "nothing", left)
    this.#state = "content"
    return true
  }

  /** Whether a token that opens calls has come, and behind it what shows that a call begins. */
  #called(): "no" | "perhaps" | "yes" {
    if (this.#mark === undefined || !this.#opening) return "no"
    const { mark, heads } = this.#opening
    const behind = this.#waiting.slice(this.#mark + mark.length)
    if (heads.some((head) => behind.startsWith(head))) return "yes"
    if (heads.some((head) => head.startsWith(behind))) return "perhaps"
    this.#mark = undefined
    return "no"
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
    const left = this.#textTo(known, pieces, kind)
    if (end < 0) return false
    this.#take(pieces, hidden, left + close.length)
    this.#state = next
    return true
  }

  /** What stands before a place, without the line breaks there, of which it gives the number. */
  #textTo(place: number, pieces: Piece[], kind: Piece["kind"]): number {
    const text = this.#waiting.slice(0, place).replace(/[\r\n]+$/, "")
    if (text !== "") this.#fresh = false
    this.#take(pieces, kind, text.length)
    return place - text.length
  }

  #take(pieces: Piece[], kind: Piece["kind"], length: number): void {
    if (length === 0) return
    pieces.push({ kind, text: this.#waiting.slice(0, length) })
    this.#waiting = this.#waiting.slice(length)
    if (this.#mark !== undefined) this.#mark -= length
  }
}

function lineBreaks(text: string): number {
  return /^[\r\n]*/.exec(text)![0].length
}
