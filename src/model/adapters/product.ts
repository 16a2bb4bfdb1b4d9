// What adapters add to a matrix: the product of two factors, left [rows, rank] and right [rank, columns], those of several adapters beside
// and below each other. It is never whole in memory: of the left factor rows are read as the matrix's are.

import { narrow, widen } from "../../runtime/dtype.ts"
import { floatBytes } from "../../runtime/format.ts"
import { floatTypes, readFloats } from "../packed/matrix.ts"
import type { Source } from "../weights/names.ts"
import { rowsOf, type StoredTensor } from "../weights/rows.ts"
import type { Tensor } from "../weights/weights.ts"
import type { Factor, LowRank } from "./adapter.ts"

/** What one adapter adds, and which of its rows are the matrix's. */
export interface Added {
  source: Source
  low: LowRank
}

type Read = (first: number, count: number) => Promise<Float32Array>

export class Product {
  readonly rank: number
  readonly #columns: number
  readonly #lefts: readonly { rank: number; read: Read }[]
  readonly #rights: readonly { rank: number; read: Read }[]
  #right: Promise<Float32Array> | undefined

  constructor(added: readonly Added[], columns: number) {
    this.#columns = columns
    this.#lefts = added.map(({ source, low }) => ({ rank: low.rank, read: leftOf(low, source) }))
    this.#rights = added.map(({ low: { rank, right } }) => ({ rank, read: rowsIn(right, columns) }))
    this.rank = added.reduce((sum, { low }) => sum + low.rank, 0)
  }

  /** Rows of the left factor, times what the product is multiplied with. */
  async left(first: number, count: number): Promise<Float32Array> {
    const values = new Float32Array(count * this.rank)
    let from = 0
    for (const { rank, read } of this.#lefts) {
      const its = await read(first, count)
      for (let row = 0; row < count; row++)
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
    for (const { rank, read } of this.#rights) {
      values.set(await read(0, rank), from)
      from += rank * this.#columns
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

function tensorOf(read: Read): Tensor {
  return {
    codec: "f32",
    read: async (first, rows) => ({ rows, values: narrow(await read(first, rows), "f32") }),
  }
}

function leftOf({ rank, factor, left }: LowRank, source: Source): Read {
  const read = rowsIn(left, rank)
  const stored: StoredTensor = tensorOf(async (first, count) =>
    (await read(first, count)).map((value) => value * factor),
  )
  const rows = rowsOf(stored, placeOf(source), rank)
  return async (first, count) => widen((await rows.read(first, count)).values, "f32")
}

/** A factor's rows in order, of `width` numbers each. */
function rowsIn({ part, turned: isTurned }: Factor, width: number): Read {
  if (!isTurned) {
    const codec = floatTypes[part.dtype]!
    const bytes = width * floatBytes[codec]
    return async (first, count) => widen(await part.read(first * bytes, count * bytes), codec)
  }
  let whole: Promise<Float32Array> | undefined
  return async (first, count) => {
    whole ??= readFloats(part).then((stored) => turned(stored, stored.length / width))
    return (await whole).slice(first * width, (first + count) * width)
  }
}

/** [height, width] → [width, height] */
function turned(matrix: Float32Array, width: number): Float32Array {
  const height = matrix.length / width
  const values = new Float32Array(matrix.length)
  for (let row = 0; row < height; row++)
    for (let column = 0; column < width; column++)
      values[column * height + row] = matrix[row * width + column]!
  return values
}

/**
 * left [rows, rank] times right, which lies turned [columns, rank]: sums in double precision, in the order of ranks. Two rows and two
 * columns at a time, of an odd one the last again: four sums for each four numbers that are read.
 */
function addProduct(
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
