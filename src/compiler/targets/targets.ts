// What a plan can be compiled for, in one table. Preparing is quick and says what the program will be and take; opening may
// run a compiler and allocates everything. `auto` is the best that this machine can build.

import { rowLayout } from "../../runtime/format.ts"
import { openLibrary } from "../../runtime/library.ts"
import type { Manifest } from "../../runtime/manifest.ts"
import type { Program, ProgramLimits } from "../../runtime/program.ts"
import { openShelf } from "../../runtime/shelf.ts"
import type { Plan } from "../plan.ts"
import { type CpuTarget, prepareCpu } from "./cpu/cpu.ts"
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
}

export interface Prepared {
  manifest: Manifest
  /** Bytes of its parameters, and of the buffers that `limits` ask for. */
  weightBytes: number
  bufferBytes: (limits: ProgramLimits) => number
  open(limits: ProgramLimits): Promise<LoadableProgram>
}

type Prepare = (plan: Plan) => Promise<Prepared>

export const targets = {
  reference: async (plan) => ({
    manifest: referenceManifest(plan),
    weightBytes: referenceBytes(plan).weights,
    bufferBytes: referenceBytes(plan).buffers,
    open: async (limits) => hostReference(plan, limits),
  }),
  cpu: (plan) => prepareLibrary(plan, "cpu"),
  "cpu:baseline": (plan) => prepareLibrary(plan, "cpu:baseline"),
} as const satisfies Record<string, Prepare>

export type TargetName = keyof typeof targets

async function prepareLibrary(plan: Plan, target: CpuTarget): Promise<Prepared> {
  const library = await prepareCpu(plan, target)
  const { manifest } = library
  return {
    manifest,
    weightBytes: manifest.parameters.reduce((sum, { rows, columns, format }) => {
      const { bytes, scaleBytes } = rowLayout(format, columns)
      return sum + rows * (bytes + scaleBytes)
    }, 0),
    bufferBytes: referenceBytes(plan).buffers,
    open: async (limits) => {
      const { path } = await openShelf().get(library.key, () => library.build())
      return openLibrary(path, limits)
    },
  }
}
