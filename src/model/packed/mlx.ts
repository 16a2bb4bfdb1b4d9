// As MLX quantises: codes of 2 to 8 bits, packed along the rows from the low bits of words up, over a scale and a bias for each
// group of 32, 64 or 128 columns (value = code * scale + bias); or floats of 4 and 8 bits under a power of two for each 32
// columns, or under a float of 8 bits for each 16. Which of these a matrix has, and how many bits, is read off its parts.
// https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.quantize.html

import { float8Values, narrow, widen } from "../../runtime/dtype.ts"
import {
  type FloatType,
  floatBytes,
  type GroupCodecName,
  groupCodecs,
  rowLayout,
} from "../../runtime/format.ts"
import { unpackedRows } from "../../runtime/unpack.ts"
import type { StoredRows } from "../weights/convert.ts"
import type { Tensor } from "../weights/weights.ts"
import { floatTypes, type Matrix, type Part, partOf } from "./matrix.ts"
import { mxfp4Of } from "./mxfp4.ts"
import { type Nvfp4, nvfp4Tensor } from "./nvfp4.ts"

export function mlxTensor(matrix: Matrix): Tensor {
  const { columns, broken } = matrix
  const codes = partOf(matrix, "weight", ["U32"], shapeOf(matrix, lengthOf(matrix, "weight")))
  const bits = (codes.shape.at(-1)! * 32) / columns
  const count = lengthOf(matrix, "scales")
  const scales = partOf(
    matrix,
    "scales",
    ["U8", ...Object.keys(floatTypes)],
    shapeOf(matrix, count),
  )
  const width = columns / count
  if (scales.dtype !== "U8") return affine(matrix, codes, scales, bits, width)
  if (bits === 4 && width === groupCodecs.nvfp4.group)
    return nvfp4Tensor(matrix, { codes, scales, factor: factorOf(matrix) })
  if (bits === 4 && width === groupCodecs.mxfp4.group) return mxfp4Of(matrix, codes, scales)
  if (bits === 8 && width === groupCodecs.e4m3.group) return mxfp8(matrix, codes, scales)
  throw broken("scales", `are bytes, each for ${width} codes of ${bits} bits, which is not known`)
}

/** How long a part's rows are; 0: it is not there. */
function lengthOf(matrix: Matrix, kind: string): number {
  return matrix.part(kind)?.shape.at(-1) ?? 0
}

function shapeOf({ rows, stacked }: Matrix, length: number): readonly number[] {
  return stacked > 1 ? [stacked, rows / stacked, length] : [rows, length]
}

/** What the largest float of 4 bits under the largest of 8 stands for, where there is such a number: 6 * 448 of it. */
function factorOf(matrix: Matrix): Nvfp4["factor"] {
  if (!matrix.part("global_scale")) return undefined
  const { stacked } = matrix
  return {
    part: partOf(matrix, "global_scale", ["F32"], stacked > 1 ? [stacked] : []),
    apply: (scale, largest) => scale * Math.fround(largest / (6 * 448)),
  }
}

/** What experts are chosen by: rounding what such a matrix reads would choose others, so it is multiplied out. */
const ROUTERS = /(^|[._])(gate(\.proj)?|shared_expert_gate|router(\.(layer|proj))?)$/

function affine(matrix: Matrix, codes: Part, scales: Part, bits: number, width: number): Tensor {
  const { columns, broken, name } = matrix
  const dtype = floatTypes[scales.dtype]!
  const codec = codecOf(bits, dtype)
  const { group, dtype: kept } = groupCodecs[codec]
  if (![2, 3, 4, 5, 6, 8].includes(bits))
    throw broken("weight", `has ${bits} bits for a value; 2 to 6 and 8 are read`)
  if (width % group !== 0)
    throw broken(
      "scales",
      `are for ${width} columns each; for ${group}, or a multiple of it, are read`,
    )
  const biases = partOf(matrix, "biases", [scales.dtype], scales.shape)
  const rowBytes = (columns * bits) / 8
  const numbersOf = (part: Part, first: number, count: number) =>
    groupNumbers(part, dtype, first, count, columns / width, width / group)
  async function read(first: number, count: number): Promise<StoredRows> {
    const packed = await codes.read(first * rowBytes, count * rowBytes)
    const perRow = columns / group
    const numbers = new Float32Array(2 * count * perRow)
    const [steps, least] = [
      await numbersOf(scales, first, count),
      await numbersOf(biases, first, count),
    ]
    for (let row = 0; row < count; row++) {
      const [from, to] = [row * perRow, (row + 1) * perRow]
      numbers.set(steps.subarray(from, to), 2 * from)
      numbers.set(least.subarray(from, to), from + to)
    }
    return {
      rows: count,
      values: bits === 4 || bits === 8 ? packed : spread(packed, bits, bits < 4 ? 4 : 8),
      scales: narrow(numbers, kept),
    }
  }
  if (!ROUTERS.test(name)) return { codec, read }
  return {
    codec: "f32",
    async read(first, count) {
      const values = unpackedRows(await read(first, count), columns, codec)
      return { rows: count, values: new Uint8Array(values.buffer) }
    },
  }
}

/** With numbers as they are stored, where there is such a codec. */
function codecOf(bits: number, dtype: FloatType): GroupCodecName {
  if (bits > 4) return dtype === "f16" && bits < 8 ? "q5_1" : "q8_zeros"
  return dtype === "f16" ? "q4_1" : dtype === "bf16" ? "q4_bf16" : "q4_zeros"
}

/** Of some rows, each number as often as the codec has groups under it. */
async function groupNumbers(
  part: Part,
  dtype: FloatType,
  first: number,
  count: number,
  perRow: number,
  times: number,
): Promise<Float32Array> {
  const size = perRow * floatBytes[dtype]
  const numbers = widen(await part.read(first * size, count * size), dtype)
  if (times === 1) return numbers
  const all = new Float32Array(numbers.length * times)
  for (let i = 0; i < numbers.length; i++) all.fill(numbers[i]!, i * times, (i + 1) * times)
  return all
}

/** Codes of so many bits, one behind the other, as such of more: eight begin a byte in either. */
function spread(packed: Uint8Array, bits: number, wanted: 4 | 8): Uint8Array {
  const count = (packed.length * 8) / bits
  const codes = new Uint8Array((count * wanted) / 8)
  const mask = 2 ** bits - 1
  for (let i = 0, at = 0; i < count; i++, at += bits) {
    const byte = at >>> 3
    const code = ((packed[byte]! | (packed[byte + 1]! << 8)) >> (at & 7)) & mask
    if (wanted === 8) codes[i] = code
    else codes[i >> 1]! |= code << (4 * (i & 1))
  }
  return codes
}

function mxfp8(matrix: Matrix, codes: Part, scales: Part): Tensor {
  const { columns, broken } = matrix
  const { bytes: perRow, groups } = rowLayout("e4m3", columns)
  return {
    codec: "e4m3",
    async read(first, count) {
      const values = await codes.read(first * perRow, count * perRow)
      if (values.some((code) => Number.isNaN(float8Values[code]!)))
        throw broken("weight", "holds what is no number")
      const exponents = await scales.read(first * groups, count * groups)
      const numbers = Float32Array.from(exponents, (exponent) => 2 ** (exponent - 127))
      return { rows: count, values, scales: new Uint8Array(numbers.buffer) }
    },
  }
}
