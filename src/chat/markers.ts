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
  /** Where `marks` are tokens, their spelling is text like any other. */
  byTokens?: true
}

/** In the place of the "<" of such a token, in texts that are read: half a character, which no tokens spell. */
const HALF = "\udc3c"

/** How texts that are read have the words of marks: as tokens alone may write them, or as they are spelled. */
export type Spelling = (words: string) => string

export const asTokens: Spelling = (words) => words.replaceAll("<|", `${HALF}|`)
export const asSpelled: Spelling = (words) => words

/** A text that has been read, as it is sent: of the same length. */
export const unread = (text: string): string => text.replaceAll(HALF, "<")

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
