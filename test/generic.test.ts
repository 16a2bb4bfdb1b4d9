// Where there is no C compiler: kernels that are compiled for no model, which compute what a model's own library computes.

import { spawnSync } from "node:child_process"
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import OpenAI from "openai"
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest"
import { compile } from "../src/compiler/compile.ts"
import type { Plan } from "../src/compiler/plan.ts"
import { prepareGeneric, shelvedCpu } from "../src/compiler/targets/cpu/cpu.ts"
import { buildGeneric, buildWeightWork, genericName } from "../src/compiler/targets/cpu/generic.ts"
import { plain, usableLevels } from "../src/compiler/targets/cpu/levels.ts"
import { build, findCompiler } from "../src/compiler/targets/cpu/toolchain.ts"
import { processorFeatures } from "../src/runtime/features.ts"
import { openLibrary } from "../src/runtime/library.ts"
import type { Manifest } from "../src/runtime/manifest.ts"
import { SEEN, type StepInput } from "../src/runtime/program.ts"
import { weightWorkName } from "../src/runtime/weight-work.ts"
import { isLeftOut } from "./left-out.ts"
import { compiledModels, goldenFolder } from "./model/golden.ts"
import { judgeGolden } from "./model/judged.ts"
import { loadSmall, smallGraph, withExpertsIn } from "./model/small.ts"
import { batch, blocksFor, limitsFor, take } from "./model/steps.ts"
import { built, serve } from "./sinter.ts"

const compiler = await findCompiler()
const [level] = usableLevels(process.arch, processorFeatures())
const folder = mkdtempSync(join(tmpdir(), "sinter-generic-"))
afterAll(() => rmSync(folder, { recursive: true }))

let code: Buffer
beforeAll(async () => {
  if (compiler)
    code = await buildGeneric(compiler, level, ["f32", "f16", "bf16", "q4f16_1", "q8f16_1"])
}, 600_000)

const plans: readonly (readonly [string, Plan])[] = [
  [
    "floats, sinks, a window and biases by distance",
    compile(smallGraph({ window: 20, sinks: 3, hasOrder: true, hasBiases: true }), {
      format: "q0f32",
      activations: "float",
      kv: "f32",
    }),
  ],
  [
    "q4f16_1, products near and far, values in the keys and states",
    compile(smallGraph({ intermediate: 1056, latent: 14, hasStates: true }), {
      format: "q4f16_1",
      activations: "int8",
      kv: "f16",
    }),
  ],
  [
    "rows taken in, turned by coordinates, seen as far as the step says",
    compile(smallGraph({ sees: true, stacked: true, axes: true, mutual: true }), {
      format: "q0f32",
      activations: "float",
      kv: "f32",
    }),
  ],
  [
    "experts whose gates are in other codecs than what they are multiplied with",
    compile(smallGraph({ hasExperts: true, intermediate: 50 }), {
      format: "gguf",
      codecOf: withExpertsIn([
        ["q4f16_1", "q8f16_1", "f16"],
        ["bf16", "q4f16_1", "q8f16_1"],
      ]),
      activations: "int8",
      kv: "f16",
    }),
  ],
]

/** The step with rows in the place of every third token, in neighbourhoods of six. */
function seeing(step: StepInput, taken: number): StepInput {
  const { positions, starts } = step
  const rows = Math.floor(positions.length / 3)
  const tokens = step.tokens.map((token, i) =>
    i % 3 === 1 && i < 3 * rows ? SEEN + (i - 1) / 3 : token,
  )
  const ends = [...starts.subarray(1)].flatMap((end, s) =>
    Array<number>(end - starts[s]!).fill(positions[end - 1]!),
  )
  return {
    ...step,
    tokens,
    hiddenIn: Float32Array.from({ length: rows * taken }, (_, i) => Math.sin(i)),
    coordinates: Int32Array.from([5, 7, 11].flatMap((of) => [...positions].map((p) => p % of))),
    seenFrom: positions.map((p) => p - (p % 6)),
    seenTo: positions.map((p, i) => Math.min(p - (p % 6) + 5, ends[i]!)),
  }
}

/** What a library makes of the same weights and steps: how those lie, and logits. */
async function workOf(path: string, plan: Plan): Promise<{ weights: Buffer; logits: Buffer }> {
  const limits = limitsFor(plan, { blocks: 40, tokens: 200, sequences: 8, rows: 200 })
  const program = await openLibrary(path, limits, 2)
  await loadSmall(program)
  const parts = [1, 37, 100, 5].map((length, s) => ({
    tokens: Int32Array.from({ length }, (_, i) => (i * 7 + s * 13) % 70),
    from: 0,
    blocks: blocksFor(length, 10 * s),
  }))
  const step = batch(parts)
  const { logits } = await take(program, plan.shapes.taken ? seeing(step, plan.shapes.taken) : step)
  const weights = Buffer.from(await program.packed.take(0, program.packed.bytes))
  await program.close()
  return { weights, logits: Buffer.from(logits!.buffer, logits!.byteOffset, logits!.byteLength) }
}

async function genericLibrary(plan: Plan): Promise<{ path: string; manifest: Manifest }> {
  const library = await prepareGeneric(plan, { level, code, name: "generic" })
  const path = join(folder, library.name)
  writeFileSync(path, await library.build())
  return { path, manifest: library.manifest }
}

const skipped = isLeftOut(compiler)
const note = skipped ? " (skipped: no C compiler builds it here)" : ""

test.skipIf(skipped).each(plans)(
  `%s: the bits of the model's own library${note}`,
  async (_, plan) => {
    const compiled = await shelvedCpu(plan)
    const generic = await genericLibrary(plan)
    expect(generic.manifest.fingerprint).toBe(compiled.manifest.fingerprint)
    const { weights, logits } = await workOf(generic.path, plan)
    expect(new Set(logits).size).toBeGreaterThan(50)
    const own = await workOf(compiled.path, plan)
    expect(logits.equals(own.logits)).toBe(true)
    expect(weights.equals(own.weights)).toBe(true)
  },
)

describe.skipIf(skipped)(`models that are not compiled${note}`, () => {
  judgeGolden({
    open: async (plan, limits) => openLibrary((await genericLibrary(plan)).path, limits, 2),
    golden: readdirSync(goldenFolder("models", "."), { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && !compiledModels.some((name) => name === entry.name))
      .map(({ name }) => `models/${name}` as const),
    milliseconds: 120_000,
  })
})

/** Takes nothing apart. */
const REFUSING = `#include "abi.h"
int32_t sinter_unpack_blocks(int32_t type, int64_t rows, int64_t columns,
    const void *blocks, const void *patterns, void *codes, void *scales) { return SINTER_BAD_PARAMETER; }
int32_t sinter_add_product(int32_t type, int64_t rows, int64_t columns, int64_t rank,
    const void *left, const void *right, void *values) { return SINTER_BAD_PARAMETER; }
`

describe.skipIf(skipped)(`a package that brings it${note}`, () => {
  const root = join(folder, "package")
  const where = { command: [process.execPath, join(root, "build/cli/main.js")], folder }
  const bin = join(folder, "bin")
  beforeAll(() => {
    mkdirSync(root)
    for (const part of ["build", "models", "package.json"])
      cpSync(join(built.folder, part), join(root, part), { recursive: true })
    symlinkSync(join(built.folder, "node_modules"), join(root, "node_modules"))
    mkdirSync(join(root, "build/generic"), { recursive: true })
    writeFileSync(join(root, "build/generic", genericName(level)), code)
    mkdirSync(bin)
    symlinkSync(process.execPath, join(bin, "node"))
  })

  test("serves without a compiler, and says so", async () => {
    const server = await serve(["tiny", "--log-level", "warn"], where, {
      PATH: bin,
      CC: undefined,
      XDG_CACHE_HOME: join(folder, "cache"),
    })
    expect(server.out()).toContain(`generic ${level.name} kernels, for want of a C compiler`)
    const { code: ended, err } = await server.stop()
    expect({ ended, err }).toEqual({ ended: 0, err: "" })
    const broken = join(bin, "cc") // as one without its headers is
    writeFileSync(broken, '#!/bin/sh\n[ "$1" = --version ] && echo cc 1.0\n', { mode: 0o755 })
    const devices = spawnSync(process.execPath, [join(root, "build/cli/main.js"), "devices"], {
      env: { PATH: bin, CC: broken },
      encoding: "utf8",
    })
    expect(devices.stdout).toContain(`cpu (generic ${level.name} kernels`)
  })

  test("serves with one, too, while that builds the model's own for the next start", async () => {
    const cache = { XDG_CACHE_HOME: join(folder, "cache with a compiler") }
    const shelf = join(cache.XDG_CACHE_HOME, "sinter/shelf")
    const libraries = () => readdirSync(shelf).filter((name) => name.endsWith(".so"))
    const start = () => serve(["tiny", "--log-level", "warn"], where, cache)
    const reply = async ({ url }: { url: string }) => {
      const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 })
      const { choices, system_fingerprint } = await client.chat.completions.create({
        model: "tiny",
        messages: [{ role: "user", content: "What is 12 + 30?" }],
        seed: 1,
      })
      return { text: choices[0]!.message.content, system_fingerprint }
    }

    const first = await start()
    expect(first.out()).toContain(`generic ${level.name} kernels, until its own are built`)
    const left = await first.stop() // it does not wait for a compiler
    expect([left.code, left.err]).toEqual([0, ""])
    expect(libraries()).toHaveLength(1)

    const second = await start()
    expect(second.out()).toContain(`generic ${level.name} kernels, until its own are built`)
    const before = await reply(second)
    await vi.waitUntil(() => libraries().length === 2, { timeout: 120_000, interval: 100 })
    expect(await reply(second)).toEqual(before)
    await second.stop()

    const third = await start()
    expect(third.out()).not.toContain(`generic ${level.name} kernels`)
    expect(await reply(third)).toEqual(before)
    await third.stop()
    expect(libraries()).toHaveLength(2)
  })

  test("tries a compiler that builds nothing once, and again when it is another", async () => {
    const cc = join(folder, "cc")
    const install = (text: string) => writeFileSync(cc, `#!/bin/sh\n${text}\n`, { mode: 0o755 })
    const cache = { CC: cc, XDG_CACHE_HOME: join(folder, "cache of a broken one") }
    const start = () => serve(["tiny", "--log-level", "warn"], where, cache)
    const warning = "This model's own library is not built, and others go on serving"

    install('[ "$1" = --version ] && echo cc 1.0') // as one without its headers is
    const first = await start()
    expect(first.out()).toContain(`generic ${level.name} kernels, until its own are built`)
    await vi.waitUntil(() => first.err().includes(warning), { timeout: 60_000 })
    const unfit = () => readdirSync(join(cache.XDG_CACHE_HOME, "sinter/shelf"))
    await vi.waitUntil(() => unfit().some((name) => name.endsWith(".unfit")), { timeout: 60_000 })
    await first.stop()

    const second = await start()
    expect(second.out()).toContain(`generic ${level.name} kernels, for want of a C compiler`)
    expect((await second.stop()).err).toBe("")

    install('[ "$1" = --version ] && echo cc 1.0 # again') // another file
    const third = await start()
    expect(third.out()).toContain(`generic ${level.name} kernels, until its own are built`)
    await third.stop()
  })

  test("takes a file's blocks apart for programs that are no libraries", async () => {
    const brought = join(root, "build/generic", weightWorkName())
    const file = goldenFolder("gguf", "llama-q4_k_m")
    const start = () => serve([file, "--target", "reference"], where)
    const reply = async () => {
      const server = await start()
      const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 })
      const { choices } = await client.completions.create({
        model: "llama-q4_k_m",
        prompt: "a",
        temperature: 0,
        logprobs: 1,
        max_tokens: 8,
      })
      await server.stop()
      return choices
    }
    const before = await reply()
    const refusing = { name: "refusing.c", text: REFUSING }
    writeFileSync(brought, await build(compiler!, plain, [refusing]))
    await expect(start()).rejects.toThrow("are not taken apart")
    writeFileSync(brought, await buildWeightWork(compiler!))
    expect(await reply()).toEqual(before)
    writeFileSync(brought, "no library, or one for another libc")
    expect(await reply()).toEqual(before)
  })

  test("goes on where a compiler fails, and says so", async () => {
    const failing = join(folder, "failing-cc") // no start waits until it has said that it knows the instructions
    const script = `#!/bin/sh\ncase "$*" in --version) exec cc "$@";; *) echo it breaks >&2; exit 1;; esac\n`
    writeFileSync(failing, script, { mode: 0o755 })
    const server = await serve(["tiny", "--log-level", "warn"], where, {
      CC: failing,
      XDG_CACHE_HOME: join(folder, "cache with a failing one"),
    })
    await vi.waitUntil(() => server.err().includes("it breaks"), { timeout: 60_000 })
    expect(server.err()).toMatch(/others go on serving: .* failed while building .*it breaks/s)
    expect((await server.stop()).code).toBe(0)
  })
})
