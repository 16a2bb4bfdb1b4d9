// Runs one of the cases below on the first device of OpenCL, for a process whose environment puts a checker there.

import {
  counted,
  type GpuCase,
  normalized,
  transposed,
} from "../../src/compiler/targets/gpu/check-cases.ts"
import { runOn } from "../../src/compiler/targets/gpu/check-device.ts"
import { printOpencl } from "../../src/compiler/targets/gpu/print/opencl.ts"
import { openOpencl } from "../../src/runtime/gpu/opencl.ts"

const cases = {
  normalized: () => normalized(),
  counted: () => counted(),
  transposed: () => transposed(),
  "normalized without barriers": () => normalized({ barriers: false }),
  "counted, a place too many": () => counted({ places: 257 }),
  "transposed, four words too many": () => transposed({ beyond: 1 }),
} as const satisfies Record<string, () => GpuCase>

const device = await openOpencl(0)
const each = cases[process.argv[2] as keyof typeof cases]()
const { text, kernels } = printOpencl([each.kernel], [])
const [loaded] = await device.load([new TextEncoder().encode(text)], kernels)
// So large that each buffer ends where its memory object does, and the checker sees what reaches beyond it.
await runOn(device, loaded!, each, 17 << 20)
await device.close()
console.log(`${device.description}: ran`)
