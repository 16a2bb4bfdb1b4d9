// Harmony, in which gpt-oss speaks: a reply is messages, and the header of each says on which channel it is and to whom.
// https://github.com/openai/openai-cookbook/blob/main/articles/openai-harmony.md
//
//     <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…
//     <|start|>assistant<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{…}
//
// Thinking is on `analysis`; what is on other channels is the answer. A message to a function goes on as it is written, header and
// all, to be read as a call (formats/harmony.ts). Text without a header is an answer, too.

import type { Markers, Piece, Splitter } from "./markers.ts"
import { overlap } from "./stops.ts"

export const CHANNEL = "<|channel|>"
export const START = "<|start|>assistant"
const END = "<|end|>"
export const ANSWER = `${CHANNEL}final<|message|>`

export const channels: Markers = {
  open: `${CHANNEL}analysis<|message|>`,
  close: END,
  marks: ["<|start|>", CHANNEL, "<|constrain|>", "<|message|>", END],
  inChannels: true,
}

const MESSAGE = "<|message|>"
const CALL = "to=functions."
const HEADS = ["<|start|>", CHANNEL, CALL]
const MAX_HEADER = 256 // characters; a function's name has 64

export class ChannelSplitter implements Splitter {
  #body: "reasoning" | "content" | undefined // undefined: in a header
  #waiting = ""

  constructor(inside: boolean) {
    this.#body = inside ? "reasoning" : undefined
  }

  push(text: string): Piece[] {
    this.#waiting += text
    const pieces: Piece[] = []
    while (
      this.#waiting !== "" &&
      (this.#body ? this.#say(this.#body, pieces) : this.#open(pieces))
    ) {
      // one message, or one header, after the other
    }
    return pieces
  }

  /** A mark that is cut, or a header behind one, says nothing. */
  flush(): Piece[] {
    const pieces: Piece[] = []
    const kind = this.#waiting.startsWith("<|") ? "nothing" : "content"
    this.#take(pieces, this.#body ?? kind, this.#waiting.length)
    return pieces
  }

  /** Up to the end of the message; false when more of it is to come. */
  #say(kind: "reasoning" | "content", pieces: Piece[]): boolean {
    const end = this.#waiting.indexOf(END)
    const known = end < 0 ? this.#waiting.length - overlap(this.#waiting, END) : end
    this.#take(pieces, kind, known)
    if (end < 0) return false
    this.#take(pieces, "nothing", END.length)
    this.#body = undefined
    return true
  }

  /** False when the header goes on. */
  #open(pieces: Piece[]): boolean {
    const end = this.#waiting.indexOf(MESSAGE)
    const header = end < 0 ? this.#waiting : this.#waiting.slice(0, end + MESSAGE.length)
    if (!mayBeHeader(header)) {
      this.#body = "content"
      return true
    }
    if (end < 0) return false
    const isCall = header.includes(CALL)
    const shown = isCall ? header.length - (header.startsWith(START) ? START.length : 0) : 0
    this.#take(pieces, "nothing", header.length - shown)
    this.#take(pieces, "content", shown)
    this.#body = !isCall && header.includes(`${CHANNEL}analysis`) ? "reasoning" : "content"
    return true
  }

  #take(pieces: Piece[], kind: Piece["kind"], length: number): void {
    if (length === 0) return
    pieces.push({ kind, text: this.#waiting.slice(0, length) })
    this.#waiting = this.#waiting.slice(length)
  }
}

function mayBeHeader(text: string): boolean {
  const begun = text.trimStart()
  return (
    text.length <= MAX_HEADER &&
    HEADS.some((head) => begun.startsWith(head) || head.startsWith(begun))
  )
}
