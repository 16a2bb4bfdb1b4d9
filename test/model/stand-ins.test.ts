// The targets of CUDA, ROCm and Metal on the stand-ins for their drivers, which run the very text of their kernels: golden logits, and
// the reference's bits in any company. One golden model in every run; TESTS=all takes them all, for an hour of a quiet machine.

import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe } from "vitest"
import { prepareGpu } from "../../src/compiler/targets/gpu/gpu.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { openCuda, openHip } from "../../src/runtime/gpu/cuda.ts"
import type { GpuDevice } from "../../src/runtime/gpu/device.ts"
import { openMetal } from "../../src/runtime/gpu/metal.ts"
import { openGpuLibrary } from "../../src/runtime/gpu/program.ts"
import * as cuda from "../device/cuda-stand-in.ts"
import * as metal from "../device/metal/metal-stand-in.ts"
import { isLeftOut, takesAll } from "../left-out.ts"
import { goldenFolder } from "./golden.ts"
import { type Judged, judge } from "./judged.ts"

const MILLISECONDS = 240_000 // g++ makes a model's kernels, and a processor runs them thread by thread

/** Those that are judged by logits. */
const every = (["models", "mlc"] as const).flatMap((kind) =>
  readdirSync(goldenFolder(kind, "."), { withFileTypes: true })
    .filter((each) => each.isDirectory())
    .map(({ name }): Judged["golden"][number] => `${kind}/${name}`),
)

const folder = mkdtempSync(join(tmpdir(), "sinter-stand-ins-"))
afterAll(() => rmSync(folder, { recursive: true }))

const kinds = {
  cuda: {
    hasStandIn: cuda.hasStandIn,
    open: (library: string) => openCuda(0, [library]),
  },
  rocm: {
    hasStandIn: cuda.hasStandIn,
    open: (library: string) => openHip(0, [library]),
  },
  metal: {
    hasStandIn: metal.hasStandIn,
    open: (library: string) => openMetal(0, [library], { runtime: [library], graphics: [library] }),
  },
}

describe.each(["cuda", "rocm", "metal"] as const)("on %s", (target) => {
  const { hasStandIn, open } = kinds[target]
  const isSkipped = isLeftOut(hasStandIn)
  let device: GpuDevice
  beforeAll(async () => {
    if (isSkipped) return
    if (target === "metal") device = await open((await metal.buildStandIn(folder)).library)
    else {
      const own = mkdtempSync(join(folder, target))
      const standIn = await cuda.buildStandIn(own)
      process.env.NVRTC = standIn.env.NVRTC
      device = await open(standIn.library)
    }
  }, MILLISECONDS)
  afterAll(() => device?.close())

  describe.skipIf(isSkipped)(
    `its stand-in${isSkipped ? " (skipped: no g++, or not Linux on x86-64)" : ""}`,
    () => {
      let built = 0
      judge({
        open: async (plan, limits) => {
          const build = await prepareGpu(plan, target)
          const path = join(folder, `${target}-${built++}.gpu`)
          writeFileSync(path, await build.build())
          return openGpuLibrary(path, limits, [async () => ({ device, giveBack: async () => {} })])
        },
        traits: { sums: traitsOf(target).sums! },
        isExact: true,
        golden: takesAll ? every : ["models/llama-odd"],
        breadth: "one",
        milliseconds: MILLISECONDS,
      })
    },
  )
})
