// A model whose context is longer than memory has room for starts, whatever it is compiled for and whatever proposes: what
// is chosen can be had, down to the least there is, and what was asked for beyond that is refused.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { cp } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { prepareDrafting } from "../src/app/drafting.ts"
import { createApp, planOf } from "../src/app.ts"
import { findCompiler } from "../src/compiler/targets/cpu/toolchain.ts"
import { prepareProgram, traitsOf } from "../src/compiler/targets/prepare.ts"
import { targets as table } from "../src/compiler/targets/targets.ts"
import { chooseLimits, type Demand } from "../src/engine/limits.ts"
import { createLog } from "../src/log.ts"
import { openModel } from "../src/model/model.ts"
import { readMemory } from "../src/runtime/memory.ts"
import { ask } from "./api/server.ts"
import { tinyFolder } from "./model/tiny.ts"
import { run, serve } from "./sinter.ts"

/** More than any machine that runs this has room for: a token of tiny takes 1.5 KiB at least. */
const CONTEXT = 2_000_000_000

const drafters = [
  { mode: "disable" },
  { mode: "lookup" },
  { mode: "small_draft", models: "models/tiny-draft" },
  { mode: "eagle", models: "models/tiny-eagle" },
  { mode: "medusa", models: "models/tiny-medusa" },
] as const

const modes = ["local", "interactive", "server"] as const

const compiled = (await findCompiler()) !== undefined
const targets = compiled ? (["reference", "cpu"] as const) : (["reference"] as const)
const log = createLog("silent", false)

let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "sinter-limits-"))
  await cp(tinyFolder, folder, { recursive: true })
  const file = join(folder, "mlc-chat-config.json")
  const config = JSON.parse(readFileSync(file, "utf8"))
  config.context_window_size = CONTEXT
  config.model_config.max_position_embeddings = CONTEXT
  writeFileSync(file, JSON.stringify(config))
})
afterAll(() => rmSync(folder, { recursive: true }))

describe.each(targets)("for %s", (target) => {
  test.each(drafters)("with $mode", async (drafter) => {
    const model = await openModel(folder, { verify: false })
    const device = { name: "cpu", id: 0 } as const
    const opening = { device, library: undefined, folder, log, target } as const
    const { manifest, weightBytes, bufferBytes } = await prepareProgram(
      planOf(model, model.format, {}, traitsOf(device.name)),
      opening,
    )
    const drafting = await prepareDrafting({
      ...drafter,
      model,
      format: model.format,
      device,
      target,
      overrides: {},
      log,
    })
    // What a drafter keeps of each sequence is there before the most of them are.
    const most = { sequences: 128, tokens: 2048, rows: 128, blocks: [] }
    const enough = 2 ** 26 + 2 * (drafting.demand?.model?.hostBytes?.(most) ?? 0)
    for (const mode of modes) {
      let least: number | undefined
      for (let available = 2 ** 20; available < 2 ** 45; available *= 1.1) {
        const demand: Demand = {
          mode,
          overrides: {},
          traits: table[target].steps,
          manifest,
          available,
          weightBytes,
          bufferBytes,
          drafts: drafting.demand,
        }
        const limits = limitsOf(demand)
        if (!limits) {
          expect(least).toBeUndefined() // with more memory it is never worse
          continue
        }
        least ??= available
        const { context, total, sequences, program, memory } = limits
        const { weights, kv, activations, buffers, draft } = memory
        expect(weights + kv + activations + buffers + draft).toBeLessThanOrEqual(memory.available)
        expect(activations + buffers).toBe(bufferBytes(program))
        expect(context.value).toBe(Math.min(CONTEXT, total.value))
        expect(total.value).toBeLessThanOrEqual(program.blocks[0]! * 16)
        if (available < 2 ** 40) expect(context).toMatchObject({ of: CONTEXT, bound: "memory" })
        if (available > enough) expect(sequences.of).toBeUndefined()
      }
      expect(least).toBeLessThan(24 * 2 ** 20) // where weights and two draft models take eight
    }
    await drafting.close()
    await model.close()
  })
})

test.each([
  ["reference", "local", 200, "disable"],
  ["reference", "interactive", 400, "eagle"],
  ["reference", "server", 600, "medusa"],
  ["auto", "local", 400, "small_draft"],
] as const)("%s, mode %s with %s MiB and %s starts and answers", async (...given) => {
  const [target, mode, mebibytes, who] = given
  const share = (mebibytes * 2 ** 20) / readMemory().available // whatever else is running
  const drafting = drafters.find((each) => each.mode === who)!
  const overrides = { gpu_memory_utilization: share }
  const app = await createApp({ model: folder, target, mode, overrides, drafting })
  try {
    const url = `http://127.0.0.1:${await app.listen(0)}`
    const { summary } = await app.ready
    const { context, memory } = summary.limits
    expect(context).toMatchObject({ of: CONTEXT, why: "what memory allows" })
    expect(memory.share).toBe(share)
    expect(memory.available / share / readMemory().total).toBeLessThanOrEqual(1)
    const body = { model: folder, prompt: "Hello", max_tokens: 3, temperature: 0 }
    const { usage } = await ask({ app, url }, "/v1/completions", body)
    expect(usage.completion_tokens).toBe(3)
  } finally {
    await app.close()
  }
})

function limitsOf(demand: Demand) {
  try {
    return chooseLimits(demand)
  } catch (error) {
    expect((error as Error).message).toContain("needs at least")
    return undefined
  }
}

test("the start-up lines say how much of the context memory allows, and of which share", async () => {
  const args = [folder, "--overrides", "gpu_memory_utilization=0.02", "--target", "reference"]
  const server = await serve(args)
  expect(server.out()).toMatch(
    new RegExp(`context +\\d+ of ${CONTEXT} tokens, what memory allows\n`),
  )
  expect(server.out()).toMatch(/MiB of [\d.]+ MiB that may be taken, 2 % of what this /)
  await server.stop()
})

test("a context that is asked for and does not fit ends the start in one sentence", async () => {
  const { code, err } = await run([
    "serve",
    folder,
    "--overrides",
    `context_window_size=${CONTEXT}`,
  ])
  expect(code).toBe(2)
  expect(err).toMatch(
    /^sinter: The model needs at least \d+ MiB .+ may be taken\. Lower --overrides "context_window_size=…".+\n$/,
  )
})
