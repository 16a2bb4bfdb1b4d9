// The prompt as the beginning of a reply: its text and, where log probabilities are wanted, how likely the model thought
// each of its tokens. The text is the client's own, letter by letter; offsets are those of what the tokens decode to.

import type { PromptScores } from "../engine/generation.ts"
import type { CompletionRequest, TokenLogprob } from "./conversation.ts"
import { Detokenizer, spelled, type TokenTexts } from "./detokenizer.ts"

export interface Echo {
  text: string
  tokens: Int32Array
  /** Special tokens that the text shows. */
  visible: ReadonlySet<number>
  /** Whether log probabilities are told: then the token that ends a reply is told as well. */
  scored: boolean
}

/** Ids show every token they name; what was put before a text does not belong to it. */
export function echoOf(
  { prompt, sampling }: Pick<CompletionRequest, "prompt" | "sampling">,
  tokens: Int32Array,
  texts: TokenTexts,
): Echo {
  const scored = sampling.topLogprobs !== undefined
  if (typeof prompt === "string") return { text: prompt, tokens, visible: new Set(), scored }
  return { text: [...spelled(prompt, texts)].join(""), tokens, visible: texts.special, scored }
}

/** The prompt's tokens as they are told, every time anew: all choices share what the engine keeps of them. */
export class EchoedTokens implements Iterable<TokenLogprob> {
  readonly #echo: Echo
  readonly #scores: PromptScores
  readonly #texts: TokenTexts

  constructor(echo: Echo, scores: PromptScores, texts: TokenTexts) {
    this.#echo = echo
    this.#scores = scores
    this.#texts = texts
  }

  *[Symbol.iterator](): Generator<TokenLogprob, void, undefined> {
    const { tokens, visible } = this.#echo
    const text = new Detokenizer(this.#texts, false, visible)
    let end = 0
    for (const [i, token] of tokens.entries()) {
      const fresh = text.push(token)
      const offset = end + text.broken
      end += characters(fresh)
      const shows = !this.#texts.special.has(token) || visible.has(token)
      const top = () => this.#topAt(i - 1)
      yield {
        token,
        shows,
        offset,
        logprob: this.#scores.logprobs[i - 1],
        get top() {
          return top() // most lists do without
        },
      }
    }
  }

  #topAt(at: number): TokenLogprob["top"] {
    if (at < 0) return []
    const { top, topTokens, topLogprobs } = this.#scores
    return Array.from({ length: top }, (_, i) => ({
      token: topTokens[at * top + i]!,
      logprob: topLogprobs[at * top + i]!,
    }))
  }
}

/** Code points, as Python's clients count. */
export function characters(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}
