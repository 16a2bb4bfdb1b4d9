// Reads the rows that a source describes from a stored tensor, whose rows may lie elsewhere, in another order or along the
// other axis. Rows that lie side by side are read at once.

import { sinesOf } from "../../audio/sines.ts"
import { narrow, widen } from "../../runtime/dtype.ts"
import { exp, log } from "../../runtime/elementary.ts"
import { type CodecName, type FloatType, isGroupCodec } from "../../runtime/format.ts"
import { unpackedRows } from "../../runtime/unpack.ts"
import { convert, type StoredRows } from "./convert.ts"
import { type Source, storedRow } from "./names.ts"
import type { Room } from "./room.ts"
import type { Tensor } from "./weights.ts"

/** A list of whole numbers, as floats. */
export function listTensor(list: Int32Array): Tensor {
  return {
    codec: "f32",
    async read(first, rows) {
      return { rows, values: narrow(Float32Array.from(list.subarray(first, first + rows)), "f32") }
    },
  }
}

/** One that is not stored; nothing where it is. */
export function madeTensor(source: Source, columns: number): Tensor | undefined {
  const rowOf = madeRows(source, columns)
  if (!rowOf) return undefined
  return {
    codec: "f32",
    async read(first, rows) {
      const values = new Float32Array(rows * columns)
      for (let row = 0; row < rows; row++) values.set(rowOf(first + row), row * columns)
      return { rows, values: narrow(values, "f32") }
    },
  }
}

function madeRows(
  { constant, diagonal, sines, digits }: Source,
  columns: number,
): ((row: number) => Float32Array) | undefined {
  if (digits) return (row) => digitsOf(row, columns, digits)
  if (sines) return (row) => sinesOf(row, columns, sines === "open")
  if (constant !== undefined) return () => new Float32Array(columns).fill(constant)
  if (diagonal === undefined) return undefined
  return (row) => Float32Array.from({ length: columns }, (_, i) => (i === row ? diagonal : 0))
}

/** The lowest first. */
function digitsOf(
  row: number,
  columns: number,
  { base, count, shift }: NonNullable<Source["digits"]>,
): Float32Array {
  const ones = new Float32Array(columns)
  const number = row + shift
  if (number < 0) return ones
  for (let digit = 0, rest = number; digit < count; digit++, rest = Math.floor(rest / base))
    ones[digit * base + (rest % base)] = 1
  return ones
}

/** A tensor as it is stored: `read` gives rows, or in a transposed one columns first to first + count - 1 of each row. */
export interface StoredTensor extends Tensor {
  readPart?(row: number, first: number, count: number): Promise<Uint8Array>
}

/**
 * @param columns of a row, as the graph reads it
 * @param addend of one row, which is added to each
 */
export function rowsOf(
  stored: StoredTensor,
  source: Source,
  columns: number,
  addend?: Tensor,
): Tensor {
  if (source.turnedRuns) return turnedRuns(stored, source, source.turnedRuns, columns)
  if (source.turnedColumns)
    return turnedColumns(asFloats(stored, columns), source.turnedColumns, source.turnedFrom)
  const { codec } = stored
  const read = source.transposed
    ? source.stacked
      ? turnedMatrix(stored, source, source.stacked, columns)
      : (first: number, count: number) => readTransposed(stored, source, columns, first, count)
    : source.rows || source.neighbours || source.repeated
      ? (first: number, count: number, room?: Room) =>
          readScattered(stored, source, [first, count], room)
      : (first: number, count: number, room?: Room) => stored.read(first, count, room)
  const { plus = 0, times = 1, exponential, raised, softplus, tanh, squared, absolute } = source
  const isKept = plus === 0 && times === 1 && !addend && !squared && !absolute
  if (isKept && !exponential && !raised && !softplus && !tanh) return { codec, read }
  // The sum is rounded to float, not to what the tensor is stored in.
  return {
    codec: "f32",
    async read(first, count, room) {
      const stored = await read(first, count, room)
      const values = isGroupCodec(codec)
        ? unpackedRows(stored, columns, codec)
        : widen(stored.values, codec)
      const row = addend && widen((await addend.read(0, 1)).values, addend.codec as FloatType)
      const changed = values.map((value, i) => {
        if (exponential) return log(-value)
        if (raised) return -exp(value)
        if (tanh) return tanh === "itself" ? tanhOf(value) : 1 - tanhOf(value)
        const own = times * (softplus ? log(1 + exp(value)) : value)
        const shaped = squared ? own * own : absolute ? Math.abs(own) : own
        return shaped + (row ? row[i % columns]! : plus)
      })
      return { rows: count, values: narrow(changed, "f32") }
    },
  }
}

/** By `exp`, so that it is the same on every machine. */
const tanhOf = (value: number) => 1 - 2 / (1 + exp(2 * value))

/** Codes as what they stand for: a group of them lies along a row. */
export function asFloats(stored: StoredTensor, columns: number): StoredTensor {
  const { codec } = stored
  if (!isGroupCodec(codec)) return stored
  return {
    codec: "f32",
    read: async (first, rows, room) =>
      convert(await stored.read(first, rows, room), columns, codec, "f32"),
  }
}

/**
 * Each row [points, channels] as [channels, points]: filters [rows, height, width, channels], or with frames before the height, have their
 * channels first then.
 * @param channels how many
 * @param kept so many columns before them stay where they are
 */
export function turnedColumns(stored: StoredTensor, channels: number, kept = 0): StoredTensor {
  const size = elementBytes(stored.codec)
  return {
    codec: stored.codec,
    async read(first, rows, room) {
      const { values } = await stored.read(first, rows, room)
      const width = values.length / rows / size
      const points = (width - kept) / channels
      const turned = new Uint8Array(values.length)
      for (let to = 0; to < rows * width; to++) {
        const [row, at] = [Math.floor(to / width), (to % width) - kept]
        const from =
          at < 0 ? to : row * width + kept + (at % points) * channels + Math.floor(at / points)
        for (let byte = 0; byte < size; byte++)
          turned[to * size + byte] = values[from * size + byte]!
      }
      return { rows, values: turned }
    },
  }
}

/** Rows of `columns`, made of those of several tensors: by turns `run` columns of each. */
export function wovenRows(parts: readonly Tensor[], columns: number, run: number): Tensor {
  const codecs = new Set(parts.map((part) => part.codec))
  const [first] = codecs
  const codec = codecs.size === 1 && !isGroupCodec(first!) ? first! : "f32"
  const each = columns / parts.length
  const bytes = run * elementBytes(codec)
  return {
    codec,
    async read(first, count) {
      const read: Uint8Array[] = []
      for (const part of parts)
        read.push(convert(await part.read(first, count), each, part.codec, codec).values)
      const values = joined(
        Array.from({ length: (count * each) / run }, (_, i) =>
          joined(read.map((own) => own.subarray(i * bytes, (i + 1) * bytes))),
        ),
      )
      return { rows: count, values }
    },
  }
}

const GAP = 8 // so many rows that nobody asked for are read along, rather than reading twice

async function readScattered(
  stored: StoredTensor,
  source: Source,
  [first, count]: readonly [number, number],
  room: Room | undefined,
): Promise<StoredRows> {
  const wanted = Array.from({ length: count }, (_, i) => storedRow(source, first + i))
  const at = new Map<number, { values: Uint8Array; scales: Uint8Array | undefined }>()
  for (const [from, to] of stretches(wanted)) {
    const { values, scales } = await stored.read(from, to - from + 1, room)
    const rows = to - from + 1
    const slice = (bytes: Uint8Array, row: number) =>
      bytes.subarray((row * bytes.length) / rows, ((row + 1) * bytes.length) / rows)
    for (let row = 0; row < rows; row++)
      at.set(from + row, { values: slice(values, row), scales: scales && slice(scales, row) })
  }
  const rows = wanted.map((row) => at.get(row)!)
  const values = joined(rows.map((row) => row.values))
  const scales = rows.flatMap((row) => row.scales ?? [])
  return { rows: count, values, ...(scales.length > 0 ? { scales: joined(scales) } : {}) }
}

/** Rows of one length, end to end. */
function joined(rows: readonly Uint8Array[]): Uint8Array {
  const size = rows[0]!.length
  const all = new Uint8Array(rows.length * size)
  rows.forEach((row, i) => {
    all.set(row, i * size)
  })
  return all
}

/** From which row to which the wanted ones lie close together. */
function stretches(wanted: readonly number[]): [number, number][] {
  const runs: [number, number][] = []
  for (const row of [...new Set(wanted)].sort((a, b) => a - b)) {
    const last = runs.at(-1)
    if (last && row - last[1] <= GAP) last[1] = row
    else runs.push([row, row])
  }
  return runs
}

/** Of a tensor [columns, rows] the rows, which lie there as columns. */
async function readTransposed(
  stored: StoredTensor,
  source: Source,
  columns: number,
  first: number,
  count: number,
): Promise<StoredRows> {
  const size = elementBytes(stored.codec)
  const from = storedRow(source, first)
  if (storedRow(source, first + count - 1) !== from + count - 1)
    throw new Error(`internal: ${source.tensor} is turned around and scattered`)
  const values = new Uint8Array(count * columns * size)
  for (let column = 0; column < columns; column++) {
    const part = await stored.readPart!(column, from, count)
    for (let row = 0; row < count; row++)
      for (let byte = 0; byte < size; byte++)
        values[(row * columns + column) * size + byte] = part[row * size + byte]!
  }
  return { rows: count, values }
}

/** Of a stack of matrices [columns, rows] the rows of one, which is read once for all that is asked of it in order. */
function turnedMatrix(
  stored: StoredTensor,
  source: Source,
  stacked: number,
  columns: number,
): StoredTensor["read"] {
  const size = elementBytes(stored.codec)
  const each = source.rows!.of / stacked
  let whole: Promise<StoredRows> | undefined
  return async (first, count) => {
    const wanted = Array.from({ length: count }, (_, i) => storedRow(source, first + i))
    const matrix = Math.floor(wanted[0]! / each)
    whole ??= stored.read(matrix * columns, columns)
    const { values: all } = await whole
    const values = new Uint8Array(count * columns * size)
    wanted.forEach((row, i) => {
      for (let column = 0; column < columns; column++) {
        const from = (column * each + row - matrix * each) * size
        const to = (i * columns + column) * size
        for (let byte = 0; byte < size; byte++) values[to + byte] = all[from + byte]!
      }
    })
    return { rows: count, values }
  }
}

/** Run by run, each whole: its rows become columns. Codes become what they stand for, as a group of them lies along a row. */
function turnedRuns(
  stored: StoredTensor,
  { rows: runs }: Source,
  { width }: NonNullable<Source["turnedRuns"]>,
  columns: number,
): Tensor {
  const codec = isGroupCodec(stored.codec) ? "f32" : stored.codec
  const size = elementBytes(codec)
  return {
    codec,
    async read(first, count) {
      const values = new Uint8Array(count * columns * size)
      for (let run = Math.floor(first / width); run * width < first + count; run++) {
        const rows = await stored.read(runs!.from + run * runs!.every, columns)
        const part = convert(rows, width, stored.codec, codec).values
        const begin = Math.max(first, run * width)
        const end = Math.min(first + count, (run + 1) * width)
        for (let row = begin; row < end; row++)
          for (let column = 0; column < columns; column++) {
            const from = (column * width + row - run * width) * size
            const to = ((row - first) * columns + column) * size
            for (let byte = 0; byte < size; byte++) values[to + byte] = part[from + byte]!
          }
      }
      return { rows: count, values }
    },
  }
}

function elementBytes(codec: CodecName): number {
  if (isGroupCodec(codec)) throw new Error(`internal: ${codec} cannot be turned around`)
  return codec === "f32" ? 4 : 2
}
