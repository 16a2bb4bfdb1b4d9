// In whose words each kind of device is handed its kernels. None that is not well formed is printed.

import { hasRocmTiles, ROCM_TILES } from "../../../runtime/gpu/cuda-api.ts"
import type { KernelCode } from "../../../runtime/gpu/device.ts"
import type { GpuKind } from "../../../runtime/gpu/open.ts"
import { isTileShape, type Need, type Profile } from "../../../runtime/gpu/tape.ts"
import { compileCuda } from "./cuda-compiler.ts"
import { checkKernel } from "./ir/check.ts"
import { type Kernel, type KernelNeed, sharedBytes } from "./ir/ir.ts"
import type { PrintedProgram } from "./print/c.ts"
import { printCuda } from "./print/cuda.ts"
import { metalProfiles, printMetal } from "./print/metal.ts"
import { openclProfiles, printOpencl } from "./print/opencl.ts"
import { printSpirv, spirvProfiles } from "./print/spirv.ts"
import { compileRocm } from "./rocm-compiler.ts"
import type { KernelWords } from "./tape-of.ts"

export interface Printer extends KernelWords {
  profiles: readonly (readonly Need[])[]
  /** What a device of this architecture has, of what profiles need; absent: kernels are the same for all. */
  needsOf?: (architecture: string) => readonly Need[]
  /** @throws Error naming a kernel that is not well formed */
  print(kernels: readonly Kernel[], needs: readonly Need[]): Printed
  /**
   * What a device is handed is made of a module by a compiler of this machine's, undefined where that does not know the profile's
   * devices and a later profile serves them; absent: the module is it.
   */
  compile?: (
    module: Uint8Array,
    profile: Pick<Profile, "needs" | "architecture">,
    signal?: AbortSignal,
  ) => Promise<Uint8Array | undefined>
}

interface Printed {
  modules: Uint8Array[]
  /** The same for every profile. */
  kernels: readonly KernelCode[]
}

export const printers: Record<GpuKind, Printer> = {
  cuda: {
    units: ["tiles"],
    profiles: [["matrix", "overlap"], ["matrix"], []],
    print(kernels) {
      checkOnce(kernels)
      const { text, kernels: codes } = printCuda(kernels, ["dot4"])
      return {
        modules: [Buffer.from(text)],
        kernels: codes.map((code, i) => waiting(kernels[i]!, code)),
      }
    },
    compile: compileCuda,
  },
  // Text for every AMD device: the driver's own compiler knows which one is here.
  rocm: {
    units: ["bytes", "dots"],
    profiles: [[ROCM_TILES], []],
    needsOf: (architecture) => (hasRocmTiles(architecture) ? [ROCM_TILES] : []),
    print(kernels, needs) {
      checkOnce(kernels)
      const fitted = kernels.map((kernel) => fitting(kernel, needs))
      return textOf(printCuda(fitted, ["dot4"]), kernels)
    },
    compile: async (text, { architecture }, signal) =>
      architecture === undefined ? text : compileRocm(text, architecture, signal),
  },
  metal: {
    units: ["halves", "dots"],
    profiles: metalProfiles,
    print(kernels, needs) {
      checkOnce(kernels)
      return textOf(printMetal(kernels.map((kernel) => fitting(kernel, needs))), kernels)
    },
  },
  vulkan: {
    units: ["bytes", "halves", "dots"],
    profiles: spirvProfiles,
    print(kernels, needs) {
      checkOnce(kernels)
      return {
        modules: kernels.map((kernel) => spirvOf(fitting(kernel, needs), needs)),
        kernels: kernels.map((kernel, module) => codeOf(kernel, module)),
      }
    },
  },
  opencl: {
    units: ["dots"],
    apart: true, // with its optimizer on, PoCL 3.1 computes wrong numbers of such kernels
    profiles: openclProfiles,
    print(kernels, needs) {
      checkOnce(kernels)
      const { text, kernels: codes } = printOpencl(kernels, needs)
      return { modules: [Buffer.from(text)], kernels: codes }
    },
  },
}

/** Of a kernel and what does the same, the first that a profile's devices can run. */
function fitting(kernel: Kernel, profile: readonly Need[]): Kernel {
  const [shape] = profile.filter(isTileShape)
  const lacks = (need: KernelNeed) =>
    (need === "byteTiles" && !shape?.startsWith("bytes")) ||
    (need === "halfTiles" && !shape?.startsWith("halves"))
  const { otherwise } = kernel
  return otherwise && [...kernel.needs].some(lacks) ? fitting(otherwise, profile) : kernel
}

/** Shared memory is of whichever does the same and takes most, since kernels are described the same for every profile. */
function textOf({ text, kernels: codes }: PrintedProgram, kernels: readonly Kernel[]): Printed {
  return {
    modules: [Buffer.from(text)],
    kernels: codes.map((code, i) => ({ ...code, sharedBytes: mostShared(kernels[i]!) })),
  }
}

/** What any of them takes. */
function mostShared(kernel: Kernel): number {
  const own = sharedBytes(kernel)
  return kernel.otherwise ? Math.max(own, mostShared(kernel.otherwise)) : own
}

/** A kernel without tiles is the same with every shape of them. */
const spirv = new WeakMap<Kernel, Map<string, Uint8Array>>()

function spirvOf(kernel: Kernel, profile: readonly Need[]): Uint8Array {
  const hasTiles = kernel.needs.has("byteTiles") || kernel.needs.has("halfTiles")
  const needs = hasTiles ? profile : profile.filter((need) => !isTileShape(need))
  const known = spirv.get(kernel) ?? new Map<string, Uint8Array>()
  spirv.set(kernel, known)
  const module = known.get(needs.join(" ")) ?? printSpirv(kernel, needs)
  known.set(needs.join(" "), module)
  return module
}

/**
 * What devices are handed of kernels: in a profile's words, and compiled where the kind has a compiler.
 * @returns undefined where that does not know the profile's devices
 */
export async function madeOf(
  printer: Printer,
  kernels: readonly Kernel[],
  profile: Pick<Profile, "needs" | "architecture">,
  signal?: AbortSignal,
): Promise<Printed | undefined> {
  const printed = printer.print(kernels, profile.needs)
  const { compile } = printer
  if (!compile) return printed
  const made = await Promise.all(printed.modules.map((module) => compile(module, profile, signal)))
  const modules = made.filter((module) => module !== undefined)
  return modules.length === made.length ? { ...printed, modules } : undefined
}

/**
 * Kernels may begin while those before them end, but for products of tiles: as soon as there is room on a few multiprocessors, all
 * of their groups would crowd there.
 */
function waiting(kernel: Kernel, code: KernelCode): KernelCode {
  return kernel.needs.has("matrix") ? code : { ...code, waits: true }
}

/** Kernels never change, and are printed for one profile after the other. */
const wellFormed = new WeakSet<Kernel>()

function checkOnce(kernels: readonly Kernel[]): void {
  for (const kernel of kernels) {
    if (wellFormed.has(kernel)) continue
    checkKernel(kernel)
    wellFormed.add(kernel)
  }
}

function codeOf(kernel: Kernel, module: number): KernelCode {
  const { name, threads, operands } = kernel
  const kinds = operands.map(({ kind }) => kind)
  return { name, module, entry: name, threads, sharedBytes: mostShared(kernel), operands: kinds }
}
