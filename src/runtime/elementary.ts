// exp, log, cosine and sine of our own, in double precision. A library's differ between versions and processors, and what
// a model computes must not. Only + - * / and work on the bits, in the order written, never fused: the same code in C gives the
// same bits (docs/determinism.md). They assume a little-endian machine, as all of the weight formats do.

const double = new Float64Array(1)
const words = new Int32Array(double.buffer) // low, high

const LN2_HIGH = 0.6931471803691238 // the first 33 bits, so that small multiples are exact
const LN2_LOW = 1.9082149292705877e-10

/** e^x to about 1e-15; exactly 1 at 0, 0 below -708, infinite above 709. */
export function exp(x: number): number {
  if (x < -708) return 0
  if (x > 709) return Number.POSITIVE_INFINITY
  // x = n ln 2 + r, |r| <= ln 2 / 2, and e^r by its Taylor polynomial: the first term left out is r^12 / 12! < 7e-15.
  const n = Math.floor(x * Math.LOG2E + 0.5)
  const r = x - n * LN2_HIGH - n * LN2_LOW
  let p = 1 / 39916800
  p = p * r + 1 / 3628800
  p = p * r + 1 / 362880
  p = p * r + 1 / 40320
  p = p * r + 1 / 5040
  p = p * r + 1 / 720
  p = p * r + 1 / 120
  p = p * r + 1 / 24
  p = p * r + 1 / 6
  p = p * r + 0.5
  p = p * r + 1
  p = p * r + 1
  words[0] = 0
  words[1] = (n + 1023) << 20
  return p * double[0]!
}

/** The natural logarithm of a positive normal number, to about 1e-16 of its size, near 1 too. */
export function log(x: number): number {
  double[0] = x
  let exponent = (words[1]! >> 20) - 1023
  words[1] = (words[1]! & 0xfffff) | 0x3ff00000
  let m = double[0]
  if (m > Math.SQRT2) {
    m *= 0.5
    exponent += 1
  }
  // log m = 2 atanh(s) = 2 (s + s^3 / 3 + …), |s| <= 0.1716: the first term left out is s^21 / 21 < 5e-18.
  const s = (m - 1) / (m + 1)
  const z = s * s
  let p = 1 / 19
  p = p * z + 1 / 17
  p = p * z + 1 / 15
  p = p * z + 1 / 13
  p = p * z + 1 / 11
  p = p * z + 1 / 9
  p = p * z + 1 / 7
  p = p * z + 1 / 5
  p = p * z + 1 / 3
  p = p * z + 1
  return exponent * LN2_HIGH + (2 * s * p + exponent * LN2_LOW)
}

const QUARTER_HIGH = 1.5707963267341256 // π / 2 in three parts of 33 bits and the rest
const QUARTER_MIDDLE = 6.077100506303966e-11
const QUARTER_LOW = 2.0222662487959506e-21

/** To about 1e-15, for angles from 0 to 2^20 radians: positions of rotary embeddings. */
export function cosine(angle: number): number {
  return turned(angle, 1)
}

export function sine(angle: number): number {
  return turned(angle, 0)
}

/** sin(angle + shift quarter turns) */
function turned(angle: number, shift: number): number {
  const n = Math.floor(angle * (2 / Math.PI) + 0.5)
  const r = angle - n * QUARTER_HIGH - n * QUARTER_MIDDLE - n * QUARTER_LOW
  const quarter = (n + shift) & 3
  const value = quarter & 1 ? cosineNearZero(r) : sineNearZero(r)
  return quarter & 2 ? -value : value
}

/** Taylor on |r| <= π / 4: the first term left out is r^17 / 17! < 5e-17. */
function sineNearZero(r: number): number {
  const z = r * r
  let p = -1 / 1307674368000
  p = p * z + 1 / 6227020800
  p = p * z - 1 / 39916800
  p = p * z + 1 / 362880
  p = p * z - 1 / 5040
  p = p * z + 1 / 120
  p = p * z - 1 / 6
  return r + r * z * p
}

/** Likewise: r^18 / 18! < 3e-18. */
function cosineNearZero(r: number): number {
  const z = r * r
  let p = 1 / 20922789888000
  p = p * z - 1 / 87178291200
  p = p * z + 1 / 479001600
  p = p * z - 1 / 3628800
  p = p * z + 1 / 40320
  p = p * z - 1 / 720
  p = p * z + 1 / 24
  p = p * z - 0.5
  return p * z + 1
}
