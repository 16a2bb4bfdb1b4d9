// Where long recordings are cut for towers that see all rows of a tile at once, whose attention would grow with the square of a recording: where it is
// quietest, near the end of what a piece may have. Every piece is heard as a recording by itself.

import { RATE } from "./features.ts"

/** Samples from one place that may be a cut to the next; rows of a Parakeet have as many, so that rows of all pieces are of one clock. */
export const STEP = 1280
const SOUGHT = 15 * RATE // samples at the end of a piece among which the quietest place is looked for
const AROUND = 2 * STEP // samples to either side of a place, which tell how quiet it is

/** Where pieces end but the last. @param most samples of a piece */
export function cutsOf(samples: Float32Array, most: number): number[] {
  const cuts: number[] = []
  for (let from = 0; samples.length - from > most; from = cuts.at(-1)!) {
    let [quietest, least] = [from + most, Number.POSITIVE_INFINITY]
    for (let place = from + most; place > from + most - SOUGHT; place -= STEP) {
      const power = powerAround(samples, place)
      if (power < least) [quietest, least] = [place, power]
    }
    cuts.push(quietest)
  }
  return cuts
}

function powerAround(samples: Float32Array, place: number): number {
  let sum = 0
  for (const sample of samples.subarray(place - AROUND, place + AROUND)) sum += sample * sample
  return sum
}

/** Those of a recording that have as many samples as are heard at the least. */
export function piecesOf(
  samples: Float32Array,
  { most, least }: { most: number; least: number },
): Float32Array[] {
  const places = [...cutsOf(samples, most), samples.length]
  const pieces = places.map((end, piece) => samples.subarray(places[piece - 1] ?? 0, end))
  return pieces.filter(({ length }) => length >= least)
}
