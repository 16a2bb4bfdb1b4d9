// Flattens the sequences of a step into the arrays a program takes. The arrays live as long as the engine, so what is
// handed out is a set of views that the next step overwrites.

import { type Manifest, reachOf } from "../runtime/manifest.ts"
import { BLOCK, type ProgramLimits, SEEN, type StepInput, TOLD } from "../runtime/program.ts"
import { AXES } from "../runtime/rotation.ts"
import { withRoom } from "./growing.ts"
import { Sampler } from "./sampler.ts"
import { type Holding, NO_ROW, type Sequence } from "./sequence.ts"

/** What of a sequence a step computes. */
export interface Part {
  sequence: Sequence
  from: number // position of its first token
  end: number // position after its last one; drafts follow the sequence's own tokens
  rows: number // how many of its last tokens want logits
  hidden: number // how many of its last tokens hand out their hidden row
  /** Earlier positions are not looked at, as if they had slid out of a window; absent: 0. */
  first?: number
  hiddenIn?: Float32Array // [end - from, taken] rows that go in beside the tokens
  /** Its one token is still to be drawn, in the step before this, at that row. */
  drawnBy?: number
}

export interface BatchShape {
  limits: ProgramLimits
  vocabulary: number
  taken: number // columns of rows that are taken in
  /**
   * The program's KV groups: how many positions a token sees, itself included, Infinity being all; and which of a sequence's
   * holdings their blocks are.
   */
  groups: readonly { window: number; held: number; isState?: boolean; isBehindMedia?: boolean }[]
  sinks: number
  /** Whether tokens are drawn or drafted. */
  draws: boolean
  /** Rows of images and recordings stand in the place of their tokens. */
  sees?: boolean
  /** And see each other. */
  mutual?: boolean
  /** Or stand before all tokens, which tell what they see of them. */
  crosses?: boolean
  /** Sequences choose adapters. */
  adapts?: boolean
}

export class Batch {
  readonly #shape: BatchShape
  readonly #sampler: Sampler
  readonly #tokens: Int32Array
  readonly #drawnBy: Int32Array
  readonly #positions: Int32Array
  readonly #starts: Int32Array
  readonly #blockStarts: Int32Array
  readonly #visibleFrom: Int32Array
  readonly #logitRows: Int32Array
  readonly #hiddenRows: Int32Array
  readonly #seenFrom: Int32Array
  readonly #seenTo: Int32Array
  readonly #coordinates: Int32Array
  readonly #adapters: Int32Array
  #blocks: Int32Array
  #hiddenIn = new Float32Array(0)

  constructor(shape: BatchShape) {
    const { limits, vocabulary, groups, draws } = shape
    this.#shape = shape
    this.#sampler = new Sampler(limits.rows, vocabulary, draws)
    this.#tokens = new Int32Array(limits.tokens)
    this.#drawnBy = new Int32Array(limits.tokens)
    this.#positions = new Int32Array(limits.tokens)
    this.#starts = new Int32Array(limits.sequences + 1)
    this.#blockStarts = new Int32Array(groups.length * limits.sequences + 1)
    this.#visibleFrom = new Int32Array(groups.length * limits.sequences)
    this.#logitRows = new Int32Array(limits.rows)
    this.#hiddenRows = new Int32Array(limits.tokens)
    this.#seenFrom = new Int32Array(limits.tokens)
    this.#seenTo = new Int32Array(limits.tokens)
    this.#coordinates = new Int32Array(AXES * limits.tokens)
    this.#adapters = new Int32Array(limits.tokens)
    this.#blocks = new Int32Array(0)
  }

  flatten(parts: readonly Part[]): StepInput {
    this.#sampler.clear()
    let tokens = 0
    let rows = 0
    let hidden = 0
    let seen = 0
    for (const [i, part] of parts.entries()) {
      const { sequence, from, end } = part
      for (let position = from; position < end; position++) {
        const row = this.#shape.sees ? sequence.rowAt(position) : NO_ROW
        if (row !== NO_ROW) this.#tokens[tokens] = SEEN + this.#see(sequence, row, seen++)
        else
          this.#tokens[tokens] = part.drawnBy === undefined ? this.#tokenAt(sequence, position) : 0
        this.#drawnBy[tokens] = part.drawnBy ?? TOLD
        this.#positions[tokens++] = position
      }
      for (let row = part.rows; row > 0; row--) {
        this.#logitRows[rows++] = tokens - row
        const position = end - row + 1
        if (position < sequence.sequenceGroup.promptTokens) this.#sampler.score(sequence, position)
        else this.#sampler.add(sequence, position)
      }
      for (let row = part.hidden; row > 0; row--) this.#hiddenRows[hidden++] = tokens - row
      this.#adapters.fill(sequence.sequenceGroup.request.adapter ?? 0, this.#starts[i], tokens)
      this.#starts[i + 1] = tokens
    }
    const lists = this.#listBlocks(parts)
    const sights = this.#shape.crosses ? this.#sights(parts, tokens) : undefined
    const seenTo = this.#shape.mutual ? this.#lastSeen(parts) : undefined
    const coordinates = this.#shape.sees ? this.#turning(parts, tokens) : undefined
    const hiddenIn = seen > 0 ? this.#taken(seen) : this.#takeIn(parts, tokens)
    const isChained = parts.some(({ drawnBy }) => drawnBy !== undefined)
    return {
      tokens: this.#tokens.subarray(0, tokens),
      ...(isChained && { drawnBy: this.#drawnBy.subarray(0, tokens) }),
      starts: this.#starts.subarray(0, parts.length + 1),
      positions: this.#positions.subarray(0, tokens),
      blocks: this.#blocks.subarray(0, this.#blockStarts[lists]),
      blockStarts: this.#blockStarts.subarray(0, lists + 1),
      visibleFrom: this.#visibleFrom.subarray(0, lists),
      logitRows: this.#logitRows.subarray(0, rows),
      hiddenRows: this.#hiddenRows.subarray(0, hidden),
      ...(seenTo && { seenTo }),
      ...(coordinates && { coordinates }),
      ...(this.#shape.adapts && { adapters: this.#adapters.subarray(0, tokens) }),
      ...sights,
      ...(hiddenIn && { hiddenIn }),
      sampling: this.#sampler.rows(),
    }
  }

  /** Of each group a list for each part; returns how many lists there are. */
  #listBlocks(parts: readonly Part[]): number {
    let list = 0
    let count = 0
    for (const { window, held, isState, isBehindMedia } of this.#shape.groups)
      for (const part of parts) {
        const holding = part.sequence.held[held]!
        const seen = isBehindMedia ? behindMedia(part, window) : firstSeen(part, window, holding)
        const visibleFrom = isState ? 0 : seen
        count = isState
          ? this.#addStates(part, holding, count)
          : this.#addBlocks(holding, part.end, visibleFrom, count)
        this.#visibleFrom[list++] = visibleFrom
        this.#blockStarts[list] = count
      }
    return list
  }

  /** Those of the sinks and those from `visibleFrom` on. */
  #addBlocks({ blocks, spare }: Holding, end: number, visibleFrom: number, count: number): number {
    const sinkBlocks = Math.ceil(this.#shape.sinks / BLOCK)
    const firstSeen = Math.floor(visibleFrom / BLOCK)
    this.#blocks = withRoom(this.#blocks, count + blocks.length + 1)
    let added = count
    for (let at = 0; at * BLOCK < end; at++) {
      if (at < sinkBlocks || at >= firstSeen) this.#blocks[added++] = blocks[at] ?? spare!
    }
    return added
  }

  /** At the beginning there is none to go on from. */
  #addStates({ drawnBy }: Part, { states }: Holding, count: number): number {
    const { from, to, ahead } = states
    const [read, left] = drawnBy === undefined ? [from, to!] : [to, ahead!]
    this.#blocks = withRoom(this.#blocks, count + 2)
    this.#blocks[count] = read ?? left
    this.#blocks[count + 1] = left
    return count + 2
  }

  /** A model that drafts sees nothing, and may have no embedding of what stands for an image: Gemma 3's of 1 B has none. */
  #tokenAt(sequence: Sequence, position: number): number {
    const { draws, vocabulary } = this.#shape
    const token = sequence.tokenAt(position)
    return draws || token < vocabulary ? token : 0
  }

  /** Takes a row of the sequence's media into the step as number `seen` of its rows. */
  #see({ sequenceGroup }: Sequence, row: number, seen: number): number {
    const { taken } = this.#shape
    const { rows } = sequenceGroup.request.media!
    this.#hiddenIn = withRoom(this.#hiddenIn, (seen + 1) * taken)
    this.#hiddenIn.set(rows.subarray(row * taken, (row + 1) * taken), seen * taken)
    return seen
  }

  /** Of each token what turns it; absent where positions do, in all parts. */
  #turning(parts: readonly Part[], tokens: number): Int32Array | undefined {
    if (!parts.some(({ sequence }) => sequence.isTurnedByCoordinates)) return undefined
    let at = 0
    for (const { sequence, from, end } of parts)
      for (let position = from; position < end; position++, at++)
        for (let axis = 0; axis < AXES; axis++)
          this.#coordinates[axis * tokens + at] = sequence.coordinateAt(position, axis)
    return this.#coordinates.subarray(0, AXES * tokens)
  }

  /** What of the rows before it each token sees; where it sees none, the first position, of which nothing comes then: its height is 0. */
  #sights(
    parts: readonly Part[],
    tokens: number,
  ): Pick<StepInput, "seenFrom" | "seenTo" | "coordinates"> {
    const coordinates = this.#coordinates.subarray(0, AXES * tokens).fill(0)
    let at = 0
    for (const { sequence, from, end } of parts)
      for (let position = from; position < end; position++, at++) {
        const sight = sequence.sightAt(position)
        this.#seenFrom[at] = sight?.from ?? 0
        this.#seenTo[at] = sight?.to ?? 0
        coordinates[tokens + at] = Number(sight !== undefined)
      }
    return {
      seenFrom: this.#seenFrom.subarray(0, at),
      seenTo: this.#seenTo.subarray(0, at),
      coordinates,
    }
  }

  /** Of each token the last position that it sees: of a row of an image its image's last one. Absent where all see their own. */
  #lastSeen(parts: readonly Part[]): Int32Array | undefined {
    if (!parts.some(({ sequence }) => sequence.sequenceGroup.request.media)) return undefined
    let at = 0
    let isAhead = false
    for (const { sequence, from, end } of parts)
      for (let position = from; position < end; position++) {
        const last = sequence.mutualEnd(position) - 1
        this.#seenTo[at++] = last
        isAhead ||= last > position
      }
    return isAhead ? this.#seenTo.subarray(0, at) : undefined
  }

  #takeIn(parts: readonly Part[], tokens: number): Float32Array | undefined {
    if (!parts[0]?.hiddenIn) return undefined
    this.#hiddenIn = withRoom(this.#hiddenIn, tokens * this.#shape.taken)
    let at = 0
    for (const { hiddenIn } of parts) {
      this.#hiddenIn.set(hiddenIn!, at)
      at += hiddenIn!.length
    }
    return this.#taken(tokens)
  }

  #taken(rows: number): Float32Array {
    return this.#hiddenIn.subarray(0, rows * this.#shape.taken)
  }
}

/** Of a program that drafts, whose blocks lie under the numbers of those that sequences hold longest. */
export function draftGroups({ kv }: Pick<Manifest, "kv">): BatchShape["groups"] {
  return kv.groups.map((group) => ({ window: reachOf(group), held: 0 }))
}

/** Rows before all tokens look at nothing, and whatever stands for their blocks is not written to. */
function behindMedia({ sequence, from, first = 0 }: Part, window: number): number {
  return Math.max(first, from + 1 - window, Math.min(from, sequence.sequenceGroup.front))
}

/** No block that the sequence has given up is seen, whoever looks. */
function firstSeen({ from, first = 0 }: Part, window: number, { gone }: Holding): number {
  return Math.max(first, from + 1 - window, gone * BLOCK)
}
