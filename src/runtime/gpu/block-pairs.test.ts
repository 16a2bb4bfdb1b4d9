import { expect, test } from "vitest"
import { mulberry32 } from "../../../test/random.ts"
import { independentPairs } from "./block-pairs.ts"

test("one block may be copied to many at once", () => {
  expect(independentPairs([3, 3, 5], [1, 2, 4])).toEqual([{ first: 0, end: 3 }])
  expect(independentPairs([], [])).toEqual([])
})

test.each([
  ["is read after it was written", [1, 2], [2, 3]],
  ["is written again", [1, 2], [3, 3]],
  ["is written after it was read", [1, 4], [2, 1]],
])("a list is cut where a block %s", (_, from, to) => {
  expect(independentPairs(from, to)).toEqual([
    { first: 0, end: 1 },
    { first: 1, end: 2 },
  ])
})

test("any list has the same outcome, whatever the order within its pieces", () => {
  const next = mulberry32(3)
  let cut = 0
  for (let round = 0; round < 300; round++) {
    const pairs = Array.from({ length: next() % 9 }, () => [next() % 12, next() % 12] as const)
    const [from, to] = [pairs.map(([a]) => a), pairs.map(([, b]) => b)]
    const inOrder = Array.from({ length: 12 }, (_, block) => block)
    for (const [a, b] of pairs) inOrder[b] = inOrder[a]!

    const pieces = independentPairs(from, to)
    if (pieces.length > 1) cut++
    const blocks = Array.from({ length: 12 }, (_, block) => block)
    for (const { first, end } of pieces) {
      // Backwards, and all is written before anything is read again; a pair of one block with itself changes nothing.
      for (let pair = end - 1; pair >= first; pair--) blocks[to[pair]!] = blocks[from[pair]!]!
    }
    expect(blocks).toEqual(inOrder)
    expect(pieces.flatMap(({ first, end }) => pairs.slice(first, end))).toEqual(pairs)
  }
  expect(cut).toBeGreaterThan(100)
})
