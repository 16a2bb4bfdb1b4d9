// The matrices of a folder that was quantised before it was published, by the method that its configuration names. A matrix
// that the quantiser left alone is a tensor like any other.

import { bitnetTensor } from "./bitnet.ts"
import { bitsandbytesTensor } from "./bitsandbytes.ts"
import { compressedTensor } from "./compressed.ts"
import { float8Tensor, isFloat8 } from "./float8.ts"
import { awqTensor, gptqTensor } from "./gptq.ts"
import type { PackedTensor } from "./groups.ts"
import { type Matrix, type Part, readInts } from "./matrix.ts"
import { mlxTensor } from "./mlx.ts"
import { modeloptTensor } from "./modelopt.ts"
import { mxfp4Stack } from "./mxfp4.ts"
import type { Packing } from "./packing.ts"

/** By the matrix's name, the group of each of its columns. */
export type Orders = ReadonlyMap<string, Int32Array>

const ORDER = /^(.+)\.(g_idx|weight_g_idx)$/

/** Read when the folder is opened: they decide what a matrix is kept in. */
export async function readOrders(parts: Iterable<Part>): Promise<Orders> {
  const orders = new Map<string, Int32Array>()
  for (const part of parts) {
    const [, name] = ORDER.exec(part.name) ?? []
    if (name !== undefined && part.dtype === "I32") orders.set(name, await readInts(part))
  }
  return orders
}

/** What the configuration promises is there: of compressed-tensors it may be none, where only keys and values are packed. */
export function isPacked(parts: readonly Part[], packing: Packing): boolean {
  const { method } = packing
  if (method === "compressed-tensors") return true
  if (method === "bitnet")
    return packing.kept === "floats" || parts.some(({ dtype }) => dtype === "U8")
  if (method === "mxfp4") return parts.some(({ name }) => name.endsWith("_blocks"))
  if (method === "bitsandbytes") return parts.some(({ dtype }) => dtype === "U8" || dtype === "I8")
  if (method === "mlx") return parts.some(({ dtype }) => dtype === "U32")
  return parts.some(({ name, dtype }) => name.endsWith(".qweight") || dtype.startsWith("F8_"))
}

/** What scales of floats of 8 bits are called, the last by Mistral. */
const SCALES = ["weight_scale_inv", "weight_scale", "qscale_weight"]

/** Nothing for a matrix that is not packed. */
export function packedTensor(
  matrix: Matrix,
  packing: Packing,
  orders: Orders,
): PackedTensor | undefined {
  const order = orders.get(matrix.name)
  switch (packing.method) {
    case "gptq":
      return matrix.part("qweight") && gptqTensor(matrix, packing, order)
    case "awq":
      return matrix.part("qweight") && awqTensor(matrix)
    case "compressed-tensors":
      return matrix.part("weight_scale") && compressedTensor(matrix, packing, order)
    case "mxfp4":
      return matrix.part("blocks") && mxfp4Stack(matrix)
    case "bitsandbytes":
      return bitsandbytesTensor(matrix, packing.dtype)
    case "bitnet":
      return bitnetTensor(matrix, packing)
    case "mlx":
      return matrix.part("scales") && mlxTensor(matrix)
    case "modelopt":
      return modeloptTensor(matrix)
    case "fp8": {
      const kind = SCALES.find((name) => matrix.part(name)) ?? "weight_scale"
      return isFloat8(matrix) ? float8Tensor(matrix, kind, packing.block) : undefined
    }
  }
}
