// The prompt as the beginning of a reply: its text and, where log probabilities are wanted, how likely the model thought
// each of its tokens. The text is the client's own, letter by letter; offsets are those of what the tokens decode to.

import { Detokenizer, type TokenTexts } from "./detokenizer.ts"

export interface Echo {
  text: string
  tokens: Int32Array
  /** Special tokens that the text shows. */
  visible: ReadonlySet<number>
  /** Whether log probabilities are told: then of every token, also of those in the reply that show as nothing. */
  scored: boolean
}

/** Where the text of each token begins, in code points. */
export function offsetsOf({ tokens, visible }: Echo, texts: TokenTexts): number[] {
  const text = new Detokenizer(texts, false, visible)
  let at = 0
  return Array.from(tokens, (token) => {
    const offset = at
    at += characters(text.push(token))
    return offset
  })
}

/** Code points, as Python's clients count. */
export function characters(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}
