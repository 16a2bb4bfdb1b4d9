// Tensors of GGUF files as the weights that a graph reads: found by their sources, checked against the shape that is wanted, unpacked
// from the blocks that they lie in. What the graph does not read is refused.

import { widen } from "../../runtime/dtype.ts"
import { isGroupCodec } from "../../runtime/format.ts"
import { type Folder, readExactly } from "../folder.ts"
import { biasesTensor } from "../weights/biases.ts"
import type { StoredRows } from "../weights/convert.ts"
import type { Source, Sources } from "../weights/names.ts"
import { Room } from "../weights/room.ts"
import { madeTensor, rowsOf, wovenRows } from "../weights/rows.ts"
import type { Tensor, Weights } from "../weights/weights.ts"
import { unpackBlocks } from "./blocks.ts"
import type { StoredTensor } from "./container.ts"
import { blockTypes, codecOfType } from "./types.ts"

export interface Opened {
  folder: Folder
  /** What is named where a tensor is missing. */
  file: string
  tensors: ReadonlyMap<string, StoredTensor>
  sources: Sources
  /** Whether a tensor is of the model; others, as what guesses ahead, are there for whoever asks. */
  isRead: (name: string) => boolean
  close: () => Promise<void>
}

/** Tensors by the graph's names. */
export function ggufWeights(opened: Opened): Weights {
  const { tensors, sources, close } = opened
  return {
    entries: readOf(opened).map(({ name, file, type, dims }) => ({
      name,
      file,
      dtype: type,
      shape: dims.toReversed(),
    })),
    tensor: (name, rows, columns) => find(opened, name, rows, columns),
    holds: (name) => tensors.has(sources(name).tensor),
    refuseOthers: (names) => refuseOthers(opened, names),
    verify: async () => {}, // the format has no checksums
    close,
  }
}

const readOf = ({ tensors, isRead }: Opened) =>
  [...tensors.values()].filter(({ name }) => isRead(name))

function find(opened: Opened, name: string, rows: number, columns: number): Tensor {
  return findSource(opened, opened.sources(name), rows, columns)
}

function findSource(opened: Opened, source: Source, rows: number, columns: number): Tensor {
  const { folder, file, tensors } = opened
  const made = madeTensor(source, columns)
  if (made) return made
  if (source.biases) return biasesTensor(source.biases, undefined) // no file has a table
  if (source.woven) return wovenOf(opened, source, source.woven, [rows, columns])
  const tensor = tensors.get(source.tensor)
  if (!tensor) throw folder.broken(file, `there is no tensor ${source.tensor}`)
  const all = source.rows?.of ?? rows / (source.repeated ?? 1)
  const { stacked, transposed, turnedRuns } = source
  const width = transposed ? all : (turnedRuns?.width ?? columns) // of a stored row
  const wanted = dimsOf(source, width, transposed ? columns : all)
  const { type, handle, position } = tensor
  if (!isOfDims(tensor.dims, columns === 1 ? [all] : wanted, columns === 1))
    throw folder.broken(
      tensor.file,
      `tensor ${source.tensor} has shape [${tensor.dims.toReversed().join(", ")}], the keys say [${wanted.toReversed().join(", ")}]`,
    )
  const codec = codecOfType(type)
  if (!codec || ((columns === 1 || transposed) && isGroupCodec(codec)))
    throw folder.broken(
      tensor.file,
      `tensor ${source.tensor} is of type ${type}, which is not read; take another file of the model, as Q4_K_M or Q8_0 (docs/models.md lists the types)`,
    )
  const rowBytes = bytesOf(tensor, width)
  const factors = factorsOf(opened, tensor, stacked ?? 1)
  const read = async (first: number, count: number, room = new Room()) => {
    const bytes = await room.read(handle, position + first * rowBytes, count * rowBytes)
    if (!isGroupCodec(codec)) return { rows: count, values: bytes }
    const stored = await unpackBlocks(type, codec, bytes, count, width, room)
    if (factors) multiplyScales(stored, first, all, await factors())
    return stored
  }
  const elementBytes = rowBytes / width
  const readPart = (row: number, first: number, count: number) => {
    const at = position + row * rowBytes + first * elementBytes
    return readExactly(handle, at, count * elementBytes)
  }
  const { plusRow } = source
  const addend = plusRow && rowOf(opened, plusRow, columns)
  return rowsOf({ codec, read, readPart }, source, columns, addend)
}

/** The length of a row first. */
function dimsOf({ shape, stacked }: Source, width: number, rows: number): readonly number[] {
  if (shape) return shape.toReversed()
  return stacked ? [width, rows / stacked, stacked] : [width, rows]
}

/** Whether they are the same, whatever the file says of dimensions of 1 behind them, or, of a list, about it. */
function isOfDims(dims: readonly number[], wanted: readonly number[], isList: boolean): boolean {
  const own = isList ? [dims.reduce((product, n) => product * n, 1)] : dims
  const length = Math.max(own.length, wanted.length)
  return Array.from({ length }, (_, i) => (own[i] ?? 1) === (wanted[i] ?? 1)).every(Boolean)
}

/** The name of what a matrix is multiplied with beside its own scales, where its type has that. */
function factorName({ name, type }: StoredTensor): string | undefined {
  return type === "NVFP4" ? name.replace(/weight$/, "scale") : undefined
}

/** One for the matrix, or one for each of those that are stacked in it; undefined: the file has none. */
function factorsOf(
  { folder, tensors }: Opened,
  matrix: StoredTensor,
  stacked: number,
): (() => Promise<Float32Array>) | undefined {
  const factors = tensors.get(factorName(matrix) ?? "")
  if (!factors) return undefined
  const { file, name, handle, type, dims, position } = factors
  if (type !== "F32" || dims.length !== 1 || ![1, stacked].includes(dims[0]!))
    throw folder.broken(file, `tensor ${name} is no list of ${stacked} numbers of type F32`)
  let read: Promise<Float32Array> | undefined
  return () => {
    read ??= readExactly(handle, position, 4 * dims[0]!).then((bytes) => widen(bytes, "f32"))
    return read
  }
}

/** @param first which of the matrix's `all` rows the stored ones begin with */
function multiplyScales(
  { rows, scales }: StoredRows,
  first: number,
  all: number,
  factors: Float32Array,
): void {
  const numbers = widen(scales!, "f32")
  const perRow = numbers.length / rows
  const tall = all / factors.length
  for (let row = 0; row < rows; row++) {
    const factor = factors[Math.floor((first + row) / tall)]!
    for (let g = row * perRow; g < (row + 1) * perRow; g++) numbers[g]! *= factor
  }
}

function wovenOf(
  opened: Opened,
  source: Source,
  { others, run }: NonNullable<Source["woven"]>,
  [rows, columns]: readonly [number, number],
): Tensor {
  const { woven: _, ...own } = source
  const names = [own.tensor, ...others]
  const each = columns / names.length
  const parts = names.map((tensor) => findSource(opened, { ...own, tensor }, rows, each))
  return wovenRows(parts, columns, run)
}

function rowOf(opened: Opened, { tensor, row }: NonNullable<Source["plusRow"]>, columns: number) {
  const all = opened.tensors.get(tensor)?.dims[1] ?? 1
  const rows = { of: all, from: row, run: 1, every: all }
  return findSource(opened, { tensor, rows }, 1, columns)
}

/**
 * Lists of divisors are read with the keys, matrices behind pooling by name; the others are what older converters left, or how
 * activations were rounded elsewhere, and nobody reads them.
 */
const APART =
  /^rope_(freqs|factors_(short|long))\.weight$|^dense_[23]\.weight$|\.(attn_rot_embd|rope_freqs|masked_bias|input_scale)\b/

/** A bias or a norm that is not known of the architecture would be missing from what is computed. */
function refuseOthers(opened: Opened, names: readonly string[]): void {
  const sources = names.map((name) => opened.sources(name))
  const read = new Set(
    sources.flatMap(({ tensor, plusRow, woven }) => {
      const stored = opened.tensors.get(tensor)
      return [tensor, plusRow?.tensor, stored && factorName(stored), ...(woven?.others ?? [])]
    }),
  )
  for (const { name, file } of readOf(opened))
    if (!read.has(name) && !APART.test(name))
      throw opened.folder.broken(
        file,
        `it holds tensor ${name}, which is not known of this architecture`,
      )
}

function bytesOf({ type }: StoredTensor, columns: number): number {
  const { values, bytes } = blockTypes[type]
  return (columns / values) * bytes
}
