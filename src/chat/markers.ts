// What tells thinking from the answer, and what text becomes that is read for it: the words that reasoning.ts and channels.ts
// share.

export interface Markers {
  open: string
  close: string
  /** The special tokens that they are made of; absent: each is one itself. */
  marks?: readonly string[]
  /** All of the reply is messages in channels. */
  inChannels?: true
}

/** A run of text and what it is: `nothing` is markers and the line breaks around them. */
export interface Piece {
  kind: "reasoning" | "content" | "nothing"
  text: string
}

/** Gives back all text it is given, in order, as pieces; what may be part of a marker waits. */
export interface Splitter {
  push(text: string): Piece[]
  /** What waited, when nothing more comes. */
  flush(): Piece[]
}
