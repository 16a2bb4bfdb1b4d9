// The fused multiply-add against exact arithmetic in whole numbers; the rest is judged by the cpu target's equal bits
// (test/model/int8.test.ts).

import { expect, test } from "vitest"
import { exp, fma, softplus } from "./arithmetic.ts"

const { fround } = Math
const UNIT = 300n // floats as whole numbers of 2^-300

function whole(x: number): bigint {
  let [n, shift] = [x, 0]
  while (!Number.isInteger(n)) [n, shift] = [n * 2, shift + 1]
  return BigInt(n) << (UNIT - BigInt(shift))
}

/** The float next to n * 2^-600, halves to even. */
function nearest(n: bigint): number {
  const size = n < 0n ? -n : n
  const length = size.toString(2).length
  const drop = BigInt(Math.max(length - 24, 600 - 149)) // what lies below a float's last place
  const [kept, left, half] = [size >> drop, size & ((1n << drop) - 1n), 1n << (drop - 1n)]
  const up = left > half || (left === half && kept % 2n === 1n)
  const magnitude = Number(kept + (up ? 1n : 0n)) * 2 ** Number(drop - 600n)
  return n < 0n ? -magnitude : magnitude
}

test("fma is rounded once", () => {
  let random = 7
  const any = (below: number) => {
    random = (Math.imul(random, 1103515245) + 12345) & 0x7fffffff
    return (random >> 8) % below
  }
  const float = (exponent: number) => fround((1 + any(1 << 23) / 2 ** 23) * 2 ** exponent)
  const check = (a: number, b: number, c: number) => {
    const exact = nearest(whole(a) * whole(b) + (whole(c) << UNIT))
    expect(fma(a, b, c)).toBe(exact)
    return fround(a * b + c) === exact
  }
  let twice = 0
  for (let i = 0; i < 5000; i++) {
    check(float(any(8)), -float(any(8)), float(any(30) - 15))
    check(float(-70), float(any(10) - 70), -float(any(10) - 142)) // below the normal numbers
    // A product close to half of c's last place, from above or below: close enough, rounding twice goes astray.
    const a = float(0)
    const sign = any(2) * 2 - 1
    if (!check(a, fround(sign * 2 ** -24) * fround(1 / a), float(0))) twice++
  }
  expect(twice).toBeGreaterThan(50)
})

test("e^x is within two units of the last place, 0 far below and 1 at 0", () => {
  for (let x = -86.9; x < 88; x += 0.0137) {
    const exact = Math.exp(fround(x))
    expect(Math.abs(exp(fround(x)) - exact) / exact).toBeLessThan(2 * 2 ** -23)
  }
  expect([exp(0), exp(-87.1), exp(Number.NEGATIVE_INFINITY)]).toEqual([1, 0, 0])
})

test("softplus is precise where it is next to nothing, too", () => {
  for (let x = -86.9; x < 30; x += 0.0137) {
    const exact = Math.log1p(Math.exp(fround(x)))
    expect(Math.abs(softplus(fround(x)) - exact) / exact, `${x}`).toBeLessThan(4e-7)
  }
  expect(softplus(-100)).toBe(0)
})
