// A matrix that a quantiser has taken apart: "X.weight" lies in the folder as "X.qweight", "X.scales" and so on. Every part is
// checked against the shape that the architecture wants before anything is read of it.

import type { Problem } from "../../errors.ts"
import { widen } from "../../runtime/dtype.ts"
import type { FloatType } from "../../runtime/format.ts"

/** A tensor of the folder. */
export interface Part {
  name: string
  dtype: string
  shape: readonly number[]
  /** `bytes` bytes of it from byte `from` on. */
  read: (from: number, bytes: number) => Promise<Uint8Array>
}

/** What is asked for, and where its parts are found. */
export interface Matrix {
  name: string // "model.layers.0.mlp.up_proj"
  rows: number
  columns: number
  /** It is so many matrices of one height, one behind the other. */
  stacked: number
  part: (kind: string) => Part | undefined // "qweight"
  /** What is wrong with a part. */
  broken: (kind: string, what: string) => Problem
}

/**
 * A part of one of several types, and of the given shape.
 * @throws `model_broken`
 */
export function partOf(
  matrix: Matrix,
  kind: string,
  dtypes: readonly string[],
  shape: readonly number[],
): Part {
  const part = matrix.part(kind)
  if (!part) throw matrix.broken(kind, "is not there")
  if (!dtypes.includes(part.dtype))
    throw matrix.broken(kind, `is of type ${part.dtype}; ${dtypes.join(", ")} can be read`)
  if (part.shape.length !== shape.length || part.shape.some((n, i) => n !== shape[i]))
    throw matrix.broken(
      kind,
      `has shape [${part.shape.join(", ")}], its matrix wants [${shape.join(", ")}]`,
    )
  return part
}

export const floatTypes: Readonly<Record<string, FloatType>> = {
  F32: "f32",
  F16: "f16",
  BF16: "bf16",
}

const WIDTHS: Readonly<Record<string, number>> = { F32: 4, I32: 4, F16: 2, BF16: 2 }

export async function readWhole({ dtype, shape, read }: Part): Promise<Uint8Array> {
  const values = shape.reduce((product, n) => product * n, 1)
  return read(0, values * (WIDTHS[dtype] ?? 1))
}

export async function readFloats(part: Part): Promise<Float32Array> {
  return widen(await readWhole(part), floatTypes[part.dtype]!)
}

export async function readWords(part: Part): Promise<Uint32Array> {
  return new Uint32Array((await readWhole(part)).buffer)
}

export async function readInts(part: Part): Promise<Int32Array> {
  return new Int32Array((await readWhole(part)).buffer)
}
