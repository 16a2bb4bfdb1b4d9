// How far rotary embeddings turn the elements of a head at a position. Angles are doubles; what comes out are floats.

import { cosine, log, sine } from "./elementary.ts"

const { fround } = Math

/**
 * Element i of a head is turned with element i + n / 2 by position * frequencies[i], for the n / 2 frequencies there are, and
 * both are multiplied by `factor`, and by 1 + beta * ln(1 + floor(position / original)) where they grow.
 */
export interface Rotation {
  frequencies: readonly number[]
  factor: number
  growth?: { beta: number; original: number }
}

/** cos and sin of position * frequency, for each pair, times the factors of the rotation: from `at` on. */
export function writeTurns(
  position: number,
  { frequencies, factor, growth }: Rotation,
  out: Float32Array,
  at: number,
): void {
  const grown = growth ? 1 + growth.beta * log(1 + Math.floor(position / growth.original)) : 1
  const size = fround(factor * grown)
  for (let i = 0; i < frequencies.length; i++) {
    const angle = position * frequencies[i]!
    out[at + i] = fround(cosine(angle)) * size
    out[at + frequencies.length + i] = fround(sine(angle)) * size
  }
}
