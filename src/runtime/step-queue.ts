// Steps that are handed over while the one before them runs. A program that can starts such a step at once, and the device takes
// the tokens from where it has drawn them. Where it cannot, the step waits here, put together and all, until that one has drawn; then
// it takes the tokens it lacks and begins, before anybody has been told of them.

import { type CancelWord, type StepDone, type StepInput, type StepOutput, TOLD } from "./program.ts"

/** A step that has been handed over, as far as it ever is. */
export interface StartedStep {
  output: Promise<StepOutput>
  /** Whether its tokens can be had where they are drawn: then it is not cancelled any more. */
  leads?: true
}

type Start = (input: StepInput, cancel: CancelWord) => Promise<StartedStep>

/**
 * Starts a step behind one that leads and still runs: which row of that one draws a token stands in `drawnBy`.
 * @returns undefined where this one cannot do without being told: then nothing has been handed over
 */
type StartBehind = (input: StepInput, cancel: CancelWord) => Promise<StartedStep | undefined>

interface Step {
  rows: number
  started: Promise<StartedStep>
  output: Promise<StepOutput>
  /** Of the one before it. */
  before: Promise<StepOutput> | undefined
}

export class StepQueue {
  readonly #start: Start
  readonly #startBehind: StartBehind | undefined
  #last: Step | undefined

  /** @param start starts a step that knows all its tokens, while no other runs */
  constructor(start: Start, startBehind?: StartBehind) {
    this.#start = start
    this.#startBehind = startBehind
  }

  step(input: StepInput, cancel: CancelWord): Promise<StepOutput> {
    const last = this.#last
    const started = input.drawnBy ? this.#behind(last, input, cancel) : this.#start(input, cancel)
    const output = started.then(({ output }) => output)
    this.#last = { rows: input.logitRows.length, started, output, before: last?.output }
    void output.catch(() => {}) // told to whoever waits for this step, also where another is behind it
    return output
  }

  /** Resolves once no step runs. */
  async idle(): Promise<void> {
    await Promise.allSettled([this.#last?.before, this.#last?.output])
  }

  async #behind(
    last: Step | undefined,
    input: StepInput,
    cancel: CancelWord,
  ): Promise<StartedStep> {
    if (!last) throw new Error("internal: a step behind none")
    const ahead = await last.started
    checkDrawn(input, last.rows)
    await Promise.allSettled([last.before]) // no more than two are at work
    const started = ahead.leads && (await this.#startBehind?.(input, cancel))
    if (started) return { ...started, output: behind(ahead.output, started.output) }
    const before = await ahead.output
    if (before.kind === "cancelled") return { output: ahead.output }
    takeDrawn(input, before)
    return this.#start(input, cancel)
  }
}

/** What becomes of a step, once both are over: nothing, where the one ahead has failed. */
async function behind(ahead: Promise<StepOutput>, own: Promise<StepOutput>): Promise<StepOutput> {
  await Promise.allSettled([ahead, own])
  await ahead
  return own
}

function checkDrawn({ tokens, drawnBy }: StepInput, rows: number): void {
  if (drawnBy!.length !== tokens.length)
    throw new Error(`internal: drawnBy has ${drawnBy!.length} entries, not ${tokens.length}`)
  for (const [i, row] of drawnBy!.entries())
    if (row !== TOLD && (row < 0 || row >= rows))
      throw new Error(`internal: drawnBy[${i}] is row ${row} of ${rows}`)
}

/** A row that drew nothing costs its own sequence, which is told so; what is computed here in its place means nothing. */
export function takeDrawn({ tokens, drawnBy }: StepInput, before: StepDone): void {
  for (const [i, row] of drawnBy!.entries())
    if (row !== TOLD) tokens[i] = before.finite[row] ? before.tokens[row]! : 0
  drawnBy!.fill(TOLD)
}
