// NVIDIA's ModelOpt: floats of 8 bits under `weight_scale`, or floats of 4 under that and a number for all of them,
// `weight_scale_2`. What it says of activations is left to us.
// https://github.com/NVIDIA/Model-Optimizer

import { groupCodecs } from "../../runtime/format.ts"
import type { Tensor } from "../weights/weights.ts"
import { float8Tensor, isFloat8 } from "./float8.ts"
import { floatTypes, type Matrix, partOf } from "./matrix.ts"
import { nvfp4Tensor } from "./nvfp4.ts"

/** Nothing for a matrix that it has left alone. */
export function modeloptTensor(matrix: Matrix): Tensor | undefined {
  if (isFloat8(matrix)) return float8Tensor(matrix, "weight_scale", [1, 1])
  if (matrix.part("weight")?.dtype !== "U8") return undefined
  const { rows, columns } = matrix
  const groups = columns / groupCodecs.nvfp4.group
  return nvfp4Tensor(matrix, {
    codes: partOf(matrix, "weight", ["U8"], [rows, columns / 2]),
    scales: partOf(matrix, "weight_scale", ["F8_E4M3"], [rows, groups]),
    factor: {
      part: partOf(matrix, "weight_scale_2", Object.keys(floatTypes), []),
      apply: (scale, factor) => scale * factor,
    },
  })
}
