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
    golden: [
      "models/llama-odd",
      "models/phi",
      "models/deepseek-v32",
      "models/llama4",
      "models/lfm2",
      "models/qwen3-5",
      "models/granite-hybrid",
      "models/mamba",
      "models/kolibri1",
      "models/phimoe",
    ],
    breadth: "some",
  },
  { target: "opencl", golden: ["models/llama-odd"], breadth: "one" },
] as const)("on $target", ({ target, golden, breadth }) => {
  const device = found.find(({ name, obstacle }) => name === target && !obstacle)
  const left = isLeftOut(device)
  const { sums, activations } = traitsOf(target)
  describe.skipIf(left)(
    `its first device${left ? ` (skipped: no device of ${target})` : ""}`,
    () => {
      judge({
        open: async (plan, limits) => (await targets[target].prepare(plan)).open(limits),
        // Spans so short that prompts have several, which are then merged.
        traits: { sums: { ...sums!, span: 64 } },
        isExact: true,
        isWide: activations === "int16",
        golden,
        breadth,
        milliseconds: MILLISECONDS,
      })
    },
  )
})
