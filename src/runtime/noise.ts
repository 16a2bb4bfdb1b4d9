// The randomness of sampling, as a function: the noise of a token depends on (seed, choice, position, token) and on nothing
// else, so it is the same alone or in a batch, today or after a restart, and may be computed in any order or left out.
//
// Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): additions, rotations
// and exclusive ors of 32-bit words, which JavaScript, C and vector units all compute exactly and fast.

import { logNearOne, logSingle } from "./single.ts"

/** A row's key: Threefry of (choice, position) under the seed. */
export interface NoiseKey {
  low: number
  high: number
}

export function noiseKey(seed: bigint, choice: number, position: number): NoiseKey {
  const low = Number(seed & 0xffffffffn)
  const high = Number((seed >> 32n) & 0xffffffffn)
  return { low: threefry(low, high, choice, position), high: second }
}

/** Above it no noise lies: -log(-log(1 - 2^-33)) = 22.87… */
export const MAX_NOISE = 23

/**
 * Standard Gumbel noise, a float: -log(-log(u)), u = (r + 1/2) / 2^32, r the first word of Threefry of (token, 0) under the key.
 */
export function gumbel(key: NoiseKey, token: number): number {
  const r = threefry(key.low, key.high, token, 0) >>> 0
  // Near 1 the logarithm is taken of the distance from 1: u itself would lose most of its bits.
  const log = r < SQRT_HALF ? logSingle(middle(r)) : logNearOne(-middle(4294967295 - r))
  return -logSingle(-log)
}

const SQRT_HALF = 0xb504f333 // of 2^32

/** (r + 1/2) / 2^32 */
function middle(r: number): number {
  return Math.fround(Math.fround(r) + 0.5) / 4294967296
}

let second = 0

/**
 * The first word of the result; `second` holds the other. Words are 32-bit integers, signed or not. Twenty rounds of
 * a += b, b = rotate(b) ^ a; after every fourth two words of the key and the number of the injection are added.
 */
function threefry(key0: number, key1: number, counter0: number, counter1: number): number {
  const key2 = key0 ^ key1 ^ 0x1bd11bda
  let a = (counter0 + key0) | 0
  let b = (counter1 + key1) | 0
  let next = key1 // the key's words in turn: 0 1 2 0 1 2 …
  let afterNext = key2
  let then = key0
  for (let injection = 1; injection <= 5; injection++) {
    const odd = injection & 1
    a = (a + b) | 0
    b = (odd ? (b << 13) | (b >>> 19) : (b << 17) | (b >>> 15)) ^ a
    a = (a + b) | 0
    b = (odd ? (b << 15) | (b >>> 17) : (b << 29) | (b >>> 3)) ^ a
    a = (a + b) | 0
    b = (odd ? (b << 26) | (b >>> 6) : (b << 16) | (b >>> 16)) ^ a
    a = (a + b) | 0
    b = (odd ? (b << 6) | (b >>> 26) : (b << 24) | (b >>> 8)) ^ a
    a = (a + next) | 0
    b = (b + afterNext + injection) | 0
    const first = next
    next = afterNext
    afterNext = then
    then = first
  }
  second = b
  return a
}
