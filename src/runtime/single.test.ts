import { expect, test } from "vitest"
import { expSingle, logNearOne, logSingle, MAX_FLOAT, settled } from "./single.ts"

const bits = new Float32Array(1)
const word = new Uint32Array(bits.buffer)

/** `count` floats between those with the bits `from` and `to`. */
function* floats(from: number, to: number, count: number): Generator<number> {
  for (let i = 0; i < count; i++) {
    word[0] = from + Math.floor((i / count) * (to - from))
    yield bits[0]!
  }
}

test("e^x is within two units of the last place, and never above 1", () => {
  for (const x of floats(0x30000000, 0x42adffff, 100_000)) {
    const power = expSingle(-x)
    expect(Math.abs(power / Math.exp(-x) - 1)).toBeLessThan(2 ** -22)
    expect(power).toBeLessThanOrEqual(1)
    expect(Math.fround(power)).toBe(power)
  }
  expect([expSingle(0), expSingle(-0), expSingle(-87.1), expSingle(-MAX_FLOAT)]).toEqual([
    1, 1, 0, 0,
  ])
})

test("log is as close as a float can be, near 1 too", () => {
  for (const x of floats(0x00800000, 0x7f000000, 100_000)) {
    const exact = Math.log(x)
    expect(Math.abs(logSingle(x) - exact)).toBeLessThan(3e-7 * Math.max(1, Math.abs(exact)))
    expect(Math.fround(logSingle(x))).toBe(logSingle(x))
  }
  expect(logSingle(1)).toBe(0)
  for (const f of floats(0x2f800000, 0x3e95f619, 50_000)) {
    expect(Math.abs(logNearOne(-f) / Math.log1p(-f) - 1)).toBeLessThan(3e-7)
    expect(Math.abs(logNearOne(f) / Math.log1p(f) - 1)).toBeLessThan(3e-7)
  }
})

test("what lies next to zero settles on it, what lies beyond the largest on that", () => {
  expect(settled(2 ** -126)).toBe(2 ** -126)
  expect(settled(-(2 ** -126) * 0.75)).toBe(0)
  expect(settled(-0)).toBe(0)
  expect([settled(1e39), settled(-Infinity)]).toEqual([MAX_FLOAT, -MAX_FLOAT])
  expect(settled(0.1)).toBe(Math.fround(0.1))
})
