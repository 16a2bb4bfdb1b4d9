// Floats of 8 bits (e4m3) under scales: one for all, for each row, or for each block. A product of the two is exact in
// single precision alone, or in none where the scale has more than 20 bits, so that is what they are kept in: four times the
// file's size, unless --quantization packs them.
// Type: https://arxiv.org/abs/2209.05433

import type { Tensor } from "../weights/weights.ts"
import { floatTypes, type Matrix, type Part, partOf, readFloats } from "./matrix.ts"

const TYPE = "F8_E4M3"

export function isFloat8(matrix: Matrix): boolean {
  return matrix.part("weight")?.dtype === TYPE
}

/**
 * @param kind what the part with the scales is called
 * @param block rows and columns under one scale, where the scales' shape leaves it open
 */
export function float8Tensor(
  matrix: Matrix,
  kind: string,
  block: readonly [number, number],
): Tensor {
  const { rows, columns } = matrix
  const weight = partOf(matrix, "weight", [TYPE], [rows, columns])
  const part = matrix.part(kind)
  const scales = partOf(matrix, kind, Object.keys(floatTypes), part?.shape ?? [])
  const { down, across, perRow } = blocksOf(matrix, kind, scales, block)
  let opened: Promise<Float32Array> | undefined
  return {
    codec: "f32",
    async read(first, count) {
      opened ??= readFloats(scales)
      const numbers = await opened
      const bytes = await weight.read(first * columns, count * columns)
      const values = new Float32Array(count * columns)
      for (let row = 0; row < count; row++) {
        const from = Math.floor((first + row) / down) * perRow
        for (let block = 0; block * across < columns; block++) {
          const scale = numbers[from + block]!
          const end = row * columns + Math.min((block + 1) * across, columns)
          for (let at = row * columns + block * across; at < end; at++)
            values[at] = VALUES[bytes[at]!]! * scale
        }
      }
      return { rows: count, values: new Uint8Array(values.buffer) }
    },
  }
}

function blocksOf(
  { rows, columns, broken }: Matrix,
  kind: string,
  { shape }: Part,
  [tall, wide]: readonly [number, number],
): { down: number; across: number; perRow: number } {
  const [high = 1, perRow = 1, ...rest] = shape
  const down = blockOf(rows, high, tall)
  const across = blockOf(columns, perRow, wide)
  if (down && across && rest.length === 0) return { down, across, perRow }
  throw broken(
    kind,
    `has shape [${shape.join(", ")}], which does not divide [${rows}, ${columns}] in blocks`,
  )
}

/** How many of `size` are under one of `count` scales. */
function blockOf(size: number, count: number, told: number): number | undefined {
  if (count === 1) return size
  if (Math.ceil(size / told) === count) return told
  return count > 0 && size % count === 0 ? size / count : undefined
}

const VALUES = Float32Array.from({ length: 256 }, (_, byte) => {
  const sign = byte & 128 ? -1 : 1
  const [exponent, fraction] = [(byte >> 3) & 15, byte & 7]
  if (exponent === 15 && fraction === 7) return Number.NaN
  return sign * (exponent === 0 ? fraction * 2 ** -9 : (8 + fraction) * 2 ** (exponent - 10))
})
