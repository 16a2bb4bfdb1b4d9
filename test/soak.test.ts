// More than a minute of everything at once on a server of its own: readers, cancellations, disconnects, slow readers, nonsense and
// prompts far too long. `npm run load` does the same for as long as you like.

import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { availableParallelism, loadavg, platform, tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { expect, onTestFinished, test } from "vitest"
import { isSound, load, usualMix } from "../bench/load.ts"
import type { LoopTimes } from "./loop-times.ts"
import { fromSources, serve } from "./sinter.ts"

const MIB = 2 ** 20

test("soak: every stream whole and as it is alone, nothing left behind, memory flat, the loop on time", {
  timeout: 300_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), "sinter-soak-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const times = join(folder, "times.json")
  const [node, ...args] = fromSources.command
  const watched = { ...fromSources, command: [node!, ...args.slice(0, 2), ...PRELOADED, args[2]!] }
  const server = await serve(["tiny", "--log-level", "error"], watched, { LOOP_TIMES: times })
  try {
    const common = { url: server.url, model: "tiny", clients: 6 }
    // Allocators keep what the longest prompts took, for each of the threads that happened to encode one.
    const longest = { ...common, seconds: 10, warmUp: 0, seed: 1, mix: { huge: 1 } }
    expect(isSound(await load(longest))).toBe(true)

    server.child.kill("SIGUSR2")
    // When a server collects by itself depends on how much of the processors other tests leave it.
    const collect = async () => {
      server.child.kill("SIGWINCH")
      await sleep(GIVEN_BACK)
    }
    // As many as come in 15 s where nobody else works: threads' memory grows with what they have done, not with time.
    const warm = { warmUp: 15, warmUpVisits: 3000 }
    const told = await load({ ...common, ...warm, seconds: 40, seed: 2, mix: usualMix, collect })
    expect(told.faults).toEqual({})
    expect(told.left).toEqual({ sinter_running: 0, sinter_waiting: 0, sinter_blocks_used: 0 })
    expect(told.outcomes.answered).toBeGreaterThan(50)
    expect(told.outcomes.left).toBeGreaterThan(10)
    expect(told.outcomes.refused).toBeGreaterThan(10)
    expect(told.outcomes.busy).toBe(0)
    expect(told.growth).toBeLessThan(MAX_GROWTH)
    if (isQuiet()) expect(told.loopDelayP99).toBeLessThan(MAX_DELAY)
  } finally {
    expect(await server.stop()).toMatchObject({ code: 0, err: "" }) // an audit that fails is logged
  }
  if (platform() !== "linux") return
  const { p99, p999 }: LoopTimes = JSON.parse(readFileSync(times, "utf8"))
  expect(p99).toBeLessThan(MAX_DELAY / 2)
  expect(p999).toBeLessThan(MAX_DELAY)
})

const PRELOADED = ["--import", join(import.meta.dirname, "loop-times.ts")]

const MAX_GROWTH = 48 * MIB
const GIVEN_BACK = 1000 // milliseconds behind a collection, in which its pages go back to the system

// Milliseconds. Whoever shares a core with others waits for them, so the delay itself is held to it only where the machine
// has little else to do; the processor's time that the loop takes at a stretch is held to it everywhere.
const MAX_DELAY = 20
/** Whether there is at most one thing to do for each core, on the last minute's average, beside the soak's own two. */
const isQuiet = () => loadavg()[0]! - 2 <= availableParallelism()
