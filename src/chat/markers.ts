// What tells thinking from the answer, and what text becomes that is read for it: the words that reasoning.ts and channels.ts
// share.

import { HALF } from "../grammar/grammar.ts"
import type { Tokenizer } from "./tokenizer.ts"

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

/** How texts that are read, and grammars, have the words of marks: as tokens alone may write them, or as they are spelled. */
export type Spelling = (words: string) => string

export const asTokens: Spelling = (words) => words.replaceAll("<|", `${HALF}|`)
export const asSpelled: Spelling = (words) => words

/** Tokens that marks of thinking or of calls are, where no spelling counts; none where the tokenizer lacks one of them. */
export function tokensOf(
  tokenizer: Pick<Tokenizer, "control">,
  { byTokens, marks = [] }: { byTokens?: unknown; marks?: readonly string[] } = {},
): readonly number[] {
  if (!byTokens) return []
  const ours = marks.filter((mark) => mark.startsWith("<|"))
  const tokens = ours.map((mark) => tokenizer.control(mark))
  return tokens.every((token) => token !== undefined) ? tokens : []
}

export const spellingOf = (tokens: readonly number[]): Spelling =>
  tokens.length > 0 ? asTokens : asSpelled

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
