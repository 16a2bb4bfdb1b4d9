// Flattens the sequences of a step into the arrays a program takes. The arrays live as long as the engine, so what is
// handed out is a set of views that the next step overwrites.

import { BLOCK, type ProgramLimits, type StepInput } from "../runtime/program.ts"
import { withRoom } from "./growing.ts"
import type { Memory } from "./memory.ts"
import { Sampler } from "./sampler.ts"
import type { Sequence } from "./sequence.ts"

const NO_ROWS = new Int32Array(0)

export class Batch {
  readonly #sampler: Sampler
  readonly #window: number
  readonly #memory: Memory
  readonly #tokens: Int32Array
  readonly #positions: Int32Array
  readonly #starts: Int32Array
  readonly #blockStarts: Int32Array
  readonly #visibleFrom: Int32Array
  readonly #logitRows: Int32Array
  #blocks: Int32Array

  /** @param window positions a token sees, itself included; Infinity: all */
  constructor(limits: ProgramLimits, vocabulary: number, window: number, memory: Memory) {
    this.#sampler = new Sampler(limits.rows, vocabulary)
    this.#window = window
    this.#memory = memory
    this.#tokens = new Int32Array(limits.tokens)
    this.#positions = new Int32Array(limits.tokens)
    this.#starts = new Int32Array(limits.sequences + 1)
    this.#blockStarts = new Int32Array(limits.sequences + 1)
    this.#visibleFrom = new Int32Array(limits.sequences)
    this.#logitRows = new Int32Array(limits.rows)
    this.#blocks = new Int32Array(limits.blocks)
  }

  flatten(step: readonly Sequence[]): StepInput {
    this.#sampler.clear()
    let tokens = 0
    let blocks = 0
    let rows = 0
    for (const [i, sequence] of step.entries()) {
      const end = sequence.computed + sequence.chunk + sequence.drafts.length
      for (let position = sequence.computed; position < end; position++) {
        this.#tokens[tokens] = sequence.tokenAt(position)
        this.#positions[tokens++] = position
      }
      for (let row = sequence.rows; row > 0; row--) {
        this.#logitRows[rows++] = tokens - row
        const position = end - row + 1
        if (position < sequence.family.promptTokens) this.#sampler.score(sequence, position)
        else this.#sampler.add(sequence, position)
      }
      this.#blocks = withRoom(this.#blocks, blocks + sequence.blocks.length + 1)
      for (let at = 0; at * BLOCK < end; at++) {
        if (!this.#memory.isHeld(sequence, at)) continue
        this.#blocks[blocks++] = sequence.blocks[at] ?? sequence.spare!
      }
      this.#starts[i + 1] = tokens
      this.#blockStarts[i + 1] = blocks
      this.#visibleFrom[i] = Math.max(0, sequence.computed + 1 - this.#window)
    }
    return {
      tokens: this.#tokens.subarray(0, tokens),
      starts: this.#starts.subarray(0, step.length + 1),
      positions: this.#positions.subarray(0, tokens),
      blocks: this.#blocks.subarray(0, blocks),
      blockStarts: this.#blockStarts.subarray(0, step.length + 1),
      visibleFrom: this.#visibleFrom.subarray(0, step.length),
      logitRows: this.#logitRows.subarray(0, rows),
      hiddenRows: NO_ROWS,
      sampling: this.#sampler.rows(),
    }
  }
}
