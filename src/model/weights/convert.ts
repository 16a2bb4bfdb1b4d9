// From the codec a tensor is stored in to the one a parameter is wanted in. Floats are widened and rounded; floats become
// codes by group quantisation, byte for byte as MLC's: every single operation is rounded to the model's type, and halves
// go to the even neighbour. Codes are never unpacked into another codec, as what was rounded away cannot be had back: but for
// those that are floats, and into floats of 32 bits for what is never packed (`exact`).

import { narrow, nearestEven, rounding, widen } from "../../runtime/dtype.ts"
import {
  type CodecName,
  type GroupCodec,
  type GroupCodecName,
  groupCodecs,
  isGroupCodec,
  isIntegerCodec,
  rowLayout,
} from "../../runtime/format.ts"
import { unpackedRows } from "../../runtime/unpack.ts"

/** Rows as a codec packs them: floats, or words of codes with the scales beside them. */
export interface StoredRows {
  rows: number
  values: Uint8Array
  scales?: Uint8Array
}

export function convertible(from: CodecName, to: CodecName): boolean {
  return from === to || !isIntegerCodec(from)
}

export function convert(
  stored: StoredRows,
  columns: number,
  from: CodecName,
  to: CodecName,
): StoredRows {
  if (from === to) return stored
  if (isIntegerCodec(from) && to !== "f32") throw new Error(`internal: ${from} cannot become ${to}`)
  const values = isGroupCodec(from)
    ? unpackedRows(stored, columns, from)
    : widen(stored.values, from)
  if (!isGroupCodec(to)) return { rows: stored.rows, values: narrow(values, to) }
  return quantise(values, stored.rows, columns, to)
}

/** Float rows as codes and scales of `name`. */
export function quantise(
  values: Float32Array, // [rows, columns]
  rows: number,
  columns: number,
  name: GroupCodecName,
): StoredRows {
  const codec: GroupCodec = groupCodecs[name]
  const { words: perRow, groups } = rowLayout(name, columns)
  const words = new Uint32Array(rows * perRow)
  const scales = new Float32Array(rows * groups)
  const round = rounding[codec.dtype]
  for (let i = 0; i < values.length; i++) values[i] = round(values[i]!)
  for (let row = 0; row < rows; row++) {
    for (let group = 0; group < groups; group++) {
      const first = row * columns + group * codec.group
      const last = Math.min(first + codec.group, (row + 1) * columns)
      const from = row * perRow + (group * codec.group) / codec.perWord
      scales[row * groups + group] = packGroup(values, first, last, codec, words, from)
    }
  }
  return {
    rows,
    values: new Uint8Array(words.buffer),
    scales: narrow(scales, codec.dtype),
  }
}

/** Packs values first … last - 1 into words from `at` on; what the group lacks stays code 0. Returns the scale. */
function packGroup(
  values: Float32Array,
  first: number,
  last: number,
  { bits, perWord, zero, dtype }: GroupCodec,
  words: Uint32Array,
  at: number,
): number {
  const round = rounding[dtype]
  let largest = 0
  for (let i = first; i < last; i++) largest = Math.max(largest, Math.abs(values[i]!))
  const scale = round(largest / zero)
  for (let i = first; i < last; at++) {
    let word = 0
    for (let shift = 0; shift < bits * perWord && i < last; shift += bits, i++) {
      const centred = scale === 0 ? zero : round(round(values[i]! / scale) + zero)
      word |= Math.min(2 * zero, Math.max(0, nearestEven(centred))) << shift
    }
    words[at] = word
  }
  return scale
}
