// Tokens of bytes by rank, as tiktoken.model and tekken.json list them. Byte pairs are merged that make the token of the lowest rank;
// a tokenizer.json lists pairs, so each token is taken apart by those before it. Source: tiktoken's _educational.py.

import { byteLevelCharacter } from "../byte-alphabet.ts"
import type { Problem } from "../errors.ts"

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/** A token in base64, a character a byte; undefined where it is none. */
export function byteLevelToken(base64: string): string | undefined {
  if (base64 === "" || !BASE64.test(base64)) return undefined
  return Array.from(Buffer.from(base64, "base64"), byteLevelCharacter).join("")
}

const MAX_TOKEN = 1024 // bytes, of which every pair is looked at after every merge

/** Of each token of several bytes the two that it is made of; of one that no merge makes, and only a text that is all of it has, none. */
export function mergesOf(tokens: readonly string[], broken: (what: string) => Problem): string[] {
  const ranks = ranksOf(tokens)
  return tokens.flatMap((token, rank) => {
    if (token.length > MAX_TOKEN) throw broken(`it has a token of ${token.length} bytes`)
    const parts = partsOf(token, ranks, rank)
    return parts.length === 2 ? parts.join(" ") : []
  })
}

/** By their places. */
export const ranksOf = (tokens: readonly string[]): ReadonlyMap<string, number> =>
  new Map(tokens.map((token, rank) => [token, rank]))

/**
 * A text, a character a byte, as what is left of it when all pairs are merged that make a token of a lower rank than `limit`.
 */
export function partsOf(
  text: string,
  ranks: ReadonlyMap<string, number>,
  limit = Number.POSITIVE_INFINITY,
): string[] {
  const starts = Array.from({ length: text.length + 1 }, (_, i) => i) // of its parts, and its end
  const pairAt = (i: number) => ranks.get(text.slice(starts[i], starts[i + 2])) ?? limit
  const pairs = starts.slice(2).map((_, i) => pairAt(i)) // of each part with the next one
  while (pairs.length > 0) {
    const least = Math.min(...pairs)
    if (least >= limit) break
    const at = pairs.indexOf(least)
    starts.splice(at + 1, 1)
    pairs.splice(at, 1)
    if (at > 0) pairs[at - 1] = pairAt(at - 1)
    if (at < pairs.length) pairs[at] = pairAt(at)
  }
  return starts.slice(1).map((end, i) => text.slice(starts[i], end))
}
