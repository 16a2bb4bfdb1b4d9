// How many prompt tokens a step may take beside others' tokens, so that everybody's next token comes in time. Measured,
// not modelled: after each step the allowance is what would just have fitted, so it follows the machine, the model, the
// company and the depth of the prompt by itself, and one slow step is forgotten after a few.

import { BLOCK } from "../runtime/program.ts"

/** Of the 100 ms that a shared step may last; the rest is for steps that turn out slower than the one before. */
const TARGET_MS = 80

/** A sequence that is alone delays only who comes next: its steps may take about a second. */
const ALONE = 12

/** With fewer a step is hardly shorter, since the weights have to be read all the same. */
const MIN_TOKENS = 4

export class Pace {
  #allowed = 2 * BLOCK

  /** Prompt tokens for the next shared step. */
  get allowed(): number {
    return this.#allowed
  }

  get allowedAlone(): number {
    return ALONE * this.#allowed
  }

  /** A step with `promptTokens` of them took `ms`. */
  note(promptTokens: number, ms: number): void {
    if (promptTokens < this.#allowed && ms < TARGET_MS) return // says only that there was room
    if (promptTokens === 0) return
    const fitting = (promptTokens * TARGET_MS) / Math.max(ms, 1)
    const most = 2 * Math.max(this.#allowed, promptTokens)
    this.#allowed = Math.max(MIN_TOKENS, Math.min(Math.floor(fitting), most))
  }
}
