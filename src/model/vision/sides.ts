// Sides of squares, as configurations say them.

import type { Fields } from "../fields.ts"

/** One number, or as many as there are sides. @param most of pixels, or of what else it counts */
export function oneSide(
  fields: Fields,
  name: string,
  { otherwise, most }: { otherwise?: number; most: number },
): number {
  if (!Array.isArray(fields.json[name])) return fields.count(name, otherwise, 1, most)
  const [first, ...others] = fields.counts(name)
  if (!first || first > most || others.some((other) => other !== first))
    throw fields.wrong(name, `is [${fields.counts(name).join(", ")}]; only squares are known`)
  return first
}

const MAX_PLACES = 1 << 16

/** Of the square that so many lie in. */
export function squareSide(fields: Fields, name: string, otherwise?: number): number {
  const count = fields.count(name, otherwise, 1, MAX_PLACES)
  if (Number.isInteger(Math.sqrt(count))) return Math.sqrt(count)
  throw fields.wrong(name, `is ${count}, which is no square`)
}

/** Of the square of places that positions are learned for, in an image of so many whole patches. */
export function placesASide(vision: Fields, patch: number): number {
  const places = Math.floor(oneSide(vision, "image_size", { most: 1 << 18 }) / patch)
  if (places >= 1 && places <= MAX_SIDE) return places
  throw vision.wrong("image_size", `makes ${places} places a side; 1 to ${MAX_SIDE} are known`)
}

const MAX_SIDE = 256
