// What image processors say of red, green and blue.

import type { Fields } from "../fields.ts"

export const CLIP = {
  mean: [0.48145466, 0.4578275, 0.40821073],
  std: [0.26862954, 0.26130258, 0.27577711],
}
export const HALVES = { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] }

/** A number for each of red, green and blue. */
export type Colours = [number, number, number]

/** Beyond these what is computed of a byte need not be a number of 32 bits any more. */
const [LEAST, MOST] = [1e-9, 1e9]

export function triple(image: Fields, name: string, otherwise: readonly number[]): Colours {
  const values = image.has(name) ? image.numbers(name) : otherwise
  const [red, green, blue] = values
  const least = name === "image_std" ? LEAST : 0
  if (values.length !== 3 || values.some((value) => value < least || value > MOST))
    throw image.wrong(name, `is not three numbers, each between ${least} and ${MOST}`)
  return [red!, green!, blue!]
}

/** What a byte is multiplied with. */
export function rescaleOf(image: Fields): number {
  const factor = image.positive("rescale_factor", 1 / 255)
  if (factor >= LEAST && factor <= MOST) return factor
  throw image.wrong("rescale_factor", `is ${factor}, not between ${LEAST} and ${MOST}`)
}
