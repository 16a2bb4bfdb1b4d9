// Numbers that look random and can be drawn again: what a test or a benchmark made up, its seed makes up once more.

import { mulberry32 } from "../src/compiler/targets/gpu/check-random.ts"

export { mulberry32 }

/** From 0 up to, but not including, 1. */
export function uniform(seed: number): () => number {
  const next = mulberry32(seed)
  return () => next() / 2 ** 32
}

/** The seed of a name. */
export function seedOf(name: string): number {
  let seed = 1
  for (const c of name) seed = (Math.imul(seed, 31) + c.codePointAt(0)!) | 0
  return seed
}
