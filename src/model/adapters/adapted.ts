// A model's weights as adapters have changed them. What an adapter adds is added to a matrix while that is read, so that a changed
// model computes as fast as the other. A matrix of codes stays as it is, and what is added is computed beside it (low-rank.ts); but
// where that cannot be (experts, tables, rows that get other lengths) it becomes floats of 16 bits.

import { narrow, widen } from "../../runtime/dtype.ts"
import { type CodecName, type FloatType, floatBytes, isGroupCodec } from "../../runtime/format.ts"
import { unpackedRows } from "../../runtime/unpack.ts"
import { EMBEDDING, HEAD } from "../layers.ts"
import { floatTypes, type Part, readFloats } from "../packed/matrix.ts"
import type { StoredRows } from "../weights/convert.ts"
import type { Source, Sources } from "../weights/names.ts"
import { rowsOf, type StoredTensor } from "../weights/rows.ts"
import type { Tensor, Weights } from "../weights/weights.ts"
import {
  type Adapter,
  type Change,
  type Factor,
  heightOf,
  type LowRank,
  widthOf,
} from "./adapter.ts"

/** An adapter of this model. */
export interface Placed {
  adapter: Adapter
  /** Where it has the tensor that the graph calls so. */
  sources: Sources
  /** What stands behind the root of all names in one of its names; undefined: it is of no part that is served. */
  keyOf: (tensor: string) => string | undefined
}

/** "model.layers.0.mlp.up_proj.weight" → its factors' names. */
export const factorNames = (tensor: string) => {
  const stem = tensor.replace(/\.weight$/, "")
  return { left: `${stem}.lora_left`, right: `${stem}.lora_right` }
}

const FACTOR = /^(.+)\.lora_(left|right)$/

/** What one adapter does to a tensor of the graph, and where the adapter has it. */
interface Its {
  adapter: Adapter
  source: Source
  change: Change
}

/**
 * @param tied the configuration says that the head is the embedding
 * @param floats what a tensor is rounded to that comes in the place of none of its shape; undefined: nothing
 */
export function withAdapters(
  base: Weights,
  placed: readonly Placed[],
  { tied, floats }: { tied: boolean; floats: FloatType | undefined },
): Weights {
  const lists = placed.map((one) => ({ ...one, changes: byKey(one) }))
  const used = new Set<Change>()
  const apart = new Map<string, readonly Its[]>()
  const changesTo = (name: string): Its[] =>
    lists.flatMap(({ adapter, sources, keyOf, changes }) => {
      const source = sources(name)
      const change = changes.get(keyOf(source.tensor) ?? "")
      return change && source.constant === undefined ? [{ adapter, source, change }] : []
    })
  const isOwn = (name: string) => base.holds?.(name) ?? false
  /** Of a head that is the embedding, as that was before adapters which do not change both. */
  const isKept = (name: string) =>
    name === HEAD && tied && !isOwn(HEAD) && lists.every(({ adapter }) => !adapter.tied)
  const stored = (name: string, rows: number, columns: number) =>
    base.tensor(isKept(name) ? EMBEDDING : name, rows, columns)
  const codecOf = (name: string, rows: number, columns: number) => {
    try {
      return stored(name, rows, columns).codec
    } catch {
      return undefined // the adapter brings it, or in another size
    }
  }
  const tensor: Weights["tensor"] = (name, rows, columns) => {
    const [, stem, side] = FACTOR.exec(name) ?? []
    if (stem !== undefined) {
      const its = apart.get(`${stem}.weight`)!
      return side === "left" ? joinedLeft(its) : joinedRight(its, columns)
    }
    const its = changesTo(name)
    for (const { change } of its) used.add(change)
    if (its.length === 0 || apart.has(name)) return stored(name, rows, columns)
    const whole = its.findLast(({ change }) => change.whole)
    for (const one of its) checkShapes(one, rows, columns)
    const before = whole ? wholeTensor(whole, columns) : stored(name, rows, columns)
    const kept = whole ? (codecOf(name, rows, columns) ?? floats ?? before.codec) : before.codec
    const codec = isGroupCodec(kept) ? "f16" : columns === 1 ? before.codec : kept
    return changed(before, its, columns, codec as FloatType)
  }
  return {
    entries: base.entries,
    tensor,
    holds: (name) =>
      isOwn(name) || (isKept(name) && [EMBEDDING, HEAD].some((one) => changesTo(one).length > 0)),
    columnOrder: (name, rows, columns) =>
      changesTo(name).length === 0 || apart.has(name)
        ? base.columnOrder?.(name, rows, columns)
        : undefined,
    takeApart(name, rows, columns) {
      const its = changesTo(name)
      if (
        its.length === 0 ||
        !its.every(({ change }) => change.low && !change.whole && !change.lengths)
      )
        return undefined
      if (!isGroupCodec(stored(name, rows, columns).codec)) return undefined
      for (const one of its) {
        checkShapes(one, rows, columns)
        used.add(one.change)
      }
      apart.set(name, its)
      return its.reduce((sum, { change }) => sum + change.low!.rank, 0)
    },
    refuseOthers(names) {
      base.refuseOthers?.(names.filter((name) => !FACTOR.test(name)))
      for (const { adapter, sources, keyOf, changes } of lists) {
        const another = tied && adapter.tied ? keyOf(sources(HEAD).tensor) : undefined
        for (const [key, change] of changes)
          if (!used.has(change) && key !== another)
            throw adapter.broken(`it changes ${key}, which this model does not have`)
      }
    },
    verify: (signal) => base.verify(signal),
    close: () => base.close(),
  }
}

function byKey({ adapter, keyOf }: Placed): Map<string, Change> {
  const changes = new Map<string, Change>()
  for (const [tensor, change] of adapter.changes) {
    const key = keyOf(tensor)
    if (key === undefined) continue
    if (changes.has(key)) throw adapter.broken(`it changes ${key} in two places`)
    changes.set(key, change)
  }
  return changes
}

/** That a change is one of a matrix of this size. */
function checkShapes({ adapter, source, change }: Its, rows: number, columns: number): void {
  const { whole, low, lengths } = change
  const height = source.rows?.of ?? rows
  const width = source.turnedRuns?.width ?? columns
  const wrong = (part: Part, shape: readonly number[]) =>
    adapter.broken(
      `tensor ${part.name} has shape [${part.shape.join(", ")}], and the model wants [${shape.join(", ")}]`,
    )
  if (source.stacked || (source.taps && (low || lengths)))
    throw adapter.broken(
      `it changes ${source.tensor}, where several matrices lie in one tensor; that is not read`,
    )
  if (low) {
    if (heightOf(low.left) !== height) throw wrong(low.left.part, [height, low.rank])
    if (widthOf(low.right) !== width) throw wrong(low.right.part, [low.rank, width])
  }
  if (lengths) {
    const isVector = lengths.shape.length === 1 && lengths.shape[0] === height
    if (!isVector) throw wrong(lengths, [height])
    if (source.turnedRuns)
      throw adapter.broken(`tensor ${lengths.name} is of a matrix whose rows lie otherwise here`)
  }
  if (whole) {
    const { taps } = source
    const vector = taps ? [height / taps, 1, taps] : [height]
    const matrix = source.transposed ? [width, height] : [height, width]
    const shape = columns === 1 ? vector : matrix
    if (whole.shape.length !== shape.length || whole.shape.some((n, i) => n !== shape[i]))
      throw wrong(whole, shape)
  }
}

/** One that is stored whole. */
function wholeTensor({ source, change }: Its, columns: number): Tensor {
  const { whole } = change
  const codec = floatTypes[whole!.dtype]!
  const size = floatBytes[codec]
  const rowBytes = columns === 1 ? size : whole!.shape[1]! * size
  const stored: StoredTensor = {
    codec,
    async read(first, count) {
      return { rows: count, values: await whole!.read(first * rowBytes, count * rowBytes) }
    },
    readPart: (row, first, count) => whole!.read(row * rowBytes + first * size, count * size),
  }
  return rowsOf(stored, source, columns)
}

/** `before` with what all of them add, in their order, and the lengths that one of them gives its rows. */
function changed(before: Tensor, its: readonly Its[], columns: number, codec: FloatType): Tensor {
  const added = its.flatMap(({ source, change: { low } }) =>
    low ? [sumOf(low, source, columns)] : [],
  )
  const stretched = its.flatMap(({ source, change: { lengths } }) =>
    lengths ? [vector(lengths, source)] : [],
  )
  return {
    codec,
    async read(first, count, room) {
      const values = floatsOf(await before.read(first, count, room), columns, before.codec)
      for (const sum of added) {
        const more = widen((await sum.read(first, count)).values, "f32")
        for (let i = 0; i < values.length; i++) values[i]! += more[i]!
      }
      for (const lengths of stretched)
        stretch(
          values,
          columns,
          widen((await lengths.read(first, count)).values, lengths.codec as FloatType),
        )
      return { rows: count, values: narrow(values, codec) }
    },
  }
}

function floatsOf(stored: StoredRows, columns: number, codec: CodecName): Float32Array {
  return isGroupCodec(codec) ? unpackedRows(stored, columns, codec) : widen(stored.values, codec)
}

/** Which of a tensor's rows the graph's are, and nothing else that a source says of it. */
function placeOf({ tensor, rows, neighbours, turnedRuns }: Source): Source {
  return {
    tensor,
    ...(rows && { rows }),
    ...(neighbours && { neighbours }),
    ...(turnedRuns && { turnedRuns }),
  }
}

function vector(part: Part, source: Source): Tensor {
  const codec = floatTypes[part.dtype]!
  const size = floatBytes[codec]
  const stored: StoredTensor = {
    codec,
    async read(first, count) {
      return { rows: count, values: await part.read(first * size, count * size) }
    },
  }
  return rowsOf(stored, placeOf(source), 1)
}

/** Its rows in order, `width` numbers each. */
function rowsOfFactor(
  { part, turned }: Factor,
  width: number,
): (first: number, count: number) => Promise<Float32Array> {
  if (!turned) {
    const codec = floatTypes[part.dtype]!
    const rowBytes = width * floatBytes[codec]
    return async (first, count) => widen(await part.read(first * rowBytes, count * rowBytes), codec)
  }
  let whole: Promise<Float32Array> | undefined
  return async (first, count) => {
    whole ??= readFloats(part)
    const stored = await whole
    const height = stored.length / width
    const values = new Float32Array(count * width)
    for (let row = 0; row < count; row++)
      for (let column = 0; column < width; column++)
        values[row * width + column] = stored[column * height + first + row]!
    return values
  }
}

/** The product of both factors, as far as the graph's rows are read. */
function sumOf({ rank, factor, left, right }: LowRank, source: Source, columns: number): Tensor {
  const width = source.turnedRuns?.width ?? columns
  const leftRows = rowsOfFactor(left, rank)
  const rightRows = rowsOfFactor(right, width)
  let turned: Promise<Float64Array> | undefined
  const stored: StoredTensor = {
    codec: "f32",
    async read(first, count) {
      turned ??= rightRows(0, rank).then((whole) => turn(whole, width))
      const its = Float64Array.from(await leftRows(first, count), (value) => value * factor)
      return { rows: count, values: narrow(multiply(its, await turned, rank), "f32") }
    },
  }
  return rowsOf(stored, placeOf(source), columns)
}

/**
 * left [rows, rank] times right, which lies turned [columns, rank]: sums in double precision, in the order of ranks. Two rows and two
 * columns at a time, of an odd one the last again: four sums for each four numbers that are read.
 */
function multiply(left: Float64Array, right: Float64Array, rank: number): Float32Array {
  const [rows, columns] = [left.length / rank, right.length / rank]
  const product = new Float32Array(rows * columns)
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
      product[row * columns + column] = a
      product[row * columns + beside] = b
      product[below * columns + column] = c
      product[below * columns + beside] = d
    }
  }
  return product
}

/** [height, width] → [width, height] */
function turn(matrix: Float32Array, width: number): Float64Array {
  const height = matrix.length / width
  const turned = new Float64Array(matrix.length)
  for (let row = 0; row < height; row++)
    for (let column = 0; column < width; column++)
      turned[column * height + row] = matrix[row * width + column]!
  return turned
}

function stretch(values: Float32Array, columns: number, lengths: Float32Array): void {
  lengths.forEach((length, row) => {
    const its = values.subarray(row * columns, (row + 1) * columns)
    const by = length / Math.sqrt(its.reduce((sum, value) => sum + value * value, 0))
    for (let i = 0; i < columns; i++) its[i]! *= by
  })
}

/** The left factors beside each other, as the graph orders their rows, with what their products are multiplied with. */
function joinedLeft(its: readonly Its[]): Tensor {
  const factors = its.map(({ source, change }) => {
    const { rank, factor, left } = change.low!
    const read = rowsOfFactor(left, rank)
    const stored: StoredTensor = {
      codec: "f32",
      async read(first, count) {
        const values = (await read(first, count)).map((value) => value * factor)
        return { rows: count, values: narrow(values, "f32") }
      },
    }
    return { rank, tensor: rowsOf(stored, placeOf(source), rank) }
  })
  const width = factors.reduce((sum, { rank }) => sum + rank, 0)
  return {
    codec: "f32",
    async read(first, count) {
      const values = new Float32Array(count * width)
      let from = 0
      for (const { rank, tensor } of factors) {
        const its = widen((await tensor.read(first, count)).values, "f32")
        for (let row = 0; row < count; row++)
          values.set(its.subarray(row * rank, (row + 1) * rank), row * width + from)
        from += rank
      }
      return { rows: count, values: narrow(values, "f32") }
    },
  }
}

/** The right factors, one below the other. */
function joinedRight(its: readonly Its[], columns: number): Tensor {
  const factors = its.map(({ change: { low } }) => ({
    rank: low!.rank,
    read: rowsOfFactor(low!.right, columns),
  }))
  return {
    codec: "f32",
    async read(first, count) {
      const all = await Promise.all(factors.map(({ rank, read }) => read(0, rank)))
      const whole = new Float32Array(all.reduce((sum, { length }) => sum + length, 0))
      let from = 0
      for (const values of all) {
        whole.set(values, from)
        from += values.length
      }
      const values = whole.slice(first * columns, (first + count) * columns)
      return { rows: count, values: narrow(values, "f32") }
    },
  }
}
