import { describe, expect, test } from "vitest"
import { batch, type Part } from "../../test/model/steps.ts"
import { mulberry32 } from "../../test/random.ts"
import { ITEM, StepRows, type Visible } from "./step-rows.ts"

const limits = { tokens: 600, blocks: [20] }

function taken(parts: readonly Part[], sinks = 0): StepRows {
  const rows = new StepRows(limits, sinks)
  rows.take(batch([{ tokens: [9, 9, 9], from: 0, blocks: [7], logits: [1], hidden: [0] }])) // another step before
  rows.take(batch(parts))
  return rows
}

/** What each row sees, found by asking the rules of every position. */
function seenBy(parts: readonly Part[], { window, chunked, sinks }: Visible): Set<number>[] {
  return parts.flatMap(({ tokens, from, visibleFrom = 0 }) =>
    Array.from(tokens, (_, i) => {
      const position = from + i
      const isNear = (p: number) =>
        window === undefined ||
        (chunked ? Math.floor(p / window) === Math.floor(position / window) : p > position - window)
      const sees = (p: number) => p < sinks || (p >= visibleFrom && isNear(p))
      return new Set([...Array(position + 1).keys()].filter(sees))
    }),
  )
}

/**
 * `create_masks_for_vision_model` of transformers 5.24 (Gemma 3), of a window of 4 and an image at positions 2 to 9: from within it
 * all of it is seen that is ahead, and behind no more than by any token.
 */
test("an image that is longer than a window is seen to its end, and back as far as the window", () => {
  const seen = [
    "1...........",
    "11..........",
    "1111111111..",
    "1111111111..",
    ".111111111..",
    "..11111111..",
    "...1111111..",
    "....111111..",
    ".....11111..",
    "......1111..",
    ".......1111.",
    "........1111",
  ]
  const tokens = Array<number>(seen.length).fill(9)
  const rows = new StepRows(limits, 0)
  const seenTo = Int32Array.from(tokens, (_, at) => (at >= 2 && at <= 9 ? 9 : at))
  rows.take({ ...batch([{ tokens, from: 0, blocks: [7] }]), seenTo })
  const visible = { group: 0, window: 4, mutual: true } as const
  for (const [token, row] of seen.entries()) {
    expect(rows.firstSeen(token, visible)).toBe(row.indexOf("1"))
    expect(rows.lastSeen(token, visible)).toBe(row.lastIndexOf("1"))
  }
})

test("rows stand for tokens: all, the wanted in order and once, logits and hidden as asked", () => {
  const rows = taken([
    { tokens: [1, 2, 3], from: 40, blocks: [5, 6, 7], logits: [2, 0, 2], hidden: [1] },
    { tokens: [4, 5], from: 0, blocks: [9], logits: [], hidden: [1, 0] },
  ])
  expect([...rows.tokensOf("tokens")]).toEqual([0, 1, 2, 3, 4])
  expect([...rows.tokensOf("wanted")]).toEqual([0, 1, 2, 3, 4])
  expect([...rows.tokensOf("logits")]).toEqual([2, 0, 2])
  expect([...rows.tokensOf("hidden")]).toEqual([1, 4, 3])
  const fewer = taken([{ tokens: [1, 2, 3, 4], from: 0, blocks: [5], logits: [3], hidden: [1] }])
  expect([...fewer.tokensOf("wanted")]).toEqual([1, 3])
  expect([...fewer.rowsIn("wanted")]).toEqual([-1, 0, -1, 1])
  expect([...fewer.rowsIn("tokens")]).toEqual([0, 1, 2, 3])
})

test("keys and values lie where the block lists say, with blocks given back between sinks and the rest", () => {
  const rows = taken(
    [
      { tokens: [1, 2], from: 31, blocks: [8, 3, 6] },
      { tokens: [1, 2], from: 99, blocks: [10, 15, 16], visibleFrom: 80 },
    ],
    3,
  )
  expect([...rows.slotsIn(0)]).toEqual([3 * 16 + 15, 6 * 16, 16 * 16 + 3, 16 * 16 + 4])
  expect([...rows.sequences]).toEqual([0, 0, 1, 1])
  expect(rows.slotOf(0, 1, 2)).toBe(10 * 16 + 2)
  expect(rows.slotOf(0, 1, 80)).toBe(15 * 16)
})

describe("attention's items", () => {
  const next = mulberry32(8)
  const visibles: Visible[] = [
    { group: 0, window: undefined, sinks: 0, span: undefined },
    { group: 0, window: 40, sinks: 0, span: undefined },
    { group: 0, window: undefined, sinks: 5, span: 64 },
    { group: 0, window: 70, sinks: 70, span: 64 },
    { group: 0, window: 70, sinks: 65, span: 64 },
    { group: 0, window: 300, sinks: 3, span: 128 },
    { group: 0, window: 3, sinks: 0, span: 64 },
    { group: 0, window: 40, chunked: true, sinks: 0, span: undefined },
    { group: 0, window: 24, chunked: true, sinks: 2, span: 64 },
  ]

  test.each(visibles)("window $window, chunked $chunked, sinks $sinks, span $span", (visible) => {
    for (let round = 0; round < 40; round++) {
      const parts = Array.from({ length: 1 + (next() % 4) }, (): Part => {
        const from = next() % 500
        const visibleFrom = visible.window ? Math.max(0, from - visible.window + 1) : 0
        const tokens = new Int32Array(1 + (next() % 12))
        return { tokens, from, visibleFrom, blocks: Array<number>(40).fill(1) }
      })
      const sees = seenBy(parts, visible)
      const rows = taken(parts, visible.sinks)
      const tokens = rows.tokensOf("tokens")
      const found = sees.map(() => new Set<number>())
      let before: number[] = [-1, 0, 0, 0]
      const items = rows.attentionItems("tokens", 5, visible)
      for (let at = 0; at < items.length; at += ITEM) {
        const item = [...items.subarray(at, at + ITEM)]
        const [row, count, sequence, span] = item as [number, number, number, number]
        expect(count).toBeLessThanOrEqual(5)
        // Rows in order without gaps, and spans ascending within the same rows.
        if (row === before[0]) expect(span).toBeGreaterThan(before[3]!)
        else expect(row).toBe(before[0] === -1 ? 0 : before[0]! + before[1]!)
        before = item
        for (let r = row; r < row + count; r++) {
          expect(rows.sequences[tokens[r]!]).toBe(sequence)
          for (const p of sees[r]!)
            if (visible.span === undefined || Math.floor(p / visible.span) === span)
              found[r]!.add(p)
        }
        const anySees = sees
          .slice(row, row + count)
          .some((seen) =>
            [...seen].some((p) => !visible.span || Math.floor(p / visible.span) === span),
          )
        expect(anySees).toBe(true) // of all tokens the rows follow one another, so no item is for nothing
      }
      expect(before[0]! + before[1]!).toBe(tokens.length)
      expect(found).toEqual(sees)
    }
  })

  test("of wanted rows are those of fewer tokens", () => {
    const tokens = new Int32Array(130)
    const rows = taken([{ tokens, from: 0, blocks: Array<number>(9).fill(1), logits: [3, 129] }])
    const items = rows.attentionItems("wanted", 4, {
      group: 0,
      window: undefined,
      sinks: 0,
      span: 64,
    })
    expect([...items]).toEqual([0, 2, 0, 0, 0, 2, 0, 1, 0, 2, 0, 2])
  })
})
