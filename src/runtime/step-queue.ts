// Steps that are handed over while the one before them runs. A step waits here, put together and all, until that one has drawn;
// then it takes the tokens it lacks and begins, before anybody has been told of the tokens.

import { type CancelWord, type StepDone, type StepInput, type StepOutput, TOLD } from "./program.ts"

export class StepQueue {
  readonly #take: (input: StepInput, cancel: CancelWord) => Promise<StepOutput>
  #last: Promise<StepOutput> | undefined

  /** @param take takes a step, one at a time */
  constructor(take: (input: StepInput, cancel: CancelWord) => Promise<StepOutput>) {
    this.#take = take
  }

  step(input: StepInput, cancel: CancelWord): Promise<StepOutput> {
    const own = input.drawnBy ? this.#behind(this.#last, input, cancel) : this.#take(input, cancel)
    this.#last = own
    void own.catch(() => {}) // told to whoever waits for this step, also where another is behind it
    return own
  }

  async #behind(
    last: Promise<StepOutput> | undefined,
    input: StepInput,
    cancel: CancelWord,
  ): Promise<StepOutput> {
    const before = await last
    if (!before) throw new Error("internal: a step behind none")
    if (before.kind === "cancelled") return before
    takeDrawn(input, before)
    return this.#take(input, cancel)
  }
}

/** A row that drew nothing costs its own sequence, which is told so; what is computed here in its place means nothing. */
function takeDrawn({ tokens, drawnBy }: StepInput, before: StepDone): void {
  for (const [i, row] of drawnBy!.entries()) {
    if (row === TOLD) continue
    if (row < 0 || row >= before.tokens.length)
      throw new Error(`internal: drawnBy[${i}] is row ${row} of ${before.tokens.length}`)
    tokens[i] = before.finite[row] ? before.tokens[row]! : 0
  }
}
