// The reference target: a plan, interpreted. It is boring on purpose. Every other target, every pass and every trick with
// caches is right when it agrees with machine.ts and kernels.ts; and it serves small models where there is no C compiler.
//
// A step runs to its end in the thread that asks for it; hosted.ts puts the whole program into a thread of its own.

import { checkStep } from "../../../runtime/check-step.ts"
import {
  checkGroups,
  type KvShape,
  type KvType,
  type Manifest,
  type ProgramBytes,
  stateBytes,
} from "../../../runtime/manifest.ts"
import { BLOCK, type LoadableProgram, type ProgramLimits } from "../../../runtime/program.ts"
import { cutWindow } from "../../../runtime/slices.ts"
import { manifestOf } from "../../compile.ts"
import type { Buffer, Plan } from "../../plan.ts"
import type { Sharded } from "../../shard.ts"
import { type Arithmetic, Machine, runTogether } from "./machine.ts"
import { allocateParameters, storedBytes, storeRows } from "./parameters.ts"

export function referenceManifest(plan: Plan): Manifest {
  return manifestOf(plan, {
    target: "reference",
    kv: {
      dtype: plan.kv,
      groups: plan.groups.map((group) => ({ ...group, bytesPerBlock: blockBytes(group, plan.kv) })),
    },
    bytes: referenceBytes(plan),
    features: [],
    sources: "",
  })
}

/** Floats, and one for each key and value that is codes. */
function blockBytes(group: KvShape, kv: KvType): number {
  const { layers, kvHeads, headDim, state } = group
  if (state !== undefined) return stateBytes(group)
  const { key, value } = headDim
  return layers.length * BLOCK * kvHeads * (key + value + (kv === "q8" ? 2 : 0)) * 4
}

function referenceBytes(plan: Plan): ProgramBytes {
  const rowsOf = (capacity: Buffer["capacity"]) =>
    plan.buffers
      .filter((buffer) => buffer.capacity === capacity)
      .reduce((sum, { columns, dtype }) => sum + columns * (dtype === "i8" ? 1 : 4), 0)
  return {
    weights: storedBytes(plan),
    perToken: rowsOf("tokens"),
    perRow: rowsOf("logits"),
    perThread: 0,
    fixed: 0,
  }
}

/** `arithmetic`: that of a matrix unit to compare the cpu target with, on a processor that has one. */
export function openReference(
  plan: Plan,
  limits: ProgramLimits,
  arithmetic: Arithmetic = "vectors",
): LoadableProgram {
  checkGroups(plan.groups, limits)
  const parameters = allocateParameters(plan)
  return programOf(plan, limits, [new Machine(plan, limits, parameters, arithmetic)], {
    async load(parameter, row, rows, values, scales) {
      storeRows(parameters[parameter]!, plan.parameters[parameter]!, row, rows, values, scales)
    },
  })
}

/** Shards in one thread, one after the other: what those of devices are judged by. @param whole the plan that was divided */
export function openShards(
  whole: Plan,
  { plan, shards, slices }: Sharded,
  limits: ProgramLimits,
): LoadableProgram {
  checkGroups(plan.groups, limits)
  const stored = Array.from({ length: shards }, () => allocateParameters(plan))
  const machines = stored.map((parameters) => new Machine(plan, limits, parameters, "vectors"))
  return programOf(whole, limits, machines, {
    async load(parameter, row, rows, values, scales) {
      for (const [shard, parameters] of stored.entries())
        for (const [own, { of, cut }] of slices.entries()) {
          if (of !== parameter) continue
          const window = { row, rows, values, scales }
          const pieces = cutWindow(whole.parameters[of]!, cut, { shard, shards }, window)
          for (const { row, rows, values, scales } of pieces)
            storeRows(parameters[own]!, plan.parameters[own]!, row, rows, values, scales)
        }
    },
  })
}

function programOf(
  plan: Plan,
  limits: ProgramLimits,
  machines: readonly Machine[],
  { load }: Pick<LoadableProgram, "load">,
): LoadableProgram {
  const manifest = referenceManifest(plan)
  return {
    manifest,
    limits,
    load,
    async step(input, cancel) {
      checkStep(input, manifest, plan.groups, limits)
      return runTogether(machines, input, cancel)
    },
    async copyBlocks(group, from, to) {
      const blocks = limits.blocks[group]
      if (blocks === undefined) throw new Error(`internal: no KV group ${group}`)
      for (const block of [...from, ...to])
        if (block < 0 || block >= blocks) throw new Error(`internal: no block ${block}`)
      for (const machine of machines) machine.copyBlocks(group, from, to)
    },
    async close() {},
  }
}
