// How fast a program takes steps, without server or scheduler: decode of 1 to 16 sequences and prefill, beside the limits of
// the machine measured in the same run. Random weights of real shapes, straight into the library.
//
//   npx tsx bench/engine.ts [1B|0.6B] [format] [threads]

import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { availableParallelism, cpus, tmpdir } from "node:os"
import { join } from "node:path"
import { compile } from "../src/compiler/compile.ts"
import { shelvedCpu } from "../src/compiler/targets/cpu/cpu.ts"
import { usableLevels } from "../src/compiler/targets/cpu/levels.ts"
import { flagsOf, requireCompiler, runtime } from "../src/compiler/targets/cpu/toolchain.ts"
import { processorFeatures } from "../src/runtime/features.ts"
import { type FormatName, formats, rowLayout } from "../src/runtime/format.ts"
import { type LibraryProgram, openLibrary } from "../src/runtime/library.ts"
import { BLOCK, type StepInput, UNMASKED } from "../src/runtime/program.ts"
import { graphOf, type ShapeName } from "./shapes.ts"

const shape = (process.argv[2] ?? "1B") as ShapeName
const format = (process.argv[3] ?? "q4f16_1") as FormatName
const threads = Number(process.argv[4] ?? availableParallelism())

const never = new Int32Array(new SharedArrayBuffer(4))

async function main(): Promise<void> {
  const { program, bytes } = await open()
  const limits = await limitsProbe()
  console.log(
    `${cpus()[0]!.model}, ${threads} threads; ${shape} ${format}, ${(bytes / 1e6).toFixed(0)} MB of weights`,
  )
  const measured = limits()
  console.log(`read ${measured.read_gbs} GB/s, int8 ${measured.int8_gops} GOPS`)
  for (const sequences of [1, 2, 4, 8, 16]) {
    const { seconds, limit } = await measure(limits, () => step(program, sequences, 1, 128), 6)
    const rate = sequences / seconds
    console.log(
      `decode ${String(sequences).padStart(2)} together: ${rate.toFixed(1).padStart(7)} tok/s, ` +
        `${((bytes / seconds / 1e9 / limit.read_gbs) * 100).toFixed(0)} % of read bandwidth`,
    )
  }
  for (const tokens of [128, 512]) {
    const { seconds, limit } = await measure(limits, () => step(program, 1, tokens, 0), 3)
    const work = 2 * layerWeights(program) * tokens
    console.log(
      `prefill ${tokens}: ${(tokens / seconds).toFixed(1)} tok/s, ` +
        `${((work / seconds / 1e9 / limit.int8_gops) * 100).toFixed(0)} % of int8 peak`,
    )
  }
  await program.close()
}

async function open(): Promise<{ program: LibraryProgram; bytes: number }> {
  const graph = graphOf(shape)
  const grouped = formats[format].kind === "group"
  const plan = compile(graph, { format, activations: grouped ? "int8" : "float", kv: "bf16" })
  const { path } = await shelvedCpu(plan)
  const limits = { blocks: 16 * 34, tokens: 512, sequences: 16, rows: 16 }
  const program = await openLibrary(path, limits, threads)
  let bytes = 0
  const noise = random(64 << 20)
  const scales = smallHalves(16 << 20)
  const start = performance.now()
  for (const [index, { rows, columns, format }] of program.manifest.parameters.entries()) {
    const layout = rowLayout(format, columns)
    const window = Math.max(1, Math.floor((32 << 20) / layout.bytes))
    for (let row = 0; row < rows; row += window) {
      const count = Math.min(window, rows - row)
      const values = layout.groups > 0 ? noise.subarray(0, count * layout.bytes) : scales
      await program.load(index, row, count, values, scales)
    }
    bytes += rows * (layout.bytes + layout.scaleBytes)
  }
  console.log(`loaded in ${(performance.now() - start).toFixed(0)} ms`)
  return { program, bytes }
}

function random(bytes: number): Uint8Array {
  const words = new Uint32Array(bytes / 4)
  let state = 1
  for (let i = 0; i < words.length; i++)
    words[i] = state = (Math.imul(state, 1664525) + 1013904223) | 0
  return new Uint8Array(words.buffer)
}

/** f16 numbers from 0.004 to 0.008. */
function smallHalves(count: number): Uint8Array {
  const halves = Uint16Array.from(
    { length: Math.ceil(count) },
    (_, i) => 0x1c00 + ((i * 37) & 0x3ff),
  )
  return new Uint8Array(halves.buffer)
}

const layerWeights = (program: LibraryProgram) =>
  program.manifest.parameters
    .filter(({ name, columns }) => name.startsWith("layers.") && columns > 1)
    .reduce((sum, { rows, columns }) => sum + rows * columns, 0)

/** The median of `times` runs, each beside the limits of its second. */
async function measure(limits: () => Limits, run: () => Promise<void>, times: number) {
  const taken: { seconds: number; limit: Limits }[] = []
  await run()
  for (let i = 0; i < times; i++) {
    const limit = limits()
    const start = performance.now()
    await run()
    taken.push({ seconds: (performance.now() - start) / 1000, limit })
  }
  return taken.sort((a, b) => a.seconds - b.seconds)[taken.length >> 1]!
}

async function step(
  program: LibraryProgram,
  sequences: number,
  tokens: number,
  past: number,
): Promise<void> {
  const each = Math.ceil((past + tokens) / BLOCK)
  const all = (count: number, value: (i: number) => number) =>
    Int32Array.from({ length: count }, (_, i) => value(i))
  const floats = (value: number) => new Float32Array(sequences).fill(value)
  const total = sequences * tokens
  const input: StepInput = {
    tokens: all(total, (i) => (i * 7919) % program.manifest.shapes.vocabulary),
    starts: all(sequences + 1, (i) => i * tokens),
    positions: all(total, (i) => past + (i % tokens)),
    blocks: all(sequences * each, (i) => i),
    blockStarts: all(sequences + 1, (i) => i * each),
    visibleFrom: new Int32Array(sequences),
    logitRows: all(sequences, (i) => (i + 1) * tokens - 1),
    hiddenRows: new Int32Array(0),
    sampling: {
      temperature: floats(0),
      topK: new Int32Array(sequences),
      topP: floats(1),
      minP: floats(0),
      presence: floats(0),
      frequency: floats(0),
      repetition: floats(1),
      countStarts: new Int32Array(sequences + 1),
      countTokens: new Int32Array(0),
      counts: new Int32Array(0),
      biasStarts: new Int32Array(sequences + 1),
      biasTokens: new Int32Array(0),
      biases: new Float32Array(0),
      masks: new Uint32Array(0),
      maskRow: new Int32Array(sequences).fill(UNMASKED),
      seed: new BigUint64Array(sequences),
      choice: new Int32Array(sequences),
      position: new Int32Array(sequences),
      topLogprobs: new Int32Array(sequences),
    },
  }
  await program.step(input, never)
}

interface Limits {
  read_gbs: number
  int8_gops: number
}

/** Builds the probe; each call of the result measures anew. */
async function limitsProbe(): Promise<() => Limits> {
  const compiler = await requireCompiler()
  const [level] = usableLevels(process.arch, processorFeatures())
  const folder = mkdtempSync(join(tmpdir(), "sinter-limits-"))
  process.once("exit", () => rmSync(folder, { recursive: true }))
  const probe = join(folder, "limits")
  const sources = [join(import.meta.dirname, "limits.c"), join(runtime, "pool.c")]
  execFileSync(compiler.command, [
    ...flagsOf(level, compiler.family),
    ...sources,
    "-o",
    probe,
    "-lpthread",
  ])
  return () => JSON.parse(execFileSync(probe, [String(threads)], { encoding: "utf8" }))
}

await main()
