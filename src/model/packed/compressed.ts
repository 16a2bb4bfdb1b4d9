// compressed-tensors, which keeps rows as rows: whole numbers with a sign, as bytes or packed from the low bits of words up
// with half their range added, under `weight_scale` [rows, groups]; zeros are packed along the rows. Or floats of 8 bits, or
// of 4. What it says of activations is left to us: they are rounded as ours are, or not at all.
// https://github.com/vllm-project/compressed-tensors

import { groupCodecs } from "../../runtime/format.ts"
import type { Tensor } from "../weights/weights.ts"
import { float8Tensor, isFloat8 } from "./float8.ts"
import { type Groups, groupedTensor, type Opened, type PackedTensor } from "./groups.ts"
import {
  floatTypes,
  type Matrix,
  type Part,
  partOf,
  readFloats,
  readWhole,
  readWords,
} from "./matrix.ts"
import { mxfp4Tensor } from "./mxfp4.ts"
import { nvfp4Tensor } from "./nvfp4.ts"
import type { Packing } from "./packing.ts"

export function compressedTensor(
  matrix: Matrix,
  { block }: Packing & { method: "compressed-tensors" },
  order: Int32Array | undefined,
): PackedTensor {
  if (isFloat8(matrix)) return float8Tensor(matrix, "weight_scale", block)
  if (matrix.part("weight_packed")?.dtype === "U8")
    return matrix.part("weight_global_scale") ? nvfp4(matrix) : mxfp4Tensor(matrix)
  const { columns } = matrix
  const scales = scalePart(matrix)
  const count = scales.shape[1] ?? 1
  if (count < 1 || columns % count !== 0)
    throw matrix.broken("weight_scale", `has ${count} groups, which do not divide the columns`)
  const codes = codesOf(matrix)
  const zeros = zerosOf(matrix, codes, count)
  return groupedTensor(matrix, {
    bits: codes.bits,
    width: columns / count,
    symmetric: !zeros,
    scales: floatTypes[scales.dtype]!,
    count,
    order,
    async open() {
      const numbers = await readFloats(scales)
      const one = numbers.length === 1
      const zero = (await zeros?.()) ?? (() => 2 ** (codes.bits - 1))
      return {
        unpack: await codes.open(),
        scale: (row, g) => numbers[one ? 0 : row * count + g]!,
        zero,
      }
    },
  })
}

function nvfp4(matrix: Matrix): Tensor {
  const { rows, columns } = matrix
  const groups = columns / groupCodecs.nvfp4.group
  return nvfp4Tensor(matrix, {
    codes: partOf(matrix, "weight_packed", ["U8"], [rows, columns / 2]),
    scales: partOf(matrix, "weight_scale", ["F8_E4M3"], [rows, groups]),
    factor: {
      part: partOf(matrix, "weight_global_scale", ["F32"], [1]),
      apply: (scale, factor) => scale / factor,
    },
  })
}

/** For each row and group, for each row, or one for all. */
function scalePart(matrix: Matrix): Part {
  const { shape } = matrix.part("weight_scale") ?? { shape: [] }
  const all = shape.every((n) => n === 1)
  const wanted = all ? shape : [matrix.rows, ...shape.slice(1, 2)]
  return partOf(matrix, "weight_scale", Object.keys(floatTypes), wanted)
}

interface Codes {
  bits: Groups["bits"]
  packed: boolean
  open: () => Promise<Opened["unpack"]>
}

function codesOf(matrix: Matrix): Codes {
  const { rows, columns } = matrix
  const words = matrix.part("weight_packed")?.shape[1]
  if (words === undefined) return wholeBytes(matrix)
  const bits = words === Math.ceil(columns / 8) ? 4 : 8
  const perRow = Math.ceil((columns * bits) / 32)
  const part = partOf(matrix, "weight_packed", ["I32"], [rows, perRow])
  return {
    bits,
    packed: true,
    async open() {
      const all = await readWords(part)
      return (first, count, to, stride) => {
        for (let row = 0; row < count; row++) {
          const at = (first + row) * perRow
          to.set(all.subarray(at, at + perRow), row * stride)
        }
      }
    },
  }
}

/** Bytes with a sign, a row behind the other. */
export function wholeBytes(matrix: Matrix): Codes {
  const { rows, columns } = matrix
  const part = partOf(matrix, "weight", ["I8"], [rows, columns])
  return {
    bits: 8,
    packed: false,
    async open() {
      const all = await readWhole(part)
      return (first, count, to, stride) => {
        const bytes = new Uint8Array(to.buffer)
        for (let row = 0; row < count; row++) {
          const from = (first + row) * columns
          bytes.set(all.subarray(from, from + columns), row * stride * 4)
        }
        for (let i = 0; i < count * stride; i++) to[i]! ^= 0x80808080 // plus 128
      }
    },
  }
}

type Zero = (row: number, group: number) => number

function zerosOf(
  matrix: Matrix,
  { bits, packed }: Codes,
  count: number,
): (() => Promise<Zero>) | undefined {
  const part = matrix.part("weight_zero_point")
  if (!part) return undefined
  if (!packed) {
    const bytes = partOf(matrix, "weight_zero_point", ["I8"], [matrix.rows, count])
    return async () => {
      const all = await readWhole(bytes)
      return (row, g) => all[row * count + g]! ^ 128
    }
  }
  const perWord = 32 / bits
  const shape = [Math.ceil(matrix.rows / perWord), count]
  const words = partOf(matrix, "weight_zero_point", ["I32"], shape)
  return async () => {
    const all = await readWords(words)
    return (row, g) =>
      (all[Math.floor(row / perWord) * count + g]! >>> ((row % perWord) * bits)) & (2 ** bits - 1)
  }
}
