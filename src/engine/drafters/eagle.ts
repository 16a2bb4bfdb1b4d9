// EAGLE's head proposes: it reads, beside a token, the program's hidden row of the token before it; EAGLE 3's reads what is handed
// out behind that row. Both stand at the token's own position here (EAGLE's code counts from the row's; attention sees differences alone), so that a block's keys
// and values depend on nothing behind the block and may be shared. Position 0 has no row before it and is never read.
//
// Rows come out of every step and wait here until they are read. Where a prefix was taken over, the row before its end is
// the last one of a block, and those are kept with the blocks. Of a text whose rows are gone the head sees what comes after
// them, as if the text began there: it guesses with less to go by.

import { type Manifest, takenColumns } from "../../runtime/manifest.ts"
import { BLOCK, type Program, type ProgramLimits } from "../../runtime/program.ts"
import { columnsOf } from "../columns.ts"
import type { Memory } from "../memory.ts"
import type { Sequence, SequenceGroup } from "../sequence.ts"
import type { Drafter } from "../speculative.ts"
import { Chain } from "./chain.ts"
import { Mirror } from "./mirror.ts"

/**
 * Columns of the model's row that a head reads. One that goes on with a row unlike that has room for both: the model's, and behind it
 * its own.
 */
export function columnsRead(shapes: Manifest["shapes"]): number {
  const own = shapes.hidden
  return takenColumns(shapes) - own || own
}

/** What is kept with each block: the row of its last position. */
export const eagleBytesPerBlock = (read: number) => 4 * read

/** Rows of a sequence that wait for somebody to read them: while drafts do not pay, nobody does. */
const IDLE = 256
/** Rows of a prompt's end, at most: its last block's, and the one before. */
const END = BLOCK + 1

/** What it keeps beside that, at most: rows that wait, of each sequence and of a step, and where prompts end. */
export const eagleBytes =
  (read: number) =>
  ({ sequences, tokens }: ProgramLimits): number =>
    4 * read * (sequences * (IDLE + 2 * END) + tokens)

/** The program belongs to the drafter from here on; each of its KV groups has the blocks of the first group of the one that it drafts for. */
export function createEagle(program: Program, { blocks }: Memory): Drafter {
  const { shapes } = program.manifest
  const [read, taken] = [columnsRead(shapes), takenColumns(shapes)]
  const mirror = new Mirror(blocks)
  const rows = new HiddenRows<Sequence>(read, IDLE)
  const ends = new HiddenRows<SequenceGroup>(read, END) // of prompts: siblings copy the last block half read
  const lasts = new Float32Array(blocks.total * read) // of each block
  const editions = new Uint32Array(blocks.total) // whose row that is

  const rowAt = (sequence: Sequence, position: number): Float32Array | undefined => {
    const row = rows.at(sequence, position) ?? ends.at(sequence.sequenceGroup, position)
    if (row) return row
    const block = sequence.widest.blocks[Math.floor(position / BLOCK)]
    if (position % BLOCK < BLOCK - 1 || block === undefined) return undefined
    if (editions[block] !== blocks.edition(block)) return undefined
    return lasts.subarray(block * read, (block + 1) * read)
  }
  /** Where a text begins for the head, its rows before being gone; elsewhere at 1. */
  const begins = new WeakMap<Sequence, number>()
  const beginOf = (sequence: Sequence) => begins.get(sequence) ?? 1
  const reachedOf = (sequence: Sequence): number => {
    const begin = beginOf(sequence)
    return Math.max(begin, Math.min(mirror.reached(sequence, begin), sequence.computed))
  }
  const hasRows = (sequence: Sequence): boolean => {
    for (let position = reachedOf(sequence) - 1; position < sequence.computed; position++) {
      if (!rowAt(sequence, position)) return false
    }
    return true
  }
  /** With the first block of which all rows are there, to the end. */
  const beginLater = (sequence: Sequence) => {
    let first = sequence.computed
    while (first > 0 && rowAt(sequence, first - 1)) first--
    begins.set(sequence, Math.ceil((first + 1) / BLOCK) * BLOCK)
  }
  const keepEnd = ({ sequenceGroup, computed }: Sequence, seen: Float32Array, from: number) => {
    const last = sequenceGroup.promptTokens - 1
    const first = Math.max(from, last - (last % BLOCK) - 1)
    if (first > last || ends.at(sequenceGroup, first)) return
    const [begin, end] = [first - from, Math.min(computed, last + 1) - from]
    if (begin < end) ends.add(sequenceGroup, seen.subarray(begin * read, end * read), first)
  }
  const chain = new Chain(program, {
    end: ({ computed }) => computed + 1,
    reached(sequence) {
      if (sequence.computed === 0) return undefined // of a prompt of one token: no row stands before its draft
      if (beginOf(sequence) > sequence.computed) begins.delete(sequence) // it was preempted, or has just come
      if (!hasRows(sequence)) beginLater(sequence)
      return beginOf(sequence) > sequence.computed ? undefined : reachedOf(sequence)
    },
    read(sequence, from, end) {
      mirror.reach(sequence, from, end)
      rows.drop(sequence, end - 1)
    },
    first: beginOf,
    hiddenIn(sequence, from, end) {
      const all = new Float32Array((end - from) * taken)
      for (let position = from; position < end; position++) {
        all.set(rowAt(sequence, position - 1)!, (position - from) * taken)
      }
      return all
    },
  })
  return {
    hidden: "all",
    longest: Number.POSITIVE_INFINITY,
    propose: (step, cancel) => chain.propose(step, cancel),
    observe(sequence, handed, from, width) {
      const seen = columnsOf(handed, width, width - read, read)
      keepEnd(sequence, seen, from)
      rows.add(sequence, seen.subarray(0, (sequence.computed - from) * read), from)
      const held = sequence.widest
      for (let position = from; position < sequence.computed; position++) {
        if (position % BLOCK < BLOCK - 1) continue
        const at = Math.floor(position / BLOCK)
        const block = held.blocks[at] ?? held.spare!
        const row = (position - from) * read
        lasts.set(seen.subarray(row, row + read), block * read)
        editions[block] = blocks.edition(block)
      }
    },
    copyBlocks: (from, to) => mirror.copy(program, from, to),
    close: () => program.close(),
  }
}

interface Waiting {
  from: number // position of the first
  count: number
  rows: Float32Array // [≥ count, hidden]
}

/** Hidden rows of each owner, one after the other, that wait to be read. */
export class HiddenRows<Owner extends object> {
  readonly #hidden: number
  readonly #idle: number
  readonly #waiting = new WeakMap<Owner, Waiting>()

  /** @param idle of one owner: when more wait as new ones come they are dropped, since nobody seems to read them */
  constructor(hidden: number, idle: number) {
    this.#hidden = hidden
    this.#idle = idle
  }

  at(owner: Owner, position: number): Float32Array | undefined {
    const waiting = this.#waiting.get(owner)
    if (!waiting || position < waiting.from || position >= waiting.from + waiting.count) {
      return undefined
    }
    const row = (position - waiting.from) * this.#hidden
    return waiting.rows.subarray(row, row + this.#hidden)
  }

  add(owner: Owner, rows: Float32Array, from: number): void {
    const count = rows.length / this.#hidden
    const known = this.#waiting.get(owner)
    const follows = known && known.from + known.count === from && known.count <= this.#idle
    const waiting = follows ? known : { from, count: 0, rows: known?.rows ?? new Float32Array(0) }
    const at = waiting.count * this.#hidden
    waiting.rows = this.#withRoom(waiting, count)
    waiting.rows.set(rows, at)
    waiting.count += count
    this.#waiting.set(owner, waiting)
  }

  /** For so many rows more, and never for more than these and those that may wait: who read a long prompt gives its room back. */
  #withRoom({ rows, count: waiting }: Waiting, count: number): Float32Array {
    const [needed, most] = [waiting + count, this.#idle + count]
    const room = rows.length / this.#hidden
    if (room >= needed && room <= most) return rows
    const fitting = new Float32Array(Math.min(2 * needed, most) * this.#hidden)
    fitting.set(rows.subarray(0, waiting * this.#hidden))
    return fitting
  }

  /** Those before `position` are read. */
  drop(owner: Owner, position: number): void {
    const waiting = this.#waiting.get(owner)
    if (!waiting) return
    const dropped = Math.min(waiting.count, Math.max(0, position - waiting.from))
    waiting.rows.copyWithin(0, dropped * this.#hidden, waiting.count * this.#hidden)
    waiting.from += dropped
    waiting.count -= dropped
  }
}
