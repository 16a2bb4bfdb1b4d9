// What scores have added by how far a key stands from its query, as attention reads it (`distancesOf` of compiler/graph/graph.ts): made
// of slopes, one for each head, or of a learned table with a row for each bucket of distances. Sources: arXiv 2108.12409 (ALiBi),
// relative_position_bucket of modeling_mpnet.py of transformers.

import { distancesOf } from "../../compiler/graph/graph.ts"
import { narrow, widen } from "../../runtime/dtype.ts"
import type { FloatType } from "../../runtime/format.ts"
import type { Tensor } from "./weights.ts"

export type Biases = { positions: number; heads: number } & (
  | {
      /** A score loses this for each position between. */
      slopes: readonly number[]
    }
  | {
      /** Rows of the stored table [buckets, heads]. */
      buckets: number
    }
)

/** Powers of 2 from 2 ^ (-most / heads) on, and where heads are no power of 2, as many more of those between. */
export function slopesOf(heads: number, most: number): number[] {
  const power = 2 ** Math.floor(Math.log2(heads))
  return Array.from({ length: heads }, (_, i) =>
    i < power
      ? 2 ** ((-most * (i + 1)) / power)
      : 2 ** ((-most * (2 * (i - power) + 1)) / (2 * power)),
  )
}

/** @param table its rows, where it is made of buckets */
export function biasesTensor(biases: Biases, table: Tensor | undefined): Tensor {
  const { positions, heads } = biases
  const distances = distancesOf(positions)
  const whole = async () => {
    const of =
      "slopes" in biases ? bySlope(biases.slopes) : byBucket(await read(biases, table!), heads)
    return Float32Array.from({ length: heads * distances }, (_, i) =>
      of(Math.floor(i / distances), (i % distances) - (distances - 1) / 2),
    )
  }
  let made: Promise<Float32Array> | undefined
  return {
    codec: "f32",
    async read(first, rows) {
      made ??= whole()
      return { rows, values: narrow((await made).slice(first, first + rows), "f32") }
    },
  }
}

async function read({ buckets }: { buckets: number }, table: Tensor): Promise<Float32Array> {
  return widen((await table.read(0, buckets)).values, table.codec as FloatType)
}

const bySlope = (slopes: readonly number[]) => (head: number, distance: number) =>
  -slopes[head]! * Math.abs(distance)

const byBucket = (table: Float32Array, heads: number) => (head: number, distance: number) =>
  table[bucketOf(distance, table.length / heads) * heads + head]!

/** Half of the buckets are of keys behind their query, and of either half again half of one distance each; the last goes on from 128. */
function bucketOf(distance: number, buckets: number): number {
  const [half, away] = [buckets / 2, Math.abs(distance)]
  const single = half / 2
  const far = single + Math.floor((Math.log2(away / single) / Math.log2(128 / single)) * single)
  return (distance > 0 ? half : 0) + (away < single ? away : Math.min(far, half - 1))
}
