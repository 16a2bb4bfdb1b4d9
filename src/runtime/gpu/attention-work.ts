// The work of attention as a GPU is told it. An item is some rows of a sequence and one span of what they see, and what
// becomes of it, a partial softmax for each row, waits in a slot of scratch memory until all spans of its rows are there to
// be merged. Slots are few, so items come in chunks whose partials fit: a chunk is computed and merged before the next one
// is begun. Rows that see but one span need no slot, unless it is an indexer's work, whose items leave scores.

import { blockGap, type StepInput } from "../program.ts"
import { ITEM, type StepRows, type Visible } from "../step-rows.ts"

/** Numbers of an item, and where in it each of them stands. */
export const WORK = 8
export const work = {
  row: 0, // its first one
  rows: 1,
  list: 2, // where the sequence's blocks begin in `blocks`
  gap: 3, // how many blocks are missing in that list behind those of the sinks
  span: 4,
  slot: 5, // of its first row; those of its other rows follow, and then those of the rows' next item
  spans: 6, // how many items these rows have
  nth: 7, // which of these it is
} as const

/** Whose work it is. Everything in it is known when a program is compiled. */
export interface AttentionOrder {
  set: "tokens" | "wanted"
  visible: Visible & { span: number }
  /** Of an item, rows at most. */
  height: number
  /** Partial softmaxes of one row that scratch memory has room for: no fewer than those of `height` rows that see all. */
  slots: number
  /** What rows that see but one span leave waits, too. */
  keepsSingles?: true
}

/** Of a row that waits for nobody to merge its softmaxes, in place of its item. */
export const NO_ITEM = 0xffffffff

/**
 * What is counted to say how often kernels run: chunks; and, rounded up, of the chunk that has most of them, items of one row,
 * items of several, and items at which rows are merged; of those also how many there are where one chunk is not all, since
 * whoever comes behind all chunks can merge the last one's alone.
 */
export type WorkCount = "chunks" | "singles" | "multiples" | "merges" | "chunkMerges"
type Counts = Record<Exclude<WorkCount, "chunks" | "chunkMerges">, number>

const none: Readonly<Counts> = { singles: 0, multiples: 0, merges: 0 }
const names = Object.keys(none) as (keyof Counts)[]

/** As many groups fill any device, and none of Vulkan refuses them; more would only come for nothing. */
const MOST_GROUPS = 4 ** 7

export class AttentionWork {
  readonly #order: AttentionOrder
  readonly #sinks: number
  #items = new Int32Array(0)
  #count = 0
  #chunkStarts: number[] = [0]
  #counts: Counts = { ...none }
  #waiting = new Int32Array(0)
  #rows = 0

  /** @param sinks the manifest's */
  constructor(order: AttentionOrder, sinks: number) {
    this.#order = order
    this.#sinks = sinks
  }

  /** Lays out the work of a step that `rows` has taken. */
  take(rows: StepRows, input: StepInput): void {
    const { set, visible, height, slots, keepsSingles } = this.#order
    const found = rows.attentionItems(set, height, visible)
    this.#count = found.length / ITEM
    if (this.#items.length < this.#count * WORK)
      this.#items = new Int32Array(2 * this.#count * WORK)
    this.#chunkStarts = [0]
    this.#rows = rows.tokensOf(set).length
    if (this.#waiting.length < this.#rows) this.#waiting = new Int32Array(2 * this.#rows)
    this.#waiting.fill(NO_ITEM, 0, this.#rows)
    const most = { ...none }
    let counts = { ...none } // of the chunk
    let taken = 0
    for (let first = 0, next = 0; first < found.length; first = next) {
      while (next < found.length && found[next] === found[first]) next += ITEM
      const row = found[first]!
      const count = found[first + 1]!
      const sequence = found[first + 2]!
      const spans = (next - first) / ITEM
      const waits = spans > 1 || keepsSingles === true
      const wanted = waits ? spans * count : 0
      if (wanted > slots) throw new Error(`internal: ${wanted} partial softmaxes in ${slots} slots`)
      if (taken + wanted > slots) {
        this.#chunkStarts.push(first / ITEM)
        counts = { ...none }
        taken = 0
      }
      const list = visible.group * (input.starts.length - 1) + sequence
      const begin = input.blockStarts[list]!
      const gap = blockGap(input.visibleFrom[list]!, this.#sinks)
      for (let nth = 0; nth < spans; nth++) {
        const at = (first / ITEM + nth) * WORK
        this.#items[at + work.row] = row
        this.#items[at + work.rows] = count
        this.#items[at + work.list] = begin
        this.#items[at + work.gap] = gap
        this.#items[at + work.span] = found[first + nth * ITEM + 3]!
        this.#items[at + work.slot] = taken + nth * count
        this.#items[at + work.spans] = spans
        this.#items[at + work.nth] = nth
      }
      taken += wanted
      counts[count === 1 ? "singles" : "multiples"] += spans
      if (waits) {
        counts.merges++
        this.#waiting.fill(first / ITEM, row, row + count)
      }
      for (const of of names) most[of] = Math.max(most[of], counts[of])
    }
    this.#chunkStarts.push(this.#count)
    if (this.count("chunks") > 1) this.#waiting.fill(NO_ITEM, 0, this.#rows)
    this.#counts = most
  }

  /** [items, WORK], good until the next step. */
  get items(): Int32Array {
    return this.#items.subarray(0, this.#count * WORK)
  }

  /** [chunks + 1] where each chunk's items begin, and where the last one's end. */
  get chunkStarts(): readonly number[] {
    return this.#chunkStarts
  }

  /** [rows of the set] of each row whose softmaxes are to be merged behind all chunks, its first item, or NO_ITEM. */
  get waiting(): Int32Array {
    return this.#waiting.subarray(0, this.#rows)
  }

  /** The more, the coarser: kernels take items by turns, so any number of groups is right, and steps alike are few. */
  count(of: WorkCount): number {
    const chunks = this.#chunkStarts.length - 1
    if (of === "chunks") return chunks
    if (of === "chunkMerges") return chunks > 1 ? this.count("merges") : 0
    const count = this.#counts[of]
    return count === 0 ? 0 : Math.min(4 ** Math.ceil(Math.log2(count) / 2), MOST_GROUPS)
  }
}
