// `sinter serve` on folders with one fault each (test/golden/broken): exit code 2 and one sentence that names the file, soon
// and without taking memory. What a template does wrong only while it runs is said when a chat is rendered.

import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
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

test("serve refuses each of them in one sentence that names the file, with exit code 2", () => {
  const folders = ["sound-hf", ...index.map(({ folder }) => folder)] // the first one warms the process up
  const [program, ...options] = fromSources.command.slice(0, -1)
  const script = join(import.meta.dirname, "refusals.ts")
  const paths = folders.map((folder) => goldenFolder("broken", folder))
  const lines = execFileSync(program!, [...options, script, ...paths], { encoding: "utf8" })
  const starts: Start[] = lines
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line))
  expect(starts.length).toBe(paths.length)
  starts.forEach(({ said, code, seconds, grown }, i) => {
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
