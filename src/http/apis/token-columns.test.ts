import { expect, test } from "vitest"
import type { TokenLogprob } from "../../chat/conversation.ts"
import { TokenColumns } from "./token-columns.ts"

/** Numbers as the engine tells them: no more precise than 32 bits. */
const told = (i: number, top: number): TokenLogprob => ({
  token: i * 7,
  shows: i % 3 > 0,
  offset: i * 2,
  logprob: i === 0 ? undefined : Math.fround(-i / 3),
  top: Array.from({ length: top }, (_, rank) => ({
    token: i + rank,
    logprob: rank === 19 ? Number.NEGATIVE_INFINITY : Math.fround(-rank / 7),
  })),
})

test("what is kept is what was told, however many alternatives each has", () => {
  const columns = new TokenColumns()
  const all = Array.from({ length: 500 }, (_, i) => told(i, i % 21))
  for (let i = 0; i < all.length; i += 7) columns.add(all.slice(i, i + 7))
  expect(columns.length).toBe(500)
  expect([...columns].map((each) => ({ ...each }))).toEqual(all)
  expect([...columns].length).toBe(500) // and again
})

test("an alternative takes eight bytes, and room for as many more", () => {
  const columns = new TokenColumns()
  for (let i = 0; i < 4000; i++) columns.add([told(i, 20)])
  expect(columns.bytes).toBeLessThan(2 * 4000 * (20 * 8 + 5 * 4))
})
