// Builds kernels.c once for every instruction set and runs it: with the sanitizers where the program can run here, under an
// emulator for the other architecture. What cannot run is skipped with its reason.

import { execFileSync, spawnSync } from "node:child_process"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { type Level, levels, usableLevels } from "../../src/compiler/targets/cpu/levels.ts"
import {
  type Compiler,
  flagsOf,
  identify,
  kernels,
  runtime,
} from "../../src/compiler/targets/cpu/toolchain.ts"
import { processorFeatures } from "../../src/runtime/features.ts"

const here = processorFeatures()
const sources = [join(import.meta.dirname, "kernels.c"), join(runtime, "pool.c")]
const best = usableLevels(process.arch, here)[0].name
const sanitizers = [
  "-O1",
  "-g",
  "-DBRIEF",
  "-fsanitize=address,undefined",
  "-fno-sanitize-recover=undefined",
]

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sinter-kernels-"))
})
afterAll(() => rmSync(folder, { recursive: true }))

interface Means {
  cc: Compiler
  flags: string[]
  emulator: string[]
}

/** What it takes to build and run for a level, or why it cannot be done on this machine. */
async function means(level: Level): Promise<Means | string> {
  if (level.arch === "any" || level.arch === process.arch) {
    const missing = level.features.filter((feature) => !here.has(feature))
    if (missing.length > 0) return `this processor lacks ${missing.join(", ")}`
    // One set of sanitizers is enough: all but vector.h is shared, and instrumented code compiles slowly.
    const flags = level.name === best ? sanitizers : ["-O1", "-DBRIEF"]
    const cc = await identify("cc")
    return cc ? { cc, flags, emulator: [] } : "no C compiler: cc"
  }
  if (level.arch !== "arm64") return `no way to run ${level.arch} here`
  const cc = await identify("aarch64-linux-gnu-gcc")
  if (!cc) return "no aarch64-linux-gnu-gcc on this machine"
  if (!has("qemu-aarch64")) return "no qemu-aarch64 on this machine"
  return { cc, flags: ["-O1", "-static", "-DBRIEF"], emulator: ["qemu-aarch64"] }
}

const has = (tool: string) => spawnSync(tool, ["--version"]).status === 0

/** What kernels.c prints, built and run so. */
function judged(level: Level, { cc, flags, emulator }: Means): string {
  const program = join(folder, `${level.name}-${cc.family}`)
  // Of array elements that unrolling leaves out.
  const quiet = cc.family === "gcc" ? ["-Wno-maybe-uninitialized"] : []
  const all = [...flagsOf(level, cc.family), ...quiet, ...flags, ...sources]
  execFileSync(cc.command, [...all, "-o", program, "-lm", "-lpthread"])
  const [command, ...rest] = [...emulator, program]
  return execFileSync(command!, rest, { encoding: "utf8" })
}

const ways = await Promise.all(
  levels.map(async (level) => ({ name: level.name, level, way: await means(level) })),
)

describe.each(ways)("$name", ({ level, way }) => {
  const why = typeof way === "string" ? ` (skipped: ${way})` : ""

  test.skipIf(typeof way === "string")(
    `the kernels compute what plain code computes${why}`,
    () => expect(judged(level, way as Means)).toBe("0 failures\n"),
    600_000,
  )

  test.skipIf(typeof way === "string")(`every header opens alone${why}`, () => {
    const { cc } = way as Means
    const alone = readdirSync(kernels).filter((name) => name.endsWith(".h") && name !== "driver.h")
    for (const name of alone) {
      const flags = [...flagsOf(level, cc.family), "-fsyntax-only", "-x", "c"]
      execFileSync(cc.command, [...flags, join(kernels, name)], { stdio: "pipe" })
    }
  })
})

const clang = await identify("clang")
const noClang = clang ? "" : " (skipped: no clang on this machine)"
test.skipIf(!clang)(
  `clang builds them as well, and they compute the same${noClang}`,
  () => {
    const [level] = usableLevels(process.arch, here)
    const way = { cc: clang!, flags: ["-O1", "-DBRIEF"], emulator: [] }
    expect(judged(level, way)).toBe("0 failures\n")
  },
  600_000,
)

test("every folder of kernels defines the same names", () => {
  const names = (folder: string) => {
    const text = execFileSync(
      "grep",
      ["-ohE", "\\b(vec|ivec)_[a-z0-9_]+", join(kernels, folder, "vector.h")],
      {
        encoding: "utf8",
      },
    )
    return new Set(text.split("\n").filter(Boolean))
  }
  const folders = [...new Set(levels.map(({ folder }) => folder))]
  const [first, ...others] = folders.map((name) => [name, names(name)] as const)
  for (const [name, found] of others)
    expect(
      [...first![1]].filter((word) => !found.has(word)),
      `missing in ${name}`,
    ).toEqual([])
})
