// The instruction sets that kernels are written for, best first. A level names its folder of kernels, the compiler flags
// that allow its instructions, and the processor features a library built so needs. Flags are spelled out, never
// -march=native: what the library needs is then known, and the shelf's key is exact.

export interface Level {
  name: string
  /** Node's name of the architecture; "any" for plain C. */
  arch: string
  /** Folder under kernels/ that holds its vector.h. */
  folder: string
  flags: readonly string[]
  /** Where zig has other words for them. */
  zigFlags?: readonly string[]
  /** As /proc/cpuinfo names them. */
  features: readonly string[]
}

const avx512: Level = {
  name: "avx512",
  arch: "x64",
  folder: "avx512",
  flags: [
    "-mavx512f",
    "-mavx512bw",
    "-mavx512vl",
    "-mavx512dq",
    "-mavx512vnni",
    "-mavx2",
    "-mfma",
    "-mf16c",
    "-mprefer-vector-width=512",
  ],
  features: ["avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni", "avx2", "fma", "f16c"],
}

export const plain: Level = {
  name: "plain",
  arch: "any",
  folder: "plain",
  flags: ["-Wno-psabi"], // every function of plain C's vectors is inlined, so how gcc would pass one is of no matter
  features: [],
}

export const levels: readonly Level[] = [
  // With the matrix unit for products of many rows and for attention. Where the system does not lend the unit, its features
  // are not listed (runtime/features.ts), and this level is none.
  {
    ...avx512,
    name: "amx",
    flags: [...avx512.flags, "-mamx-tile", "-mamx-int8", "-mamx-bf16"],
    features: [...avx512.features, "amx_tile", "amx_int8", "amx_bf16"],
  },
  avx512,
  {
    name: "avxvnni",
    arch: "x64",
    folder: "avx2",
    flags: ["-mavx2", "-mfma", "-mf16c", "-mavxvnni"],
    features: ["avx2", "fma", "f16c", "avx_vnni"],
  },
  {
    name: "avx2",
    arch: "x64",
    folder: "avx2",
    flags: ["-mavx2", "-mfma", "-mf16c"],
    features: ["avx2", "fma", "f16c"],
  },
  {
    name: "neon",
    arch: "arm64",
    folder: "neon",
    flags: ["-march=armv8.2-a+dotprod"],
    zigFlags: ["-mcpu=generic+v8_2a+dotprod"],
    features: ["asimddp"],
  },
  plain,
]

/** The levels this processor can run, best first; plain C always is among them. */
export function usableLevels(
  arch: string,
  features: ReadonlySet<string>,
): readonly [Level, ...Level[]] {
  const usable = levels.filter(
    (level) =>
      (level.arch === arch || level.arch === "any") &&
      level.features.every((feature) => features.has(feature)),
  )
  return usable as [Level, ...Level[]]
}
