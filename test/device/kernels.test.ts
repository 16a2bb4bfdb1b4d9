// Builds kernels.c once for every instruction set and runs it: with the sanitizers where the program can run here, under an
// emulator for the other architecture. What cannot run is skipped with its reason.

import { execFileSync } from "node:child_process"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { levels } from "../../src/compiler/targets/cpu/levels.ts"
import { flagsOf, identify, kernels, runtime } from "../../src/compiler/targets/cpu/toolchain.ts"
import { isLeftOut } from "../left-out.ts"
import { best, build, run, type Way, ways } from "./ways.ts"

const sources = [join(import.meta.dirname, "kernels.c"), join(runtime, "pool.c")]

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sinter-kernels-"))
})
afterAll(() => rmSync(folder, { recursive: true }))

/** What kernels.c prints, built and run so. */
function judged(way: Way, libc = "own"): string {
  const program = join(folder, `${way.level.name}-${way.cc.family}-${libc}`)
  build(way, sources, program)
  return run(way, program).toString()
}

describe.each(ways)("$name", ({ isSkipped, note, way }) => {
  test.skipIf(isSkipped)(
    `the kernels compute what plain code computes${note}`,
    () => expect(judged(way())).toBe("0 failures\n"),
    600_000,
  )
})

// One instruction set is enough, since what a header includes is the same for all.
const here = ways.find(({ name }) => name === best.name)!
test.skipIf(here.isSkipped)(`every header opens alone${here.note}`, () => {
  const { cc, level } = here.way()
  const headers = readdirSync(kernels)
    .filter(
      (name) =>
        name.endsWith(".h") &&
        !/^(driver(_model|_products|_experts|_indexer)?|generic)\.h$/.test(name),
    )
    .map((name) => join(kernels, name))
  const flags = [...flagsOf(level, cc), "-fsyntax-only", "-x", "c"]
  execFileSync(cc.command, [...flags, ...headers], { stdio: "pipe" })
})

const clang = await identify("clang")
const noClang = clang ? "" : " (skipped: no clang on this machine)"
test.skipIf(isLeftOut(clang))(
  `clang builds them as well, and they compute the same${noClang}`,
  () => {
    if (!clang) throw new Error("no clang on this machine")
    const way = { level: best, cc: clang, flags: ["-O0", "-DBRIEF"], emulator: [] }
    expect(judged(way)).toBe("0 failures\n")
  },
  600_000,
)

const musl = await identify("musl-gcc")
const noMusl = musl ? "" : " (skipped: no musl-gcc on this machine)"
test.skipIf(isLeftOut(musl))(
  `they compute the same with the C library musl, whose threads have less room${noMusl}`,
  () => {
    if (!musl) throw new Error("no musl-gcc on this machine")
    const way = { level: best, cc: musl, flags: ["-O0", "-DBRIEF", "-static"], emulator: [] }
    expect(judged(way, "musl")).toBe("0 failures\n")
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
