// From a plan to a program. Targets are one table; which of them is taken follows from what was asked for, what the model
// folder brings and what this machine can build:
//
//   --model-lib  >  lib/ of the model folder  >  the shelf, else a C compiler  >  the interpreter, for small models
//
// Preparing is quick and says what the program will be and take; opening may run a compiler and allocates everything.

import { existsSync } from "node:fs"
import { join } from "node:path"
import { Problem, problem } from "../../errors.ts"
import type { Log } from "../../log.ts"
import {
  checkManifest,
  openLibrary,
  type PackedWeights,
  readManifest,
} from "../../runtime/library.ts"
import type { Manifest } from "../../runtime/manifest.ts"
import type { Program, ProgramLimits } from "../../runtime/program.ts"
import { openShelf } from "../../runtime/shelf.ts"
import type { Plan } from "../plan.ts"
import { type CpuTarget, prepareCpu } from "./cpu/cpu.ts"
import { cpuBytes } from "./cpu/sizes.ts"
import { findCompiler } from "./cpu/toolchain.ts"
import { hostReference } from "./reference/hosted.ts"
import { referenceBytes, referenceManifest } from "./reference/reference.ts"

/** A program before and after its parameters are in. */
export interface LoadableProgram extends Program {
  /** Rows of the manifest's parameter number `parameter`, in the parameter's own format. */
  load(
    parameter: number,
    row: number,
    rows: number,
    values: Uint8Array,
    scales?: Uint8Array,
  ): Promise<void>
  /** Absent where the parameters are kept in pieces. */
  readonly packed?: PackedWeights
}

export interface Prepared {
  manifest: Manifest
  /** Where the program comes from, for people. */
  origin: string
  /** Bytes of its parameters, and of the buffers that `limits` ask for. */
  weightBytes: number
  bufferBytes: (limits: ProgramLimits) => number
  /** @param signal ends a compiler that runs */
  open(limits: ProgramLimits, signal?: AbortSignal): Promise<LoadableProgram>
}

export const targets = {
  reference: async (plan) => {
    const { weights, buffers } = referenceBytes(plan)
    return {
      manifest: referenceManifest(plan),
      origin: "interpreted",
      weightBytes: weights,
      bufferBytes: buffers,
      open: async (limits) => hostReference(plan, limits),
    }
  },
  cpu: (plan, log?: Log) => prepareBuild(plan, "cpu", log),
  "cpu:baseline": (plan, log?: Log) => prepareBuild(plan, "cpu:baseline", log),
} as const satisfies Record<string, (plan: Plan, log?: Log) => Promise<Prepared>>

export type TargetName = keyof typeof targets

export interface ProgramWish {
  target: TargetName | "auto"
  /** A library that must be used; `target` must be its own, or auto. */
  library: string | undefined
  /** The model's folder, which may bring libraries. */
  folder: string
  log: Log
}

/** The largest model that is served without a C compiler: the interpreter is some hundred times slower. */
const MOST_INTERPRETED = 50e6 // parameters

/** @throws `library_unusable`, `option_invalid` for the one asked for; `compiler_missing` when there is none and the model is large. */
export async function prepareProgram(plan: Plan, wish: ProgramWish): Promise<Prepared> {
  const { target, library, folder, log } = wish
  if (library) return agreeing(prepareFile(library, plan), target)
  if (target !== "auto") return shipped(plan, folder, [target], log) ?? targets[target](plan, log)
  const found = shipped(plan, folder, ["cpu", "cpu:baseline"], log)
  if (found) return found
  if (parameterCount(plan) > MOST_INTERPRETED || (await findCompiler()))
    return targets.cpu(plan, log)
  log.warn(
    "No C compiler is here, so the model runs in the interpreter, which is slow; install gcc or clang.",
  )
  return targets.reference(plan)
}

export function parameterCount({ parameters }: Plan): number {
  return parameters.reduce((sum, { rows, columns }) => sum + rows * columns, 0)
}

/** Where a compiled folder keeps the library of a target. */
export function libraryPath(folder: string, target: CpuTarget): string {
  return join(folder, "lib", `${target.replace(":", "-")}.so`)
}

/** The program of the library that was asked for, unless a target was asked for as well and is another. */
function agreeing(prepared: Prepared, target: ProgramWish["target"]): Prepared {
  const made = prepared.manifest.target
  if (target === "auto" || target === made) return prepared
  throw problem("option_invalid", {
    option: "--target",
    problem: `${target} was asked for, but ${prepared.origin}, which --model-lib names, is for ${made}; leave one of the two out`,
  })
}

/** A library that lies in the model folder and can be used here. */
function shipped(
  plan: Plan,
  folder: string,
  names: readonly TargetName[],
  log: Log,
): Prepared | undefined {
  for (const target of names) {
    if (target === "reference" || !existsSync(libraryPath(folder, target))) continue
    try {
      return prepareFile(libraryPath(folder, target), plan)
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      log.warn(`${error.message} Another is built instead.`)
    }
  }
  return undefined
}

/** @throws `library_unusable` */
function prepareFile(path: string, plan: Plan): Prepared {
  const manifest = readManifest(path)
  checkManifest(path, manifest, referenceManifest(plan))
  return {
    ...sizes(plan, manifest),
    origin: path,
    open: (limits) => openLibrary(path, limits),
  }
}

async function prepareBuild(plan: Plan, target: CpuTarget, log?: Log): Promise<Prepared> {
  const shelf = openShelf()
  const library = await prepareCpu(plan, target, shelf)
  const found = shelf.find(library.name)
  return {
    ...sizes(plan, library.manifest),
    origin: found ?? `built now by ${library.compiler.command}`,
    open: async (limits, signal) => {
      const { path, kept } = await shelf.get(library.name, () => library.build(signal))
      if (!kept) log?.warn(`The library is built at every start: ${shelf.folder} cannot hold it.`)
      return openLibrary(path, limits)
    },
  }
}

function sizes(plan: Plan, manifest: Manifest): Omit<Prepared, "origin" | "open"> {
  const { weights, buffers } = cpuBytes(plan)
  return { manifest, weightBytes: weights, bufferBytes: buffers }
}
