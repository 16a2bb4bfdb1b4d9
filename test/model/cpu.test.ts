// The cpu target: compiled by this machine's compiler and judged as all targets are. Without a C compiler there is nothing to
// judge. Libraries lie on this machine's shelf, under the hash of all they are made of: other files want the same ones.

import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, onTestFinished, test, vi } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import type { CodecOf } from "../../src/compiler/graph/codecs.ts"
import { prepareCpu, shelvedCpu } from "../../src/compiler/targets/cpu/cpu.ts"
import { usableLevels } from "../../src/compiler/targets/cpu/levels.ts"
import { findCompiler } from "../../src/compiler/targets/cpu/toolchain.ts"
import { prepareProgram } from "../../src/compiler/targets/prepare.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { createLog } from "../../src/log.ts"
import { processorFeatures } from "../../src/runtime/features.ts"
import { openLibrary } from "../../src/runtime/library.ts"
import { isLeftOut } from "../left-out.ts"
import { compiledModels } from "./golden.ts"
import { judge } from "./judged.ts"
import { loadSmall, smallGraph } from "./small.ts"
import { arithmeticHere, batch, blocksFor, limitsFor, prefill, take } from "./steps.ts"

const compiler = await findCompiler()

const prompt = (length: number) => Int32Array.from({ length }, (_, i) => (i * 7) % 70)

const BUILD = 240_000 // ms: a build takes seconds, on a busy machine many
const THREADS = 2

const needsCompiler = `the cpu target${compiler ? "" : ": no C compiler on this machine"}`
describe.skipIf(isLeftOut(compiler))(needsCompiler, () => {
  judge({
    open: async (plan, limits) => {
      const { path } = await shelvedCpu(plan)
      return openLibrary(path, limits, THREADS)
    },
    arithmetic: arithmeticHere,
    golden: [
      ...compiledModels.map((name) => `models/${name}` as const),
      "mlc/llama-wide-q4f16_1",
      "mlc/qwen3-q3f16_1",
    ],
    // Plain C has no fused multiply-add; every other instruction set computes the reference's bits.
    isExact: usableLevels(process.arch, processorFeatures())[0].name !== "plain",
    milliseconds: BUILD,
  })

  test(
    "one thread or three: the same bits",
    async () => {
      const plan = compile(smallGraph({ window: 20, sinks: 3 }), {
        format: "q0f32",
        activations: "float",
        kv: "f32",
      })
      const { path } = await shelvedCpu(plan)
      const bits = [1, 3].map((threads) =>
        execFileSync(
          process.execPath,
          ["--import", "tsx", join(import.meta.dirname, "bits.ts"), path, String(threads)],
          { encoding: "utf8" },
        ),
      )
      expect(bits[0]).toMatch(/^[0-9a-f]{64}$/)
      expect(bits[1]).toBe(bits[0])
    },
    BUILD,
  )

  test(
    "a step that stands back lets others' steps by and computes the same bits",
    async () => {
      const plan = compile(smallGraph(), { format: "q0f32", activations: "float", kv: "f32" })
      const { path } = await shelvedCpu(plan)
      const open = () =>
        openLibrary(
          path,
          limitsFor(plan, { blocks: 8, tokens: 64, sequences: 1, rows: 1 }),
          THREADS,
        )
      const [back, front] = [await open(), await open()]
      for (const program of [back, front]) await loadSmall(program)
      const step = batch([{ tokens: prompt(60), from: 0, blocks: [0, 1, 2, 3] }])
      const alone = await take(front, step)
      const behind = new Int32Array(new SharedArrayBuffer(4)).fill(1)
      let isOver = false
      const held = take(back, { ...step, behind }).finally(() => {
        isOver = true
      })
      for (let i = 0; i < 50; i++) expect(await take(front, step)).toEqual(alone)
      expect(isOver).toBe(false)
      Atomics.store(behind, 0, 0)
      expect(await held).toEqual(alone)
      for (const program of [back, front]) await program.close()
    },
    BUILD,
  )

  const plain = { format: "q0f32", activations: "float" } as const
  const inKeys = { hidden: 72, intermediate: 100, hasOrder: true, latent: 14, hasStates: true }
  test.each([
    ["f32", {}, plain],
    ["f16", {}, plain],
    ["q8", {}, plain],
    // A plan that is judged above.
    ["q8", inKeys, { format: "q4f16_1", activations: "int8" }],
  ] as const)(
    "one thread or several that share a KV head's context or its queries (%s, %o): the same bits",
    async (kv, shape, options) => {
      const plan = compile(smallGraph(shape), { ...options, kv })
      const { path } = await shelvedCpu(plan)
      const limits = limitsFor(plan, { blocks: 50, tokens: 511, sequences: 1, rows: 1 })
      const program = [join(import.meta.dirname, "pieces.ts"), path]
      const bits = [1, 3, 7].map((threads) =>
        execFileSync(
          process.execPath,
          ["--import", "tsx", ...program, String(threads), JSON.stringify(limits)],
          { encoding: "utf8" },
        ),
      )
      expect(bits[0]).toMatch(/^[0-9a-f]{64}$/)
      expect(bits.slice(1)).toEqual([bits[0], bits[0]])
    },
    BUILD,
  )

  // What this processor could do without: the best level is judged above.
  const lesser = usableLevels(process.arch, processorFeatures())
    .slice(1)
    .filter(({ name }) => name !== "plain" && name !== "avx512")
    .map((level) => [level.name, level] as const)
  test.each(lesser)(
    "kernels of %s: the reference's bits, however many rows come together",
    async (_, level) => {
      const codecs = ["q4f16_1", "q8f16_1", "q4_k", "q6_k"] as const
      const codecOf: CodecOf = ({ name, columns }) => {
        if (columns === 1) return "f32"
        return name.endsWith(".down") ? codecs[Number(/\d+/.exec(name)![0])]! : "q4f16_1"
      }
      const graph = smallGraph({ layers: codecs.length, hidden: 72, intermediate: 544 })
      const plan = compile(graph, { format: "gguf", codecOf, activations: "int8", kv: "f16" })
      const limits = limitsFor(plan, { blocks: 30, tokens: 60, sequences: 1, rows: 60 })
      const { path } = await shelvedCpu(plan, "cpu", undefined, level)
      const reference = openReference(plan, limits, "vectors")
      const program = await openLibrary(path, limits, THREADS)
      for (const each of [reference, program]) await loadSmall(each)
      const tokens = Int32Array.from({ length: 60 }, (_, i) => (i * 7) % 70)
      const theirs = await prefill(reference, tokens, blocksFor(60))
      expect(new Set(theirs).size).toBeGreaterThan(1000)
      for (const chunk of [1, 2, 3, 5, 17, 60])
        expect(await prefill(program, tokens, blocksFor(60), { chunk })).toEqual(theirs)
      await program.close()
    },
    BUILD,
  )

  const withoutProc = process.platform !== "linux"
  test.skipIf(withoutProc)(
    `libraries share their threads, which end with the last program and start anew${withoutProc ? " (skipped: read from Linux's /proc)" : ""}`,
    async () => {
      const options = { format: "q0f32", activations: "float", kv: "f32" } as const
      const shapes = [{}, { window: 20, sinks: 3 }]
      const both = await Promise.all(
        shapes.map((shape) => shelvedCpu(compile(smallGraph(shape), options))),
      )
      const script = join(import.meta.dirname, "threads.ts")
      const paths = JSON.stringify(both.map(({ path }) => path))
      const run = ["--import", "tsx", script, paths, "4"]
      const out = execFileSync(process.execPath, run, { encoding: "utf8" })
      const [closed = 0, ...others] = JSON.parse(out) as number[]
      expect(others).toEqual([closed + 3, closed + 3, closed])
    },
    BUILD,
  )

  test("the compiler is asked once what it is, though the interpreter would do without one", async () => {
    const folder = mkdtempSync(join(tmpdir(), "sinter-asked-"))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const [path, asked] = [join(folder, "cc"), join(folder, "asked")]
    const script = `#!/bin/sh\n[ "$1" = --version ] && echo >> ${asked}\nexec ${compiler!.command} "$@"\n`
    writeFileSync(path, script, { mode: 0o755 })
    vi.stubEnv("CC", path)
    onTestFinished(() => void vi.unstubAllEnvs())
    const plan = compile(smallGraph(), { format: "q0f32", activations: "float", kv: "f32" })
    const device = { name: "cpu", id: 0 } as const
    const log = createLog("silent", false)
    await prepareProgram(plan, { target: "auto", library: undefined, device, folder, log })
    expect(readFileSync(asked, "utf8")).toBe("\n")
  })

  test("two models of different shapes differ in every constant of their drivers", async () => {
    const options = { format: "q0f32", activations: "float", kv: "f32" } as const
    const [a, b] = await Promise.all(
      [
        { hidden: 72, intermediate: 100 },
        { hidden: 136, intermediate: 300 },
      ].map(async (shape) => (await prepareCpu(compile(smallGraph(shape), options))).sources()),
    )
    const text = (sources: NonNullable<typeof a>) =>
      sources.map((source) => ("text" in source ? source.text : "")).join("\n")
    for (const size of ["72", "100"]) expect(text(a!)).toMatch(new RegExp(`\\b${size}\\b`))
    for (const size of ["72", "100"]) expect(text(b!)).not.toMatch(new RegExp(`\\b${size}\\b`))
    for (const size of ["136", "300"]) expect(text(b!)).toMatch(new RegExp(`\\b${size}\\b`))
  })
})
