// Models that see and hear, and one that hears by a matrix alone: each sense makes of pictures and recordings what transformers' makes of them, and a server answers prompts that
// have both with its tokens (test/golden/senses).

import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, onTestFinished, test } from "vitest"
import { preparing } from "../../src/app/towers.ts"
import { openRecordings } from "../../src/audio/recordings.ts"
import { mostRows as mostRowsHeard } from "../../src/audio/tiles.ts"
import { compile } from "../../src/compiler/compile.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { createTower, towerLimits } from "../../src/engine/tower.ts"
import { openImages } from "../../src/images/images.ts"
import { mostRows } from "../../src/images/patches.ts"
import { compileFolder } from "../../src/model/compile-folder.ts"
import { type Model, openModel } from "../../src/model/model.ts"
import { sensesOf } from "../../src/model/sense.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { fromSources, run } from "../sinter.ts"
import { answersWith } from "./answers.ts"
import { goldenFolder, readTensors } from "./golden.ts"
import { opening } from "./pictures.ts"
import { sound, wavOf } from "./recordings.ts"
import { arithmeticOf, expectNear } from "./steps.ts"
import { read, write } from "./tensor-file.ts"

type Json = Record<string, unknown>

const names = readdirSync(goldenFolder("senses", "."), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
const folder = goldenFolder("senses", "gemma4")
const omni25 = goldenFolder("senses", "qwen2-5-omni")
const scratch = mkdtempSync(join(tmpdir(), "sinter-senses-"))
afterAll(() => rmSync(scratch, { recursive: true }))

interface Prompt {
  parts: string[]
  pictures: string[]
  sounds: { samples: number; seed: number }[]
}

function goldenPrompts(name: string) {
  const folder = goldenFolder("senses", name)
  const tensors = readTensors(join(folder, "golden.safetensors"))
  const { prompts } = JSON.parse(readFileSync(join(folder, "golden.json"), "utf8"))
  return (prompts as Prompt[]).map(({ parts, pictures, sounds }, i) => {
    const images = pictures.map((file) => readFileSync(join(folder, file)))
    const recordings = sounds.map(({ samples, seed }) => wavOf(sound(samples, seed)))
    const files: Record<string, Buffer[]> = { image: [...images], audio: [...recordings] }
    return {
      parts,
      images,
      recordings,
      bytes: parts.flatMap((part) => files[part]?.shift() ?? []),
      seen: new Float32Array(tensors(`images.${i}`)),
      heard: new Float32Array(tensors(`recordings.${i}`)),
      ids: [...new Int32Array(tensors(`prompt.${i}`))],
      greedy: [...new Int32Array(tensors(`greedy.${i}`))],
    }
  })
}

const nobody = { client: "" }

const sensesIn: Record<string, string[]> = {
  gemma3n: ["hearing"],
  gemma4: ["vision", "hearing"],
  "gemma4-unified": ["hearing"],
  "qwen2-5-omni": ["vision", "hearing"],
  "qwen3-omni": ["vision", "hearing"],
}

/** That rows of all pictures and of all recordings are those of transformers' towers. */
async function judge(
  golden: string,
  on: keyof typeof opening,
  path = goldenFolder("senses", golden),
  wanted = sensesIn[golden]!,
): Promise<void> {
  const model = await openModel(path, { sees: true })
  onTestFinished(() => model.close())
  expect([model.blind, model.deaf]).toEqual([undefined, undefined])
  const { sums } = on === "vulkan" ? traitsOf(on) : {}
  const senses = sensesOf<NonNullable<Model["vision" | "hearing"]>>(model)
  expect(senses.map(({ name }) => name)).toEqual(sensesIn[golden])
  for (const { name, sense } of senses.filter(({ name }) => wanted.includes(name))) {
    const { graph, format, codecOf, weights } = sense
    const exact = { activations: "float", kv: "f32", ...(sums && { sums }) } as const
    const plan = compile(graph, { format, ...exact, ...(codecOf && { codecOf }) })
    const [rows, of] =
      "images" in sense
        ? [mostRows(sense.images), openImages(sense.images)]
        : [mostRowsHeard(sense.audio), openRecordings(sense.audio)]
    onTestFinished(() => of.close())
    const program = await opening[on](plan, towerLimits(plan.groups.length, rows))
    const tower = createTower(program)
    onTestFinished(() => tower.close())
    await loadParameters(weights, program.manifest, program)
    const prepare = preparing(of, tower)
    for (const { images, recordings, seen, heard } of goldenPrompts(golden)) {
      const [files, truth] = name === "vision" ? [images, seen] : [recordings, heard]
      const made: number[] = []
      for (const bytes of files)
        made.push(...(await (await prepare(bytes, name, nobody)).encode(nobody)))
      expect(made).toHaveLength(truth.length)
      const { projector } = sense.config as { projector: { factor?: number } }
      const { factor = 1 } = projector
      const rows = made.map((x) => x / factor)
      expectNear(rows, truth, { distance: 2e-4, arithmetic: arithmeticOf(program) })
    }
  }
}

describe.each(names)("%s", (name) => {
  test.each(["reference", "cpu"] as const)("sees and hears on %s", (on) => judge(name, on), 240_000)
})

const { isSkipped, why } = lackOf("vulkan")

/** Layers of its conformer are those of Gemma 3n's. */
const onVulkan: Record<string, string[]> = { gemma4: ["vision"] }

test.skipIf(isSkipped)(
  `sees and hears on vulkan${why}`,
  async () => {
    for (const name of names) await judge(name, "vulkan", undefined, onVulkan[name])
  },
  GPU_MILLISECONDS,
)

test("a compiled folder has a folder for each sense, which sees and hears what its source does", async () => {
  for (const name of names) {
    const model = await openModel(goldenFolder("senses", name), { sees: true })
    onTestFinished(() => model.close())
    const output = join(scratch, `compiled-${name}`)
    await compileFolder(model, output, { format: "q4f16_1" })
    expect(readdirSync(output)).toEqual(expect.arrayContaining(sensesIn[name]!))
    await judge(name, "cpu", output)
  }
}, 240_000)

const serving = {
  overrides: { max_total_seq_length: 512, prefill_chunk_size: 80, kv_dtype: "f32" },
  sent: (bytes: Buffer) => {
    const data = bytes.toString("base64")
    return bytes.toString("latin1", 0, 4) === "RIFF"
      ? { type: "input_audio", input_audio: { data, format: "wav" } }
      : { type: "image_url", image_url: { url: `data:image/png;base64,${data}` } }
  },
} as const

/** Prompts are what its tests of answers are about, and nothing is compiled for those. */
const interpreted = ["gemma3n"]

describe.each(names)("%s answers as transformers does", (name) => {
  const model = goldenFolder("senses", name)
  const target = interpreted.includes(name) ? { target: "reference" as const } : {}
  const prompts = goldenPrompts(name)
  answersWith({ model, prompts, ...serving, ...target, media: ["image", "audio"] })
})

const besideIt = join(goldenFolder("gguf", "senses"), "qwen2-5-omni")

describe("Qwen 2.5 Omni in GGUF, with one file that it sees and hears with", () => {
  test("sees and hears", () => judge("qwen2-5-omni", "cpu", besideIt), 120_000)

  const prompts = goldenPrompts("qwen2-5-omni")
  answersWith({ model: besideIt, prompts, ...serving, media: ["image", "audio"] })

  test("recordings and images are prepared as those of its folder", async () => {
    const [file, published] = [
      await openModel(besideIt, { sees: true }),
      await openModel(omni25, { sees: true }),
    ]
    onTestFinished(async () => {
      await file.close()
      await published.close()
    })
    const { images } = published.vision!
    const [mean, std] = [images.mean.map(Math.fround), images.std.map(Math.fround)]
    expect(file.vision!.images).toEqual({ ...images, mean, std })
    expect(file.hearing!.audio).toEqual({ ...published.hearing!.audio, most: 300 })
    expect(file.hearing!.config.softToken).toBe(published.hearing!.config.softToken)
  })
})

/** A golden folder with other words in a file. */
function changed(from: string, file: string, change: (json: Json) => void): string {
  const other = mkdtempSync(join(scratch, "changed-"))
  cpSync(from, other, { recursive: true })
  const json = JSON.parse(readFileSync(join(other, file), "utf8"))
  change(json)
  writeFileSync(join(other, file), JSON.stringify(json))
  return other
}

async function openChanged(
  file: string,
  change: (json: Json) => void,
  from = folder,
): Promise<Model> {
  const model = await openModel(changed(from, file, change), { sees: true })
  onTestFinished(() => model.close())
  return model
}

test.each<[string, unknown, string]>([
  ["attention_chunk_size", 12, "is 12; only attention_context_left - 1 is known"],
  ["attention_context_right", 1, "is 1; only 0 is known"],
  ["attention_invalid_logits_value", -1, "is -1, which hides nothing"],
  ["subsampling_conv_channels", [18, 4], "is not a multiple of 4"],
  ["hidden_act", "mish", 'is "mish"; known: silu'],
  ["num_attention_heads", 3, "is 3, which does not divide 32"],
  ["num_hidden_layers", 900, "makes 900 layers, but the weights are"],
  ["conv_kernel_size", 5, "depthwise_conv1d.weight"],
])("a tower whose %s is %j is left out, and it sees all the same", async (field, value, why) => {
  const model = await openChanged("config.json", (json) =>
    Object.assign(json.audio_config as Json, { [field]: value }),
  )
  expect(model.deaf).toContain(why)
  expect(model.hearing).toBeUndefined()
  expect(model.vision).toBeDefined()
})

test.each<[string, unknown, string]>([
  ["feature_size", 128, "is 128; only 16 is known of this model"],
  ["sampling_rate", 8000, "is 8000; only 16000"],
  ["dither", 0.1, "is 0.1; only 0 is known"],
  ["hop_length_ms", 20, "is another than 10"],
  ["per_bin_mean", [1, 2], "has 2 numbers for 16 bands"],
  ["max_frequency", -1, "is -1, which is not above min_frequency"],
])("an extractor whose %s is %j is left out", async (field, value, why) => {
  const model = await openChanged("processor_config.json", (json) =>
    Object.assign(json.feature_extractor as Json, { [field]: value }),
  )
  expect(model.deaf).toContain(why)
  expect(model.vision).toBeDefined()
})

test("a model of which only what it hears with is known hears", async () => {
  const model = await openChanged("config.json", (json) =>
    Object.assign(json.vision_config as Json, { attention_bias: true }),
  )
  expect(model.blind).toContain("attention_bias is true")
  expect(model.hearing).toBeDefined()
  expect(model.config.embedding.sees).toBe(true)
  expect(model.config.layerInputs!.instead).toBe(7) // the padding's
})

const ended = goldenFolder("senses", "gemma3n")

test.each<[string, string, Json, string]>([
  ["config.json", "audio_config", { conf_attention_context_right: 1 }, "is 1; only 0 is known"],
  ["config.json", "audio_config", { input_feat_size: 18 }, "is 18, which is no multiple of 4"],
  [
    "config.json",
    "audio_config",
    {
      sscp_conv_kernel_size: [
        [3, 3],
        [5, 3],
      ],
    },
    "only [[3,3],[3,3]]",
  ],
  ["config.json", "audio_config", { sscp_conv_channel_size: [6] }, "is not two counts"],
  [
    "config.json",
    "audio_config",
    { conf_num_attention_heads: 5 },
    "is 5, which does not divide 32",
  ],
  ["config.json", "audio_config", { vocab_size: 5 }, "vocab_size makes 337 a token of recordings"],
  ["config.json", "", { eoa_token_id: 9 }, "eoa_token_id makes 9 a token of recordings"],
  ["processor_config.json", "", { audio_seq_length: 188 }, "audio_soft_tokens_per_image is 14"],
  ["preprocessor_config.json", "", { padding_side: "left" }, "is another than right"],
  ["preprocessor_config.json", "", { dither: 0.1 }, "is 0.1; only 0 is known"],
])("Gemma 3n with %s of other %s, %j, is deaf", async (file, part, other, why) => {
  const change = (json: Json) => Object.assign(part ? (json[part] as Json) : json, other)
  const model = await openChanged(file, change, ended)
  expect(model.deaf).toContain(why)
})

test("rows of Gemma 3n's recordings stand for padding, and have the columns of the first token", async () => {
  const model = await openModel(ended, { sees: true })
  onTestFinished(() => model.close())
  const { config, audio } = model.hearing!
  expect(config.softToken).toBe(322)
  expect(model.config.layerInputs!.instead).toBe(0)
  expect(audio).toMatchObject({ soft: "<pad>", most: 2.24 }) // 14 rows
})

const unified = goldenFolder("senses", "gemma4-unified")

test.each<[string, string, Json, string]>([
  ["config.json", "audio_config", { hidden_size: 640 }, "is another number than audio_samples"],
  ["config.json", "audio_config", { rms_norm_eps: 0 }, "rms_norm_eps is 0"],
  ["processor_config.json", "feature_extractor", { audio_samples_per_token: 640 }, "only 320"],
  ["processor_config.json", "feature_extractor", { padding_value: 1 }, "is 1; only 0 is known"],
])("samples as %s has them in %s, with %j, are left out", async (file, part, other, why) => {
  const model = await openChanged(file, (json) => Object.assign(json[part] as Json, other), unified)
  expect(model.deaf).toContain(why)
})

const omni3 = goldenFolder("senses", "qwen3-omni")
const inThinker = (part: string, other: Json) => (json: Json) =>
  Object.assign((json.thinker_config as Record<string, Json>)[part]!, other)

test.each<[string, string, string, Json, string]>([
  ["pieces", omni25, "audio_config", { n_window: 50 }, "is 50; only 100 is known"],
  ["seconds", omni3, "audio_config", { n_window: 100 }, "is 100; only 50 is known"],
  ["windows", omni3, "audio_config", { n_window_infer: 250 }, "is 250, which is no multiple"],
  ["positions", omni25, "audio_config", { max_source_positions: 750 }, "is 750; only 1500"],
])("Omni of other %s is deaf, and sees all the same", async (_, from, part, other, why) => {
  const model = await openChanged("config.json", inThinker(part, other), from)
  expect(model.deaf).toContain(`thinker_config.${part}.${Object.keys(other)[0]} ${why}`)
  expect(model.vision).toBeDefined()
})

test.each<[string, string, Json, string]>([
  ["seconds", omni3, { padding_side: "left" }, 'is "left"; known of this model: right'],
  ["pieces", omni25, { padding_side: "both" }, 'is "both"; known of this model: right'],
  ["pieces", omni25, { sampling_rate: 8000 }, "is 8000; only 16000"],
])("an extractor of %s that %j is left out", async (_, from, other, why) => {
  const change = (json: Json) => Object.assign(json, other)
  const model = await openChanged("preprocessor_config.json", change, from)
  expect(model.deaf).toContain(why)
})

test("Omni 2.5 hears as many seconds as its extractor fills, and what is before a recording as it fills it", async () => {
  const audioOf = async (other: Json) => {
    const change = (json: Json) => Object.assign(json, other)
    const { hearing } = await openChanged("preprocessor_config.json", change, omni25)
    return hearing!.audio
  }
  expect(await audioOf({})).toMatchObject({ cutting: "pieces", window: 2, most: 20 })
  expect(await audioOf({ chunk_length: 300 })).toMatchObject({ most: 300 })
  expect(await audioOf({ padding_side: "left" })).toMatchObject({ isLate: true })
})

test.each([
  ["qwen2-5-omni", "qwen2_5_omni_thinker"],
  ["qwen3-omni", "qwen3_omni_moe_thinker"],
])(
  "what thinks in %s sees and hears alone",
  async (name, model_type) => {
    const alone = changed(goldenFolder("senses", name), "config.json", (json) => {
      const thinker = json.thinker_config as Json
      for (const key of Object.keys(json)) delete json[key]
      Object.assign(json, thinker, { model_type })
    })
    const file = join(alone, "model.safetensors")
    const own = [...read(file)].filter(([tensor]) => tensor.startsWith("thinker."))
    write(file, new Map(own.map(([tensor, stored]) => [tensor.replace("thinker.", ""), stored])))
    await judge(name, "cpu", alone)
  },
  120_000,
)

test("a recording is at most as long as the processor's rows", async () => {
  const change = (rows: number) => (json: Json) => Object.assign(json, { audio_seq_length: rows })
  const mostOf = async (rows: number) => {
    const { hearing } = await openChanged("processor_config.json", change(rows), unified)
    return [hearing!.audio.most, mostRowsHeard(hearing!.audio)]
  }
  expect(await mostOf(100)).toEqual([2, 100]) // of 320 samples
  expect(await mostOf(2000)).toEqual([15, 750])
})

test("inspect says what becomes of images and of recordings, and shows either tower", async () => {
  const shown = async (path: string, ...options: string[]) =>
    (await run(["inspect", path, ...options], "", fromSources)).out
  const summary = await shown(folder)
  expect(summary).toMatch(/^images +gemma4_vision, /m)
  expect(summary).toMatch(/^audio +gemma4_audio, /m)
  expect(summary).toMatch(/^recording +at most 30 seconds and 750 rows$/m)
  const plan = ["--overrides", "kv_dtype=q8", "--show", "plan"]
  const tower = await shown(folder, "--tower", ...plan)
  expect(tower).toMatch(/^plan gemma4_vision\n/)
  expect(tower).toMatch(/^ {2}kv f32$/m)
  expect(await shown(folder, "--audio-tower", ...plan)).toMatch(/^plan gemma4_audio\n/)
  expect(await shown(unified, "--tower", ...plan)).toMatch(/^plan gemma4_unified_audio\n/)
}, 120_000)
