// What tells thinking from the answer, and what text becomes that is read for it: the words that reasoning.ts and channels.ts
// share.

export interface Markers {
  open: string
  close: string
  /** The special tokens that they are made of; absent: each is one itself. */
  marks?: readonly string[]
  /** What some models put around their answer, too, with a line break inside or without. */
  answer?: readonly [open: string, close: string]
  /** Thinking and answers are messages, which what closes thinking ends: this begins another. */
  begins?: string
  /** What stands before the first message's own marks, where the prompt has begun it. */
  lead?: string
  /** What in a template shows them; absent: their own words. */
  sign?: string
  /** All of the reply is messages in channels. */
  inChannels?: true
}

/**
 * A run of text and what it is: `nothing` is markers of thinking and the line breaks around them, and `mark` those of the
 * answer.
 */
export interface Piece {
  kind: "reasoning" | "content" | "nothing" | "mark"
  text: string
}

/** Gives back all text it is given, in order, as pieces; what may be part of a marker waits. */
export interface Splitter {
  /** @param isMark whether it ends with the token that opens calls, which its spelling is not */
  push(text: string, isMark?: boolean): Piece[]
  /** What waited, when nothing more comes. */
  flush(): Piece[]
}
