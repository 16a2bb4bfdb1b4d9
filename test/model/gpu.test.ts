// The targets of GPUs, on whatever device is here, a processor that poses as one included: their kernels compute the reference's
// bits, so what holds there holds here.

import { describe } from "vitest"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { findDevices } from "../../src/runtime/devices.ts"
import { isLeftOut } from "../left-out.ts"
import { judge } from "./judged.ts"

const found = (await findDevices(60_000)).flatMap(({ devices }) => devices)
const MILLISECONDS = 240_000 // a driver makes dozens of kernels of a model before it runs one

describe.each([
  // Models that bring kernels of their own: windows and sinks of layers, heads of odd sizes, norms, gates and rotations.
  {
    target: "vulkan",
    golden: ["llama-odd", "mistral-swa", "phi", "gpt-oss", "glm4-moe", "deepseek-v3", "lfm2"],
    isBrief: false,
  },
  { target: "opencl", golden: ["llama-odd"], isBrief: true },
] as const)("on $target", ({ target, golden, isBrief }) => {
  const device = found.find(({ name, obstacle }) => name === target && !obstacle)
  const left = isLeftOut(device)
  const { sums } = traitsOf(target)
  describe.skipIf(left)(
    `its first device${left ? ` (skipped: no device of ${target})` : ""}`,
    () => {
      judge({
        open: async (plan, limits) => (await targets[target].prepare(plan)).open(limits),
        traits: { sums: sums! },
        isExact: true,
        golden,
        isBrief,
        milliseconds: MILLISECONDS,
      })
    },
  )
})
