// Models that hear make of recordings what transformers' make of them, and answer with its tokens (test/golden/hearing).

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, onTestFinished, test } from "vitest"
import { compileFolder } from "../../src/model/compile-folder.ts"
import { qwen3Asr, voxtral } from "../../src/model/hearing/transcripts.ts"
import { openModel } from "../../src/model/model.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { goldenFolder } from "./golden.ts"
import { answersAsHeard, hearingModels, judge } from "./recordings.ts"
import { read, write } from "./tensor-file.ts"

type Json = Record<string, unknown>

const scratch = mkdtempSync(join(tmpdir(), "sinter-hearing-"))
afterAll(() => rmSync(scratch, { recursive: true }))

test.each(["glm-asr", "granite-speech", "qwen3-asr"])(
  "a compiled folder hears what its source hears: %s",
  async (name) => {
    const model = await openModel(goldenFolder("hearing", name), { sees: true })
    onTestFinished(() => model.close())
    const { nodes } = model.hearing!.graph
    const ones = nodes.filter((node) => node.op === "embed" && node.table.name === "ones")
    expect(ones.length).toBe(name === "granite-speech" ? 1 : 0) // of two layers
    const output = join(scratch, `compiled-${name}`)
    await compileFolder(model, output, { format: "q4f16_1" })
    await judge(output, name, "cpu")
  },
  120_000,
)

/** As Qwen published it (QwenLM/Qwen3-ASR): all inside of a thinker, the projector in the tower. */
test("Qwen3-ASR hears under the names of its makers", async () => {
  const [source, folder] = [goldenFolder("hearing", "qwen3-asr"), join(scratch, "thinking")]
  cpSync(source, folder, { recursive: true })
  const { model_type, ...thinker } = JSON.parse(readFileSync(join(source, "config.json"), "utf8"))
  thinker.audio_config.model_type = "qwen3_asr_audio_encoder"
  const rope_scaling = { rope_type: "default", mrope_interleaved: true, mrope_section: [2, 2, 1] }
  const { model_type: _, ...text } = thinker.text_config
  thinker.text_config = { ...text, rope_scaling }
  writeFileSync(
    join(folder, "config.json"),
    JSON.stringify({ model_type, thinker_config: thinker }),
  )
  const names = [
    ["model.language_model.", "thinker.model."],
    ["model.audio_tower.", "thinker.audio_tower."],
    ["model.multi_modal_projector.linear_", "thinker.audio_tower.proj"],
  ] as const
  const file = join(folder, "model.safetensors")
  const renamed = [...read(file)].map(([name, tensor]) => {
    const [from, to] = names.find(([from]) => name.startsWith(from))!
    return [name.replace(from, to), tensor] as const
  })
  write(file, new Map(renamed))
  const model = await openModel(folder, { sees: true })
  onTestFinished(() => model.close())
  expect(model.architecture).toBe("qwen3")
  await judge(folder, "qwen3-asr", "cpu")
}, 120_000)

test.each<[string, Json, RegExp]>([
  ["chunks", { n_window: 100 }, /audio_config.n_window is 100; only 50 is known/],
  ["windows", { n_window_infer: 250 }, /audio_config.n_window_infer is 250, which is no multiple/],
  ["bands", { num_mel_bins: 20 }, /audio_config.num_mel_bins is 20, which is no multiple of 8/],
  ["counts", { num_mel_bins: 1e9 }, /audio_config.num_mel_bins is 1000000000, not between 1 and/],
])("Qwen3-ASR of other %s is left out, and the model says why", async (_, change, why) => {
  const folder = mkdtempSync(join(scratch, "changed-"))
  cpSync(goldenFolder("hearing", "qwen3-asr"), folder, { recursive: true })
  const file = join(folder, "config.json")
  const config = JSON.parse(readFileSync(file, "utf8"))
  config.audio_config = { ...config.audio_config, ...change }
  writeFileSync(file, JSON.stringify(config))
  const model = await openModel(folder, { sees: true })
  onTestFinished(() => model.close())
  expect(model.deaf).toMatch(why)
})

test.each<[string, (config: Json, audio: Json) => void, RegExp]>([
  [
    "places",
    (_, audio) => (audio.max_source_positions = 750),
    /max_source_positions is 750; only 1500/,
  ],
  ["a scale", (_, audio) => (audio.scale_embedding = true), /scale_embedding is true/],
  [
    "an activation",
    (_, audio) => (audio.activation_function = "mish"),
    /audio_config\.activation_function is "mish"/,
  ],
  [
    "heads",
    (_, audio) => (audio.encoder_attention_heads = 3),
    /audio_config\.encoder_attention_heads is 3, which does not divide/,
  ],
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

/** Of the part of its configuration that is named. */
test.each<[string, string, Json, RegExp]>([
  [
    "blocks",
    "encoder_config",
    { context_size: 400 },
    /encoder_config.context_size is 400, not between/,
  ],
  ["distances", "encoder_config", { max_pos_emb: 20 }, /encoder_config.max_pos_emb is 20/],
  ["heads", "encoder_config", { num_heads: 2e9 }, /encoder_config.num_heads is 2000000000, not/],
  [
    "columns",
    "encoder_config",
    { hidden_dim: 1 },
    /config.json: makes layers.0.ff1.up_proj a matrix of one column; only wider ones are known/,
  ],
  [
    "rows beside others",
    "encoder_config",
    { cat_hidden_layers: [5] },
    /is no list of layers from 0 to 4/,
  ],
  [
    "a projector",
    "projector_config",
    { model_type: "mlp" },
    /projector_config.model_type is "mlp"; only/,
  ],
  [
    "texts in its projector",
    "projector_config",
    { use_qformer_text_input: true },
    /only false is known/,
  ],
])(
  "Granite Speech of other %s is left out, and the model says why",
  async (_, part, change, why) => {
    const folder = mkdtempSync(join(scratch, "changed-"))
    cpSync(goldenFolder("hearing", "granite-speech"), folder, { recursive: true })
    const file = join(folder, "config.json")
    const config = JSON.parse(readFileSync(file, "utf8"))
    config[part] = { ...config[part], ...change }
    writeFileSync(file, JSON.stringify(config))
    const model = await openModel(folder, { sees: true })
    onTestFinished(() => model.close())
    expect(model.deaf).toMatch(why)
  },
)

test.each<[string, Json, RegExp, string?]>([
  [
    "projector_window_size",
    { projector_window_size: 30 },
    /projector_window_size is 30; only 15 is known/,
    "granite-speech",
  ],
  [
    "melspec_kwargs",
    { melspec_kwargs: { n_mels: 16, power: 1 } },
    /melspec_kwargs.power is not known of how loudness is computed/,
    "granite-speech",
  ],
  ["min_length", { min_length: 400 }, /min_length is 400; only 8000 is known/, "qwen3-asr"],
  ["n_window", { n_window: 100 }, /n_window is 100; only 50 is known/, "qwen3-asr"],
  ["feature_size", { feature_size: 128 }, /feature_size is 128; only 16 is known of this model/],
  ["hop_length", { hop_length: 320 }, /hop_length is 320/],
  ["dither", { dither: 0.1 }, /dither is 0.1; only 0 is known/],
  ["do_normalize", { do_normalize: true }, /do_normalize is true/],
])("an extractor whose %s is another is left out", async (_, change, why, name = "qwen2-audio") => {
  const folder = mkdtempSync(join(scratch, "extractor-"))
  cpSync(goldenFolder("hearing", name), folder, { recursive: true })
  const file = join(folder, "preprocessor_config.json")
  const fields = JSON.parse(readFileSync(file, "utf8"))
  writeFileSync(file, JSON.stringify({ ...fields, ...change }))
  const model = await openModel(folder, { sees: true })
  onTestFinished(() => model.close())
  expect(model.deaf).toMatch(why)
})

const { isSkipped, why: lack } = lackOf("vulkan")

test(
  "granite-speech hears on reference",
  () => judge(goldenFolder("hearing", "granite-speech"), "granite-speech", "reference"),
  120_000,
)

test.skipIf(isSkipped).each(["qwen2-audio", "qwen3-asr"])(
  `%s hears on vulkan${lack}`,
  (name) => judge(goldenFolder("hearing", name), name, "vulkan"),
  GPU_MILLISECONDS,
)

describe.each(hearingModels)("%s", (name) => {
  test("hears", () => judge(goldenFolder("hearing", name), name, "cpu"), 120_000)

  describe("answers as transformers does", () =>
    answersAsHeard(name, goldenFolder("hearing", name)))
})

/** What the processors of transformers 5.24 are made with where a folder says nothing (processing_audioflamingo3.py, processing_glmasr.py). */
const GRANITE = "can you transcribe the speech into a written format?" // its makers' model card

const asked: Record<string, unknown> = {
  "audio-flamingo3": "Transcribe the input speech.",
  "glm-asr": "Please transcribe this audio into text",
  "granite-speech": GRANITE,
  "granite-speech-plus": GRANITE,
  "qwen3-asr": qwen3Asr,
  voxtral,
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
