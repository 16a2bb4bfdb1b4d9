// `sinter devices --check` on lavapipe: a table of kernels, and a line where a driver is wrong, refuses or is gone.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, onTestFinished, test, vi } from "vitest"
import { checkDevice, checkedKernels } from "../../src/compiler/targets/gpu/check.ts"
import { languageKernels, SHAPES } from "../../src/compiler/targets/gpu/check-cases.ts"
import { checkShapes } from "../../src/compiler/targets/gpu/check-device.ts"
import { weightKernels } from "../../src/compiler/targets/gpu/check-products.ts"
import { printers } from "../../src/compiler/targets/gpu/printers.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import type { GpuDevice } from "../../src/runtime/gpu/device.ts"
import { openVulkan } from "../../src/runtime/gpu/vulkan.ts"
import { kvTypes } from "../../src/runtime/manifest.ts"
import { isLeftOut } from "../left-out.ts"
import { hasCompiler, plantDriver, plantLosableVulkan } from "../planted-drivers.ts"
import { run } from "../sinter.ts"

const MILLISECONDS = 240_000 // a driver makes a hundred and fifty kernels

const device = await openVulkan(0).catch(() => undefined)
afterAll(() => device?.close())
const without = isLeftOut(device)
const kernels = without ? [] : [...checkedKernels(traitsOf("vulkan").sums!, printers.vulkan)] // seconds
const titled = (what: string) => (without ? `${what} (skipped: no device of Vulkan)` : what)

test.skipIf(without)(
  titled("every third kernel is equal on the first and the last of its shapes"),
  async () => {
    const ends = kernels
      .filter((_, i) => i % 3 === 0) // the tests of kernels try them all
      .map((kernel) => ({
        ...kernel,
        shapes: 2,
        at: (shape: number) => kernel.at(shape * (kernel.shapes - 1)),
      }))
    const lines = await checkDevice({ kind: "vulkan", id: 0 }, 60_000, ends)
    expect(lines).toHaveLength(ends.length)
    for (const line of lines)
      expect(line).toMatchObject({ shapes: 2, equal: 2, result: "equal", words: "" })
    // In some of the steps: experts of many rows, and of so few that those who multiply choose them; two products as one; and those
    // of one row, which they may make for themselves. And draws, of few tokens in every other step.
    const wanted = (name: string) => {
      if (/^sampler_(list|settle)$/.test(name)) return 13
      if (/^sampler_(score|select|race|tell)$/.test(name)) return 12
      if (/^(expert_lists|listed)_/.test(name)) return 3
      if (/^few1_.*_(beside|of)_/.test(name)) return 2
      if (name.includes("_beside_")) return name.startsWith("few2_") ? 1 : 9
      if (name.startsWith("routed_")) return 14
      if (name.startsWith("pair_gateUp_2_q4f16_1_store")) return 13
      return name.startsWith("pair_gateUp_3") ? 11 : SHAPES
    }
    for (const { name, shapes } of kernels)
      if (name === "rows_route") expect([11, 13]).toContain(shapes)
      // Two steps have one token, and are of other runs.
      else if (/^(rows|attend|index)_/.test(name)) expect([2, SHAPES]).toContain(shapes)
      else expect([name, shapes]).toEqual([name, wanted(name)])
    // Of steps: attention for each type of keys and values, one row of an item or several.
    const names = kernels.map(({ name }) => name)
    for (const kv of kvTypes)
      expect(
        names.filter((name) => name.startsWith("attend_") && name.includes(`_${kv}_`)).length,
      ).toBeGreaterThanOrEqual(2)
    expect(names).toEqual(expect.arrayContaining(["sampler_tell", "copy_blocks", "merge_32"]))
    expect(names).toContain("few1_q4f16_1_gated_silu_codes32_of_norm_quantize")
    // Spans that whoever rounds rows merges before that.
    expect(names).toContain("merge4_rows_quantize")
    // Experts of a few rows and of many, whose gates are in the same matrix and in another.
    for (const name of [
      "routed_gateUp_3",
      "pair_gateUp_3",
      "listed_gateUp_2",
      "listed_up_2",
      "expert_lists_2",
    ])
      expect(names.some((own) => own.startsWith(name))).toBe(true)
  },
  MILLISECONDS,
)

/** The device, but for what `changes` does otherwise. */
function otherwise(changes: Partial<GpuDevice>): GpuDevice {
  return new Proxy(device as GpuDevice, {
    get(of, name: keyof GpuDevice) {
      const value = changes[name] ?? of[name]
      return typeof value === "function" ? value.bind(of) : value
    },
  })
}

test.skipIf(without)(
  titled("a wrong bit differs, and a refusal is in the driver's words"),
  async () => {
    const shapes = Array.from({ length: SHAPES }, (_, shape) => wordsKernel.at(shape))
    const order = { profiles: "all", shapes } as const
    const flips = otherwise({
      async read(place, at, into) {
        await device!.read(place, at, into)
        if (into.length > 1000) into[4]! ^= 1 // what eleven numbers and more come to
      },
    })
    const { result, equal, words } = await checkShapes(flips, "vulkan", order)
    expect(result).toBe("differs")
    expect(equal).toBe(5)
    expect(words).toMatch(/^197 numbers.*: \[1\] \d+, not \d+$/)
    const refuses = otherwise({ load: () => Promise.reject(new Error("no such instruction")) })
    expect(await checkShapes(refuses, "vulkan", order)).toEqual({
      result: "refused",
      equal: 0,
      words: "no such instruction",
    })
  },
)

const wordsKernel = languageKernels.find(({ name }) => name === "words")!

test("a kernel is the same on all its shapes, and no two of them are alike", () => {
  for (const { name, kernel, shapes, at } of [
    ...languageKernels,
    ...weightKernels(["dots"]),
    ...weightKernels(["tiles"]),
  ]) {
    const cases = Array.from({ length: shapes }, (_, shape) => at(shape))
    const texts = [{ kernel }, ...cases].map(({ kernel }) => JSON.stringify(kernel))
    expect([name, new Set(texts).size]).toEqual([name, 1])
    const operands = cases.map(({ operands, groups }) => JSON.stringify([operands, groups]))
    expect([name, new Set(operands).size]).toEqual([name, shapes])
  }
})

const canPlant = !isLeftOut(hasCompiler)
const planted = (what: string) => (canPlant ? what : `${what} (skipped: no C compiler)`)

test.skipIf(!canPlant).each([
  { does: "hangs", code: "for (;;) pause();", words: /process is gone: it .*0\.5/ },
  { does: "faults", code: "*(volatile int *)8 = 1;", words: /process is gone: it ended/ },
])(planted("a driver that $does costs few lines"), async ({ code, words }) => {
  const folder = mkdtempSync(join(tmpdir(), "sinter-check-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const library = `__attribute__((constructor)) static void bad(void) { ${code} }`
  plantDriver(folder, "libvulkan.so.1", library)
  vi.stubEnv("LD_LIBRARY_PATH", folder) // for the process that is started
  onTestFinished(() => void vi.unstubAllEnvs())
  const lines = await checkDevice({ kind: "vulkan", id: 0 }, 500, languageKernels, 3)
  expect(lines.map(({ kernel }) => kernel)).toEqual(languageKernels.map(({ name }) => name))
  expect(lines[0]).toMatchObject({ result: "refused", words: expect.stringMatching(words) })
  expect(lines.at(-1)).toMatchObject({ result: "refused", words: "not tried any more" })
})

test.skipIf(without || !canPlant)(
  titled("the command's table has a line for each kernel, of a driver that crashes as well"),
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "sinter-check-"))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const { lost, env } = plantLosableVulkan(folder, "crashes")!
    writeFileSync(lost, "")
    const command = ["devices", "--check", "--json", "--driver-timeout", "60"]
    const vulkanAlone = { ...env, OCL_ICD_VENDORS: "/nowhere" }
    const { code, out, err } = await run(command, "", undefined, vulkanAlone)
    expect({ code, err }).toEqual({ code: 0, err: "" })
    const { devices } = JSON.parse(out)
    const { checked } = devices.find((each: { device: string }) => each.device === "vulkan:0")
    expect(checked.map(({ kernel }: { kernel: string }) => kernel)).toEqual(
      kernels.map(({ name }) => name),
    )
    expect(checked[0]).toMatchObject({ result: "refused", words: expect.stringContaining("gone") })
    expect(devices.at(-1)).not.toHaveProperty("checked") // the processor
  },
  MILLISECONDS,
)
