// How long a step takes by how many tokens it computes, as measured: a few rows cost little more than one while weights
// have to be read anyway, and how little is the machine's and the model's business. Numbers of tokens that were never
// tried lie between their neighbours, or follow the nearest one with a slope that is hopeful enough to be tried.

/** What one more token is thought to add to a step, as a share of it, before anything is known. */
const SLOPE = 0.06

/** The share of a new time in the mean: an odd one is forgotten after a few. */
const NEWEST = 1 / 4

export class StepCosts {
  readonly #means: Float64Array // [most + 1] milliseconds by tokens; 0: never seen

  constructor(most: number) {
    this.#means = new Float64Array(most + 1)
  }

  /** A step over `tokens` tokens took `ms`. One that took far longer than known was held up by something else. */
  note(tokens: number, ms: number): void {
    if (tokens >= this.#means.length) return
    const mean = this.#means[tokens]!
    this.#means[tokens] = mean === 0 ? ms : mean + (Math.min(ms, 2 * mean) - mean) * NEWEST
  }

  /** Milliseconds that a step over so many tokens is thought to take; in unknown units while nothing is known. */
  of(tokens: number): number {
    let below = Math.min(tokens, this.#means.length - 1)
    while (below > 0 && this.#means[below] === 0) below--
    let above = tokens
    while (above < this.#means.length && this.#means[above] === 0) above++
    const [low, high] = [this.#means[below]!, this.#means[above] ?? 0]
    if (below === tokens) return low
    if (low === 0 && high === 0) return 1 + SLOPE * (tokens - 1)
    if (low === 0) return (high * (1 + SLOPE * (tokens - 1))) / (1 + SLOPE * (above - 1))
    if (high === 0) return low * (1 + SLOPE * (tokens - below))
    return low + ((high - low) * (tokens - below)) / (above - below)
  }
}
