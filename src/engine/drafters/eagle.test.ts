import { expect, test } from "vitest"
import { HiddenRows } from "./eagle.ts"

const HIDDEN = 4
const IDLE = 8
const rowsFrom = (from: number, count: number) =>
  Float32Array.from({ length: count * HIDDEN }, (_, i) => from + Math.floor(i / HIDDEN))

test("rows wait in no more room than those of a step take, and those that may wait beside them", () => {
  const rows = new HiddenRows<object>(HIDDEN, IDLE)
  const owner = {}
  const held = (position: number) => rows.at(owner, position)!.buffer.byteLength / (4 * HIDDEN)
  rows.add(owner, rowsFrom(0, 100), 0) // of a prompt
  expect(held(0)).toBeLessThanOrEqual(100 + IDLE)
  rows.drop(owner, 99)
  expect(rows.at(owner, 98)).toBeUndefined()
  for (let position = 100; position < 100 + IDLE; position++) {
    rows.add(owner, rowsFrom(position, 1), position)
    expect(held(position)).toBeLessThanOrEqual(1 + IDLE)
    for (let before = 99; before <= position; before++)
      expect([...rows.at(owner, before)!]).toEqual(Array(HIDDEN).fill(before))
  }
  rows.add(owner, rowsFrom(100 + IDLE, 1), 100 + IDLE) // nobody reads them
  expect(rows.at(owner, 99 + IDLE)).toBeUndefined()
  expect(held(100 + IDLE)).toBeLessThanOrEqual(1 + IDLE)
})
