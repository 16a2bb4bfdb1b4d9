// Shares of the normal distribution, by Python's statistics.NormalDist.

import { expect, test } from "vitest"
import { numberAbove, shareBelow } from "./normal.ts"

test.each([
  [0, 0.5],
  [1.6448536269514722, 0.95],
  [-0.3853204664075677, 0.35],
  [1, 0.8413447460685429],
  [-3, 0.0013498980316300933],
])("below %d lies %d", (number, share) => {
  expect(shareBelow(number)).toBeCloseTo(share, 14)
  expect(numberAbove(share)).toBeCloseTo(number, 12)
})

test("all of it lies below infinity, and nothing below minus that", () => {
  expect([Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY].map(shareBelow)).toEqual([0, 1])
})
