// Softmaxes of the spans that a row sees, made to one in the order of the spans, as the plan's SumOrder says: by a kernel of its
// own, or by the one that reads the row next (rows.ts), which has less to wait for.

import { WORK, work } from "../../../../runtime/gpu/attention-work.ts"
import {
  type Builder,
  type Elements,
  f32,
  kernel,
  larger,
  select,
  type Value,
  type Variable,
} from "../ir/builder.ts"
import type { Kernel } from "../ir/ir.ts"
import { exp } from "./numbers.ts"

const LOWEST = Math.fround(-3.4e38)

/** Up to so many rows, whoever reads them next merges them. */
export const MOST_MERGED = 256
/** Threads that merge a head of a row. */
export const MERGE_THREADS = 64

/** What attention leaves of a head of a row and a span: the values' mix, the largest score and the sum of the weights. */
export const partialNumbers = (values: number) => values + 2

/** One head of each of an item's rows. Groups: [items by turns, heads, rows by turns]. */
export function mergeKernel(columns: number): Kernel {
  return kernel(`merge_${columns}`, MERGE_THREADS, (k) => {
    const items = k.buffer("items", "u32", "read")
    const chunkStarts = k.buffer("chunkStarts", "u32", "read")
    const partials = k.buffer("partials", "f32", "read")
    const output = k.buffer("output", "f32", "write")
    const chunk = k.word("chunk")
    const outputStride = k.word("outputStride")

    const merge = new Merge(k, columns, partials)
    const head = k.group(1)
    const firstItem = chunkStarts.load(chunk).add(k.group(0))
    const endOfItems = chunkStarts.load(chunk.add(1))
    k.for(firstItem, endOfItems, k.groups(0), (item) => {
      const { nth, ...found } = workOf(items, item)
      // An item that has nothing to merge has no turns: see onceIf of attend.ts.
      const turns = select(nth.eq(0).and(found.spans.gt(1)), found.rows, 0)
      k.for(k.group(2), turns, k.groups(2), (r) => {
        const to = k.let(found.row.add(r).mul(outputStride).add(head.mul(columns)))
        merge.head({ ...found, r, heads: k.groups(1), head }, (column, value) =>
          output.store(to.add(column), value),
        )
      })
    })
  })
}

/** What merging asks of an item: see attention-work.ts. */
export function workOf(items: Elements, item: Value) {
  const numberOf = (which: keyof typeof work) => items.load(item.mul(WORK).add(work[which]))
  return {
    row: numberOf("row"),
    rows: numberOf("rows"),
    slot: numberOf("slot"),
    spans: numberOf("spans"),
    nth: numberOf("nth"),
  }
}

/** Which softmaxes belong together. */
interface Partials {
  /** The slot of the first row's first one, and how many rows and spans there are. */
  slot: Value
  rows: Value
  spans: Value
  /** Of these rows, and of so many heads. */
  r: Value
  heads: Value | number
  head: Value
}

/** Each 64 threads of a group merge a head at a time; all threads of the group come to the barriers. */
export class Merge {
  readonly #k: Builder
  readonly #columns: number
  readonly #partials: Elements
  readonly #most: Elements
  readonly #factors: Elements
  readonly #sums: Elements
  readonly #thread: Value // of those that have a head together
  readonly #first: Value // in shared arrays, of these

  constructor(k: Builder, columns: number, partials: Elements) {
    this.#k = k
    this.#columns = columns
    this.#partials = partials
    this.#most = k.shared("most", "f32", k.threads)
    this.#factors = k.shared("factors", "f32", k.threads)
    this.#sums = k.shared("sums of spans", "f32", k.threads)
    this.#thread = k.let(k.lane.rem(MERGE_THREADS))
    this.#first = k.let(k.lane.sub(this.#thread))
  }

  head(
    { slot, rows, spans, r, heads, head }: Partials,
    store: (column: Value, value: Value) => void,
  ): void {
    const k = this.#k
    const columns = this.#columns
    const partials = this.#partials
    const [thread, first] = [this.#thread, this.#first]
    const partialAt = (n: Value) =>
      slot.add(n.mul(rows)).add(r).mul(heads).add(head).mul(partialNumbers(columns))
    const own = k.variable(f32(LOWEST))
    k.for(thread, spans, MERGE_THREADS, (n) =>
      own.set(larger(partials.load(partialAt(n).add(columns)), own.now)),
    )
    this.#most.store(k.lane, own.now)
    k.barrier()
    const all = k.variable(f32(LOWEST))
    k.for(0, MERGE_THREADS, 1, (i) => all.set(larger(this.#most.load(first.add(i)), all.now)))
    const sum = k.variable(f32(0))
    const perThread = Math.ceil(columns / MERGE_THREADS)
    const mixed = Array.from({ length: perThread }, () => k.variable(f32(0)))
    const eachColumn = (body: (column: Value, mixed: Variable) => void) => {
      for (const [i, value] of mixed.entries()) {
        const column = k.let(thread.add(i * MERGE_THREADS))
        if ((i + 1) * MERGE_THREADS <= columns) body(column, value)
        else k.if(column.lt(columns), () => body(column, value))
      }
    }
    // As many spans at a time as there are threads to make their factors.
    k.for(0, spans, MERGE_THREADS, (from) => {
      const n = k.let(from.add(thread))
      k.if(n.lt(spans), () => {
        const at = k.let(partialAt(n).add(columns))
        this.#factors.store(k.lane, exp(k, partials.load(at).sub(all.now)))
        this.#sums.store(k.lane, partials.load(at.add(1)))
      })
      k.barrier()
      k.for(0, spans.sub(from).min(MERGE_THREADS), 1, (i) => {
        const factor = this.#factors.load(first.add(i))
        sum.set(sum.now.add(this.#sums.load(first.add(i)).mul(factor)))
        const at = k.let(partialAt(from.add(i)))
        eachColumn((column, value) =>
          value.set(value.now.add(partials.load(at.add(column)).mul(factor))),
        )
      })
      k.barrier()
    })
    const inverse = k.let(f32(1).div(sum.now))
    eachColumn((column, value) => store(column, value.now.mul(inverse)))
  }
}
