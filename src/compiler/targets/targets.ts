// The table of targets. --device, --target, compile, inspect, the shelf and whoever opens a library read it, so a new target
// is a row. What a row does stands in its own folder and is loaded when it is done: help must not wait for native packages.

import { extname } from "node:path"
import type { DeviceName } from "../../runtime/devices.ts"
import type { GpuKind } from "../../runtime/gpu/open.ts"
import { budgetOf, readMemory } from "../../runtime/memory.ts"
import type { StepTraits } from "../../runtime/program.ts"
import type { CpuTarget } from "./cpu/cpu.ts"
import { mostBlocks } from "./gpu/most-blocks.ts"
import type { Lack, LibraryKind, PlanTraits, Target } from "./target.ts"

const steps: StepTraits = {
  stepTokens: 512, // activations are sized for it
  sequences: 128,
  drafts: 64,
}

/**
 * Thousands of lanes add one row's products: in eight parts, and attention in spans. Whole numbers are what matrix units add exactly;
 * in attention PoCL 3.1, the only driver of OpenCL that was at hand, computes wrong numbers of them.
 */
const ofOpencl = {
  activations: "int16",
  sums: { parts: 8, span: 256 },
} as const satisfies PlanTraits
const ofGpus = {
  ...ofOpencl,
  sums: { ...ofOpencl.sums, codes: "codes" },
} as const satisfies PlanTraits

const rows = {
  cpu: compiledFor("cpu", "for exactly this processor"),
  "cpu:baseline": compiledFor("cpu:baseline", "for any processor of its architecture"),
  reference: {
    help: "an interpreter: slow, and the judge of the others",
    devices: ["cpu"],
    traits: { activations: "int8" },
    steps,
    lacks: async () => undefined,
    makes: async () => "an interpreter",
    memory: () => ({ device: readMemory() }),
    prepare: async (plan) => (await import("./reference/hosted.ts")).prepareReference(plan),
  },
  cuda: {
    ...kernelsFor("cuda", "PTX", { pattern: /^sm_(7[5-9]|[89]\d|1\d\d)[af]?$/, example: "sm_90a" }),
    lacks: async () => (await import("./gpu/cuda-compiler.ts")).lackOfCudaCompiler(),
    makes: async () => (await import("./gpu/cuda-compiler.ts")).describeCudaCompiler(),
  },
  rocm: {
    ...kernelsFor("rocm", "HIP C", { pattern: /^gfx[0-9a-f]{3,4}$/, example: "gfx1100" }),
    lacks: async () => (await import("./gpu/rocm-compiler.ts")).lackOfRocmCompiler(),
  },
  metal: kernelsFor("metal", "Metal's shading language"),
  vulkan: kernelsFor("vulkan", "SPIR-V"),
  opencl: kernelsFor("opencl", "OpenCL C", undefined, ofOpencl),
} as const satisfies Record<string, Target>

export type TargetName = keyof typeof rows
export const targets: Readonly<Record<TargetName, Target>> = rows
export const targetNames = Object.keys(targets) as TargetName[]

/** Undefined for a name that this version does not know: a library may come from another. */
export function targetOf(name: string): Target | undefined {
  return Object.hasOwn(targets, name) ? targets[name as TargetName] : undefined
}

/** Best first. */
export function targetsOf(device: DeviceName): TargetName[] {
  return targetNames.filter((name) => targets[name].devices.includes(device))
}

/** Those that a library can be compiled for. */
export const libraryTargets = targetNames.filter((name) => targets[name].library)

/** Whether a file is a library, by the end of its name: on the shelf as in a folder. */
export function isLibraryName(name: string): boolean {
  return libraryTargets.some((target) => extname(targets[target].library!.file) === extname(name))
}

/** What this machine lacks to make anything for a device; undefined: nothing, or it interprets. */
export async function lackFor(device: DeviceName): Promise<Lack | undefined> {
  const names = targetsOf(device)
  return names.includes("reference") ? undefined : targets[names[0]!].lacks()
}

function compiledFor(name: CpuTarget, help: string): Target {
  const library: LibraryKind = {
    file: `${name.replace(":", "-")}.so`,
    check: async (path, manifest) =>
      (await import("../../runtime/library.ts")).checkMachine(path, manifest),
    open: async (path, limits) =>
      (await import("../../runtime/library.ts")).openLibrary(path, limits),
    prepare: async (plan, _, shelf) => (await import("./cpu/cpu.ts")).prepareCpu(plan, name, shelf),
    kv: async (plan) => (await import("./cpu/layout.ts")).kvOf(plan),
  }
  return {
    help: `a library ${help}`,
    devices: ["cpu"],
    traits: { activations: "int8" },
    steps: { ...steps, repeats: true },
    library,
    lacks: async () => (await import("./cpu/cpu.ts")).lackOfCompiler(name),
    makes: async () => (await import("./cpu/cpu.ts")).describeCpu(name),
    memory: () => ({ device: readMemory() }),
    prepare: async (plan, devices, log) =>
      (await import("./prepared.ts")).prepareBuilt(plan, library, devices, log),
  }
}

function kernelsFor(
  name: GpuKind,
  language: string,
  architectures?: LibraryKind["architectures"],
  traits: typeof ofGpus | typeof ofOpencl = ofGpus,
): Target {
  const library: LibraryKind = {
    file: `${name}.gpu`,
    ...(architectures && { architectures }),
    check: async () => {}, // any device takes the plainest of its profiles
    open: async (path, limits, devices) =>
      (await import("../../runtime/gpu/open.ts")).openGpu(name, path, limits, devices),
    prepare: async (plan, shards, _, architectures) =>
      (await import("./gpu/gpu.ts")).prepareGpu(plan, name, shards, architectures),
    kv: async (plan) => (await import("./gpu/gpu.ts")).kvOf(plan),
    costs: async (plan) => (await import("./gpu/costs.ts")).costLines(plan, name),
  }
  return {
    help: `kernels in ${language}`,
    devices: [name],
    traits,
    steps,
    mostBlocks,
    divides: true,
    check: async (id, milliseconds) => {
      const { checkDevice, checkedKernels } = await import("./gpu/check.ts")
      const { printers } = await import("./gpu/printers.ts")
      const kernels = checkedKernels(traits.sums, printers[name])
      return checkDevice({ kind: name, id }, milliseconds, kernels)
    },
    library,
    lacks: async () => undefined,
    makes: async () => `kernels in ${language}`,
    memory: ({ memory }) => budgetOf(memory!),
    prepare: async (plan, devices, log) =>
      (await import("./prepared.ts")).prepareBuilt(plan, library, devices, log),
  }
}
