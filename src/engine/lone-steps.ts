// Steps of a program that no scheduler fills: one after the other, each somebody's, who may leave while it is taken.

import { type Problem, problem } from "../errors.ts"
import type { Log } from "../log.ts"
import {
  type CancelWord,
  type Program,
  ProgramLost,
  type SamplingRows,
  type StepDone,
  type StepInput,
  type StepOutput,
  UNMASKED,
} from "../runtime/program.ts"
import { failure } from "./endings.ts"

export interface LoneStepsOptions {
  log?: Log
  /** Told once when the program is lost: whoever asks is told why from then on. */
  onLost?: (reason: Problem) => void
}

export class LoneSteps {
  readonly #program: Program
  readonly #what: string
  readonly #options: LoneStepsOptions
  #running: { cancel: CancelWord; step: Promise<StepOutput> } | undefined
  #lost: Problem | undefined
  #isClosed = false

  /** @param what the program is called in the log */
  constructor(program: Program, what: string, options: LoneStepsOptions = {}) {
    this.#program = program
    this.#what = what
    this.#options = options
  }

  get isBusy(): boolean {
    return this.#running !== undefined
  }

  /** Rejects with the signal's reason, with `server_closing`, and where the program fails. */
  async take(input: StepInput, signal: AbortSignal | undefined): Promise<StepDone> {
    signal?.throwIfAborted()
    if (this.#isClosed) throw problem("server_closing", {})
    if (this.#lost) throw this.#lost
    const cancel: CancelWord = new Int32Array(new SharedArrayBuffer(4))
    const abort = () => Atomics.store(cancel, 0, 1)
    signal?.addEventListener("abort", abort, { once: true })
    const step = this.#program.step(input, cancel)
    this.#running = { cancel, step }
    try {
      const output = await step
      if (output.kind === "done") return output
    } catch (error) {
      throw error instanceof ProgramLost ? this.#lose(error) : failure(error)
    } finally {
      signal?.removeEventListener("abort", abort)
      this.#running = undefined
    }
    throw signal?.aborted ? signal.reason : problem("server_closing", {})
  }

  #lose({ message }: ProgramLost): Problem {
    const { log, onLost } = this.#options
    this.#lost = problem("program_lost", { problem: message })
    log?.error({ why: message }, `the program that ${this.#what} is lost`)
    onLost?.(this.#lost)
    return this.#lost
  }

  /** Ends the one that runs. The program stays open. */
  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#running) Atomics.store(this.#running.cancel, 0, 1)
    await this.#running?.step.catch(() => {}) // whoever asked for it is told
  }
}

/** Of so many rows each draws the likeliest token, and tells how likely it is. */
export function likeliestOf(rows: number): SamplingRows {
  const zeros = new Int32Array(rows)
  const none = new Float32Array(rows)
  const ones = new Float32Array(rows).fill(1)
  const nothing = new Int32Array(0)
  const starts = new Int32Array(rows + 1)
  return {
    temperature: none,
    topK: zeros,
    topP: ones,
    minP: none,
    presence: none,
    frequency: none,
    repetition: ones,
    countStarts: starts,
    countTokens: nothing,
    counts: nothing,
    biasStarts: starts,
    biasTokens: nothing,
    biases: new Float32Array(0),
    masks: new Uint32Array(0),
    maskRow: new Int32Array(rows).fill(UNMASKED),
    seed: new BigUint64Array(rows),
    choice: zeros,
    position: zeros,
    topLogprobs: zeros,
  }
}
