// What this process may use of its processor, in the names Linux gives it ("avx512_vnni", "asimddp"): a library lists what
// it was built for, and is opened only where all of that is here. Where the system shows nothing, nothing is assumed; what a
// processor has and the system does not lend counts as not here. Linux shows a list; elsewhere an x86 processor is asked by
// processor.c, which the package brings compiled.

import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { codeRoot } from "../code-root.ts"
import { askProcessor, systemCall, windowsHas } from "./ffi.ts"

/** Every Mac with an ARM processor has these; the system does not list them by these names. */
const appleFeatures = ["asimd", "asimddp", "fphp", "asimdhp"]

export function processorFeatures(): ReadonlySet<string> {
  try {
    return new Set(featuresHere())
  } catch {
    return new Set()
  }
}

function featuresHere(): Iterable<string> {
  const { platform, arch } = process
  if (platform === "linux")
    return lentFeatures(parseFeatures(readFileSync("/proc/cpuinfo", "utf8")))
  if (platform === "darwin" && arch === "arm64") return appleFeatures
  if (platform === "win32" && arch === "arm64") return windowsHas(DOT_PRODUCTS) ? ["asimddp"] : []
  const library = fileURLToPath(new URL(`generic/${processorName(platform)}`, codeRoot))
  return existsSync(library) ? featuresOf(askProcessor(library)) : []
}

/** What processor.c is called where it lies compiled, beside the generic kernels. */
export const processorName = (platform: NodeJS.Platform) => `${platform}-x64-processor.bin`

/** PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE: https://learn.microsoft.com/windows/win32/api/processthreadsapi/nf-processthreadsapi-isprocessorfeaturepresent */
const DOT_PRODUCTS = 43

/** Registers of 256 and of 512 bits, as XCR0 has them. */
const SAVES_AVX = 0b110
const SAVES_AVX512 = 0b1110_0110

/** Intel's manual, volume 2, CPUID: word of processor.c, bit, and the registers that the system has to save. */
const named: Readonly<Record<string, readonly [word: number, bit: number, saved: number]>> = {
  avx: [0, 28, SAVES_AVX],
  fma: [0, 12, SAVES_AVX],
  f16c: [0, 29, SAVES_AVX],
  avx2: [1, 5, SAVES_AVX],
  avx_vnni: [3, 4, SAVES_AVX],
  avx512f: [1, 16, SAVES_AVX512],
  avx512dq: [1, 17, SAVES_AVX512],
  avx512bw: [1, 30, SAVES_AVX512],
  avx512vl: [1, 31, SAVES_AVX512],
  avx512_vnni: [2, 11, SAVES_AVX512],
}

/** @param words as processor.c writes them */
export function featuresOf(words: Uint32Array): string[] {
  const saved = words[4]!
  return Object.entries(named).flatMap(([name, [word, bit, needed]]) =>
    (words[word]! >>> bit) & 1 && (saved & needed) === needed ? [name] : [],
  )
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
