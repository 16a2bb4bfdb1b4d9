// Floats of 4 bits (e2m1), two to a byte, the first lower, under a power of two for each 32 columns: the codec of GGUF's blocks
// of that name, whose codes they are as they lie there.
// https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf

import { rowLayout } from "../../runtime/format.ts"
import { halfOfPower } from "../gguf/blocks.ts"
import type { Tensor } from "../weights/weights.ts"
import { type Matrix, type Part, partOf } from "./matrix.ts"

const GROUP = 32

/** As compressed-tensors keeps it. */
export function mxfp4Tensor(matrix: Matrix): Tensor {
  const { rows, columns } = matrix
  const packed = partOf(matrix, "weight_packed", ["U8"], [rows, columns / 2])
  const scales = partOf(matrix, "weight_scale", ["U8"], [rows, Math.ceil(columns / GROUP)])
  return mxfp4Of(matrix, packed, scales)
}

/** As gpt-oss keeps the matrices of all experts: whole groups of 16 bytes. */
export function mxfp4Stack(matrix: Matrix): Tensor {
  const { rows, columns, stacked } = matrix
  const shape = [stacked, rows / stacked, columns / GROUP]
  const blocks = partOf(matrix, "blocks", ["U8"], [...shape, GROUP / 2])
  return mxfp4Of(matrix, blocks, partOf(matrix, "scales", ["U8"], shape))
}

/** @param packed whole rows, whatever the type of what they are in */
export function mxfp4Of({ columns }: Matrix, packed: Part, scales: Part): Tensor {
  const groups = Math.ceil(columns / GROUP)
  const { bytes: perRow } = rowLayout("mxfp4", columns)
  return {
    codec: "mxfp4",
    async read(first, count) {
      const pairs = await packed.read((first * columns) / 2, (count * columns) / 2)
      const exponents = await scales.read(first * groups, count * groups)
      const values = new Uint8Array(count * perRow)
      const width = columns / 2
      for (let row = 0; row < count; row++)
        values.set(pairs.subarray(row * width, (row + 1) * width), row * perRow)
      const halved = Uint16Array.from(exponents, halfOfPower)
      return { rows: count, values, scales: new Uint8Array(halved.buffer) }
    },
  }
}
