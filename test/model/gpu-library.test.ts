// A `.gpu` is a file like any other: whatever was done to one before it was sealed is told in one sentence, by whoever reads it.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { prepareGpu } from "../../src/compiler/targets/gpu/gpu.ts"
import { readGpuLibrary } from "../../src/runtime/gpu/gpu-library.ts"
import { seal, unseal } from "../../src/runtime/library.ts"
import type { Manifest } from "../../src/runtime/manifest.ts"
import { smallGraph } from "./small.ts"

const folder = mkdtempSync(join(tmpdir(), "sinter-gpu-library-"))
afterAll(() => rmSync(folder, { recursive: true }))
const path = join(folder, "opencl.gpu")

const graph = smallGraph({ layers: 2, windows: [undefined, 32], sinks: 2, takesHidden: true })

const sums = { parts: 8, span: 256 } as const
const plan = compile(graph, { format: "q4f16_1", activations: "int8", kv: "q8", sums })
writeFileSync(path, await (await prepareGpu(plan, "opencl")).build())
const { code, manifest } = unseal(path)
const tapeBytes = code.readUInt32LE(code.length - 4)
const modules = code.subarray(0, code.length - 4 - tapeBytes)
const tape = code.subarray(modules.length, -4).toString()

function reading(tape: string, manifest: Manifest) {
  const length = Buffer.alloc(4)
  length.writeUInt32LE(Buffer.byteLength(tape))
  writeFileSync(path, seal(Buffer.concat([modules, Buffer.from(tape), length]), manifest))
  return () => readGpuLibrary(path)
}

/** Those that may be left out. */
const OPTIONAL = /\.(window|growth|perBlock|most|repeats|built|takes|only)$/

/** A member: of all objects and lists that are alike the first, "steps[].rows" by name. */
interface Member {
  name: string
  of: Record<string, unknown>
  key: string
}

function membersOf(json: object): Member[] {
  const members = new Map<string, Member>()
  const visit = (value: unknown, at: string) => {
    if (typeof value !== "object" || value === null) return
    for (const [key, inner] of Object.entries(value)) {
      const name = Array.isArray(value) ? `${at}[]` : `${at}.${key}`
      if (!members.has(name)) members.set(name, { name, of: value as Member["of"], key })
      visit(inner, name)
    }
  }
  visit(json, "")
  return [...members.values()]
}

const sentence =
  /^\/.+ cannot be used as this model's library: its (tape|manifest) is not sound.+; compile it again\.$/

test("members that are missing, or of another kind, are refused in one sentence", () => {
  const whole = { tape: JSON.parse(tape), manifest: JSON.parse(JSON.stringify(manifest)) }
  expect(reading(tape, manifest)).not.toThrow()
  const said = [...membersOf(whole.tape), ...membersOf(whole.manifest)].flatMap(
    ({ name, of, key }) => {
      const sound = of[key]
      const lines = [undefined, null, {}].map((fault) => {
        if (fault === undefined && (OPTIONAL.test(name) || Array.isArray(of))) return []
        of[key] = fault
        try {
          reading(JSON.stringify(whole.tape), whole.manifest)()
          return [[name, fault, "is accepted"]]
        } catch (error) {
          return [[name, fault, (error as Error).message]]
        }
      })
      of[key] = sound
      return lines.flat()
    },
  )
  expect(said.length).toBeGreaterThan(300)
  expect(said.filter(([, , words]) => !sentence.test(words as string))).toEqual([])
})

test("what is no JSON, or nothing, is refused in one sentence", () => {
  const words = /its tape is no JSON; compile it again\.$/
  for (let i = 1; i < 20; i++) {
    const cut = tape.slice(0, Math.floor((tape.length * i) / 20))
    expect(reading(cut, manifest)).toThrow(words)
  }
  expect(reading("null", manifest)).toThrow(/its tape is not sound: /)
  expect(reading("", manifest)).toThrow(/it holds no tape; compile it again\.$/)
})
