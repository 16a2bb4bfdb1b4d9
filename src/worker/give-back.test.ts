import { setTimeout as sleep } from "node:timers/promises"
import { getHeapStatistics } from "node:v8"
import { expect, test } from "vitest"
import { collect, GiveBack } from "./give-back.ts"

const MIB = 2 ** 20
const heap = () => getHeapStatistics().total_heap_size

/** Some hundred megabytes that nobody uses when it returns. */
function litter(): number {
  const objects = Array.from({ length: 4_000_000 }, (_, i) => ({ i }))
  return objects.length
}

test("a thread gives back what it no longer uses when it is idle, and leaves it while it is busy", async () => {
  collect() // what importing left behind would go in between, and count for less litter
  const memory = new GiveBack(0)
  const before = heap()
  memory.busy()
  litter()
  const full = heap()
  expect(full - before).toBeGreaterThan(64 * MIB)
  memory.idle()
  memory.busy()
  for (let turn = 0; turn < 5; turn++) await sleep(1)
  expect(heap()).toBeGreaterThan(full - 16 * MIB)
  memory.idle()
  while (heap() > before + 32 * MIB) await sleep(1) // for ever, if it is not given back
})
