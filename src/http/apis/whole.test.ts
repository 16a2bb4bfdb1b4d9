import { setImmediate as breathe } from "node:timers/promises"
import { expect, test } from "vitest"
import type { Exchange } from "../exchange.ts"
import { whole } from "./whole.ts"

// Nothing is sent before 256 KiB: an exchange is not needed.
const unsent = {} as Exchange

async function* pieces(count: number, length: number) {
  for (let i = 0; i < count; i++) yield "x".repeat(length)
}

test("others have their turn while a large answer is written", async () => {
  let rounds = 0
  let isOver = false
  const others = (async () => {
    for (; !isOver; rounds++) await breathe()
  })()
  await Promise.all([1, 2].map(() => whole(unsent, pieces(40, 5000))))
  isOver = true
  await others
  expect(rounds).toBeGreaterThanOrEqual(2 * 40) // one piece a round, whoever's it is
})

test("a small answer waits for nobody", async () => {
  let rounds = 0
  setImmediate(() => rounds++)
  await whole(unsent, pieces(10, 100))
  expect(rounds).toBe(0)
})
