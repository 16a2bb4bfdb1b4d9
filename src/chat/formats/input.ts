// How a format reads a reply that is still being written. A format is a recursive-descent parser written as a generator:
// where it needs a character that has not come yet, it waits. So there is one parser for streams and whole texts, and where
// the text was cut cannot matter. What it decides becomes pieces; what it has not decided yet is held back.

import { asSpelled, type Spelling, unread } from "../markers.ts"
import { overlap } from "../stops.ts"

/** What a run of the reply is. `length` is how many of its characters (UTF-16 units) the piece settles. */
export type CallPiece =
  | { kind: "text"; text: string; length: number }
  | { kind: "call"; name: string; length: number }
  | { kind: "arguments"; text: string; length: number } // JSON text of an object, piece by piece
  | { kind: "end"; length: number } // of the call
  | { kind: "nothing"; length: number } // markers and blanks around calls
  | { kind: "broken"; length: number } // a call that cannot be read; what was not announced comes as text before it

/** A parser at work; gives `undefined` where it waits for characters. */
export type Reading<Result> = Generator<undefined, Result, undefined>

/**
 * The tools that may be called, by name, and the JSON Schema of each one's arguments: a form that writes the text 5 and the
 * number 5 alike asks it which of them was meant.
 */
export type Tools = Pick<ReadonlyMap<string, unknown>, "has" | "get">

/** What was taken for a call is none. */
export class NotACall extends Error {}

const END = "" // stands for a character when the reply is over

export class Input {
  /** Pieces decided since the last time they were taken. */
  pieces: CallPiece[] = []
  #text = "" // characters that are not settled
  #at = 0 // of these, how many have been read
  #over = false
  #announced = false
  readonly #spelling: Spelling

  /** @param spelling how the text has the words of marks; a parser names them, and takes their characters, as they are spelled */
  constructor(spelling: Spelling = asSpelled) {
    this.#spelling = spelling
  }

  append(text: string): void {
    this.#text += text
  }

  close(): void {
    this.#over = true
  }

  /** The next character, or "" when the reply is over. */
  *peek(): Reading<string> {
    while (this.#at === this.#text.length) {
      if (this.#over) return END
      yield
    }
    return unread(this.#text[this.#at]!)
  }

  *take(): Reading<string> {
    const character = yield* this.peek()
    if (character !== END) this.#at++
    return character
  }

  /** Reads on when exactly this comes next; otherwise it is not a call. */
  *expect(literal: string): Reading<void> {
    for (const character of this.#spelling(literal)) {
      if ((yield* this.peek()) === END || this.#text[this.#at++] !== character) throw new NotACall()
    }
  }

  /** Whether exactly this comes next, of which nothing is read. */
  *follows(words: string): Reading<boolean> {
    const literal = this.#spelling(words)
    for (;;) {
      const next = this.#text.slice(this.#at, this.#at + literal.length)
      if (next === literal) return true
      if (this.#over || !literal.startsWith(next)) return false
      yield
    }
  }

  *blanks(): Reading<void> {
    while (isBlank(yield* this.peek())) this.#at++
  }

  /** Reads on when a comma comes next. */
  *comma(): Reading<boolean> {
    if ((yield* this.peek()) !== ",") return false
    yield* this.take()
    return true
  }

  /** Reads text up to and with a marker, which stays open with the blanks before it and is given back; "" when the reply ends first. */
  *textUntil(markers: string | readonly string[]): Reading<string> {
    const named = typeof markers === "string" ? [markers] : markers
    const all = named.map(this.#spelling)
    for (;;) {
      const marker = firstOf(this.#text, all)
      if (marker !== undefined) {
        this.#settleText(withoutTrailingBlanks(this.#text, this.#text.indexOf(marker)))
        this.#at = this.#text.indexOf(marker) + marker.length
        return named[all.indexOf(marker)]!
      }
      if (this.#over) {
        this.#settleText(this.#text.length)
        return END
      }
      const begun = Math.max(...all.map((each) => overlap(this.#text, each)))
      this.#settleText(withoutTrailingBlanks(this.#text, this.#text.length - begun))
      this.#at = this.#text.length
      yield
    }
  }

  /** All that has been read and all that comes is text. */
  *restIsText(): Reading<void> {
    for (;;) {
      this.#settleText(this.#text.length)
      if (this.#over) return
      yield
    }
  }

  /** Settles what has been read since the last piece as markers or as the end of a call. */
  settle(kind: "nothing" | "end"): void {
    const length = this.#drop(this.#at)
    if (kind === "end") this.#announced = false
    if (length > 0 || kind === "end") this.pieces.push({ kind, length })
  }

  announce(name: string): void {
    this.#announced = true
    this.pieces.push({ kind: "call", name, length: this.#drop(this.#at) })
  }

  /** A piece of arguments, in JSON, for what has been read since the last piece. */
  argue(text: string): void {
    const length = this.#drop(this.#at)
    const last = this.pieces.at(-1)
    if (last?.kind === "arguments") {
      last.text += text
      last.length += length
    } else this.pieces.push({ kind: "arguments", text, length })
  }

  /**
   * Reads a call; false when it turns out to be none. A `marked` one is then broken, as is one that was announced; of others
   * nothing is lost: what was read is read again, as text.
   */
  *attempt(marked: boolean, call: Reading<void>): Reading<boolean> {
    try {
      yield* call
      return true
    } catch (error) {
      if (!(error instanceof NotACall)) throw error
      if (!this.#announced) {
        this.#settleText(this.#at)
        if (marked) this.pieces.push({ kind: "broken", length: 0 })
      } else this.pieces.push({ kind: "broken", length: this.#drop(this.#at) })
      this.#announced = false
      return false
    }
  }

  #settleText(length: number): void {
    if (length <= 0) return
    const text = this.#text.slice(0, length)
    this.#drop(length)
    const last = this.pieces.at(-1)
    if (last?.kind === "text") {
      last.text += text
      last.length += length
    } else this.pieces.push({ kind: "text", text, length })
  }

  #drop(length: number): number {
    this.#text = this.#text.slice(length)
    this.#at = Math.max(0, this.#at - length)
    return length
  }
}

/** The marker that stands first in the text. */
function firstOf(text: string, markers: readonly string[]): string | undefined {
  const there = markers.filter((marker) => text.includes(marker))
  return there.sort((a, b) => text.indexOf(a) - text.indexOf(b))[0]
}

function isBlank(character: string): boolean {
  return character === " " || character === "\n" || character === "\r" || character === "\t"
}

/** Blanks before a call that are not told as text; of more, those that come first are. All that is held is looked at again at each push. */
const MAX_BLANKS = 1024

/** The length of text[0, end) without the blanks at its end. */
function withoutTrailingBlanks(text: string, end: number): number {
  let length = end
  while (length > Math.max(0, end - MAX_BLANKS) && isBlank(text[length - 1]!)) length--
  return length
}
