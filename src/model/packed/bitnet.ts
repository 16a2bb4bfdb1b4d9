// BitNet's ternary matrices: a byte holds what stands in one column of four rows, a quarter of the matrix apart from each other, the
// first in its lowest bits: 0 for -1, 1 for 0, 2 for 1. One number for all of them is multiplied with, or divided by, as the class
// that packed them says; what is divided by is turned over and kept in f16, which has three bits more than bf16, to which its products
// are rounded there. Or they are floats still, and become ternary when they are read: what is nearest of -1, 0 and 1 times the mean
// of their sizes. Source: integrations/bitnet.py of transformers.

import { narrow, widen } from "../../runtime/dtype.ts"
import type { FloatType } from "../../runtime/format.ts"
import { groupedTensor, type Opened, type PackedTensor } from "./groups.ts"
import { floatTypes, type Matrix, partOf, readFloats, readWhole } from "./matrix.ts"
import type { Packing } from "./packing.ts"

/** The matrices that it replaces: all but the head. */
const LINEAR = /\.(?:[qkvo]|gate|up|down)_proj$/

const FLOATS = Object.keys(floatTypes)

/** Nothing for a matrix that stays as it is. */
export function bitnetTensor(
  matrix: Matrix,
  { kept }: Packing & { method: "bitnet" },
): PackedTensor | undefined {
  if (kept === "floats") return LINEAR.test(matrix.name) ? ofFloats(matrix) : undefined
  return matrix.part("weight_scale") && ofBytes(matrix, kept === "divided")
}

const PER_BYTE = 4

function ofBytes(matrix: Matrix, isDivided: boolean): PackedTensor {
  const { rows, columns, broken } = matrix
  if (rows % PER_BYTE !== 0)
    throw broken("weight", `has ${rows} rows; a multiple of ${PER_BYTE} is read`)
  const quarter = rows / PER_BYTE
  const codes = partOf(matrix, "weight", ["U8"], [quarter, columns])
  const number = partOf(matrix, "weight_scale", FLOATS, [1])
  const scales = isDivided ? "f16" : halfOr(floatTypes[number.dtype]!)
  return ternary(matrix, scales, async () => {
    const bytes = await readWhole(codes)
    const [scale] = (await readFloats(number)) as Float32Array & [number]
    return {
      scale: isDivided ? roundedTo("f16", 1 / scale) : scale,
      signAt: (row, column) =>
        ((bytes[(row % quarter) * columns + column]! >> (2 * Math.floor(row / quarter))) & 3) - 1,
    }
  })
}

/** The mean is summed in doubles: a weight that lies half-way may be the other of the two in a program that sums otherwise. */
function ofFloats(matrix: Matrix): PackedTensor {
  const { rows, columns } = matrix
  const weight = partOf(matrix, "weight", FLOATS, [rows, columns])
  const dtype = floatTypes[weight.dtype]!
  return ternary(matrix, halfOr(dtype), async () => {
    const values = await readFloats(weight)
    const mean = values.reduce((sum, value) => sum + Math.abs(value), 0) / values.length
    const over = Math.fround(1 / Math.max(mean, LEAST))
    return {
      scale: roundedTo(dtype, 1 / over),
      signAt: (row, column) => {
        const times = Math.fround(values[row * columns + column]! * over)
        return Math.abs(times) <= 0.5 ? 0 : Math.sign(times)
      },
    }
  })
}

const LEAST = 1e-5

const roundedTo = (dtype: FloatType, value: number) =>
  widen(narrow(Float32Array.of(value), dtype), dtype)[0]!

/** Numbers of 16 bits that are near 1, as these are, both types have. */
const halfOr = (dtype: FloatType): FloatType => (dtype === "f32" ? "f32" : "f16")

interface Ternary {
  scale: number
  /** -1, 0 or 1. */
  signAt: (row: number, column: number) => number
}

function ternary(matrix: Matrix, scales: FloatType, open: () => Promise<Ternary>): PackedTensor {
  const { columns, broken } = matrix
  return groupedTensor(matrix, {
    ...{ bits: 4, width: columns, symmetric: true, scales, count: 1, order: undefined },
    async open(): Promise<Opened> {
      const { scale, signAt } = await open()
      if (roundedTo(scales, scale) !== scale || !Number.isFinite(scale))
        throw broken("weight_scale", `is ${scale}, which is no number that ${scales} has`)
      return {
        unpack(first, count, words, stride) {
          for (let row = 0; row < count; row++)
            for (let column = 0; column < columns; column++)
              words[row * stride + (column >> 3)]! |=
                (MIDDLE + signAt(first + row, column)) << (4 * (column & 7))
        },
        scale: () => scale,
        zero: () => MIDDLE,
      }
    },
  })
}

const MIDDLE = 8
