// `sinter serve` on folders with one fault each (test/golden/broken): exit code 2 and one sentence that names the file, soon
// and without taking memory. What a template does wrong only while it runs is said when a chat is rendered.

import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { beforeAll, expect, test } from "vitest"
import { goldenFolder } from "./model/golden.ts"
import { fromSources } from "./sinter.ts"

interface Start {
  said: string
  code: number
  seconds: number // of the processor, since the machine may be busy
  grown: number // bytes
}

const index: { folder: string; expect: string }[] = JSON.parse(
  readFileSync(goldenFolder("broken", "index.json"), "utf8"),
)

const whenRendered = /^template-(?!syntax)/

const folders = ["sound-hf", ...index.map(({ folder }) => folder)] // the first one warms the process up
const pathsOf = (names: readonly string[]) => names.map((name) => goldenFolder("broken", name))

function startAll(command: "serve" | "compile", paths: readonly string[]): Start[] {
  const [program, ...options] = fromSources.command.slice(0, -1)
  const script = join(import.meta.dirname, "refusals.ts")
  const run = [...options, script, command, ...paths]
  const lines = execFileSync(program!, run, { encoding: "utf8" }).trim().split("\n")
  expect(lines.length).toBe(paths.length)
  return lines.map((line) => JSON.parse(line))
}

let served: Start[]
beforeAll(() => {
  served = startAll("serve", pathsOf(folders))
}, 600_000)

test("serve refuses each of them in one sentence that names the file, with exit code 2", () => {
  served.forEach(({ said, code, seconds, grown }, i) => {
    const { folder, expect: expected } = index[i - 1] ?? { folder: "sound-hf", expect: "load" }
    const starting = expected === "load" || whenRendered.test(folder)
    if (starting) expect({ folder, said, code }).toEqual({ folder, said: "", code: 0 })
    if (expected === "refuse" && !starting) expect({ folder, code }).toEqual({ folder, code: 2 })
    if (code === 0) return
    expect(said).toMatch(/^sinter: [^\n]+\n$/)
    expect(said.startsWith(`sinter: ${join(goldenFolder("broken", folder), "/")}`)).toBe(true)
    expect({ folder, slow: seconds > 1, large: grown > 50e6 }).toEqual({
      folder,
      slow: false,
      large: false,
    })
  })
})

test("compile refuses what serve refuses, in the same words", () => {
  const isTaken = (_: unknown, i: number) => i % 4 === 0
  const words = ({ said, code }: Start) => ({ said, code })
  const compiled = startAll("compile", pathsOf(folders.filter(isTaken)))
  expect(compiled.map(words)).toEqual(served.filter(isTaken).map(words))
}, 600_000)
