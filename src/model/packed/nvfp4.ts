// Floats of 4 bits (e2m1), two to a byte, the first lower, under a float of 8 bits (e4m3) for each 16 columns, and all of that
// under a number for the whole matrix, or for each of those stacked in it, where there is one.

import { float8Values } from "../../runtime/dtype.ts"
import { groupCodecs, rowLayout } from "../../runtime/format.ts"
import type { Tensor } from "../weights/weights.ts"
import { type Matrix, type Part, readFloats } from "./matrix.ts"

const GROUP = groupCodecs.nvfp4.group

export interface Nvfp4 {
  codes: Part
  scales: Part
  /** The number, and what a scale becomes under it. */
  factor?: { part: Part; apply: (scale: number, factor: number) => number } | undefined
}

export function nvfp4Tensor(matrix: Matrix, { codes, scales, factor }: Nvfp4): Tensor {
  const { rows, columns, broken } = matrix
  const groups = columns / GROUP
  const { bytes: perRow } = rowLayout("nvfp4", columns)
  const halved = float8Values.map((value) => value / 2) // for codes that are doubled
  let opened: Promise<Float32Array> | undefined
  return {
    codec: "nvfp4",
    async read(first, count) {
      opened ??= factor && readFloats(factor.part)
      const factors = await opened
      const stored = await scales.read(first * groups, count * groups)
      const numbers = new Float32Array(count * groups)
      for (let i = 0; i < numbers.length; i++) {
        const scale = halved[stored[i]!]!
        const row = first + Math.floor(i / groups)
        const its = factors?.[Math.floor((row * factors.length) / rows)]
        numbers[i] = its === undefined ? scale : factor!.apply(scale, its)
      }
      if (numbers.some(Number.isNaN)) throw broken("weight", "has scales that are no numbers")
      return {
        rows: count,
        values: await codes.read(first * perRow, count * perRow),
        scales: new Uint8Array(numbers.buffer),
      }
    },
  }
}
