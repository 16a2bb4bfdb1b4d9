// From the wishes of a request to the rows a program samples by. Nothing is drawn here: the program draws, next to the
// logits. Buffers are kept from step to step and only ever grow.

import { NO_LOGPROBS, type SamplingRows, UNMASKED } from "../runtime/program.ts"
import type { SamplingParams } from "./generation.ts"
import { withRoom } from "./growing.ts"
import type { Sequence } from "./sequence.ts"

export class Sampler {
  readonly #maskWords: number
  readonly #draws: boolean
  readonly #vocabulary: number
  readonly #fixed: SamplingRows // as long as the most rows; the lists at the end grow
  readonly #shared = new Map<Uint32Array, number>() // masks that are the same for several rows, and where they stand
  #rows = 0
  #masked = 0

  /** @param draws whether rows tell logprobs and are all held to masks; of a draft only the first is */
  constructor(mostRows: number, vocabulary: number, draws: boolean) {
    this.#draws = draws
    this.#vocabulary = vocabulary
    this.#maskWords = Math.ceil(vocabulary / 32)
    this.#fixed = {
      temperature: new Float32Array(mostRows),
      topK: new Int32Array(mostRows),
      topP: new Float32Array(mostRows),
      minP: new Float32Array(mostRows),
      presence: new Float32Array(mostRows),
      frequency: new Float32Array(mostRows),
      repetition: new Float32Array(mostRows),
      countStarts: new Int32Array(mostRows + 1),
      countTokens: new Int32Array(0),
      counts: new Int32Array(0),
      biasStarts: new Int32Array(mostRows + 1),
      biasTokens: new Int32Array(0),
      biases: new Float32Array(0),
      masks: new Uint32Array(0),
      maskRow: new Int32Array(mostRows),
      seed: new BigUint64Array(mostRows),
      choice: new Int32Array(mostRows),
      position: new Int32Array(mostRows),
      topLogprobs: new Int32Array(mostRows),
    }
  }

  clear(): void {
    this.#rows = 0
    this.#masked = 0
    this.#shared.clear()
  }

  /** A row for the token of `sequence` that will stand at `position`, if the drafts before it are its tokens. */
  add(sequence: Sequence, position: number): void {
    const all = this.#fixed
    const row = this.#rows++
    const { sampling } = sequence.sequenceGroup.request
    all.temperature[row] = sampling.temperature
    all.topK[row] = sampling.topK
    all.topP[row] = sampling.topP
    all.minP[row] = sampling.minP
    all.presence[row] = sampling.presencePenalty
    all.frequency[row] = sampling.frequencyPenalty
    all.repetition[row] = sampling.repetitionPenalty
    all.seed[row] = sampling.seed
    all.choice[row] = sequence.choice
    all.position[row] = position
    all.topLogprobs[row] = (this.#draws ? sampling.topLogprobs : undefined) ?? NO_LOGPROBS
    this.#addCounts(row, sequence, position - sequence.length)
    this.#addBiases(row, sampling.logitBias)
    this.#addMask(row, sequence, position - sequence.length)
  }

  /** A row that can only draw the token which stands at `position`, so that its log probability is told. */
  score(sequence: Sequence, position: number): void {
    const all = this.#fixed
    const row = this.#rows++
    const token = sequence.tokens[position]!
    all.temperature[row] = 0
    all.topK[row] = 0
    all.topP[row] = 1
    all.minP[row] = 0
    all.presence[row] = 0
    all.frequency[row] = 0
    all.repetition[row] = 1
    all.seed[row] = 0n
    all.choice[row] = sequence.choice
    all.position[row] = position
    all.topLogprobs[row] = sequence.sequenceGroup.request.sampling.topLogprobs ?? 0
    all.countStarts[row + 1] = all.countStarts[row]!
    all.biasStarts[row + 1] = all.biasStarts[row]!
    const mask = this.#nextMask().fill(0)
    mask[token >> 5] = 1 << (token & 31)
    all.maskRow[row] = this.#masked++
  }

  /** Views of what has been added; good until the next `clear`. */
  rows(): SamplingRows {
    const all = this.#fixed
    const rows = this.#rows
    const counted = all.countStarts[rows]!
    const biased = all.biasStarts[rows]!
    return {
      temperature: all.temperature.subarray(0, rows),
      topK: all.topK.subarray(0, rows),
      topP: all.topP.subarray(0, rows),
      minP: all.minP.subarray(0, rows),
      presence: all.presence.subarray(0, rows),
      frequency: all.frequency.subarray(0, rows),
      repetition: all.repetition.subarray(0, rows),
      countStarts: all.countStarts.subarray(0, rows + 1),
      countTokens: all.countTokens.subarray(0, counted),
      counts: all.counts.subarray(0, counted),
      biasStarts: all.biasStarts.subarray(0, rows + 1),
      biasTokens: all.biasTokens.subarray(0, biased),
      biases: all.biases.subarray(0, biased),
      masks: all.masks.subarray(0, this.#masked * this.#maskWords),
      maskRow: all.maskRow.subarray(0, rows),
      seed: all.seed.subarray(0, rows),
      choice: all.choice.subarray(0, rows),
      position: all.position.subarray(0, rows),
      topLogprobs: all.topLogprobs.subarray(0, rows),
    }
  }

  /** Of the reply's tokens and of the first `drafted` of those that may follow them. */
  #addCounts(row: number, { sequenceGroup, counts, drafts }: Sequence, drafted: number): void {
    const all = this.#fixed
    const at = all.countStarts[row]!
    all.countStarts[row + 1] = at
    if (!penalises(sequenceGroup.request.sampling)) return
    const known = drafts.slice(0, drafted)
    for (const token of known) counts.add(token)
    const { size } = counts
    all.countTokens = withRoom(all.countTokens, at + size)
    all.counts = withRoom(all.counts, at + size)
    counts.copy(all.countTokens, all.counts, at)
    all.countStarts[row + 1] = at + size
    for (const token of known.reverse()) counts.takeBack(token)
  }

  #addBiases(row: number, biases: ReadonlyMap<number, number>): void {
    const all = this.#fixed
    let at = all.biasStarts[row]!
    all.biasTokens = withRoom(all.biasTokens, at + biases.size)
    all.biases = withRoom(all.biases, at + biases.size)
    for (const [token, bias] of biases) {
      if (token >= this.#vocabulary) continue // a draft's may be padded to fewer rows
      all.biasTokens[at] = token
      all.biases[at++] = bias
    }
    all.biasStarts[row + 1] = at
  }

  /**
   * A constraint that throws, or allows nothing, must cost its own sequence and nobody else's; and that only once its row is drawn. A
   * drafter goes on without a mask.
   */
  #addMask(row: number, sequence: Sequence, drafted: number): void {
    const all = this.#fixed
    all.maskRow[row] = UNMASKED
    if (this.#draws && drafted === 0) sequence.fault = undefined
    const { constraint } = sequence
    if (!constraint || (drafted > 0 && !this.#draws)) return
    if (constraint.always) {
      all.maskRow[row] = this.#rowOf(constraint.always)
      return
    }
    const mask = this.#nextMask()
    try {
      constraint.mask(mask, drafted)
      if (mask.every((word) => word === 0)) throw new Error("its constraint allows no token")
      all.maskRow[row] = this.#masked++
    } catch (error) {
      if (this.#draws) sequence.fault ??= { behind: drafted, error }
    }
  }

  #rowOf(always: Uint32Array): number {
    const known = this.#shared.get(always)
    if (known !== undefined) return known
    const mask = this.#nextMask().fill(0)
    mask.set(always.subarray(0, mask.length))
    this.#shared.set(always, this.#masked)
    return this.#masked++
  }

  #nextMask(): Uint32Array {
    const at = this.#masked * this.#maskWords
    this.#fixed.masks = withRoom(this.#fixed.masks, at + this.#maskWords)
    return this.#fixed.masks.subarray(at, at + this.#maskWords)
  }
}

/** Whether its rows are told what the reply has so far. */
export function penalises(sampling: SamplingParams): boolean {
  const { presencePenalty, frequencyPenalty, repetitionPenalty } = sampling
  return presencePenalty !== 0 || frequencyPenalty !== 0 || repetitionPenalty !== 1
}
