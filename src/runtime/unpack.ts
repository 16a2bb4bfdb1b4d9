// What packed rows stand for, in floats. Nobody computes with these but the reference target and what adds to weights when they
// are read; kernels unpack as they multiply.

import { float8Values, rounding, widen } from "./dtype.ts"
import {
  codeTables,
  type GroupCodec,
  type GroupCodecName,
  groupCodecs,
  rowLayout,
} from "./format.ts"

/** Codes less the zero code, or the floats that they are, from words filled from their low bits up: [rows, columns]. */
export function unpackedCodes(
  values: Uint8Array,
  rows: number,
  columns: number,
  codec: GroupCodecName,
): Int16Array | Float32Array {
  const { bits, perWord, zero, floats, table }: GroupCodec = groupCodecs[codec]
  const numbers = table && codeTables[table]
  const perRow = rowLayout(codec, columns).words
  const words = new Uint32Array(values.slice().buffer)
  const codes = floats ? new Float32Array(rows * columns) : new Int16Array(rows * columns)
  const mask = 2 ** bits - 1
  for (let r = 0; r < rows; r++)
    for (let k = 0; k < columns; k++) {
      const word = words[r * perRow + Math.floor(k / perWord)]!
      const code = (word >>> ((k % perWord) * bits)) & mask
      codes[r * columns + k] = floats ? float8Values[code]! : (numbers?.[code] ?? code) - zero
    }
  return codes
}

/** In single precision. */
export function unpackedValue(code: number, scale: number, minimum: number | undefined): number {
  const value = Math.fround(code * scale)
  return minimum === undefined ? value : Math.fround(value + minimum)
}

interface PackedRows {
  rows: number
  values: Uint8Array
  scales?: Uint8Array // of each row, and behind them its minimums
}

/** [rows, columns] */
export function unpackedRows(
  { rows, values, scales }: PackedRows,
  columns: number,
  codec: GroupCodecName,
): Float32Array {
  const codes = unpackedCodes(values, rows, columns, codec)
  const { group, values: type, minimums, dtype } = groupCodecs[codec]
  const { groups } = rowLayout(codec, columns)
  const numbers = widen(scales!, dtype)
  const perRow = groups * (minimums ? 2 : 1)
  return Float32Array.from(codes, (code, i) => {
    const at = Math.floor(i / columns) * perRow + Math.floor((i % columns) / group)
    const minimum = minimums ? numbers[at + groups]! : undefined
    return rounding[type](unpackedValue(code, numbers[at]!, minimum))
  })
}
