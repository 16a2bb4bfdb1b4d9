// In which order Python goes through a set of a few pairs of small numbers. Muse Glimmer's processor takes the first of the sizes whose proportions
// are equally near, as several squares are of a square, and has them in a set.
//
// Source: Objects/tupleobject.c and Objects/setobject.c of CPython, since 3.8 and on machines of 64 bits.

export type Pair = readonly [number, number]

const WORD = 64
const PRIMES = [11400714785074694791n, 14029467366897019727n, 2870177450012600261n] as const
const SLOTS = 8

/** @param pairs at most four: of more the table would have grown */
export function inSetOrder(pairs: readonly Pair[]): Pair[] {
  const slots = Array<Pair | undefined>(SLOTS).fill(undefined)
  const mask = BigInt(SLOTS - 1)
  for (const pair of pairs) {
    let perturb = hashOf(pair)
    let slot = perturb & mask
    for (;;) {
      const there = slots[Number(slot)]
      if (there && (there[0] !== pair[0] || there[1] !== pair[1])) {
        perturb >>= 5n
        slot = (5n * slot + 1n + perturb) & mask
        continue
      }
      slots[Number(slot)] = pair
      break
    }
  }
  return slots.filter((pair) => pair !== undefined)
}

/** xxHash of both, which are their own hashes. */
function hashOf(pair: Pair): bigint {
  const word = (value: bigint) => BigInt.asUintN(WORD, value)
  let sum: bigint = PRIMES[2]
  for (const each of pair) {
    const added = word(sum + BigInt(each) * PRIMES[1])
    sum = word(word((added << 31n) | (added >> 33n)) * PRIMES[0])
  }
  return word(sum + (BigInt(pair.length) ^ PRIMES[2] ^ 3527539n))
}
