// How many prompt tokens a step may take beside others' tokens, so that everybody's next token comes in time. Measured,
// not modelled: after each step the allowance is what would just have fitted, so it follows the machine, the model, the
// company and the depth of the prompt by itself, and one slow step is forgotten after a few.
//
// In time is a matter of what one is used to: who reads a token each millisecond is not to wait for eighty. So a step that
// tokens share with prompts lasts a few times what it lasts without, half as long again where that can be seen, and one in
// several goes without, to know how long that is.

import { BLOCK } from "../runtime/program.ts"
import { StepCosts } from "./step-costs.ts"

/** Of the 100 ms that a shared step may last; the rest is for steps that turn out slower than the one before. */
const MAX_MS = 80

/** Shorter than that nobody has to be. */
const MIN_MS = 2

/** How many times as long as without prompts, while that is no longer than `SEEN_MS`. */
const STRETCH = 2.5

/** Forty tokens a second: slower than that, a reader sees that others are served. */
const SEEN_MS = 25

/** How many times as long as without prompts in any case. */
const SEEN_STRETCH = 1.5

/** Of so many steps with prompts and others' tokens, one more goes without prompts. */
const UNTIL_BARE = 8

/** A sequence that is alone delays only who comes next: its steps may take about a second. */
const ALONE = 12

/** With fewer a step is hardly shorter, since the weights have to be read all the same. */
const MIN_TOKENS = 4

export class Pace {
  readonly #bare: StepCosts
  #untilBare = 0
  readonly #beside = new Allowance()
  readonly #among = new Allowance()

  /** @param sequences at most in a step */
  constructor(sequences: number) {
    this.#bare = new StepCosts(sequences)
  }

  /** Prompt tokens for the next step, beside so many sequences that draw. */
  allowed(drawing: number): number {
    if (drawing === 0) return this.#among.tokens
    return this.#untilBare > 0 ? this.#beside.tokens : 0
  }

  get allowedAlone(): number {
    return ALONE * this.#among.tokens
  }

  /** A step with `promptTokens` of them, beside so many sequences that draw, took `ms`. */
  note(drawing: number, promptTokens: number, ms: number): void {
    if (promptTokens === 0) {
      this.#bare.note(drawing, ms)
      this.#untilBare = UNTIL_BARE
    } else if (drawing === 0) this.#among.note(promptTokens, ms, MAX_MS)
    else {
      this.#untilBare--
      this.#beside.note(promptTokens, ms, stretched(this.#bare.of(drawing)))
    }
  }
}

/** Milliseconds that a step may last for prompts' sake, which lasts `bare` without. */
function stretched(bare: number): number {
  const most = Math.min(STRETCH * bare, Math.max(SEEN_STRETCH * bare, SEEN_MS))
  return Math.min(MAX_MS, Math.max(MIN_MS, most))
}

/** What has no part in a step is given at least this much of its time behind it. */
const LEAST_BESIDE = 1 / 4

/** Milliseconds that the next step may begin later for the sake of what computes beside the engine, behind one that lasted `ms`. */
export const timeBeside = (ms: number) => Math.max(LEAST_BESIDE * ms, stretched(ms) - ms)

class Allowance {
  tokens = 2 * BLOCK

  note(promptTokens: number, ms: number, most: number): void {
    if (promptTokens < this.tokens && ms < most) return // says only that there was room
    const fitting = (promptTokens * most) / ms
    const limit = 2 * Math.max(this.tokens, promptTokens)
    this.tokens = Math.max(MIN_TOKENS, Math.min(Math.floor(fitting), limit))
  }
}
