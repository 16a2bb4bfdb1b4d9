import { expect, test } from "vitest"
import { cosine, exp, log, sine } from "./elementary.ts"

/** Largest difference from the engine's own function, in relation to `size`. */
function worst(
  ours: (x: number) => number,
  theirs: (x: number) => number,
  from: number,
  to: number,
  size: (y: number) => number = Math.abs,
): number {
  let most = 0
  for (let i = 0; i <= 20_000; i++) {
    const x = from + ((to - from) * i) / 20_000
    most = Math.max(most, Math.abs(ours(x) - theirs(x)) / size(theirs(x)))
  }
  return most
}

test("exp agrees with the engine's", () => {
  expect(worst(exp, Math.exp, -700, 700)).toBeLessThan(3e-14)
  expect(worst(exp, Math.exp, -1, 1)).toBeLessThan(1e-14)
  expect([exp(0), exp(-0), exp(-709), exp(-1e300), exp(710)]).toEqual([1, 1, 0, 0, Infinity])
})

test("log agrees with the engine's, near 1 in relation to its own size", () => {
  expect(worst(log, Math.log, 1e-3, 1e6, () => 1)).toBeLessThan(4e-15)
  expect(
    worst(
      (d) => log(1 + d),
      (d) => Math.log(1 + d),
      2 ** -33,
      1e-6,
    ),
  ).toBeLessThan(1e-15)
  expect(
    worst(
      (d) => log(1 - d),
      (d) => Math.log(1 - d),
      2 ** -33,
      1e-6,
    ),
  ).toBeLessThan(1e-15)
  expect(log(1)).toBe(0)
})

test("cosine and sine agree with the engine's up to positions of a million", () => {
  const one = () => 1
  for (const [from, to] of [
    [0, 10],
    [1000, 1010],
    [1_000_000, 1_000_010],
  ] as const) {
    expect(worst(cosine, Math.cos, from, to, one)).toBeLessThan(1e-15)
    expect(worst(sine, Math.sin, from, to, one)).toBeLessThan(1e-15)
  }
})
