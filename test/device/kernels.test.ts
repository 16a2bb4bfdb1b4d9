// Builds kernels.c once for every instruction set and runs it: with the sanitizers where the program can run here, under an
// emulator for the other architecture. What cannot run is skipped with its reason.

import { execFileSync, spawnSync } from "node:child_process"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { type Level, levels, usableLevels } from "../../src/compiler/targets/cpu/levels.ts"
import { flagsOf, kernels, runtime } from "../../src/compiler/targets/cpu/toolchain.ts"
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

/** What it takes to build and run for a level, or why it cannot be done on this machine. */
function means(level: Level): { cc: string; flags: string[]; emulator: string[] } | string {
  if (level.arch === "any" || level.arch === process.arch) {
    const missing = level.features.filter((feature) => !here.has(feature))
    if (missing.length > 0) return `this processor lacks ${missing.join(", ")}`
    // One set of sanitizers is enough: all but vector.h is shared, and instrumented code compiles slowly.
    const flags = level.name === best ? sanitizers : ["-O1", "-DBRIEF"]
    return has("cc") ? { cc: "cc", flags, emulator: [] } : "no C compiler: cc"
  }
  if (level.arch !== "arm64") return `no way to run ${level.arch} here`
  const cc = "aarch64-linux-gnu-gcc"
  for (const tool of [cc, "qemu-aarch64"]) if (!has(tool)) return `no ${tool} on this machine`
  return { cc, flags: ["-O1", "-static", "-DBRIEF"], emulator: ["qemu-aarch64"] }
}

const has = (tool: string) => spawnSync(tool, ["--version"]).status === 0

describe.each(levels)("$name", (level) => {
  const way = means(level)
  const why = typeof way === "string" ? ` (skipped: ${way})` : ""

  test.skipIf(typeof way === "string")(
    `the kernels compute what plain code computes${why}`,
    () => {
      const { cc, flags, emulator } = way as Exclude<typeof way, string>
      const program = join(folder, level.name)
      const quiet = ["-Wno-maybe-uninitialized"] // of array elements that unrolling leaves out
      execFileSync(cc, [
        ...flagsOf(level),
        ...quiet,
        ...flags,
        ...sources,
        "-o",
        program,
        "-lm",
        "-lpthread",
      ])
      const [command, ...rest] = [...emulator, program]
      expect(execFileSync(command!, rest, { encoding: "utf8" })).toBe("0 failures\n")
    },
    600_000,
  )

  test.skipIf(typeof way === "string")(`every header opens alone${why}`, () => {
    const { cc } = way as Exclude<typeof way, string>
    const alone = readdirSync(kernels).filter((name) => name.endsWith(".h") && name !== "driver.h")
    for (const name of alone)
      execFileSync(cc, [...flagsOf(level), "-fsyntax-only", "-x", "c", join(kernels, name)], {
        stdio: "pipe",
      })
  })
})

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
