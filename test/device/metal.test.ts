// Metal's devices on a stand-in for the framework and the Objective-C runtime: what every driver promises, kernels of the language
// beside the slow twin's bits, and a model. It knows the calls of x86-64 alone.

import { execFileSync, spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest"
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
import { openMetal } from "../../src/runtime/gpu/metal.ts"
import { openGpuLibrary } from "../../src/runtime/gpu/program.ts"
import { isLeftOut } from "../left-out.ts"
import { loadSmall, smallGraph } from "../model/small.ts"
import { batch, blocksFor, limitsFor, take } from "../model/steps.ts"
import { adds, describeDriver } from "./gpu-driver.ts"

const compiler = "g++"
const hasStandIn = process.arch === "x64" && spawnSync(compiler, ["--version"]).status === 0
const isSkipped = isLeftOut(hasStandIn)
const note = isSkipped ? " (skipped: no g++, or not x86-64)" : ""
const folder = mkdtempSync(join(tmpdir(), "sinter-metal-"))
const [library, lost] = [join(folder, "metal.so"), join(folder, "lost")]

let device: GpuDevice
beforeAll(async () => {
  if (isSkipped) return
  const here = join(import.meta.dirname, "metal")
  const flags = [
    "-std=c++17",
    "-w",
    "-O1",
    "-shared",
    "-fPIC",
    `-DHERE="${here}"`,
    `-DLOST="${lost}"`,
  ]
  execFileSync(compiler, [...flags, "-o", library, join(here, "stand-in.cpp")])
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

const orders = ["forward", "backward", "shuffled"] as const
const useOrder = (order: number) =>
  openDriverLibrary([library]).take<void>("void use_order(int order)")(order)

const tiles = weightKernels(printers.metal.units).filter(({ name }) =>
  /^tile64_(q4f16_1|q3f16_1|q2_k|q8_zeros)_/.test(name),
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
    writeFileSync(lost, "")
    await expect(take(own, batch(parts))).rejects.toThrow("Stand-in: the device was removed")
    rmSync(lost)
  },
  120_000,
)
