// What adapters add to a matrix: the product of two factors, left [rows, rank] and right [rank, columns], those of several adapters beside
// and below each other. It is never whole in memory: of the left factor rows are read as the matrix's are.

import { narrow, widen } from "../../runtime/dtype.ts"
import type { Source } from "../weights/names.ts"
import { rowsOf, turnedColumns } from "../weights/rows.ts"
import type { Tensor } from "../weights/weights.ts"
import type { LowRank } from "./adapter.ts"
import { type Factor, turned } from "./factors.ts"

/** What one adapter adds, and which of its rows are the matrix's. */
export interface Added {
  source: Source
  low: LowRank
}

/** None of its rows may be the matrix's: zeros stand for them. */
export type Factors = Pick<Added, "low"> & Partial<Added>

export class Product {
  /** Of all, one behind the other. A left factor of one column would be read as a vector: beside a single one stand zeros. */
  readonly rank: number
  readonly #added: readonly Factors[]
  readonly #columns: number
  #right: Promise<Float32Array> | undefined

  constructor(added: readonly Factors[], columns: number) {
    this.#added = added
    this.#columns = columns
    const rank = added.reduce((sum, { low }) => sum + low.left.width, 0)
    this.rank = rank === 1 ? 2 : rank
  }

  /** Rows of the left factor, times what the product is multiplied with. */
  async left(first: number, count: number): Promise<Float32Array> {
    const values = new Float32Array(count * this.rank)
    let from = 0
    for (const { source, low } of this.#added) {
      const rank = low.left.width
      const its = source && (await leftRows(low, source, first, count))
      for (let row = 0; its && row < count; row++)
        values.set(its.subarray(row * rank, (row + 1) * rank), row * this.rank + from)
      from += rank
    }
    return values
  }

  /** All of the right one, read once. */
  right(): Promise<Float32Array> {
    this.#right ??= this.#readRight()
    return this.#right
  }

  async #readRight(): Promise<Float32Array> {
    const values = new Float32Array(this.rank * this.#columns)
    let from = 0
    for (const { source, low } of this.#added) {
      const its = await rightRows(low, source)
      values.set(its, from)
      from += its.length
    }
    return values
  }

  leftTensor(): Tensor {
    return tensorOf((first, count) => this.left(first, count))
  }

  rightTensor(): Tensor {
    const columns = this.#columns
    return tensorOf(async (first, count) =>
      (await this.right()).slice(first * columns, (first + count) * columns),
    )
  }

  /** Adds it to rows of the matrix. runtime/low_rank.c does the same, with the same bits. */
  async addTo(values: Float32Array, first: number, count: number): Promise<void> {
    if (this.rank === 0) return
    const left = await this.left(first, count)
    addProduct(values, left, turned(await this.right(), this.#columns), this.rank)
  }
}

/** Which of a tensor's rows the graph's are, and nothing else that a source says of it. */
export function placeOf({ tensor, rows, neighbours, turnedRuns }: Source): Source {
  return {
    tensor,
    ...(rows && { rows }),
    ...(neighbours && { neighbours }),
    ...(turnedRuns && { turnedRuns }),
  }
}

function tensorOf(read: Factor["read"]): Tensor {
  return {
    codec: "f32",
    read: async (first, rows) => ({ rows, values: narrow(await read(first, rows), "f32") }),
  }
}

async function leftRows(
  { left, factor }: LowRank,
  source: Source,
  first: number,
  count: number,
): Promise<Float32Array> {
  const by = factor(left.width)
  const stored = tensorOf(async (from, rows) =>
    (await left.read(from, rows)).map((value) => value * by),
  )
  const { values } = await rowsOf(stored, placeOf(source), left.width).read(first, count)
  return widen(values, "f32")
}

/** All of them, with their columns where the matrix has them. */
async function rightRows(
  { right }: LowRank,
  { turnedColumns: channels, turnedFrom }: Partial<Source> = {},
): Promise<Float32Array> {
  const { height } = right
  if (channels === undefined) return right.read(0, height)
  const stored = tensorOf((first, count) => right.read(first, count))
  const { values } = await turnedColumns(stored, channels, turnedFrom).read(0, height)
  return widen(values, "f32")
}

/**
 * left [rows, rank] times right, which lies turned [columns, rank]: sums in double precision, in the order of ranks. Two rows and two
 * columns at a time, of an odd one the last again: four sums for each four numbers that are read.
 */
export function addProduct(
  values: Float32Array,
  left: Float32Array,
  right: Float32Array,
  rank: number,
): void {
  const [rows, columns] = [left.length / rank, right.length / rank]
  for (let row = 0; row < rows; row += 2) {
    const below = Math.min(row + 1, rows - 1)
    for (let column = 0; column < columns; column += 2) {
      const beside = Math.min(column + 1, columns - 1)
      let a = 0
      let b = 0
      let c = 0
      let d = 0
      for (let k = 0; k < rank; k++) {
        const above = left[row * rank + k]!
        const under = left[below * rank + k]!
        const first = right[column * rank + k]!
        const second = right[beside * rank + k]!
        a += above * first
        b += above * second
        c += under * first
        d += under * second
      }
      values[row * columns + column]! += Math.fround(a)
      if (beside > column) values[row * columns + beside]! += Math.fround(b)
      if (below > row) values[below * columns + column]! += Math.fround(c)
      if (beside > column && below > row) values[below * columns + beside]! += Math.fround(d)
    }
  }
}
