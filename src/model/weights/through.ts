// Rows of a learned table as a layer's matrix and bias make them, head by head: what disentangled attention has for each bucket of
// distances. They are as many as the table has rows, so they are made once, when weights are loaded, and not for every token. Sums are
// those of what adapters add (adapters/product.ts), in C where the program brings it.

import { narrow, widen } from "../../runtime/dtype.ts"
import { turned } from "../adapters/factors.ts"
import { addProduct } from "../adapters/product.ts"
import { convert } from "./convert.ts"
import type { Source, Through } from "./names.ts"
import type { Room } from "./room.ts"
import type { Tensor } from "./weights.ts"

type Find = (source: Source, rows: number, columns: number) => Tensor

/** @param headDim of what comes of it: a head's columns. The matrix is as wide as all heads together. */
export function throughMatrix(
  { tensor, through }: Source & { through: Through },
  find: Find,
  headDim: number,
): Tensor {
  const { table, rows: each, heads, norm } = through
  const width = heads * headDim
  const found = {
    table: find({ tensor: table }, each, width),
    matrix: find({ tensor }, width, width),
    bias: find({ tensor: tensor.replace(/weight$/, "bias") }, width, 1),
    scales: norm && find({ tensor: `${norm.name}.weight` }, width, 1),
    shifts: norm && find({ tensor: `${norm.name}.bias` }, width, 1),
  }
  const floats = async (tensor: Tensor, from: number, count: number, columns: number) => {
    const stored = convert(await tensor.read(from, count), columns, tensor.codec, "f32")
    return widen(stored.values, "f32")
  }
  const normed = async () => {
    const rows = await floats(found.table, 0, each, width)
    if (!norm) return rows
    const [scales, shifts] = [
      await floats(found.scales!, 0, width, 1),
      await floats(found.shifts!, 0, width, 1),
    ]
    for (let from = 0; from < rows.length; from += width)
      evenOut(rows.subarray(from, from + width), scales, shifts, norm.epsilon)
    return rows
  }
  let made: Promise<Float32Array> | undefined
  const ofHead = async (head: number, from: number, count: number, room: Room | undefined) => {
    made ??= normed()
    const left = (await made).slice(from * width, (from + count) * width)
    const right = await floats(found.matrix, head * headDim, headDim, width)
    const bias = await floats(found.bias, head * headDim, headDim, 1)
    const values = Float32Array.from({ length: count * headDim }, (_, i) => bias[i % headDim]!)
    if (room?.weightWork) {
      const bytes = new Uint8Array(values.buffer)
      const columns = turned(right, width)
      await room.weightWork.addProduct("f32", count, headDim, width, left, columns, bytes)
    } else addProduct(values, left, right, width)
    return values
  }
  return {
    codec: "f32",
    async read(first, count, room) {
      const values = new Float32Array(count * headDim)
      for (let row = first; row < first + count; ) {
        const [head, from] = [Math.floor(row / each), row % each]
        const own = Math.min(each - from, first + count - row)
        values.set(await ofHead(head, from, own, room), (row - first) * headDim)
        row += own
      }
      return { rows: count, values: narrow(values, "f32") }
    },
  }
}

/** LayerNorm, in its place. */
function evenOut(row: Float32Array, scales: Float32Array, shifts: Float32Array, epsilon: number) {
  const mean = row.reduce((sum, value) => sum + value, 0) / row.length
  const square = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length
  const factor = 1 / Math.sqrt(square + epsilon)
  for (const [i, value] of row.entries()) row[i] = (value - mean) * factor * scales[i]! + shifts[i]!
}
