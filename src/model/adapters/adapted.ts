// A model's weights as adapters have changed them. What an adapter adds is added to a matrix while that is read, so that a changed
// model computes as fast as the other. A matrix of codes stays as it is, and what is added is computed beside it (low-rank.ts); but
// where that cannot be (experts, tables, rows that get other lengths) it becomes floats of 16 bits.

import { narrow, widen } from "../../runtime/dtype.ts"
import { type CodecName, type FloatType, floatBytes, isGroupCodec } from "../../runtime/format.ts"
import { unpackedRows } from "../../runtime/unpack.ts"
import { EMBEDDING, HEAD } from "../layers.ts"
import { floatTypes, type Part } from "../packed/matrix.ts"
import type { StoredRows } from "../weights/convert.ts"
import type { Source, Sources } from "../weights/names.ts"
import { rowsOf, type StoredTensor } from "../weights/rows.ts"
import type { Tensor, Weights } from "../weights/weights.ts"
import type { Adapter, Change } from "./adapter.ts"
import { changeOfExpert, stacksIn } from "./experts.ts"
import type { Factor } from "./factors.ts"
import { type Added, Product, placeOf } from "./product.ts"

/** An adapter of this model. */
export interface Placed {
  adapter: Adapter
  /** Where it has the tensor that the graph calls so. */
  sources: Sources
  /** What stands behind the root of all names in one of its names; undefined: it is of no part that is served. */
  keyOf: (tensor: string) => string | undefined
  /** In a layer; undefined: it has none. */
  experts: number | undefined
  /** Whether the model's files hold what stands so behind the root, which need not be read; absent: all of it is. */
  holds?: (key: string) => boolean
}

/** "model.layers.0.mlp.up_proj.weight" → its factors' names. */
export const factorNames = (tensor: string) => {
  const stem = tensor.replace(/\.weight$/, "")
  return { left: `${stem}.lora_left`, right: `${stem}.lora_right` }
}

const FACTOR = /^(.+)\.lora_(left|right)$/

/** Whether a tensor's name is that of a factor. */
export const isFactor = (tensor: string) => FACTOR.test(tensor)

/** What one adapter does to a tensor of the graph, and where the adapter has it. */
interface Its {
  adapter: Adapter
  source: Source
  change: Change
  /** The change that it is a part of, or all of. */
  all: Change
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
  const lists = placed.map((one) => {
    const changes = byKey(one)
    return { ...one, changes, stacks: stacksIn(changes) }
  })
  const used = new Set<Change>()
  const apart = new Map<string, Product>()
  const changesTo = (name: string, rows: number, columns: number): Its[] =>
    lists.flatMap(({ adapter, sources, keyOf, changes, stacks, experts = 0 }) => {
      const source = sources(name)
      const change = changes.get(keyOf(source.tensor) ?? "")
      const size = { rows, columns, stored: source }
      const part = changeOfExpert(stacks, experts, name, size, adapter.broken)
      if (change && part) throw adapter.broken(`it changes ${name} by itself and with its layer's`)
      if (part) return { adapter, source: part.source, change: { low: part.low }, all: part.all }
      return change && source.constant === undefined ? { adapter, source, change, all: change } : []
    })
  const isOwn = (name: string) => base.holds?.(name) ?? false
  /** Of a head that is the embedding, as that was before adapters which do not change both. */
  const isKept = (name: string) =>
    name === HEAD && tied && !isOwn(HEAD) && lists.every(({ adapter }) => !adapter.tied)
  const stored = (name: string, rows: number, columns: number) =>
    base.tensor(isKept(name) ? EMBEDDING : name, rows, columns)
  /** Of more tokens than the model's, which the adapter was trained on. */
  const tableOf = (rows: number, columns: number) =>
    changesTo(EMBEDDING, rows, columns).find(({ change }) => change.isBase)
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
      const product = apart.get(`${stem}.weight`)!
      return side === "left" ? product.leftTensor() : product.rightTensor()
    }
    const its = changesTo(name, rows, columns)
    for (const { all } of its) used.add(all)
    const table = its.length === 0 && isKept(name) && tableOf(rows, columns)
    if (table) return changed(wholeTensor(table, columns), [], columns, floats ?? "f32")
    if (its.length === 0 || apart.has(name)) return stored(name, rows, columns)
    const whole = its.findLast(({ change }) => change.whole)
    for (const one of its) checkShapes(one, rows, columns)
    checkLengths(its)
    const before = whole ? wholeTensor(whole, columns) : stored(name, rows, columns)
    const kept = whole ? (codecOf(name, rows, columns) ?? floats ?? before.codec) : before.codec
    const codec = isGroupCodec(kept) ? "f16" : columns === 1 ? before.codec : kept
    return changed(before, its, columns, codec as FloatType)
  }
  return {
    entries: base.entries,
    tensor,
    holds: (name) =>
      isOwn(name) ||
      (isKept(name) && [EMBEDDING, HEAD].some((one) => changesTo(one, 0, 0).length > 0)),
    columnOrder: (name, rows, columns) =>
      changesTo(name, rows, columns).length === 0 || apart.has(name)
        ? base.columnOrder?.(name, rows, columns)
        : undefined,
    takeApart(name, rows, columns) {
      const its = changesTo(name, rows, columns)
      if (
        its.length === 0 ||
        !its.every(({ change }) => change.low && !change.whole && !change.lengths)
      )
        return undefined
      if (!isGroupCodec(stored(name, rows, columns).codec)) return undefined
      for (const one of its) {
        checkShapes(one, rows, columns)
        used.add(one.all)
      }
      const product = new Product(its.map(addedBy), columns)
      apart.set(name, product)
      return product.rank
    },
    refuseOthers(names) {
      base.refuseOthers?.(names.filter((name) => !FACTOR.test(name)))
      for (const { adapter, changes, sources, keyOf, holds } of lists) {
        if (changes.size === 0) throw adapter.broken("it changes nothing that is served")
        const read = holds && new Set(names.flatMap((name) => tensorsIn(sources(name)).map(keyOf)))
        const isUnread = (key: string) => holds?.(key) && !read!.has(key)
        for (const [key, change] of changes)
          if (!used.has(change) && !isUnread(key))
            throw adapter.broken(
              `it changes ${key}, which this model does not have under that name`,
            )
      }
    },
    verify: (signal) => base.verify(signal),
    close: () => base.close(),
  }
}

/** Also what is added to its rows, and what stands between them. */
const tensorsIn = ({ tensor, plusRow, woven }: Source): string[] => [
  tensor,
  ...(plusRow ? [plusRow.tensor] : []),
  ...(woven?.others ?? []),
]

/** What it changes, by what stands behind the root of all names. */
export function byKey({ adapter, keyOf }: Placed): Map<string, Change> {
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
export function checkShapes(
  { adapter, source, change }: Pick<Its, "adapter" | "source" | "change">,
  rows: number,
  columns: number,
): void {
  const { whole, low, lengths } = change
  const height = source.rows?.of ?? rows
  const width = source.turnedRuns?.width ?? columns
  const wrong = (part: Part, shape: readonly number[]) =>
    adapter.broken(
      `tensor ${part.name} has shape [${part.shape.join(", ")}], and the model wants [${shape.join(", ")}]`,
    )
  const unfit = ({ name, height, width }: Factor, wanted: string) =>
    adapter.broken(
      `tensor ${name} is a factor of ${height} x ${width}, and the model wants ${wanted}`,
    )
  if (source.stacked || (source.taps && (low || lengths)))
    throw adapter.broken(
      `it changes ${source.tensor}, where several matrices lie in one tensor; that is not read`,
    )
  if (low && low.left.height !== height) throw unfit(low.left, `${height} rows`)
  if (low && low.right.width !== width) throw unfit(low.right, `${width} columns`)
  low?.factor(low.left.width) // throws where the configuration has another rank
  if (lengths) {
    const isVector = lengths.shape.length === 1 && lengths.shape[0] === height
    if (!isVector) throw wrong(lengths, [height])
    if (source.turnedRuns)
      throw adapter.broken(`tensor ${lengths.name} is of a matrix whose rows lie otherwise here`)
  }
  if (whole && source.plusRow)
    throw adapter.broken(`tensor ${whole.name} comes in the place of one that another is added to`)
  if (whole) {
    const { taps } = source
    const vector = taps ? [height / taps, 1, taps] : [height]
    const matrix = source.transposed ? [width, height] : [height, width]
    const shape = columns === 1 ? vector : matrix
    if (whole.shape.length !== shape.length || whole.shape.some((n, i) => n !== shape[i]))
      throw wrong(whole, shape)
  }
}

/** Rows that are stretched are so to the lengths of one sum: that of its own adapter. */
function checkLengths(its: readonly Its[]): void {
  const one = its.find(({ change }) => change.lengths)
  if (one && its.length > 1)
    throw one.adapter.broken(
      `tensor ${one.change.lengths!.name} gives rows their lengths, and another adapter changes them, too`,
    )
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

/** `before` with what all of them add, and the lengths that one of them gives its rows. */
function changed(before: Tensor, its: readonly Its[], columns: number, codec: FloatType): Tensor {
  const low = its.filter(({ change }) => change.low).map(addedBy)
  const product = new Product(
    low.filter(({ source }) => !source.turnedRuns),
    columns,
  )
  const turned = low.filter(({ source }) => source.turnedRuns).map((one) => turnedSum(one, columns))
  const lengths = its.flatMap(({ source, change }) =>
    change.lengths ? [vector(change.lengths, source)] : [],
  )
  const isSum = before.codec === codec && turned.length + lengths.length === 0
  return {
    codec,
    async read(first, count, room) {
      const stored = await before.read(first, count, room)
      if (isSum && product.rank === 0) return stored
      const isAligned = stored.values.byteOffset % floatBytes[codec] === 0
      if (isSum && isAligned && room?.weightWork) {
        const [left, right] = [await product.left(first, count), await product.right()]
        const { values } = stored
        await room.weightWork.addProduct(codec, count, columns, product.rank, left, right, values)
        return stored
      }
      const values = floatsOf(stored, columns, before.codec)
      await product.addTo(values, first, count)
      for (const sum of turned) {
        const more = await floatRows(sum, first, count)
        for (let i = 0; i < values.length; i++) values[i]! += more[i]!
      }
      for (const each of lengths) stretch(values, columns, await floatRows(each, first, count))
      return { rows: count, values: narrow(values, codec) }
    },
  }
}

const addedBy = ({ source, change }: Its): Added => ({ source, low: change.low! })

/** What is added to a matrix each run of whose rows is stored as columns. */
function turnedSum({ source, low }: Added, columns: number): Tensor {
  const { width } = source.turnedRuns!
  const product = new Product([{ source: { tensor: source.tensor }, low }], width)
  const stored: StoredTensor = {
    codec: "f32",
    async read(first, count) {
      const values = new Float32Array(count * width)
      await product.addTo(values, first, count)
      return { rows: count, values: narrow(values, "f32") }
    },
  }
  return rowsOf(stored, placeOf(source), columns)
}

async function floatRows(tensor: Tensor, first: number, count: number): Promise<Float32Array> {
  return widen((await tensor.read(first, count)).values, tensor.codec as FloatType)
}

function floatsOf(stored: StoredRows, columns: number, codec: CodecName): Float32Array {
  return isGroupCodec(codec) ? unpackedRows(stored, columns, codec) : widen(stored.values, codec)
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

function stretch(values: Float32Array, columns: number, lengths: Float32Array): void {
  lengths.forEach((length, row) => {
    const its = values.subarray(row * columns, (row + 1) * columns)
    const by = length / Math.sqrt(its.reduce((sum, value) => sum + value * value, 0))
    for (let i = 0; i < columns; i++) its[i]! *= by
  })
}
