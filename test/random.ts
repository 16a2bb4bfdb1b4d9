// Numbers that look random and can be drawn again: what a test or a benchmark made up, its seed makes up once more.

/** Mulberry32: whole numbers below 2^32. */
export function mulberry32(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return (mixed ^ (mixed >>> 14)) >>> 0
  }
}

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
