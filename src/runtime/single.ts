// The numbers that sampling is made of: single precision, each operation rounded by itself (to nearest, never fused), and
// nothing but + - * and work on the bits. A processor's vectors, a GPU without doubles and this file compute the same bits.
// Devices disagree on numbers next to zero and beyond the largest; `settled` keeps both out.

const round = Math.fround
const float = new Float32Array(1)
const bits = new Int32Array(float.buffer)

export const MAX_FLOAT = 3.4028234663852886e38
const MIN_NORMAL = 2 ** -126

/** `x` as a float: 0 for what is smaller than a normal float, the largest float for what lies beyond it. */
export function settled(x: number): number {
  const rounded = round(x)
  if (Math.abs(rounded) < MIN_NORMAL) return 0
  return Math.min(Math.max(rounded, -MAX_FLOAT), MAX_FLOAT)
}

const LOG2E = round(Math.LOG2E)
const LN2_HIGH = 0.693359375 // few bits, so that multiples by an exponent are exact
const LN2_LOW = round(-2.1219444005469057e-4)
const TO_INTEGER = 12582912 // 1.5 * 2^23: adding it rounds to an integer, halves to even

/** e^x for x <= 0, within 2 units of the last place; exactly 1 at 0, 0 below -87. */
export function expSingle(x: number): number {
  if (x < -87) return 0
  // x = n ln 2 + r, |r| <= ln 2 / 2, and e^r by its Taylor polynomial: the first term left out is r^8 / 8! < 6e-9.
  float[0] = round(x * LOG2E) + TO_INTEGER
  const shift = bits[0]! << 23 // n lies in the low bits
  const n = float[0] - TO_INTEGER
  const r = round(round(x - n * LN2_HIGH) - round(n * LN2_LOW))
  let p = round(1 / 5040)
  p = round(round(p * r) + round(1 / 720))
  p = round(round(p * r) + round(1 / 120))
  p = round(round(p * r) + round(1 / 24))
  p = round(round(p * r) + round(1 / 6))
  p = round(round(p * r) + 0.5)
  p = round(round(p * r) + 1)
  float[0] = round(p * r) + 1
  bits[0]! += shift
  return float[0]
}

/** The natural logarithm of a positive normal float, within 3e-7 of its size and of 1. */
export function logSingle(x: number): number {
  float[0] = x
  const n = (bits[0]! - SQRT_HALF_BITS) >> 23
  bits[0]! -= n << 23 // x = 2^n m, m from sqrt(1/2) to sqrt(2)
  return round(round(n * LN2_HIGH) + round(logNearOne(float[0] - 1) + round(n * LN2_LOW)))
}

const SQRT_HALF_BITS = 0x3f3504f3

// (log(1 + f) - f + f^2 / 2) / f^3 by the polynomial that meets it in the eight Chebyshev points of the interval.
const THIRD = [
  -0.0790274367, 0.126223192, -0.129981831, 0.142144963, -0.166412815, 0.200010449, -0.25000307,
  0.333333313,
].map(round)

/** log(1 + f) for f from sqrt(1/2) - 1 to sqrt(2) - 1, to 1e-7 of its size. */
export function logNearOne(f: number): number {
  const square = round(f * f)
  let p = THIRD[0]!
  for (let i = 1; i < THIRD.length; i++) p = round(round(p * f) + THIRD[i]!)
  return round(f + round(round(round(f * square) * p) - round(0.5 * square)))
}
