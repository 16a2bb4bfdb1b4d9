// How long a step takes by how many tokens it computes, as measured: a few rows cost little more than one while weights
// have to be read anyway, and how little is the machine's and the model's business. Numbers of tokens that were never
// tried lie between their neighbours, or follow the nearest one with a slope that is hopeful enough to be tried.
//
// Whatever else the machine does makes steps slower, never faster. So fewer tokens are never thought to take longer than
// more: otherwise a step over one that was held up would make drafts look good that never come true.

/** What one more token is thought to add to a step, as a share of it, before anything is known. */
const SLOPE = 0.06

/** After so many steps a time is forgotten: machines change, and what was slow once might never be tried again. */
const KEPT = 256

/** The share of a new time in the mean: an odd one is forgotten after a few. */
const NEWEST = 1 / 4

export class StepCosts {
  readonly #means: Float64Array // [most + 1] milliseconds by tokens; Infinity: never seen
  readonly #least: Float64Array // [most + 2] the least of those from there on
  readonly #seenAt: Float64Array // [most + 1] after how many steps it was seen last
  #steps = 0

  constructor(most: number) {
    this.#means = new Float64Array(most + 1).fill(Number.POSITIVE_INFINITY)
    this.#least = new Float64Array(most + 2).fill(Number.POSITIVE_INFINITY)
    this.#seenAt = new Float64Array(most + 1)
  }

  /** A step over `tokens` tokens took `ms`. One that took far longer than was thought was held up by something else. */
  note(tokens: number, ms: number): void {
    if (tokens >= this.#means.length) return
    const thought = this.#isSeen(tokens) ? this.#means[tokens]! : this.#thought(tokens)
    const told = Math.min(ms, 2 * thought)
    this.#means[tokens] = this.#isSeen(tokens) ? thought + (told - thought) * NEWEST : told
    this.#seenAt[tokens] = this.#steps
    for (let at = Math.max(tokens, this.#forget()); at >= 0; at--) {
      this.#least[at] = Math.min(this.#means[at]!, this.#least[at + 1]!)
    }
  }

  /** One number of tokens at each step is asked whether its time is too old. */
  #forget(): number {
    const at = this.#steps++ % this.#means.length
    if (this.#steps - this.#seenAt[at]! > KEPT) this.#means[at] = Number.POSITIVE_INFINITY
    return at
  }

  /** Whether a step over so many tokens, or more, was ever seen. */
  knows(tokens: number): boolean {
    return this.#least[tokens]! < Number.POSITIVE_INFINITY
  }

  /** Milliseconds that a step over so many tokens is thought to take; in unknown units while nothing is known. */
  of(tokens: number): number {
    let below = Math.min(tokens, this.#means.length - 1)
    while (below > 0 && !this.#isSeen(below)) below--
    let above = tokens
    while (above < this.#means.length && !this.#isSeen(above)) above++
    const [low, high] = [this.#least[below]!, this.#least[above] ?? Number.POSITIVE_INFINITY]
    if (below === tokens) return low
    if (below === 0 && high === Number.POSITIVE_INFINITY) return 1 + SLOPE * (tokens - 1)
    if (below === 0) return (high * (1 + SLOPE * (tokens - 1))) / (1 + SLOPE * (above - 1))
    if (high === Number.POSITIVE_INFINITY) return low * (1 + SLOPE * (tokens - below))
    return low + ((high - low) * (tokens - below)) / (above - below)
  }

  /** The same; Infinity while nothing is known. */
  #thought(tokens: number): number {
    return this.knows(0) ? this.of(tokens) : Number.POSITIVE_INFINITY
  }

  #isSeen(tokens: number): boolean {
    return this.#means[tokens]! < Number.POSITIVE_INFINITY
  }
}
