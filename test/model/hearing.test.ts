// Models that hear make of recordings what transformers' make of them, and answer with its tokens (test/golden/hearing).

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, onTestFinished, test } from "vitest"
import { openRecordings } from "../../src/audio/recordings.ts"
import { mostRows } from "../../src/audio/tiles.ts"
import { compile } from "../../src/compiler/compile.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { createTower, towerLimits } from "../../src/engine/tower.ts"
import { compileFolder } from "../../src/model/compile-folder.ts"
import { openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { answersWith } from "./answers.ts"
import { goldenFolder } from "./golden.ts"
import { goldenHearing, hearingModels, KEPT } from "./recordings.ts"

type Json = Record<string, unknown>

const nobody = { client: "" }

/** That rows of all recordings are those of transformers' tower. */
async function judge(path: string, name: string, on: "cpu" | "vulkan"): Promise<void> {
  const model = await openModel(path, { sees: true })
  onTestFinished(() => model.close())
  expect(model.deaf).toBeUndefined()
  const { graph, format, weights, audio } = model.hearing!
  const { sums } = on === "vulkan" ? traitsOf(on) : {}
  const plan = compile(graph, { format, activations: "float", kv: "f32", ...(sums && { sums }) })
  const prepared = await targets[on].prepare(plan)
  const program = await prepared.open(towerLimits(plan.groups.length, mostRows(audio)))
  const tower = createTower(program)
  onTestFinished(() => tower.close())
  await loadParameters(weights, program.manifest, program)
  const recordings = openRecordings(audio)
  onTestFinished(() => recordings.close())
  for (const { bytes, features, rows } of goldenHearing(name)) {
    let at = 0
    for (const [i, each] of bytes.entries()) {
      const { tiles } = await recordings.prepare(each, "audio", nobody)
      const out = await tower.read(rows[i]!, async () => tiles, nobody)
      const width = out.length / rows[i]!
      expect(width).toBe(40)
      for (let row = (KEPT - (at % KEPT)) % KEPT; row < rows[i]!; row += KEPT) {
        const golden = features.subarray(((at + row) / KEPT) * width)
        for (let c = 0; c < width; c++)
          expect(Math.abs(out[row * width + c]! - golden[c]!)).toBeLessThan(2e-4)
      }
      at += rows[i]!
    }
  }
}

const scratch = mkdtempSync(join(tmpdir(), "sinter-hearing-"))
afterAll(() => rmSync(scratch, { recursive: true }))

test("a compiled folder hears what its source hears", async () => {
  const model = await openModel(goldenFolder("hearing", "glm-asr"), { sees: true })
  onTestFinished(() => model.close())
  const output = join(scratch, "compiled")
  await compileFolder(model, output, { format: "q4f16_1" })
  await judge(output, "glm-asr", "cpu")
}, 120_000)

test.each<[string, (config: Json, audio: Json) => void, RegExp]>([
  [
    "places",
    (_, audio) => (audio.max_source_positions = 750),
    /max_source_positions is 750; only 1500/,
  ],
  ["a scale", (_, audio) => (audio.scale_embedding = true), /scale_embedding is true/],
  ["an activation", (_, audio) => (audio.activation_function = "mish"), /hidden_act is "mish"/],
  ["layers", (_, audio) => (audio.encoder_layers = 500), /makes 500 layers, but the weights are/],
  ["a token", (config) => (config.audio_token_index = 336), /audio_token_index is 336/],
])(
  "a tower of other %s than are known is left out, and the model says why",
  async (_, change, why) => {
    const folder = mkdtempSync(join(scratch, "changed-"))
    cpSync(goldenFolder("hearing", "qwen2-audio"), folder, { recursive: true })
    const file = join(folder, "config.json")
    const config = JSON.parse(readFileSync(file, "utf8"))
    change(config, config.audio_config)
    writeFileSync(file, JSON.stringify(config))
    const model = await openModel(folder, { sees: true })
    onTestFinished(() => model.close())
    expect(model.hearing).toBeUndefined()
    expect(model.deaf).toMatch(why)
  },
)

test.each<[string, Json, RegExp]>([
  ["feature_size", { feature_size: 128 }, /feature_size is 128; only 16 is known of this model/],
  ["hop_length", { hop_length: 320 }, /hop_length is 320/],
  ["dither", { dither: 0.1 }, /dither is 0.1; only 0 is known/],
  ["do_normalize", { do_normalize: true }, /do_normalize is true/],
])("an extractor whose %s is another is left out", async (_, change, why) => {
  const folder = mkdtempSync(join(scratch, "extractor-"))
  cpSync(goldenFolder("hearing", "qwen2-audio"), folder, { recursive: true })
  const file = join(folder, "preprocessor_config.json")
  const fields = JSON.parse(readFileSync(file, "utf8"))
  writeFileSync(file, JSON.stringify({ ...fields, ...change }))
  const model = await openModel(folder, { sees: true })
  onTestFinished(() => model.close())
  expect(model.deaf).toMatch(why)
})

const { isSkipped, why: lack } = lackOf("vulkan")

test.skipIf(isSkipped)(
  `qwen2-audio hears on vulkan${lack}`,
  () => judge(goldenFolder("hearing", "qwen2-audio"), "qwen2-audio", "vulkan"),
  GPU_MILLISECONDS,
)

describe.each(hearingModels)("%s", (name) => {
  test("hears", () => judge(goldenFolder("hearing", name), name, "cpu"), 120_000)

  describe("answers as transformers does", () => {
    answersWith({
      model: goldenFolder("hearing", name),
      overrides: { max_total_seq_length: 2048, kv_dtype: "f32" },
      prompts: goldenHearing(name),
      media: ["audio"],
      sent: (bytes) => {
        const data = bytes.toString("base64")
        return { type: "input_audio", input_audio: { data, format: "wav" } }
      },
    })
  })
})

/** What the processors of transformers 5.24 are made with where a folder says nothing (processing_audioflamingo3.py, processing_glmasr.py). */
const asked: Record<string, string | undefined> = {
  "audio-flamingo3": "Transcribe the input speech.",
  "glm-asr": "Please transcribe this audio into text",
}

test.each(hearingModels)("what %s is asked for a transcription", async (name) => {
  const folder = mkdtempSync(join(tmpdir(), "sinter-hearing-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  cpSync(goldenFolder("hearing", name), folder, { recursive: true })
  const askedOf = async () => {
    const model = await openModel(folder, { sees: true })
    onTestFinished(() => model.close())
    return model.hearing!.transcription
  }
  expect(await askedOf()).toBe(asked[name])
  const processor = { default_transcription_prompt: "Write down what is said." }
  writeFileSync(join(folder, "processor_config.json"), JSON.stringify(processor))
  expect(await askedOf()).toBe("Write down what is said.")
})
