// How far rotary embeddings turn the elements of a head at a position. Angles are doubles; what comes out are floats.

import { cosine, log, sine } from "./elementary.ts"

const { fround } = Math

/**
 * Element i of a head is turned with element i + n / 2 by position * frequencies[i], for the n / 2 frequencies there are, and
 * both are multiplied by `factor`, and by 1 + beta * ln(1 + floor((position + ahead) / original)) where they grow.
 */
export interface Rotation {
  frequencies: readonly number[]
  factor: number
  growth?: { beta: number; original: number; ahead: number }
}

/** A row of so many columns is not turned, but grows. */
export const growing = (columns: number, growth: Rotation["growth"] & object): Rotation => ({
  frequencies: Array.from({ length: columns / 2 }, () => 0),
  factor: 1,
  growth,
})

/** cos and sin of position * frequency, for each pair, times the factors of the rotation: from `at` on. */
export function writeTurns(
  position: number,
  { frequencies, factor, growth }: Rotation,
  out: Float32Array,
  at: number,
): void {
  const { beta, original, ahead } = growth ?? { beta: 0, original: 1, ahead: 0 }
  const grown = 1 + beta * log(1 + Math.floor((position + ahead) / original))
  const size = fround(factor * grown)
  for (let i = 0; i < frequencies.length; i++) {
    const angle = position * frequencies[i]!
    out[at + i] = fround(cosine(angle)) * size
    out[at + frequencies.length + i] = fround(sine(angle)) * size
  }
}
