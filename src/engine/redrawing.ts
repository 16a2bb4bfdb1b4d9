// Rows that are drawn twice: where what may come depends on the logits themselves (`Constraint.narrow`), which a mask that is made before
// a step cannot know. The program has drawn from the mask; where the constraint takes more tokens out of it, the row is drawn once more
// here, by the sampler that every program's has to agree with. It takes a millisecond, and only such replies pay for it.

import type { StepDone, StepInput } from "../runtime/program.ts"
import { createSampler, type Sampler } from "../runtime/sampling.ts"
import type { Part } from "./batch.ts"

export class Redrawing {
  readonly #vocabulary: number
  #sampler: Sampler | undefined

  constructor(vocabulary: number) {
    this.#vocabulary = vocabulary
  }

  /** Whether a step of these has to hand out its logits. */
  wants(parts: readonly Part[]): boolean {
    return parts.some(({ sequence, rows }) => rows > 0 && sequence.constraint?.narrow !== undefined)
  }

  /** @param sampling what the step was drawn by, whose masks change */
  redraw(
    parts: readonly Part[],
    { sampling }: Pick<StepInput, "sampling">,
    output: StepDone,
  ): void {
    const { logits } = output
    if (!logits) return
    const words = Math.ceil(this.#vocabulary / 32)
    let row = 0
    for (const { sequence, rows } of parts) {
      row += rows
      const { constraint, state, draws } = sequence
      if (!constraint?.narrow || state !== "running" || draws === 0) continue
      const [last, masked] = [row - 1, sampling.maskRow[row - 1]!]
      if (masked < 0 || output.finite[last] === 0) continue
      const mask = sampling.masks.subarray(masked * words, (masked + 1) * words)
      const own = logits.subarray(last * this.#vocabulary, row * this.#vocabulary)
      if (!constraint.narrow(mask, own)) continue
      this.#sampler ??= createSampler(this.#vocabulary)
      this.#sampler.sample(own, last, sampling, output)
    }
  }
}
