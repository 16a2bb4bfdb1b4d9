// How the benchmark treats its peers: in the setting that suits them best. The peer is a stand-in that says what it was asked.

import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { bestOf } from "../bench/contenders/best.ts"
import type { Contender } from "../bench/contenders/contender.ts"
import { llamaBench } from "../bench/contenders/llama-bench.ts"

const folder = mkdtempSync(join(tmpdir(), "sinter-contenders-"))
afterAll(() => rmSync(folder, { recursive: true }))

test("of two settings the better sample counts, row by row, and both are closed", async () => {
  const closed: string[] = []
  const setting = (name: string, rate: number, seconds: number): Contender => ({
    name: "peer",
    about: name,
    prefill: async (tokens) => rate * tokens,
    decode: async () => 1 / rate,
    crowd: async () => ({ firstToken: seconds, betweenTokens: 1, tokensPerSecond: rate }),
    twice: async () => ({ first: seconds, again: rate }),
    disturbed: async () => ({ alone: rate, beside: seconds }),
    start: async () => seconds,
    memory: () => seconds,
    close: async () => void closed.push(name),
  })
  const best = bestOf([setting("one", 2, 5), setting("other", 3, 7)])
  expect(best).toMatchObject({ name: "peer", about: "one; or, whichever is better: other" })
  expect(await best.prefill!(10)).toBe(30)
  expect(await best.decode!(1, 0)).toBe(1 / 2)
  expect(await best.crowd!(4)).toMatchObject({ firstToken: 7, tokensPerSecond: 3 })
  expect(await best.twice!()).toEqual({ first: 5, again: 2 })
  expect(await best.disturbed!()).toEqual({ alone: 2, beside: 5 })
  expect([await best.start!(), best.memory!()]).toEqual([5, 5])
  await best.close()
  expect(closed).toEqual(["one", "other"])
})

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
