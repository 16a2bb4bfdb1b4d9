// Attention whose scores have a part that is a learned function of the query for how far a key stands from it. As any function of few
// distances that part is a sum of cosines and sines, whose sizes are linear in the query. Turned as rotary embeddings turn them, a query's
// columns and a key's, which are ones and zeros, have that sum as their product. So heads are wider by those columns, and attention is
// the usual one. What those columns are made of is stored in no folder: it is computed of what is learned, and a compiled folder has it.

import { attention, concat, embed, reorder, rope, slice } from "../../compiler/graph/builder.ts"
import type { Attention, Node } from "../../compiler/graph/graph.ts"
import { named } from "../tensors.ts"

/** Of heads, the columns that are turned: pairs of so many frequencies, the first of which is 0. */
export interface Turning {
  heads: number
  headDim: number
  pairs: number
  /** How many tokens a tile's rows may be: here all are alike. */
  tokens: number
  /** What they are turned by at each position; absent: as any function of few distances needs. */
  frequencies?: readonly number[]
}

/** @param most how many distances there are to either side, or to one, 0 among them */
export function pairsFor(most: number, sides: 1 | 2): number {
  const distances = sides * (most - 1) + 1
  const least = Math.ceil((distances + 1) / 2) // of as many cosines as there are distances, and all sines but the first
  return 8 * Math.ceil(least / 8) // heads of 128 and 16 columns
}

const periodOf = ({ pairs }: Pick<Turning, "pairs">) => 2 * pairs - 1

const shared = named("", "model.relative.")

/** What keys have in the place of distances: the same for all layers, so that a tower makes it once. */
export function onesOf({ heads, pairs, tokens }: Turning): Node {
  const table = shared("ones", "ones.weight", tokens, heads * 2 * pairs)
  return embed({ ...table, exact: true })
}

const evenly = (pairs: number) =>
  Array.from({ length: pairs }, (_, k) => (2 * Math.PI * k) / periodOf({ pairs }))

/** [tokens, heads * headDim] @param ones `onesOf`. @param distances of each head's query, what stands for distances: the cosines, then the sines */
export function attendByDistance(
  { q, k, v, distances, ones }: Record<"q" | "k" | "v" | "distances" | "ones", Node>,
  turning: Turning,
  how: Omit<Attention, "heads" | "kvHeads" | "headDim">,
): Node {
  const { heads, headDim, pairs, frequencies = evenly(pairs) } = turning
  const [turned, wide] = [2 * pairs, 2 * pairs + headDim]
  const order = shared("interleaved", "interleaved.weight", heads * wide)
  const joined = (first: Node, x: Node) => reorder(concat(first, x), order)
  const placed = (x: Node) => rope(x, wide, { frequencies, factor: 1 })
  const shape = { ...how, heads, kvHeads: heads, headDim: wide }
  const mixed = attention(
    placed(joined(distances, q)),
    placed(joined(ones, k)),
    joined(ones, v),
    shape,
  )
  const apart = reorder(mixed, shared("apart", "apart.weight", heads * wide))
  return slice(apart, heads * turned, heads * headDim)
}

/** What `attendByDistance` reads by these names, the same in all layers. */
export function constantOfDistances(
  name: string,
  { heads, headDim, pairs, tokens }: Turning,
): Float32Array | undefined {
  const [turned, wide] = [2 * pairs, 2 * pairs + headDim]
  if (name === "ones")
    return Float32Array.from({ length: tokens * heads * turned }, (_, at) =>
      Number(at % turned < pairs),
    )
  const interleaved = Float32Array.from({ length: heads * wide }, (_, place) => {
    const [head, at] = [Math.floor(place / wide), place % wide]
    return at < turned ? head * turned + at : heads * turned + head * headDim + at - turned
  })
  if (name === "interleaved") return interleaved
  if (name !== "apart") return undefined
  const apart = new Float32Array(interleaved.length)
  interleaved.forEach((from, place) => {
    apart[from] = place
  })
  return apart
}

/**
 * Of a head, [2 * pairs, headDim]: of each row r that is learned for a distance, sums over distances of r times a cosine and less r times a
 * sine, so that turned by as much as keys lie back they are r again.
 * @param rows by distances, below 0 of keys that lie ahead
 */
export function turnedRows(
  rows: Iterable<readonly [distance: number, row: Float64Array | Float32Array]>,
  pairs: number,
): Float64Array {
  const period = periodOf({ pairs })
  const angles = Array.from({ length: period }, (_, step) => (2 * Math.PI * step) / period)
  const [cosines, sines] = [angles.map(Math.cos), angles.map(Math.sin)]
  let keys = new Float64Array(0)
  for (const [distance, row] of rows) {
    const headDim = row.length
    if (keys.length === 0) keys = new Float64Array(2 * pairs * headDim)
    for (let pair = 0; pair < pairs; pair++) {
      const share = (pair === 0 ? 1 : 2) / period
      const step = (((pair * distance) % period) + period) % period
      const [cosine, sine] = [share * cosines[step]!, -share * sines[step]!]
      const [own, other] = [pair * headDim, (pairs + pair) * headDim]
      for (let column = 0; column < headDim; column++) {
        keys[own + column]! += cosine * row[column]!
        keys[other + column]! += sine * row[column]!
      }
    }
  }
  return keys
}
