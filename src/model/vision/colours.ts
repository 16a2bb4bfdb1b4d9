// What image processors say of red, green and blue.

import type { Fields } from "../fields.ts"

export const CLIP = {
  mean: [0.48145466, 0.4578275, 0.40821073],
  std: [0.26862954, 0.26130258, 0.27577711],
}
export const HALVES = { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] }

/** A number for each of red, green and blue. */
export type Colours = [number, number, number]

export function triple(image: Fields, name: string, otherwise: readonly number[]): Colours {
  const values = image.has(name) ? image.numbers(name) : otherwise
  const [red, green, blue] = values
  if (values.length !== 3 || (name === "image_std" && values.includes(0)))
    throw image.wrong(name, "is not three numbers, none of which may be 0 in image_std")
  return [red!, green!, blue!]
}
