// Harmony, in which gpt-oss speaks: a reply is messages, and the header of each says on which channel it is and to whom.
// https://github.com/openai/openai-cookbook/blob/main/articles/openai-harmony.md
//
//     <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…
//     <|start|>assistant<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{…}
//
// Thinking is on `analysis`; what is on other channels is the answer. A message to a function goes on as it is written, header and
// all, to be read as a call (formats/harmony.ts). Text without a header is an answer, too.

import { asSpelled, type Markers, type Piece, type Spelling, type Splitter } from "./markers.ts"
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
  byTokens: true,
}

const MESSAGE = "<|message|>"
const CALL = "to=functions."
const HEADS = ["<|start|>", CHANNEL, CALL]
const MAX_HEADER = 256 // characters; a function's name has 64

export class ChannelSplitter implements Splitter {
  readonly #words: ReturnType<typeof wordsOf>
  #body: "reasoning" | "content" | undefined // undefined: in a header
  #waiting = ""

  constructor(inside: boolean, spelling: Spelling = asSpelled) {
    this.#words = wordsOf(spelling)
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
    const kind = this.#waiting.startsWith(this.#words.mark) ? "nothing" : "content"
    this.#take(pieces, this.#body ?? kind, this.#waiting.length)
    return pieces
  }

  /** Up to the end of the message; false when more of it is to come. */
  #say(kind: "reasoning" | "content", pieces: Piece[]): boolean {
    const { close } = this.#words
    const end = this.#waiting.indexOf(close)
    const known = end < 0 ? this.#waiting.length - overlap(this.#waiting, close) : end
    this.#take(pieces, kind, known)
    if (end < 0) return false
    this.#take(pieces, "nothing", close.length)
    this.#body = undefined
    return true
  }

  /** False when the header goes on. */
  #open(pieces: Piece[]): boolean {
    const { message, start, thinking, heads } = this.#words
    const end = this.#waiting.indexOf(message)
    const header = end < 0 ? this.#waiting : this.#waiting.slice(0, end + message.length)
    if (!mayBeHeader(header, heads)) {
      this.#body = "content"
      return true
    }
    if (end < 0) return false
    const isCall = header.includes(CALL)
    const shown = isCall ? header.length - (header.startsWith(start) ? start.length : 0) : 0
    this.#take(pieces, "nothing", header.length - shown)
    this.#take(pieces, "content", shown)
    this.#body = !isCall && header.includes(thinking) ? "reasoning" : "content"
    return true
  }

  #take(pieces: Piece[], kind: Piece["kind"], length: number): void {
    if (length === 0) return
    pieces.push({ kind, text: this.#waiting.slice(0, length) })
    this.#waiting = this.#waiting.slice(length)
  }
}

const wordsOf = (spelling: Spelling) => ({
  mark: spelling("<|"),
  close: spelling(END),
  message: spelling(MESSAGE),
  start: spelling(START),
  thinking: spelling(`${CHANNEL}analysis`),
  heads: HEADS.map(spelling),
})

function mayBeHeader(text: string, heads: readonly string[]): boolean {
  const begun = text.trimStart()
  return (
    text.length <= MAX_HEADER &&
    heads.some((head) => begun.startsWith(head) || head.startsWith(begun))
  )
}
