// A model that proposes a token, then the next one after it, for all sequences at once: it reads what it has not read yet,
// draws with the noise of the positions to come, and goes on with what it drew. Prompts are read along while the program
// computes them, in the same chunks.

import { takenColumns } from "../../runtime/manifest.ts"
import { BLOCK, type CancelWord, type Program, type StepDone } from "../../runtime/program.ts"
import { Batch, draftGroups, type Part } from "../batch.ts"
import type { Sequence } from "../sequence.ts"

/** What one kind of model knows of a sequence. */
export interface Reading {
  /** The position after the last one that can be read; absent: that after the sequence's chunk. */
  end?(sequence: Sequence): number
  /** The position to go on reading at; undefined: not now. */
  reached(sequence: Sequence): number | undefined
  /** Positions from … end are read now: they are the sequence's own tokens. */
  read(sequence: Sequence, from: number, end: number): void
  /** The first position that is looked at. */
  first?(sequence: Sequence): number
  /** The rows that go in beside the tokens from … end: [end - from, taken]. */
  hiddenIn?(sequence: Sequence, from: number, end: number): Float32Array
}

export class Chain {
  readonly #program: Program
  readonly #reading: Reading
  readonly #batch: Batch
  readonly #takesHidden: boolean

  constructor(program: Program, reading: Reading) {
    const { limits, manifest } = program
    const { vocabulary } = manifest.shapes
    const { sinks } = manifest
    const groups = draftGroups(manifest)
    const taken = takenColumns(manifest.shapes)
    this.#program = program
    this.#reading = reading
    this.#batch = new Batch({ limits, vocabulary, taken, groups, sinks, draws: false })
    this.#takesHidden = reading.hiddenIn !== undefined
  }

  async propose(step: readonly Sequence[], cancel: CancelWord): Promise<void> {
    let parts = this.#begin(step)
    for (let reads = true; parts.length > 0; reads = false) {
      const output = await this.#program.step(this.#batch.flatten(parts), cancel)
      if (output.kind === "cancelled") return
      if (reads) {
        for (const { sequence, from, end } of parts) this.#reading.read(sequence, from, end)
      }
      parts = this.#goOn(parts, output)
    }
  }

  /** Those who wish for tokens first; the rest of the step is for prompts. */
  #begin(step: readonly Sequence[]): Part[] {
    const parts: Part[] = []
    let left = this.#program.limits.tokens
    for (const sequence of [...step].sort((a, b) => b.wish - a.wish)) {
      const part = this.#partOf(sequence, left)
      if (!part || parts.some((other) => isSharedAt(part, other))) continue
      left -= part.end - part.from
      parts.push(part)
    }
    return parts
  }

  #partOf(sequence: Sequence, left: number): Part | undefined {
    const { length, computed, chunk, wish } = sequence
    const end = this.#reading.end?.(sequence) ?? Math.min(length, computed + chunk)
    const reached = this.#reading.reached(sequence)
    if (reached === undefined || end + wish > this.#program.manifest.shapes.context)
      return undefined
    const from = wish > 0 ? Math.min(reached, end - 1) : reached
    const to = Math.min(end, from + left)
    if (from >= to) return undefined
    return this.#part(sequence, from, to, to === length && wish > 0 ? 1 : 0, (first) =>
      this.#reading.hiddenIn!(sequence, first, to),
    )
  }

  #part(
    sequence: Sequence,
    from: number,
    end: number,
    rows: number,
    hiddenIn: (from: number) => Float32Array,
  ): Part {
    const first = this.#reading.first?.(sequence) ?? 0
    const part = { sequence, from, end, rows, first, hidden: this.#takesHidden ? rows : 0 }
    return this.#takesHidden ? { ...part, hiddenIn: hiddenIn(from) } : part
  }

  /** Whoever wishes for more goes on with the token just drawn; a token that ends the reply is not proposed. */
  #goOn(parts: readonly Part[], output: StepDone): Part[] {
    const { shapes } = this.#program.manifest
    const { hidden } = shapes
    const before = takenColumns(shapes) - hidden // what it reads of another's row, which there is none of
    const next: Part[] = []
    let row = 0
    for (const { sequence, rows } of parts) {
      if (rows === 0) continue
      const [token, isVerified] = [output.tokens[row]!, output.finite[row] !== 0]
      const last = new Float32Array(before + hidden)
      last.set(output.hidden.subarray(row * hidden, (row + 1) * hidden), before)
      row++
      if (!isVerified || sequence.sequenceGroup.request.stopTokens.has(token)) continue
      sequence.drafts.push(token)
      const end = sequence.length + sequence.drafts.length
      if (sequence.drafts.length < sequence.wish) {
        next.push(this.#part(sequence, end - 1, end, 1, () => last))
      }
    }
    return next
  }
}

/** Whether both are about to read the same block: who comes later finds it read in the next step. */
function isSharedAt(part: Part, other: Part): boolean {
  const at = Math.floor(part.from / BLOCK)
  const block = part.sequence.widest.blocks[at]
  return block !== undefined && block === other.sequence.widest.blocks[at]
}
