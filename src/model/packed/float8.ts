// Floats of 8 bits (e4m3) under scales: one for all, for each row, or for each block. Kept as they are where a block is as
// wide as the codec's groups, or several of them; else multiplied out as float32.

import { float8Values } from "../../runtime/dtype.ts"
import { groupCodecs, rowLayout } from "../../runtime/format.ts"
import type { StoredRows } from "../weights/convert.ts"
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
  const perScale = across / groupCodecs.e4m3.group
  const codec = Number.isInteger(perScale) || across >= columns ? "e4m3" : "f32"
  let opened: Promise<Float32Array> | undefined
  return {
    codec,
    async read(first, count) {
      opened ??= readFloats(scales)
      const numbers = await opened
      const bytes = await weight.read(first * columns, count * columns)
      if (hasNaN(bytes)) throw matrix.broken("weight", "holds what is no number")
      const scaleOf = (row: number, block: number) =>
        numbers[Math.floor((first + row) / down) * perRow + block]!
      if (codec === "f32") return multiplied(bytes, count, columns, across, scaleOf)
      return coded(bytes, count, columns, across, scaleOf)
    },
  }
}

function hasNaN(bytes: Uint8Array): boolean {
  for (let i = 0; i < bytes.length; i++) if ((bytes[i]! & 0x7f) === 0x7f) return true
  return false
}

type ScaleOf = (row: number, block: number) => number

/** Rows filled up to whole groups, and a scale for each. */
function coded(
  bytes: Uint8Array,
  rows: number,
  columns: number,
  across: number,
  scaleOf: ScaleOf,
): StoredRows {
  const { bytes: perRow, groups } = rowLayout("e4m3", columns)
  const values = perRow === columns ? bytes : new Uint8Array(rows * perRow)
  const scales = new Float32Array(rows * groups)
  for (let row = 0; row < rows; row++) {
    if (values !== bytes)
      values.set(bytes.subarray(row * columns, (row + 1) * columns), row * perRow)
    for (let g = 0; g < groups; g++)
      scales[row * groups + g] = scaleOf(row, Math.floor((g * groupCodecs.e4m3.group) / across))
  }
  return { rows, values, scales: new Uint8Array(scales.buffer) }
}

function multiplied(
  bytes: Uint8Array,
  rows: number,
  columns: number,
  across: number,
  scaleOf: ScaleOf,
): StoredRows {
  const values = new Float32Array(rows * columns)
  for (let row = 0; row < rows; row++)
    for (let block = 0; block * across < columns; block++) {
      const scale = scaleOf(row, block)
      const end = row * columns + Math.min((block + 1) * across, columns)
      for (let at = row * columns + block * across; at < end; at++)
        values[at] = float8Values[bytes[at]!]! * scale
    }
  return { rows, values: new Uint8Array(values.buffer) }
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
