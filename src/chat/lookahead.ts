// A reply on its way through a grammar, and a look ahead of it: along a draft, or along what is forced. The matcher stands
// at the end of the draft; masks before it are those of some moves ago, and a token that leaves the draft takes it back.

import type { Constraint } from "../engine/generation.ts"
import type { Matcher, Vocabulary } from "../grammar/grammar.ts"

/** A run of forced tokens is followed this far. */
export const MAX_FORCED = 32

export class Lookahead implements Constraint {
  readonly #matcher: Matcher
  readonly #ends: readonly number[]
  readonly #mask: Uint32Array // [ceil(vocabulary / 32)]
  /** What the matcher has accepted ahead of us; undefined: nobody looked since the last token. */
  #ahead: number[] | undefined
  #forced: readonly number[] | undefined // undefined: nobody looked

  constructor(matcher: Matcher, { words, ends }: Vocabulary) {
    this.#matcher = matcher
    this.#ends = ends
    this.#mask = new Uint32Array(words)
  }

  mask(into: Uint32Array, after = 0): void {
    const ahead = after === 0 ? (this.#ahead?.length ?? 0) : this.drafted
    this.#matcher.mask(into, ahead - after)
  }

  accept(token: number): void {
    this.#forced = this.#forced?.[0] === token ? this.#forced.slice(1) : undefined
    if (this.#ahead?.[0] === token) this.#ahead.shift()
    else {
      this.#comeBack()
      if (!this.#matcher.accept(token)) throw new Error(`internal: token ${token} was not allowed`)
    }
  }

  draft(tokens: readonly number[]): void {
    this.#comeBack()
    const refused = tokens.findIndex((token) => !this.#matcher.accept(token))
    this.#ahead = refused < 0 ? [...tokens] : tokens.slice(0, refused)
  }

  get drafted(): number {
    if (!this.#ahead) this.draft(this.forced)
    return this.#ahead!.length
  }

  get forced(): readonly number[] {
    this.#forced ??= this.#findForced()
    return this.#forced
  }

  #findForced(): readonly number[] {
    const drafted = this.#comeBack()
    const forced: number[] = []
    while (forced.length < MAX_FORCED) {
      this.#matcher.mask(this.#mask)
      const token = onlyToken(this.#mask)
      if (token === undefined) break
      this.#matcher.accept(token)
      forced.push(token)
      if (this.#ends.includes(token)) break
    }
    this.#matcher.rollback(forced.length)
    if (drafted) this.draft(drafted)
    return forced
  }

  /** Takes the matcher back to where we are; what it had looked at is returned. */
  #comeBack(): readonly number[] | undefined {
    const ahead = this.#ahead
    if (ahead) this.#matcher.rollback(ahead.length)
    this.#ahead = undefined
    return ahead
  }
}

function onlyToken(mask: Uint32Array): number | undefined {
  let only: number | undefined
  for (let i = 0; i < mask.length; i++) {
    const word = mask[i]!
    if (word === 0) continue
    if (only !== undefined || (word & (word - 1)) !== 0) return undefined
    only = i * 32 + 31 - Math.clz32(word)
  }
  return only
}
