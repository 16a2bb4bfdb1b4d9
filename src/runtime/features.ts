// What this process may use of its processor, in the names Linux gives it ("avx512_vnni", "asimddp"): a library lists what
// it was built for, and is opened only where all of that is here. Where the system shows nothing, nothing is assumed; what a
// processor has and the system does not lend counts as not here.

import { readFileSync } from "node:fs"
import { systemCall } from "./ffi.ts"

/** Every Mac with an ARM processor has these; the system does not list them by these names. */
const appleFeatures = ["asimd", "asimddp", "fphp", "asimdhp"]

export function processorFeatures(): ReadonlySet<string> {
  if (process.platform === "darwin" && process.arch === "arm64") return new Set(appleFeatures)
  try {
    return lentFeatures(parseFeatures(readFileSync("/proc/cpuinfo", "utf8")))
  } catch {
    return new Set()
  }
}

/** The features that every core of a /proc/cpuinfo has: cores may differ. */
export function parseFeatures(cpuinfo: string): ReadonlySet<string> {
  const cores = [...cpuinfo.matchAll(/^(?:flags|Features)\s*:(.*)$/gm)].map(
    ([, names]) => new Set(names!.trim().split(/\s+/)),
  )
  const [first, ...others] = cores
  return new Set([...(first ?? [])].filter((name) => others.every((core) => core.has(name))))
}

/** Without the matrix unit (AMX) where the system does not lend it; that is asked only where there is one. */
export function lentFeatures(
  features: ReadonlySet<string>,
  lendsTiles: () => boolean = tilesLent,
): ReadonlySet<string> {
  if (!features.has("amx_tile") || lendsTiles()) return features
  return new Set([...features].filter((name) => !name.startsWith("amx_")))
}

/** Of arch_prctl, by which a process asks for registers that are large: the kernel's documentation of x86, xstate. */
const ARCH_PRCTL = 158
const REQUEST_PERMISSION = 0x1023
const TILE_DATA = 18

/** What was answered first holds: a library must not gain or lose features while the process lives. */
let lent: boolean | undefined

/**
 * Linux lends a process the tile registers on request. It refuses under some sandboxes, and where a signal stack is too small
 * to save them on. What is lent stays lent, to all threads.
 */
function tilesLent(): boolean {
  try {
    lent ??= process.arch === "x64" && systemCall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) === 0
  } catch {
    lent = false // nobody there to be asked
  }
  return lent
}
