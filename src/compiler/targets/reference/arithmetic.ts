// Single precision as the compiled targets compute it: every operation rounded to float where theirs is, the same
// polynomial for e^x, and the orders in which they add. This file is the one place in TypeScript that says so
// (docs/determinism.md says it in words), and it is why the reference can be compared with them bit by bit: activations are
// rounded to 8 bits, and a sum that differs in its last bit now and then puts one of them on the other side of a step.
//
// Numbers that go in and come out are floats, held in JavaScript's doubles.

import { logNearOne, logSingle } from "../../../runtime/single.ts"

const { fround } = Math

/** a * b + c, rounded once. Infinite where the sum is beyond the largest float. */
export function fma(a: number, b: number, c: number): number {
  const product = a * b // exact: 24 + 24 bits fit into 53
  const sum = product + c
  const rounded = fround(sum)
  const rest = sum - rounded
  // `sum` is rounded already, so this is its second rounding. That matters only where it came to lie exactly halfway between
  // two floats: then `rounded` is one of them and `across` the other.
  const across = sum + rest
  return fround(across) === across && rest !== 0
    ? nearer(product, c, sum, rounded, across)
    : rounded
}

/** Of the two floats that `sum` lies between, the one nearer to product + c. */
function nearer(product: number, c: number, sum: number, even: number, odd: number): number {
  if (!Number.isFinite(even)) return even
  // What the first rounding left out, exactly (Knuth, The Art of Computer Programming 2, 4.2.2, theorem B).
  const part = sum - product
  const left = product - (sum - part) + (c - part)
  if (left === 0) return even
  return left > 0 ? Math.max(even, odd) : Math.min(even, odd)
}

const LANES = 16

/** The sum of sixteen lanes: lane i takes i + 8, then i + 4, i + 2, i + 1. Overwrites them. */
export function total(lanes: Float32Array): number {
  for (let half = LANES / 2; half >= 1; half /= 2)
    for (let i = 0; i < half; i++) lanes[i]! += lanes[i + half]!
  return lanes[0]!
}

const parts = new Float32Array(4 * LANES)

/** The sum of squares of `count` floats. */
export function sumOfSquares(data: Float32Array, from: number, count: number): number {
  return sumLanes(count, (i, before) => fma(data[from + i]!, data[from + i]!, before))
}

/** The sum of `count` floats. */
export function sumOf(data: Float32Array, from: number, count: number): number {
  return sumLanes(count, (i, before) => before + data[from + i]!)
}

/** Sums in four vectors of lanes, which take turns as long as all four are full; what is left goes to the first. */
function sumLanes(count: number, add: (i: number, before: number) => number): number {
  const full = count - (count % parts.length)
  parts.fill(0)
  for (let i = 0; i < count; i++) {
    const lane = i % (i < full ? parts.length : LANES)
    parts[lane] = add(i, parts[lane]!)
  }
  const [a, b, c, d] = [0, 1, 2, 3].map((j) => parts.subarray(j * LANES, (j + 1) * LANES))
  for (let i = 0; i < LANES; i++) a![i] = fround(a![i]! + b![i]!) + fround(c![i]! + d![i]!)
  return total(a!)
}

const single = new Float32Array(1)
const bits = new Int32Array(single.buffer)
const MAGIC = 12582912 // 1.5 * 2^23: adding it rounds to an integer, halves to even
const LOG2_E = fround(Math.LOG2E)
const LN2_HIGH = fround(-0.693359375)
const LN2_LOW = fround(2.1219444e-4)

/** e^x within two units of the last place; exactly 0 below -87 and for NaN, which then shows in the sum. */
export function exp(x: number): number {
  if (!(x >= -87)) return 0
  const bounded = x < 88 ? x : 88
  // x = n ln 2 + r, and e^r by its Taylor polynomial.
  const n = fround(fma(bounded, LOG2_E, MAGIC) - MAGIC)
  const r = fma(n, LN2_LOW, fma(n, LN2_HIGH, bounded))
  let p = fma(r, fround(1 / 720), fround(1 / 120))
  p = fma(p, r, fround(1 / 24))
  p = fma(p, r, fround(1 / 6))
  p = fma(p, r, 0.5)
  p = fma(p, r, 1)
  p = fma(p, r, 1)
  single[0] = p
  bits[0]! += n << 23
  return single[0]
}

/** x * sigmoid(x) */
export function silu(x: number): number {
  return fround(x / fround(1 + exp(0 - x)))
}

// erf by its approximation 7.1.26 of Abramowitz and Stegun, Handbook of Mathematical Functions: off by 1.5e-7 at most.
const ERF_P = fround(0.3275911 * Math.SQRT1_2)
const ERF = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592].map((a) =>
  fround(a / 2),
)

/** x * (1 + erf(x / sqrt(2))) / 2 */
export function gelu(x: number): number {
  const size = Math.abs(x)
  const t = fround(1 / fma(size, ERF_P, 1))
  let p = ERF[0]!
  for (const a of ERF.slice(1)) p = fma(p, t, a)
  const tail = fround(fround(p * t) * exp(fround(fround(x * x) * -0.5)))
  return fround(larger(x, 0) - fround(size * tail))
}

const TANH_1 = fround(2 * Math.sqrt(2 / Math.PI))
const TANH_3 = fround(2 * Math.sqrt(2 / Math.PI) * 0.044715)

/** x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))), which is x * sigmoid of twice that */
export function geluTanh(x: number): number {
  const z = fround(x * fma(fround(x * x), TANH_3, TANH_1))
  return fround(x / fround(1 + exp(0 - z)))
}

/** x * sigmoid(1.702 x) */
export function quickGelu(x: number): number {
  return fround(x / fround(1 + exp(0 - fround(x * fround(1.702)))))
}

/** max(0, x)^2. Here and below x * 0 is added, which shows what is no number. */
export function relu2(x: number): number {
  const y = larger(x, 0)
  return fma(y, y, x * 0)
}

/** What x is more than `by`, else 0. */
export function above(x: number, by: number): number {
  return fround(larger(fround(x - fround(by)), 0) + x * 0)
}

/** x, but not beyond `by` on either side. */
export function clip(x: number, by: number): number {
  const most = fround(by)
  return Math.max(-most, Math.min(x, most)) + x * 0
}

/** e^x - 1 - x of what is below zero, else 0. */
export function expGap(x: number): number {
  const below = fround(x - larger(x, 0))
  return fround(fround(exp(below) - 1) - below)
}

/** e^x; what is no number shows. */
export function exponential(x: number): number {
  return fround(exp(x) + x * 0)
}

export function sigmoid(x: number): number {
  return fround(fround(1 / fround(1 + exp(0 - x))) + x * 0)
}

/** log(1 + e^x), to 4e-7 of its size however small that is; 0 below -87. */
export function softplus(x: number): number {
  if (x > 20) return x
  const power = exp(x)
  return power < fround(0.4) ? logNearOne(power) : logSingle(fround(1 + power))
}

/** by * tanh(x / by) */
export function cap(x: number, by: number): number {
  const bound = fround(by)
  const tanh = fround(1 - fround(2 / fround(exp(fround(x * fround(2 / bound))) + 1)))
  return fma(tanh, bound, x * 0)
}

/** 1 / sqrt(x + by); what is no number shows. */
export function inverseRoot(x: number, by: number): number {
  return fround(fround(1 / fround(Math.sqrt(fround(x + fround(by))))) + x * 0)
}

export function scale(x: number, by: number): number {
  return fround(x * fround(by))
}

/** As a vector's maximum: the second where the first is no number. */
const larger = (a: number, b: number) => (a > b ? a : b)
