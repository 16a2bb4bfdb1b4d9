import { execFileSync } from "node:child_process"
import { platform } from "node:os"
import {
  constants,
  type NodeGCPerformanceDetail,
  type PerformanceEntry,
  PerformanceObserver,
} from "node:perf_hooks"
import { setTimeout as sleep } from "node:timers/promises"
import { getHeapStatistics } from "node:v8"
import { expect, onTestFinished, test } from "vitest"
import { collect, GiveBack } from "./give-back.ts"

const MIB = 2 ** 20
const heap = () => getHeapStatistics().total_heap_size

function isForced(entry: PerformanceEntry): boolean {
  const { flags } = (entry as PerformanceEntry & { detail: NodeGCPerformanceDetail }).detail
  return (flags! & constants.NODE_PERFORMANCE_GC_FLAGS_FORCED) !== 0
}

/** Objects that nobody uses when it returns, until the heap has grown so far: at first they fill what was free. */
function litter(bytes: number): number {
  const objects: object[] = []
  while (heap() < bytes) for (let i = 0; i < 100_000; i++) objects.push({ i })
  return objects.length
}

test("a thread gives back what it no longer uses when it is idle, and leaves it while it is busy", async () => {
  collect() // what importing left behind would go in between, and count for less litter
  const memory = new GiveBack(0)
  const before = heap()
  memory.busy()
  litter(before + 64 * MIB)
  // V8 may take some of it by itself meanwhile: only what was asked for counts.
  const begin = performance.now()
  let asked = 0
  const observer = new PerformanceObserver((list) => {
    asked += list.getEntries().filter((entry) => entry.startTime > begin && isForced(entry)).length
  })
  observer.observe({ entryTypes: ["gc"] })
  onTestFinished(() => observer.disconnect())
  memory.idle()
  memory.busy()
  for (let turn = 0; turn < 10; turn++) await sleep(1)
  expect(asked).toBe(0)
  memory.idle()
  while (heap() > before + 32 * MIB) await sleep(1) // for ever, if it is not given back
})

// In a process of its own, where nothing has been young yet.
const GROWING = `
  import { constants, PerformanceObserver } from "node:perf_hooks"
  import { setTimeout as sleep } from "node:timers/promises"
  import { getHeapSpaceStatistics } from "node:v8"
  import { GiveBack } from "./src/worker/give-back.ts"

  const young = () =>
    getHeapSpaceStatistics().find(({ space_name }) => space_name === "new_space").physical_space_size
  let forced = 0
  const isForced = ({ detail }) => detail.flags & constants.NODE_PERFORMANCE_GC_FLAGS_FORCED
  const observer = new PerformanceObserver((list) => {
    forced += list.getEntries().filter(isForced).length
  })
  observer.observe({ entryTypes: ["gc"] })
  const before = young()
  const memory = new GiveBack(0)
  for (let some = [], i = 0; i < 1e8 && young() < before + 9 * 2 ** 20; i++) {
    if (some.length > 20_000) some = [] // few survive, and none for long
    some.push({ i })
  }
  const grown = young() - before
  memory.idle()
  for (let turn = 0; turn < 10; turn++) await sleep(1)
  console.log(JSON.stringify({ isGrown: grown >= 9 * 2 ** 20, forced }))
`

test("room for what is young is not worth a collection", () => {
  const args = ["--import", "tsx", "--input-type=module", "--eval", GROWING]
  const said = execFileSync(process.execPath, args, { encoding: "utf8" })
  expect(JSON.parse(said)).toEqual({ isGrown: true, forced: 0 })
})

// As where clients' connections take all that a server may have open. On Linux libuv reads /proc/self/stat for the size.
const STARVING = `
  import { closeSync, openSync } from "node:fs"
  import { setTimeout as sleep } from "node:timers/promises"
  import { GiveBack } from "./src/worker/give-back.ts"
  import { residentSize } from "./src/worker/resident-size.ts"

  const memory = new GiveBack(0)
  const taken = []
  try {
    for (;;) taken.push(openSync("/dev/null"))
  } catch {}
  const starving = typeof residentSize()
  memory.idle()
  for (let turn = 0; turn < 10; turn++) await sleep(1)
  for (const descriptor of taken) closeSync(descriptor)
  console.log(JSON.stringify({ starving, fed: typeof residentSize() }))
`

test.skipIf(platform() !== "linux")(
  `a process without a descriptor to spare does not end over its own size${platform() === "linux" ? "" : " (skipped: elsewhere it is told without one)"}`,
  () => {
    const limited = 'ulimit -n 200; exec "$0" "$@"'
    const args = ["--import", "tsx", "--input-type=module", "--eval", STARVING]
    const said = execFileSync("sh", ["-c", limited, process.execPath, ...args], {
      encoding: "utf8",
    })
    expect(JSON.parse(said)).toEqual({ starving: "undefined", fed: "number" })
  },
)
