// Metal's devices on a stand-in for the framework and the Objective-C runtime: what every driver promises, kernels of the language
// beside the slow twin's bits, a model, and whole servers.

import { execFileSync, spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { languageKernels } from "../../src/compiler/targets/gpu/check-cases.ts"
import { differences, runOn, twinOf } from "../../src/compiler/targets/gpu/check-device.ts"
import { weightKernels } from "../../src/compiler/targets/gpu/check-products.ts"
import { prepareGpu } from "../../src/compiler/targets/gpu/gpu.ts"
import { printMetal } from "../../src/compiler/targets/gpu/print/metal.ts"
import { printers } from "../../src/compiler/targets/gpu/printers.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { openDriverLibrary } from "../../src/runtime/ffi.ts"
import type { GpuDevice } from "../../src/runtime/gpu/device.ts"
import { readGpuLibrary } from "../../src/runtime/gpu/gpu-library.ts"
import { openMetal } from "../../src/runtime/gpu/metal.ts"
import { openGpuLibrary } from "../../src/runtime/gpu/program.ts"
import { isLeftOut } from "../left-out.ts"
import { loadSmall, smallGraph } from "../model/small.ts"
import { batch, blocksFor, limitsFor, take } from "../model/steps.ts"
import { built, run, serve } from "../sinter.ts"
import { adds, describeDriver, expectGivenUp } from "./gpu-driver.ts"
import {
  asMac,
  buildStandIn,
  compiler,
  environment,
  hasStandIn,
  type MetalStandIn,
} from "./metal/metal-stand-in.ts"

const isSkipped = isLeftOut(hasStandIn)
const note = isSkipped ? " (skipped: no g++, or not Linux on x86-64)" : ""
const folder = mkdtempSync(join(tmpdir(), "sinter-metal-"))

let standIn: MetalStandIn
let device: GpuDevice
beforeAll(async () => {
  if (isSkipped) return
  standIn = await buildStandIn(folder)
  const { library } = standIn
  device = await openMetal(0, [library], { runtime: [library], graphics: [library] })
}, 60_000)
afterAll(async () => {
  await device?.close()
  rmSync(folder, { recursive: true })
})

describeDriver({
  note,
  isSkipped,
  device: () => device,
  load: async (kernel) => {
    const { text, kernels } = printMetal([kernel])
    return (await device.load([Buffer.from(text)], kernels))[0]!
  },
})

test.skipIf(isSkipped)(`what the driver refuses is said in its words${note}`, async () => {
  const { text, kernels } = printMetal([adds])
  const broken = Buffer.from(text.replace("numbers[i]", "numbers[nowhere]"))
  await expect(device.load([broken], kernels)).rejects.toThrow(/refuses .+ of kernels: .*nowhere/s)
  const renamed = kernels.map((code) => ({ ...code, entry: "sinter_nothing" }))
  const refusal = "refuses adds: there is no function sinter_nothing"
  await expect(device.load([Buffer.from(text)], renamed)).rejects.toThrow(refusal)
})

test.skipIf(isSkipped)(
  `kernels that say all of the language compute the slow twin's bits${note}`,
  async () => {
    const { text, kernels } = printMetal(languageKernels.map(({ at }) => at(0).kernel))
    const loaded = await device.load([Buffer.from(text)], kernels)
    const { subgroup } = device.traits
    onTestFinished(() => useOrder(orders.indexOf("shuffled")))
    for (const [i, { name, at }] of languageKernels.entries()) {
      for (const [shape, order] of [0, 7].flatMap((shape) =>
        [0, 1, 2].map((order) => [shape, order]),
      )) {
        const each = at(shape!)
        useOrder(order!)
        const found = await runOn(device, loaded[i]!, each)
        const expected = twinOf(each, subgroup, ["forward"])
        expect(
          found.flatMap((array, n) => differences(array, expected[n]!)),
          name,
        ).toEqual([])
      }
    }
  },
  120_000,
)

test.skipIf(isSkipped)(`what kernels hand each other stays in their own library${note}`, () => {
  const [text, library] = [join(folder, "products.cpp"), join(folder, "products.so")]
  const product = (of: string) =>
    `template void metal::simdgroup_multiply_accumulate<${of}>(metal::simdgroup_float8x8 &, metal::simdgroup_matrix<${of}, 8, 8>, metal::simdgroup_matrix<${of}, 8, 8>, metal::simdgroup_float8x8);`
  writeFileSync(
    text,
    `#include <metal_stdlib>\n${["float", "metal::half"].map(product).join("\n")}\n`,
  )
  const include = join(import.meta.dirname, "metal")
  const flags = ["-std=c++17", "-w", "-shared", "-fPIC", "-I", include]
  execFileSync(compiler, [...flags, "-o", library, text])
  const symbols = execFileSync("nm", ["--demangle", library], { encoding: "utf8" })
  expect(symbols).toContain("simdgroup_multiply_accumulate<float>")
  expect(symbols.split("\n").filter((line) => / u /.test(line))).toEqual([]) // of the whole process
})

const orders = ["forward", "backward", "shuffled"] as const
const useOrder = (order: number) =>
  openDriverLibrary([standIn.library]).take<void>("void use_order(int order)")(order)

const tiles = weightKernels(printers.metal.units).filter(({ name }) =>
  /^tile64_(q4f16_1|q3f16_1|q2_k|q8_zeros|bf16_wide)_/.test(name),
)

test.skipIf(isSkipped).each([0, 1, 2])(
  `tiles of halves have the slow twin's bits, in order %i of threads${note}`,
  async (order) => {
    const [needs] = printers.metal.profiles
    const cases = tiles.map(({ at }) => at(0).kernel)
    const { modules, kernels } = printers.metal.print(cases, needs!)
    expect(Buffer.from(modules[0]!).toString()).toContain("simdgroup_multiply_accumulate(")
    const loaded = await device.load(modules, kernels)
    onTestFinished(() => useOrder(orders.indexOf("shuffled")))
    useOrder(order)
    for (const [i, { name, at }] of tiles.entries())
      for (const shape of [0, 9, 15]) {
        const each = at(shape)
        const found = await runOn(device, loaded[i]!, each)
        const expected = twinOf(each, 32, [orders[order]!])
        expect(
          found.flatMap((array, n) => differences(array, expected[n]!)),
          name,
        ).toEqual([])
      }
  },
  120_000,
)

test.skipIf(isSkipped)(
  `a barrier that is missing shows in some order of threads${note}`,
  async () => {
    onTestFinished(() => useOrder(orders.indexOf("shuffled")))
    const wrong: boolean[] = []
    const { at } = tiles[0]!
    const each = at(0)
    const { modules, kernels } = printers.metal.print([each.kernel], printers.metal.profiles[0]!)
    const text = Buffer.from(modules[0]!).toString()
    const barrier = /threadgroup_barrier\([^;]*\);/g
    const last = [...text.matchAll(barrier)].at(-2)! // between the codes' arrival and their products
    const faulty = text.slice(0, last.index) + text.slice(last.index + last[0].length)
    const [loaded] = await device.load([Buffer.from(faulty)], kernels)
    const expected = twinOf(each)
    for (const order of orders.keys()) {
      useOrder(order)
      const found = await runOn(device, loaded!, each)
      wrong.push(found.some((array, n) => differences(array, expected[n]!).length > 0))
    }
    expect(wrong).toContain(true)
  },
  120_000,
)

test.skipIf(isSkipped)(
  `a model that goes takes its kernels with it, while another keeps the device${note}`,
  async () => {
    const { take } = openDriverLibrary([standIn.library])
    const held = take("int32_t stand_in_kernels()")
    const options = { format: "q4f16_1", activations: "int8", kv: "f16" } as const
    const plan = compile(smallGraph({ layers: 1 }), { ...options, ...targets.metal.traits })
    const build = await prepareGpu(plan, "metal")
    const path = join(folder, build.name)
    writeFileSync(path, await build.build())
    const limits = limitsFor(plan, { blocks: 4, tokens: 4, sequences: 1, rows: 1 })
    const lend = async () => ({ device, giveBack: async () => {} })
    const before = Number(held())
    const model = await openGpuLibrary(path, limits, [lend])
    expect(Number(held())).toBeGreaterThan(before + 1)
    await model.close()
    expect(Number(held())).toBe(before)
  },
  120_000,
)

test.skipIf(isSkipped)(
  `a model has the reference's bits, and ends with its device${note}`,
  async () => {
    const options = { format: "q4f16_1", activations: "int8", kv: "f16" } as const
    const plan = compile(smallGraph({ window: 20, sinks: 3 }), {
      ...options,
      ...targets.metal.traits,
    })
    const build = await prepareGpu(plan, "metal")
    const path = join(folder, build.name)
    writeFileSync(path, await build.build())
    const limits = limitsFor(plan, { blocks: 20, tokens: 60, sequences: 4, rows: 60 })
    const own = await openGpuLibrary(path, limits, [
      async () => ({ device, giveBack: async () => {} }),
    ])
    const reference = openReference(plan, limits)
    const parts = [7, 30, 1].map((length, s) => ({
      tokens: Int32Array.from({ length }, (_, i) => (i * 7 + s * 13) % 70),
      from: 0,
      blocks: blocksFor(length, 5 * s),
    }))
    const logits = []
    for (const program of [own, reference]) {
      await loadSmall(program)
      logits.push((await take(program, batch(parts))).logits!)
    }
    expect(new Set(logits[0]).size).toBeGreaterThan(50)
    expect(logits[0]).toEqual(logits[1])
    writeFileSync(standIn.lost, "")
    await expect(take(own, batch(parts))).rejects.toThrow("Stand-in: the device was removed")
    rmSync(standIn.lost)
  },
  120_000,
)

test.skipIf(isSkipped)(
  `one that does not answer is given up, and left alone from then on${note}`,
  async () => {
    const { library } = standIn
    const silent = await openMetal(0, [library], { runtime: [library], graphics: [library] })
    const { text, kernels } = printMetal([adds])
    const [kernel] = await silent.load([Buffer.from(text)], kernels)
    const { take } = openDriverLibrary([library])
    await expectGivenUp(silent, kernel!, take<void>("void stand_in_hold(int isHeld)"))
  },
)

const MILLISECONDS = 240_000

interface Models {
  data: { id: string }[]
}

interface Answer {
  choices: { message: { content: string } }[]
}

test.skipIf(isSkipped)(
  `servers on one device, of a folder made without any, and on two answer alike, alone and in company, and end with a device${note}`,
  async () => {
    const made = join(folder, "made")
    const compiled = ["compile", "tiny", "--target", "metal", "--output", made]
    expect(await run(compiled, "", built)).toMatchObject({ code: 0 })
    const path = join(made, "lib", "metal.gpu")
    const library = readGpuLibrary(path)
    const { tape } = library
    const [withTiles, without] = tape.profiles.map((each) => {
      const text = Buffer.from(library.modulesOf(each)[0]!).toString()
      expect(text.match(/^kernel void /gm)).toHaveLength(tape.kernels.length)
      expect(text.match(/^#include .*/gm)).toEqual(["#include <metal_stdlib>"])
      return text
    })
    expect(withTiles).toContain("simdgroup_multiply_accumulate(")
    expect(without).not.toContain("simdgroup")
    const said: Answer["choices"][] = []
    for (const devices of [1, 2]) {
      rmSync(standIn.lost, { force: true })
      const shards = ["--overrides", `tensor_parallel_shards=${devices}`]
      const env = environment(standIn, devices)
      const own = devices === 1 ? [made, "--model-lib", path] : ["tiny"]
      const server = await serve([...own, "--device", "metal", ...shards], asMac, env)
      const models = (await (await fetch(`${server.url}/v1/models`)).json()) as Models
      const named = devices === 1 ? "metal:0 (Stand-in)" : "metal:0, metal:1 (Stand-in) in 2 shards"
      expect(server.out()).toContain(`  device     ${named}, target metal\n`)
      const request = (more: object) =>
        fetch(`${server.url}/v1/chat/completions`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({
            model: models.data[0]!.id,
            temperature: 0,
            max_tokens: 8,
            logprobs: true,
            messages: [{ role: "user", content: "Who are you?" }],
            ...more,
          }),
        })
      const whole = async () => ((await (await request({})).json()) as Answer).choices
      const streamed = async () => {
        const text = await (await request({ stream: true })).text()
        const events = text.matchAll(/^data: (\{.*)$/gm)
        return [...events]
          .map(([, json]) => JSON.parse(json!).choices[0]?.delta?.content ?? "")
          .join("")
      }
      const alone = await whole()
      const words = alone[0]!.message.content
      expect(words).toBe("I am the tiny model inside sinter.")
      const together = await Promise.all([whole(), streamed(), whole(), streamed()])
      expect(together).toEqual([alone, words, alone, words])
      said.push(alone)
      writeFileSync(standIn.lost, "")
      const lost = await request({})
      expect(lost.status).toBe(503)
      expect(await lost.text()).toContain("the device was removed")
      expect((await server.ended).code).toBe(1)
    }
    expect(said[1]).toEqual(said[0])
  },
  2 * MILLISECONDS,
)

describe.skipIf(isSkipped)(`the stand-in ends a process that${note}`, () => {
  test.each([
    ["commits what is not encoded", "commands without an end"],
    ["commits twice", "commands committed once more"],
    ["waits too early", "a wait before the commit"],
    ["encodes behind the end", "encoder setComputePipelineState: after its end"],
    ["opens two encoders", "two encoders at once"],
    ["binds beyond a buffer", "a buffer bound at 64"],
    ["binds another device's buffer", "a buffer of another device"],
    ["releases twice", "something released once more"],
    ["leaves the pool out", "commands outside of any pool"],
    ["has fast mathematics", "kernels are built with fast mathematics"],
    ["says what nobody knows", "nobody knows device whatever"],
  ])("%s", (does, words) => {
    const file = join(import.meta.dirname, "metal", "misuse-child.ts")
    const { status, stderr } = spawnSync(
      process.execPath,
      ["--import", "tsx", file, standIn.library, does],
      { env: { ...process.env, STAND_IN_DEVICES: "2" }, encoding: "utf8" },
    )
    expect(stderr).toContain(`Metal's stand-in: ${words}`)
    expect(status).not.toBe(0)
  })
})
