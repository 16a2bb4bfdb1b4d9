// Works on the first device of Vulkan, for a process whose environment puts a checker there or whose memory is looked at.

import { readdirSync } from "node:fs"
import { gpuCases } from "../../src/compiler/targets/gpu/check-cases.ts"
import { newCancel, runOn } from "../../src/compiler/targets/gpu/check-device.ts"
import { spirvProfiles } from "../../src/compiler/targets/gpu/print/spirv.ts"
import { meets, type Need } from "../../src/runtime/gpu/tape.ts"
import { openVulkan } from "../../src/runtime/gpu/vulkan.ts"
import { adds, startInTurns, sums } from "./gpu-driver.ts"
import { codeOf } from "./vulkan-kernels.ts"

const works = {
  async everything() {
    for (const staged of [false, true]) {
      const device = await openVulkan(0, { staged })
      const canRun = (needs: readonly Need[]) => meets(device.traits, needs)
      for (const each of gpuCases)
        for (const needs of spirvProfiles.filter(canRun)) {
          const [loaded] = await device.load(...codeOf([each.kernel], needs))
          await runOn(device, loaded!, each)
        }
      const [add] = await device.load(...codeOf([adds], []))
      const place = await device.allocate(400, "device")
      const dispatch = { kernel: add!, operands: [{ place, at: 0 }, 100, 1] as const }
      const recording = device.record(
        [1, 1, 0, 1].map((x) => ({ ...dispatch, groups: [x, 1, 1] as const })),
      )
      await device.run(Array(20).fill(recording), newCancel())
      const [sum] = await device.load(...codeOf([sums], []))
      await startInTurns(device, sum!, 6)
      await device.allocate(device.memory().largest + 1, "device").catch(() => {})
      await device.madeOf([add!])
      await device.close() // with a place and a recording that nobody has freed
    }
    console.log("done")
  },

  /** What one device has made is handed to another. */
  async misuse() {
    const [device, other] = [await openVulkan(0), await openVulkan(0)]
    const [add] = await other.load(...codeOf([adds], []))
    const place = await device.allocate(4, "device")
    device.record([{ kernel: add!, operands: [{ place, at: 0 }, 1, 1], groups: [1, 1, 1] }])
    await device.close()
    await other.close()
  },

  async growth() {
    const device = await openVulkan(0, { staged: true })
    const [add] = await device.load(...codeOf([adds], []))
    const run = async () => {
      const place = await device.allocate(4000, "device")
      await device.write(place, 0, new Uint8Array(4000))
      const operands = [{ place, at: 0 }, 1000, 1] as const
      const recording = device.record(
        Array(20).fill({ kernel: add!, operands, groups: [1, 1, 1] as const }),
      )
      await device.run([recording, recording], newCancel())
      await device.read(place, 0, new Uint8Array(4000))
      recording.free()
      device.free(place)
    }
    const held = () => {
      globalThis.gc!()
      return { files: readdirSync("/proc/self/fd").length, resident: process.memoryUsage.rss() }
    }
    for (let turn = 0; turn < 200; turn++) await run()
    const before = held()
    for (let turn = 0; turn < 1000; turn++) await run()
    console.log(JSON.stringify({ before, after: held() }))
    await device.close()
  },
}

await works[process.argv[2] as keyof typeof works]()
