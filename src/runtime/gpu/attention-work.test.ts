import { describe, expect, test } from "vitest"
import { batch, blocksFor, type Part } from "../../../test/model/steps.ts"
import { mulberry32 } from "../../../test/random.ts"
import { ITEM, StepRows } from "../step-rows.ts"
import {
  type AttentionOrder,
  AttentionWork,
  NO_ITEM,
  WORK,
  type WorkCount,
  work,
} from "./attention-work.ts"

const limits = { tokens: 600, blocks: [64] }
const order: AttentionOrder = {
  set: "tokens",
  visible: { group: 0, window: undefined, sinks: 0, span: 64 },
  height: 4,
  slots: 48,
}

type Item = Record<keyof typeof work, number>

/** The items of a step in their chunks, each as its numbers by name. */
function laidOut(given: AttentionOrder, parts: readonly Part[], sinks = 0) {
  const rows = new StepRows(limits, sinks)
  const input = batch(parts)
  rows.take(input)
  const laid = new AttentionWork(given, sinks)
  laid.take(rows, input)
  const { items, chunkStarts } = laid
  const names = Object.keys(work) as (keyof typeof work)[]
  const all = Array.from({ length: items.length / WORK }, (_, item) => {
    const numbers = names.map((name) => [name, items[item * WORK + work[name]]!])
    return Object.fromEntries(numbers) as Item
  })
  expect(chunkStarts[0]).toBe(0)
  expect(chunkStarts.at(-1)).toBe(all.length)
  const chunks = chunkStarts.slice(1).map((end, chunk) => all.slice(chunkStarts[chunk], end))
  return { rows, input, laid, chunks }
}

describe("a step's items", () => {
  const next = mulberry32(19)
  const parts = (window?: number) =>
    Array.from({ length: 1 + (next() % 4) }, (): Part => {
      const from = next() % 600
      const visibleFrom = window ? Math.max(0, from - window + 1) : 0
      const tokens = new Int32Array(1 + (next() % 30))
      return { tokens, from, visibleFrom, blocks: blocksFor(from + tokens.length, next() % 9) }
    })

  test.each([
    order,
    { ...order, height: 1, slots: 10 },
    { ...order, visible: { ...order.visible, window: 70, sinks: 20 } },
  ])("window $visible.window, $slots slots", (given) => {
    const { window, sinks } = given.visible
    for (let round = 0; round < 50; round++) {
      const { rows, input, laid, chunks } = laidOut(given, parts(window), sinks)
      const items = chunks.flat()
      const wanted = rows.attentionItems("tokens", given.height, given.visible)
      expect(items.flatMap(({ row, rows, span }) => [row, rows, span])).toEqual(
        [...wanted].filter((_, i) => i % ITEM !== 2),
      )
      const isOf: Record<Exclude<WorkCount, "chunks" | "chunkMerges">, (item: Item) => boolean> = {
        singles: ({ rows }) => rows === 1,
        multiples: ({ rows }) => rows > 1,
        merges: ({ spans, nth }) => spans > 1 && nth === 0,
      }
      expect(laid.count("chunks")).toBe(chunks.length)
      for (const of of ["singles", "multiples", "merges"] as const) {
        const most = Math.max(...chunks.map((chunk) => chunk.filter(isOf[of]).length))
        expect(laid.count(of)).toBeGreaterThanOrEqual(most)
        expect(laid.count(of)).toBeLessThan(4 * most || 1)
      }
      // Whoever comes behind a chunk that is all merges its rows.
      const isOne = chunks.length === 1
      expect(laid.count("chunkMerges")).toBe(isOne ? 0 : laid.count("merges"))
      const waiting = new Int32Array(input.tokens.length).fill(NO_ITEM)
      for (const [at, { row, rows: count, spans, nth }] of isOne ? items.entries() : [])
        if (spans > 1 && nth === 0) waiting.fill(at, row, row + count)
      expect(laid.waiting).toEqual(waiting)
      for (const chunk of chunks) {
        expect(chunk.length).toBeGreaterThan(0)
        const taken = new Set<number>()
        for (const [at, { row, rows: count, spans, nth, slot }] of chunk.entries()) {
          expect(chunk[at - nth]).toMatchObject({ row, nth: 0, spans })
          expect(chunk[at - nth + spans - 1]).toMatchObject({ row, nth: spans - 1 })
          if (spans === 1) continue
          expect(slot).toBe(chunk[at - nth]!.slot + nth * count)
          for (let r = 0; r < count; r++) {
            expect(taken.has(slot + r)).toBe(false)
            expect(slot + r).toBeLessThan(given.slots)
            taken.add(slot + r)
          }
        }
      }
      // A chunk ends only because the next rows have no room in it.
      for (const [i, chunk] of chunks.slice(1).entries()) {
        const used = chunks[i]!.reduce((sum, { rows, spans }) => sum + (spans > 1 ? rows : 0), 0)
        expect(used + chunk[0]!.rows * chunk[0]!.spans).toBeGreaterThan(given.slots)
      }
      // The list that an item names has the blocks that its rows' keys lie in.
      for (const { row, list, gap, span } of items) {
        const position = input.positions[row]!
        if (Math.floor(position / 64) !== span) continue
        const number = Math.floor(position / 16)
        const index = number < Math.ceil(sinks / 16) ? number : number - gap
        expect(input.blocks[list + index]! * 16 + (position % 16)).toBe(rows.slotsIn(0)[row])
      }
    }
  })

  test("of a step without rows are none", () => {
    const wanted = { ...order, set: "wanted" } as const
    const { chunks } = laidOut(wanted, [{ tokens: [1], from: 0, blocks: [3], logits: [] }])
    expect(chunks).toEqual([[]])
  })
})

test("no kernel is launched for more groups than every device takes", () => {
  const long = { tokens: 40, blocks: [4096] }
  const rows = new StepRows(long, 0)
  const input = batch([{ tokens: new Int32Array(40), from: 65_000, blocks: blocksFor(65_040) }])
  rows.take(input)
  const work = new AttentionWork({ ...order, height: 1, slots: 1e6 }, 0)
  work.take(rows, input)
  expect(work.items.length / WORK).toBeGreaterThan(2 ** 15)
  expect(work.count("singles")).toBe(2 ** 14)
})

test("rows whose spans outnumber all slots are refused", () => {
  const part = { tokens: [1, 2, 3, 4], from: 300, blocks: blocksFor(304) }
  expect(() => laidOut({ ...order, slots: 19 }, [part])).toThrow("20 partial softmaxes in 19 slots")
})
