// Whisper on every target: what its encoder makes of a recording, and what its decoder makes of that, are transformers'
// (test/golden/whisper); and a row's bits are the same in chunks and in company.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { openRecordings } from "../../src/audio/recordings.ts"
import { mostRows } from "../../src/audio/tiles.ts"
import { compile } from "../../src/compiler/compile.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { createTower, towerLimits } from "../../src/engine/tower.ts"
import { readWhisper, WHISPER } from "../../src/model/architectures/whisper.ts"
import { Fields } from "../../src/model/fields.ts"
import { decoder } from "../../src/model/layers.ts"
import { type Model, openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { type LoadableProgram, SEEN } from "../../src/runtime/program.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { goldenFolder, readTensors, whisperFile } from "./golden.ts"
import { opening } from "./pictures.ts"
import { sound, wavOf } from "./recordings.ts"
import { batch, blocksFor, limitsFor, take, worstDifference } from "./steps.ts"

type Device = keyof typeof opening

const ROWS = 1500
const KEPT = 16
const nobody = { client: "" }

function goldenOf(folder: string) {
  const { rows } = JSON.parse(readFileSync(join(folder, "golden.json"), "utf8"))
  const tensors = readTensors(join(folder, "golden.safetensors"))
  return {
    bytes: wavOf(sound(rows.samples, rows.seed)),
    rows: new Float32Array(tensors("rows")),
    tokens: [...new Int32Array(tensors("tokens"))],
    logits: new Float32Array(tensors("logits")),
  }
}

async function opened(
  path: string,
  on: Device,
): Promise<{ model: Model; program: LoadableProgram }> {
  const model = await openModel(path, { sees: true })
  onTestFinished(() => model.close())
  const { sums } = on === "vulkan" ? traitsOf(on) : {}
  const { graph, format, codecOf } = model
  const how = { ...(sums && { sums }), ...(codecOf && { codecOf }) }
  const plan = compile(graph, { format, activations: "float", kv: "f32", ...how })
  const limits = {
    blocks: 2 * blocksFor(ROWS + 32).length,
    tokens: ROWS + 40,
    sequences: 2,
    rows: 60,
  }
  const program = await opening[on](plan, limitsFor(plan, limits))
  onTestFinished(() => program.close())
  await loadParameters(model.weights, program.manifest, program)
  return { model, program }
}

/** [ROWS, width] what the encoder makes of a recording that fits into a window. */
async function heard({ hearing }: Model, on: Device, bytes: Uint8Array): Promise<Float32Array> {
  const { graph, format, codecOf, weights, audio } = hearing!
  const { sums } = on === "vulkan" ? traitsOf(on) : {}
  const how = { ...(sums && { sums }), ...(codecOf && { codecOf }) }
  const plan = compile(graph, { format, activations: "float", kv: "f32", ...how })
  const program = await opening[on](plan, towerLimits(plan.groups.length, mostRows(audio)))
  const tower = createTower(program)
  onTestFinished(() => tower.close())
  await loadParameters(weights, program.manifest, program)
  const recordings = openRecordings(audio)
  onTestFinished(() => recordings.close())
  const { windowAt } = await recordings.seek(bytes, "file", nobody)
  return tower.read(ROWS, async () => [windowAt(0)], nobody)
}

/** Logits of the tokens that stand behind a window's rows, or of the last alone; some of all come in each step. */
async function logitsOf(
  program: LoadableProgram,
  rows: Float32Array,
  tokens: readonly number[],
  steps: readonly number[],
  { first = 0, isLastAlone = false } = {},
): Promise<Float32Array> {
  const width = rows.length / ROWS
  const blocks = blocksFor(ROWS + tokens.length, first)
  const logits: number[] = []
  let from = 0
  for (const end of [...steps, ROWS + tokens.length]) {
    const seen = Math.max(0, Math.min(end, ROWS) - from)
    const own = tokens.slice(Math.max(0, from - ROWS), Math.max(0, end - ROWS))
    const all = own.map((_, i) => seen + i)
    const wanted = isLastAlone ? all.slice(-1) : all
    const given = [...Array.from({ length: seen }, (_, i) => SEEN + i), ...own]
    const input = batch([{ tokens: given, from, blocks, logits: wanted }])
    const hiddenIn = rows.slice(from * width, (from + seen) * width)
    const done = await take(program, { ...input, ...(seen > 0 && { hiddenIn }) })
    logits.push(...done.logits!)
    from = end
  }
  return Float32Array.from(logits)
}

/** @param path of the model, where that is not the folder that holds what is to come out */
async function judge(name: string, on: Device, path?: string): Promise<void> {
  const folder = goldenFolder("whisper", name)
  const golden = goldenOf(folder)
  const { model, program } = await opened(path ?? folder, on)
  const rows = await heard(model, on, golden.bytes)
  const width = rows.length / ROWS
  for (let row = 0; row < ROWS; row += KEPT) {
    const own = rows.subarray(row * width, (row + 1) * width)
    const at = (row / KEPT) * width
    expect(worstDifference(own, golden.rows.subarray(at, at + width))).toBeLessThan(2e-4)
  }
  const { vocabulary } = program.manifest.shapes
  // First, before its blocks hold what it is to compute.
  const alone = await logitsOf(program, rows, golden.tokens, [], { isLastAlone: true })
  const whole = await logitsOf(program, rows, golden.tokens, [])
  const [first, last] = [golden.logits.subarray(0, vocabulary), golden.logits.subarray(vocabulary)]
  expect(worstDifference(whole.subarray(0, vocabulary), first)).toBeLessThan(1e-3)
  expect(worstDifference(whole.subarray(-vocabulary), last)).toBeLessThan(1e-3)
  const steps = [700, ROWS - 1, ROWS, ROWS + 1, ROWS + 7]
  expect(await logitsOf(program, rows, golden.tokens, steps, { first: 97 })).toEqual(whole)
  expect(alone).toEqual(whole.slice(-vocabulary))
}

test.each(["multilingual", "english"])(
  "%s hears and writes as transformers does, on reference and cpu",
  async (name) => {
    await judge(name, "cpu")
    if (name === "english") await judge(name, "reference")
  },
  240_000,
)

// Halves hold what bf16 does but for the least, which they round: that is all that differs from the folder.
test.each([
  ["multilingual", "multilingual"],
  ["english", "ggml"],
] as const)(
  "whisper.cpp's file of %s hears and writes as transformers does with the same weights",
  async (file, name) => {
    const folder = mkdtempSync(join(tmpdir(), "sinter-ggml-"))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const path = join(folder, "ggml-tiny.bin")
    writeFileSync(path, whisperFile(file))
    await judge(name, "cpu", file === "english" ? path : folder)
  },
  240_000,
)

function planOf(decoder_layers: number) {
  const fields = new Fields({ ...WHISPER, decoder_layers }, (what) => {
    throw new Error(what)
  })
  const graph = decoder("whisper", readWhisper(fields))
  return compile(graph, { format: "q0f16", activations: "float", kv: "f16" })
}

test("buffers are as many whatever the layers: cross keys wait for the layer before", () => {
  expect(planOf(12).buffers).toEqual(planOf(3).buffers)
})

test("of a recording's rows keys and values of cross-attention are computed, and of words all else", () => {
  const { steps } = planOf(2)
  const ofRows = steps.flatMap(({ rows, op }) => (rows === "taken" ? [op] : []))
  expect(ofRows).toEqual(["select", "matmul", "storeKv", "matmul", "storeKv"])
  const layers = steps.map((step) => step.op === "storeKv" && [step.rows, step.place.layer])
  expect(new Set(layers.filter(Boolean).map(String))).toEqual(
    new Set(["wanted,0", "taken,0", "wanted,1", "taken,1"]),
  )
})

const { isSkipped, why } = lackOf("vulkan")

test.skipIf(isSkipped)(
  `hears and writes on vulkan${why}`,
  () => judge("multilingual", "vulkan"),
  GPU_MILLISECONDS,
)
