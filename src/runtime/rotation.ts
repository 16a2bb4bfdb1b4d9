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
  /** Which of the token's coordinates turns each pair, if not its position does. Nothing grows then. */
  axes?: readonly Axis[]
}

/** Of a token's coordinates, `StepInput.coordinates`: time, height, width; or, whatever these are, its position. */
export type Axis = 0 | 1 | 2 | typeof POSITION
export const AXES = 3
export const POSITION = 3

/** What names a row of a table, beside a token and its position. */
export type Coordinate = "time" | "height" | "width"
export const axisOf = { time: 0, height: 1, width: 2 } as const satisfies Record<Coordinate, Axis>

/** Of a token of a step: `coordinates` [3, total] has all times first, then all heights, then all widths. */
export function coordinatesOf(coordinates: Int32Array, token: number): number[] {
  const total = coordinates.length / AXES
  return Array.from({ length: AXES }, (_, axis) => coordinates[axis * total + token]!)
}

/** One of them of all tokens of a step; their positions where they have none. */
export function coordinatesAlong(
  axis: Exclude<Axis, typeof POSITION>,
  { coordinates, positions }: { coordinates?: Int32Array; positions: Int32Array },
): Int32Array {
  const total = positions.length
  return coordinates?.subarray(axis * total, (axis + 1) * total) ?? positions
}

/** A row of so many columns is not turned, but grows. */
export const growing = (columns: number, growth: Rotation["growth"] & object): Rotation => ({
  frequencies: Array.from({ length: columns / 2 }, () => 0),
  factor: 1,
  growth,
})

/**
 * cos and sin of position * frequency, for each pair, times the factors of the rotation: from `at` on.
 * @param coordinates what turns the pairs of a rotation with axes; absent: the position
 */
export function writeTurns(
  position: number,
  { frequencies, factor, growth, axes }: Rotation,
  out: Float32Array,
  at: number,
  coordinates?: readonly number[],
): void {
  const { beta, original, ahead } = growth ?? { beta: 0, original: 1, ahead: 0 }
  const grown = 1 + beta * log(1 + Math.floor((position + ahead) / original))
  const size = fround(factor * grown)
  for (let i = 0; i < frequencies.length; i++) {
    const axis = axes?.[i] ?? POSITION
    const turned = coordinates && axis !== POSITION ? coordinates[axis]! : position
    const angle = turned * frequencies[i]!
    out[at + i] = fround(cosine(angle)) * size
    out[at + frequencies.length + i] = fround(sine(angle)) * size
  }
}
