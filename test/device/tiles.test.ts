// Products on matrix units whose tiles lie as each device likes: what Vulkan's cooperative matrices and Metal's of a SIMD group have
// in common. Modules are judged by SPIR-V's own checker where it knows such matrices, and run where a device does.

import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, test } from "vitest"
import { differences, runOn, twinOf } from "../../src/compiler/targets/gpu/check-device.ts"
import { weightKernels } from "../../src/compiler/targets/gpu/check-products.ts"
import { kernel } from "../../src/compiler/targets/gpu/ir/builder.ts"
import { Memory, runKernel } from "../../src/compiler/targets/gpu/ir/run.ts"
import { printSpirv, spirvProfiles } from "../../src/compiler/targets/gpu/print/spirv.ts"
import { printers } from "../../src/compiler/targets/gpu/printers.ts"
import { DriverObstacle } from "../../src/runtime/drivers/driver.ts"
import { subgroupFor } from "../../src/runtime/drivers/vulkan-tiles.ts"
import type { GpuDevice, Place } from "../../src/runtime/gpu/device.ts"
import { subgroupOf } from "../../src/runtime/gpu/spirv-tiles.ts"
import { isTileShape, meets, type Need } from "../../src/runtime/gpu/tape.ts"
import { type TileShape, tileShapes } from "../../src/runtime/gpu/tile-shapes.ts"
import { openVulkan } from "../../src/runtime/gpu/vulkan.ts"
import { probeModules, probeTile, probeTiles } from "../../src/runtime/gpu/vulkan-tile-probe.ts"
import { ProgramLost } from "../../src/runtime/program.ts"
import { probeModules as printedProbes, tileProbe } from "./tile-probe.ts"

const wordsOf = (module: Uint8Array) => new Uint32Array(new Uint8Array(module).buffer)

/** With gates and with minimums; of groups of 16, of 32 and of 40 columns; and of floats. */
const products = weightKernels(printers.vulkan.units).filter(({ name }) =>
  /^tile64_(q4f16_1|q3f16_1|q2_k|q8_zeros|f16_wide)_/.test(name),
)

describe("a device is asked how its tiles lie", () => {
  test("by kernels in the words of the printer", () => {
    expect(probeModules().map(wordsOf)).toEqual(printedProbes().map(wordsOf))
  })

  test("whose subgroups have as many threads as hold eight elements each", () => {
    const asked = probeModules().map((module) => subgroupOf(wordsOf(module)))
    expect(asked).toEqual(tileShapes.map(subgroupFor))
    expect(asked).toEqual([32, 32, 16, 8, 8, 32, 8])
    const plain = printSpirv(
      kernel("plain", 32, (k) => k.barrier()),
      [],
    )
    expect(subgroupOf(wordsOf(plain))).toBeUndefined()
  })

  /**
   * Runs what it is given as the twin does, and gets one element wrong with some shapes.
   * @param fails of others, what loading a kernel, or running it, throws
   */
  function twinDevice(
    named: readonly TileShape[],
    wrong: readonly TileShape[],
    fails: Partial<Record<"load" | "run", Partial<Record<TileShape, Error>>>> = {},
  ): GpuDevice {
    const memories = new Map<Place, Memory>()
    const bytesOf = (place: Place) => memories.get(place)!.u8()
    const modules = probeModules()
    return {
      traits: { tiles: named },
      async allocate(bytes: number) {
        const place = { bytes }
        memories.set(place, new Memory(bytes))
        return place
      },
      free: (place: Place) => void memories.delete(place),
      write: async (place: Place, at: number, bytes: Uint8Array) =>
        memories.get(place)!.put(at, bytes),
      read: async (place: Place, at: number, into: Uint8Array) =>
        into.set(bytesOf(place).subarray(at, at + into.length)),
      load: async ([module]: readonly Uint8Array[]) => {
        const shape = tileShapes[modules.findIndex((each) => Buffer.compare(each, module!) === 0)]!
        if (fails.load?.[shape]) throw fails.load[shape]
        return [shape]
      },
      record: ([dispatch]: readonly { kernel: TileShape; operands: { place: Place }[] }[]) => ({
        ...dispatch,
        free: () => {},
      }),
      run: async ([recording]: readonly { kernel: TileShape; operands: { place: Place }[] }[]) => {
        const { kernel, operands } = recording!
        if (fails.run?.[kernel]) throw fails.run[kernel]
        const [rows, columns, product] = operands.map(({ place }) => memories.get(place)!)
        runKernel(tileProbe(kernel), [rows!, columns!, product!], [1, 1, 1], { order: "shuffled" })
        if (wrong.includes(kernel)) product!.i32()[200]!++
      },
    } as unknown as GpuDevice
  }

  test("and what it gets wrong is not used", async () => {
    expect(await probeTiles(twinDevice(tileShapes, []))).toEqual(tileShapes)
    const right = await probeTiles(twinDevice(tileShapes, ["bytes16x16x16", "halves8x8x8"]))
    expect(right).toEqual(
      tileShapes.filter((shape) => shape !== "bytes16x16x16" && shape !== "halves8x8x8"),
    )
    expect(await probeTiles(twinDevice([], []))).toEqual([])
    expect(new Set(probeTile().product).size).toBeGreaterThan(200) // no place stands for another
  })

  test("nor is what it names and then refuses, but a device that is lost is lost", async () => {
    const refused = new DriverObstacle("driver_failed", "vkCreateComputePipelines answers -13")
    const failing = {
      load: { bytes16x16x32: refused },
      run: { halves8x8x8: new Error("vkQueueSubmit answers -2") },
    }
    expect(await probeTiles(twinDevice(tileShapes, [], failing))).toEqual(
      tileShapes.filter((shape) => shape !== "bytes16x16x32" && shape !== "halves8x8x8"),
    )
    const lost = new ProgramLost("vkWaitForFences answers VK_ERROR_DEVICE_LOST")
    const losing = twinDevice(tileShapes, [], { run: { bytes16x16x16: lost } })
    await expect(probeTiles(losing)).rejects.toBe(lost)
  })
})

describe("what a device is given", () => {
  const traits = (tiles: readonly TileShape[]) => ({
    ...{ threads: 256, sharedBytes: 32768, operandBytes: 128, subgroup: 32, isProcessor: false },
    ...{
      dot4: true,
      matrix: false,
      overlap: false,
      fma: true,
      division: false,
      float64: false,
      tiles,
    },
  })
  const given = (tiles: readonly TileShape[]) =>
    spirvProfiles.find((needs) => meets(traits(tiles), needs))

  test("are its own tiles, those of bytes before those of halves", () => {
    expect(given(["halves16x16x16", "bytes16x16x32"])).toEqual(["fma", "dot4", "bytes16x16x32"])
    expect(given(["halves16x16x16"])).toEqual(["fma", "dot4", "halves16x16x16"])
    expect(given([])).toEqual(["fma", "dot4"])
  })

  test("a kernel in three ways, of which each profile has one, under one name", () => {
    const each = products[0]!.at(0).kernel
    const named = (needs: readonly Need[]) => printers.vulkan.print([each], needs).kernels
    const [bytes, halves, dots] = [
      given(["bytes16x16x32"])!,
      given(["halves16x16x16"])!,
      given([])!,
    ].map((needs) => printers.vulkan.print([each], needs).modules[0]!)
    expect(subgroupOf(wordsOf(bytes!))).toBe(32)
    expect(subgroupOf(wordsOf(halves!))).toBe(32)
    expect(subgroupOf(wordsOf(dots!))).toBeUndefined()
    expect(Buffer.compare(bytes!, halves!)).not.toBe(0)
    expect(named(given([])!)).toEqual(named(given(["bytes16x16x32"])!))
  })
})

// ------------------------------------------------------------------ others' judgement

const validator = "spirv-val"
const folder = mkdtempSync(join(tmpdir(), "sinter-tiles-"))
afterAll(() => rmSync(folder, { recursive: true }))

function judged(module: Uint8Array): string {
  const file = join(folder, "tiles.spv")
  writeFileSync(file, module)
  const { stderr, error } = spawnSync(validator, ["--target-env", "vulkan1.2", file])
  return error ? "no validator" : stderr.toString()
}

/** It knows these matrices since 2023.4; Debian 12's is older, and so is its lavapipe: neither is a fault of CI's. */
const knowsMatrices = !/validator|Invalid capability operand/.test(judged(probeModules()[0]!))
const withoutValidator = !knowsMatrices

test.skipIf(withoutValidator)(
  `modules are valid SPIR-V${withoutValidator ? ` (skipped: no ${validator} that knows cooperative matrices)` : ""}`,
  () => {
    for (const module of probeModules()) expect(judged(module)).toBe("")
    const shaped = spirvProfiles.filter((needs) => needs.some(isTileShape))
    for (const { at } of products)
      for (const needs of shaped)
        for (const module of printers.vulkan.print([at(0).kernel], needs).modules)
          expect(judged(module)).toBe("")
  },
)

const device = await openVulkan(0).catch(() => undefined)
afterAll(() => device?.close())
const withTiles = device !== undefined && device.traits.tiles.length > 0
const withoutTiles = !withTiles

test.skipIf(withoutTiles)(
  `a device's tiles give the slow twin's bits${withoutTiles ? " (skipped: no device of Vulkan multiplies tiles)" : ""}`,
  async () => {
    const kinds = ["bytes", "halves"].flatMap((kind) => {
      const needs = spirvProfiles.find(
        (needs) => meets(device!.traits, needs) && needs.some((need) => need.startsWith(kind)),
      )
      return needs ? [needs] : []
    })
    for (const { name, at } of products)
      for (const needs of kinds) {
        const { modules, kernels } = printers.vulkan.print([at(0).kernel], needs)
        const [loaded] = await device!.load(modules, kernels)
        for (const shape of [0, 9, 15]) {
          const each = at(shape)
          const found = await runOn(device!, loaded!, each)
          const expected = twinOf(each)
          expect(
            found.flatMap((array, n) => differences(array, expected[n]!)),
            `${name} with ${needs.join(", ")}`,
          ).toEqual([])
        }
      }
  },
)
