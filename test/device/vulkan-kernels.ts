// Kernels as Vulkan's driver takes them: a module of SPIR-V each.

import { type Kernel, sharedBytes } from "../../src/compiler/targets/gpu/ir/ir.ts"
import { printSpirv } from "../../src/compiler/targets/gpu/print/spirv.ts"
import type { KernelCode } from "../../src/runtime/gpu/device.ts"
import type { Need } from "../../src/runtime/gpu/tape.ts"

export function codeOf(
  kernels: readonly Kernel[],
  needs: readonly Need[],
): [Uint8Array[], KernelCode[]] {
  const codes = kernels.map((kernel, module) => ({
    name: kernel.name,
    module,
    entry: kernel.name,
    threads: kernel.threads,
    sharedBytes: sharedBytes(kernel),
    operands: kernel.operands.map(({ kind }) => kind),
  }))
  return [kernels.map((kernel) => printSpirv(kernel, needs)), codes]
}
