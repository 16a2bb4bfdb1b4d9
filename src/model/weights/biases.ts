// What scores have added by how far a key stands from its query, as attention reads it (`distancesOf` of compiler/graph/graph.ts): made
// of slopes, one for each head, or of a learned table with a row for each bucket of distances; or of disentangled attention the buckets'
// numbers. Sources: arXiv 2108.12409 (ALiBi), relative_position_bucket of modeling_mpnet.py and make_log_bucket_position of
// modeling_deberta_v2.py of transformers.

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
  | { numbers: Numbered }
)

/** `span` buckets before a token and as many behind; from `most` on distances count as the furthest. */
interface Numbered {
  span: number
  most: number
  /** Beyond half of the span they share buckets, evenly by their logarithms; else each has its own. */
  shared: boolean
}

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
      "slopes" in biases
        ? bySlope(biases.slopes)
        : "numbers" in biases
          ? (_: number, distance: number) => numberOf(-distance, biases.numbers)
          : byBucket(await read(biases, table!), heads)
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

/** @param distance of a query behind its key */
function numberOf(distance: number, { span, most, shared }: Numbered): number {
  const [half, away] = [Math.floor(span / 2), Math.abs(distance)]
  const far = () => {
    const share = Math.log(away / half) / Math.log((most - 1) / half)
    return Math.ceil(share * (half - 1)) + half
  }
  const place = shared && away > half ? Math.sign(distance) * far() : distance
  return Math.min(Math.max(place + span, 0), 2 * span - 1)
}

/** Half of the buckets are of keys behind their query, and of either half again half of one distance each; the last goes on from 128. */
function bucketOf(distance: number, buckets: number): number {
  const [half, away] = [buckets / 2, Math.abs(distance)]
  const single = half / 2
  const far = single + Math.floor((Math.log2(away / single) / Math.log2(128 / single)) * single)
  return (distance > 0 ? half : 0) + (away < single ? away : Math.min(far, half - 1))
}
