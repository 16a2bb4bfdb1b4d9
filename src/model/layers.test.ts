// How rows that are remembered are cut into heads.

import { expect, test } from "vitest"
import { headsFor } from "./layers.ts"

test.each([
  [1, 1], // a head of the one column
  [128, 1],
  [129, 3], // of 43
  [1024, 8],
  [1536, 12],
  [2 * 67, 2],
  [127 * 131, 131],
  [2 ** 53 - 111, 2 ** 53 - 111], // a prime, which only a file that lies has: nobody counts up to it
])("%i columns as %i heads", (columns, heads) => {
  expect(headsFor(columns)).toBe(heads)
})
