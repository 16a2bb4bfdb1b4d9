import { expect, test } from "vitest"
import golden from "../../test/golden/noise/golden.json" with { type: "json" }
import { gumbel, MAX_NOISE, noiseKey } from "./noise.ts"

test("threefry gives the words that its authors published", () => {
  // kat_vectors of Random123: threefry2x32, 20 rounds; the seed is the key, choice and position the counter.
  const words = (seed: bigint, choice: number, position: number) => {
    const { low, high } = noiseKey(seed, choice, position)
    return [low >>> 0, high >>> 0]
  }
  expect(words(0n, 0, 0)).toEqual([0x6b200159, 0x99ba4efe])
  expect(words(0xffffffffffffffffn, -1, -1)).toEqual([0x1cb996fc, 0xbb002be7])
  expect(words(0x0370734413198a2en, 0x243f6a88, 0x85a308d3)).toEqual([0xc4923a9c, 0x483df7a0])
})

test.each(golden.cases)("the noise of token $token is what Python computes", (told) => {
  const key = noiseKey(BigInt(golden.seed), golden.choice, golden.position)
  expect(gumbel(key, told.token)).toBeCloseTo(told.noise, 4)
})

test("the noise is Gumbel's: mean, variance and tail", () => {
  const drawn: number[] = []
  for (let position = 0; position < 40; position++)
    for (let token = 0; token < 5000; token++) drawn.push(gumbel(noiseKey(7n, 0, position), token))
  const mean = drawn.reduce((a, b) => a + b) / drawn.length
  const variance = drawn.reduce((a, b) => a + (b - mean) ** 2, 0) / drawn.length
  expect(mean).toBeCloseTo(0.5772, 1.9)
  expect(variance).toBeCloseTo(Math.PI ** 2 / 6, 1.5)
  // P(noise > 5) = 1 - exp(-exp(-5)) = 0.00671
  expect(drawn.filter((g) => g > 5).length / drawn.length).toBeCloseTo(0.00671, 3)
  expect(Math.max(...drawn.slice(0, 50_000))).toBeLessThan(MAX_NOISE)
})

test("seed, choice, position and token each change it", () => {
  const base = gumbel(noiseKey(1n, 0, 5), 9)
  expect(gumbel(noiseKey(1n, 0, 5), 9)).toBe(base)
  const others = [
    gumbel(noiseKey(2n, 0, 5), 9),
    gumbel(noiseKey(1n << 32n, 0, 5), 9),
    gumbel(noiseKey(1n, 1, 5), 9),
    gumbel(noiseKey(1n, 0, 6), 9),
    gumbel(noiseKey(1n, 0, 5), 10),
  ]
  expect(new Set([base, ...others]).size).toBe(6)
})
