// How the benchmark treats its peers: in the setting that suits them best. The peer is a stand-in that says what it was asked.

import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, onTestFinished, test } from "vitest"
import { bestOf } from "../bench/contenders/best.ts"
import { canForget, startCold } from "../bench/contenders/cold.ts"
import type { Contender } from "../bench/contenders/contender.ts"
import { llamaBench } from "../bench/contenders/llama-bench.ts"

const folder = mkdtempSync(join(tmpdir(), "sinter-contenders-"))
afterAll(() => rmSync(folder, { recursive: true }))

test("of two settings the better sample counts, row by row, and both are closed", async () => {
  const told: string[] = []
  const setting = (name: string, rate: number, seconds: number): Contender => ({
    name: "peer",
    about: name,
    prefill: async (tokens) => rate * tokens,
    decode: async () => 1 / rate,
    crowd: async () => ({ firstToken: seconds, betweenTokens: 1, tokensPerSecond: rate }),
    twice: async () => ({ first: seconds, again: rate }),
    disturbed: async () => ({ alone: rate, beside: seconds, longest: 9, prompt: 11 }),
    start: async () => seconds,
    coldStart: async () => 2 * seconds,
    rest: async () => void told.push(`${name} rests`),
    wake: async () => void told.push(`${name} wakes`),
    memory: () => seconds,
    close: async () => void told.push(name),
  })
  const best = bestOf([setting("one", 2, 5), setting("other", 3, 7)])
  expect(best).toMatchObject({ name: "peer", about: "one; or, whichever is better: other" })
  expect(await best.prefill!(10)).toBe(30)
  expect(await best.decode!(1, 0)).toBe(1 / 2)
  expect(await best.crowd!(4)).toMatchObject({ firstToken: 7, tokensPerSecond: 3 })
  expect(await best.twice!()).toEqual({ first: 5, again: 2 })
  expect(await best.disturbed!()).toMatchObject({ alone: 2, beside: 5 })
  expect([await best.start!(), await best.coldStart!(), best.memory!()]).toEqual([5, 10, 5])
  for (const tell of [best.rest!, best.wake!, best.close]) await tell()
  const both = (does: string) => [`one${does}`, `other${does}`]
  expect(told).toEqual([...both(" rests"), ...both(" wakes"), ...both("")])
})

test.skipIf(!canForget)(
  "a cold start finds its files on the disk alone, and an empty cache",
  async () => {
    const place = join(folder, "places")
    mkdirSync(join(place, "below"), { recursive: true })
    const file = join(place, "below", "weights")
    writeFileSync(file, Buffer.alloc(1 << 20, 1))
    let cache: string | undefined
    const seconds = await startCold([place], async ({ XDG_CACHE_HOME }) => {
      cache = XDG_CACHE_HOME!
      writeFileSync(join(cache, "left"), "by this start")
      return 3
    })
    expect([seconds, existsSync(cache!)]).toEqual([3, false])
    // What lies in memory alone cannot be forgotten, and what is no cold start is none.
    const kept = mkdtempSync("/dev/shm/sinter-cold-")
    onTestFinished(() => rmSync(kept, { recursive: true }))
    writeFileSync(join(kept, "weights"), Buffer.alloc(1 << 20, 1))
    const asked = startCold([place, kept], async () => 3)
    await expect(asked).rejects.toThrow("50 % of its files are still in memory")
  },
)

test("what a contender cannot do, its settings cannot", () => {
  const engine = { name: "engine", about: "", prefill: async () => 1, close: async () => {} }
  expect(Object.keys(bestOf([engine, engine])).sort()).toEqual([
    "about",
    "close",
    "name",
    "prefill",
  ])
})

test("llama.cpp is told its attention, for prompts and for sequences together", async () => {
  const says = (file: string, answer: string) => {
    const path = join(folder, file)
    writeFileSync(path, `#!/usr/bin/env node\n${answer}\n`)
    chmodSync(path, 0o755)
    return path
  }
  const flag = 'const flash = process.argv[process.argv.indexOf("-fa") + 1]'
  const rate = 'flash === "1" ? 7 : flash === "0" ? 5 : 0'
  const help = '"-fa, --flash-attn on|off|auto"'
  const switched = rate.replace('"1"', '"on"').replace('"0"', '"off"')
  const line = `JSON.stringify({ speed_tg: ${switched} })`
  says(
    "llama-batched-bench",
    `${flag}; console.log(process.argv.includes("--help") ? ${help} : ${line})`,
  )
  const bench = says("llama-bench", `${flag}; console.log(JSON.stringify([{ avg_ts: ${rate} }]))`)
  const device = { name: "cpu", id: 0, description: "" } as const
  const task = { shape: "1B", device, threads: 2, sequences: 1, context: 64 }
  for (const [flash, expected] of [
    [1, 7],
    [0, 5],
  ] as const) {
    const contender = await llamaBench(bench, "model.gguf", task, flash)
    expect(contender.about).toContain(`-fa ${flash}`)
    expect([await contender.prefill!(8), await contender.decode!(1, 0)]).toEqual([
      expected,
      expected,
    ])
  }
})
