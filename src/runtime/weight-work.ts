// What C does to weights on their way into a program (blocks.c, low_rank.c): in the library of a program, or, for one that is none, in what
// a package brings.

import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { codeRoot } from "../code-root.ts"
import { type NativeWeightWork, openWeightWork } from "./ffi.ts"
import type { WeightWork } from "./program.ts"
import { type System, systemName, thisSystem } from "./system.ts"

/** What it is called where it lies compiled for a system, beside the generic kernels. */
export const weightWorkName = (system: System = thisSystem()) => `${systemName(system)}-weights.bin`

let opened: WeightWork | undefined

/** The package's; undefined where it was not built for this system, as in a checkout. */
export function packageWeightWork(): WeightWork | undefined {
  opened ??= workIn(fileURLToPath(new URL(`generic/${weightWorkName()}`, codeRoot)))
  return opened
}

/** @param path of what was compiled; undefined where there is nothing, or nothing that this system opens */
function workIn(path: string): WeightWork | undefined {
  if (!existsSync(path)) return undefined
  try {
    return checked(openWeightWork(path))
  } catch {
    return undefined
  }
}

const OK = 0 // SINTER_OK of abi.h
const TYPES = { f32: 0, f16: 1, bf16: 2 } as const

export function checked(native: NativeWeightWork): WeightWork {
  return {
    async unpackBlocks(...of) {
      if ((await native.unpackBlocks(...of)) !== OK)
        throw new Error(`internal: blocks of the type ${of[0]} are not taken apart`)
    },
    async addProduct(type, ...of) {
      if ((await native.addProduct(TYPES[type], ...of)) !== OK)
        throw new Error(`internal: nothing is added to ${type}`)
    },
  }
}
