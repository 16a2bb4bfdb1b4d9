// Models whose tiles are as large as their images, from the bytes of pictures to the reply: towers, coordinates, logits and greedy
// tokens are those of transformers (test/golden/vision/qwen.py, fitting.py).

import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, onTestFinished, test } from "vitest"
import { prepareModel } from "../../src/app/prepared-model.ts"
import { Media, Senses } from "../../src/chat/media.ts"
import { compile } from "../../src/compiler/compile.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { createTower, towerLimits } from "../../src/engine/tower.ts"
import { openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { goldenFolder, readTensors } from "./golden.ts"
import {
  answersAsGolden,
  blindBy,
  changed,
  fitting,
  golden,
  type Json,
  judgeTower,
  opening,
  type Prompt,
} from "./pictures.ts"

/** Whose text models turn tokens by where they lie in an image. */
const turning = fitting.filter((name) => !/^(gemma|muse)/.test(name))

interface Placed extends Prompt {
  grids: [height: number, width: number][] // in patches
  behind: number
}

const isFramed = (name: string) => name.startsWith("hunyuan")

/** In rows that come out, what ends lines among them. */
const gridsOf = (name: string) =>
  golden<Placed>(name).map(({ grids }) =>
    grids.map(([height, width]) => {
      if (!turning.includes(name)) return undefined
      const rows = { height: height / 2, width: width / 2 }
      return isFramed(name)
        ? { height: rows.height, width: rows.width + 1, isFramed: true as const }
        : rows
    }),
  )

describe.each(fitting)("the tower of %s", (name) => {
  test("on reference", async () =>
    expect(await judgeTower(name, opening.reference)).toEqual(gridsOf(name)))

  test("on cpu", () => judgeTower(name, opening.cpu), 120_000)
})

describe("patches that an image may have", () => {
  const device = { name: "cpu", id: 0, description: "" } as const
  const prepare = (model: string, patches: number, available = 2 ** 30) => {
    const memory = { total: available, available, limitedBy: "machine" } as const
    const overrides = { max_image_patches: patches }
    const place = { device, shards: [device], budget: { device: memory } }
    return prepareModel({ model, overrides }, place)
  }
  const large = () =>
    changed(
      "hunyuan-ocr",
      () => {},
      (folder) => {
        const file = join(folder, "preprocessor_config.json")
        const own = JSON.parse(readFileSync(file, "utf8"))
        writeFileSync(file, JSON.stringify({ ...own, max_pixels: 16384 * 16 }))
      },
    )

  test("are as many as are allowed, and their memory is counted", async () => {
    const bytes: number[] = []
    for (const patches of [5120, 16384]) {
      const prepared = await prepare(large(), patches)
      onTestFinished(() => prepared.close())
      const { towers, files } = prepared
      expect(files.vision!.graph.shapes.context).toBe(patches)
      expect(towers[0]!.limits.tokens).toBe(patches)
      bytes.push(towers[0]!.bytes)
    }
    expect(bytes[1]! / bytes[0]!).toBeGreaterThan(3)
    const few = prepare(large(), 16384, 32 * 2 ** 20)
    await expect(few).rejects.toThrow(
      /an image of 16384 patches takes the tower 6\d MiB.* 32 MiB may be taken/,
    )
  })

  const own = "the model's own files say how many patches a tile has"

  test.each([
    ["tiny", 8000, "the model sees no images"],
    ["smolvlm", 8000, own],
    ["lfm2-vl", 8000, own],
    ["hunyuan-ocr", 64, "makes an image of 62 rows; at most 16 are allowed"],
  ])("are refused: of %s %i", async (name, patches, why) => {
    const model = name === "tiny" ? name : goldenFolder("vision", name)
    const words = expect.stringMatching(`^--overrides max_image_patches: .*${why}`)
    await expect(prepare(model, patches)).rejects.toMatchObject({ message: words })
  })
})

test("North Micro is served blind where kinds of layers turn by other parts of a head", async () => {
  const why = await blindBy("cohere-compass", (_, config) => {
    const { rope_parameters } = config.text_config as { rope_parameters: Json }
    const { sliding_attention: slides } = rope_parameters as { sliding_attention: Json }
    rope_parameters.full_attention = { ...slides, mrope_section: [1, 2, 2] }
  })
  expect(why).toContain("mrope_section is another of some layers than of others")
})

test("a place that a tower has no row for is refused", async () => {
  const model = await openModel(goldenFolder("vision", "gemma4-layer-inputs"), { sees: true })
  onTestFinished(() => model.close())
  const { graph, format, weights } = model.vision!
  const plan = compile(graph, { format, activations: "float", kv: "f32" })
  const program = await opening.reference(plan, towerLimits(plan.groups.length, 4))
  onTestFinished(() => program.close())
  await loadParameters(weights, program.manifest, program)
  const tower = createTower(program)
  const read = (width: number) => {
    const [given, places] = [new Float32Array(4 * 12), new Int32Array(4)]
    const coordinates = Int32Array.from({ length: 12 }, (_, i) => (i === 11 ? width : 0))
    const tile = { given, places, coordinates, wanted: Int32Array.of(0) }
    return tower.read(1, async () => [tile], { client: "" })
  }
  expect((await read(149)).length).toBe(32)
  await expect(read(150)).rejects.toThrow(/coordinates\[11\] is 150/)
})

const { isSkipped, why } = lackOf("vulkan")

/**
 * With windows; with what some layers leave; with rows by height and width, and bounds; with norms of heads that are turned, and biases; with
 * places that patches name.
 */
test
  .skipIf(isSkipped)
  .each(["qwen2-5-vl", "qwen3-vl", "gemma4-layer-inputs", "glm-ocr", "hunyuan-ocr"])(
  `the tower of %s on vulkan${why}`,
  async (name) => {
    await judgeTower(name, opening.vulkan, { sums: traitsOf("vulkan").sums })
  },
  GPU_MILLISECONDS,
)

test.each<[string, string, (vision: Json, config: Json) => void]>([
  ["qwen2-vl", "depth is 99999", (vision) => (vision.depth = 99999)],
  ["qwen2-vl", "num_heads makes heads of 2 columns", (vision) => (vision.num_heads = 16)],
  ["qwen2-vl", "temporal_patch_size is 1; known: 2", (vision) => (vision.temporal_patch_size = 1)],
  [
    "qwen2-vl",
    "rope_scaling.mrope_section is [1, 2, 2], not three parts of 6",
    (_, config) => (config.rope_scaling = { type: "mrope", mrope_section: [1, 2, 2] }),
  ],
  ["qwen2-5-vl", "window_size is 4, less than", (vision) => (vision.window_size = 4)],
  ["qwen2-5-vl", 'hidden_act is "mish"', (vision) => (vision.hidden_act = "mish")],
  ["qwen3-vl", "names layer 3 of 3", (vision) => (vision.deepstack_visual_indexes = [0, 3])],
  [
    "qwen3-vl",
    "names 4 layers, for 3",
    (vision) => Object.assign(vision, { depth: 4, deepstack_visual_indexes: [0, 1, 2, 3] }),
  ],
  ["qwen3-vl", "pos_embed.weight", (vision) => (vision.num_position_embeddings = 16)],
  ["qwen3-5", "image_token_id is 336", (_, config) => (config.image_token_id = 336)],
  ["gemma4", "head_dim is 6, no multiple of 4", (vision) => (vision.head_dim = 6)],
  ["gemma4", "head_dim is 12 of 4 heads; only", (vision) => (vision.head_dim = 12)],
  ["gemma4", "attention_bias is true", (vision) => (vision.attention_bias = true)],
  ["gemma4", "position_embedding_table has shape", (v) => (v.position_embedding_size = 600)],
  ["gemma4-layer-inputs", "std_bias", (vision) => (vision.standardize = true)],
  [
    "gemma4",
    'rope_parameters.rope_type is "default"; known: axial',
    (vision) => (vision.rope_parameters = { rope_type: "default" }),
  ],
  ["glm4v", "out_hidden_size is 40, and rows of", (vision) => (vision.out_hidden_size = 40)],
  ["glm4v", "image_size makes 0 places a side", (vision) => (vision.image_size = 3)],
  ["glm4v", "in_channels is 1", (vision) => (vision.in_channels = 1)],
  ["glm-ocr", "out_hidden_size is 48, and rows of", (vision) => (vision.out_hidden_size = 48)],
  ["glm-ocr", "patch_embed.proj.weight has shape", (vision) => (vision.hidden_size = 16)],
  ["hunyuan-ocr", "max_image_size makes 500 places", (vision) => (vision.max_image_size = 2000)],
  ["hunyuan-ocr", "position_embedding.weight has", (vision) => (vision.max_image_size = 64)],
  ["hunyuan-ocr", 'interpolate_mode is "bicubic"', (v) => (v.interpolate_mode = "bicubic")],
  ["hunyuan-ocr", "temporal_patch_size is 2; known: 1", (v) => (v.temporal_patch_size = 2)],
  [
    "hunyuan-ocr",
    "xdrope_section is [4, 4], not three or four parts of 8",
    (_, config) => (config.rope_scaling = { type: "xdrope", alpha: 3, xdrope_section: [4, 4] }),
  ],
  [
    "hunyuan-ocr",
    "rope_scaling.xdrope_section is not there, and neither is mrope_section",
    (_, config) => (config.rope_scaling = { type: "xdrope", alpha: 3 }),
  ],
  ["muse-glimmer", "out_hidden_size is 96", (_, config) => (config.out_hidden_size = 96)],
  ["muse-glimmer", "is about 1 layers of 2", (v) => (v.layer_types = ["full_attention"])],
  [
    "muse-glimmer",
    'layer_types holds "sliding_attention"; known: full_attention, window_attention',
    (vision) => (vision.layer_types = ["full_attention", "sliding_attention"]),
  ],
  [
    "muse-glimmer",
    'rope_parameters.rope_type is "default"; known: axial',
    (vision) => (vision.rope_parameters = { rope_type: "default" }),
  ],
  ["paddleocr-vl", "image_size makes 300 places a side", (vision) => (vision.image_size = 1200)],
  ["paddleocr-vl", "position_embedding.weight has shape", (vision) => (vision.image_size = 24)],
  ["paddleocr-vl", "spatial_merge_size is 0", (vision) => (vision.spatial_merge_size = 0)],
  [
    "paddleocr-vl",
    "rope_scaling.mrope_section is [1, 2, 2], not three parts of 6",
    (_, config) => (config.rope_scaling = { type: "default", mrope_section: [1, 2, 2] }),
  ],
])("%s: %s, so it is served blind", async (name, what, change) => {
  expect(await blindBy(name, change)).toContain(what)
})

test("a tower that is not known is none", async () => {
  expect(await blindBy("qwen3-vl", (vision) => (vision.model_type = "pixtral"))).toMatch(
    /config\.json: vision_config is of a tower that is not known: "qwen3_vl", of type "pixtral"$/,
  )
})

/** Tensors of a folder, by names that are as long. */
const renaming = (name: string, other: string) => (folder: string) => {
  const file = join(folder, "model.safetensors")
  const bytes = readFileSync(file, "latin1").replaceAll(name, other)
  writeFileSync(file, bytes, "latin1")
}

test.each([
  ["attn.proj.scales", "attn.proj.scaled", "tensor vision_tower.blocks.0.attn.proj.weight has"],
  ["attn.proj.biases", "attn.proj.biased", "tensor vision_tower.blocks.0.attn.proj.biases is not"],
  ["norm1.weight", "norm7.weight", "there is no tensor vision_tower.blocks.0.norm1.weight"],
])("a tower of MLX's with %s under another name is not guessed at", async (name, other, what) => {
  const damage = renaming(`blocks.0.${name}`, `blocks.0.${other}`)
  expect(await blindBy("qwen3-vl-mlx", () => {}, damage)).toContain(what)
})

test("a folder without its tower says so", async () => {
  const damage = renaming("vision_tower.", "vision_hidden")
  expect(await blindBy("qwen3-vl-mlx", () => {}, damage)).toMatch(/holds no weights of the tower/)
})

test("all of a head of GLM-OCR's text model is turned where nothing is said", async () => {
  const folder = changed("glm-ocr", (_, config) => {
    const text = config.text_config as Json
    delete text.partial_rotary_factor
    delete text.attention_bias
  })
  const [other, model] = await Promise.all(
    [folder, goldenFolder("vision", "glm-ocr")].map((path) => openModel(path)),
  )
  onTestFinished(async () => void (await Promise.all([other!.close(), model!.close()])))
  expect(other!.config).toEqual(model!.config)
})

test.each(["glm4v", "glm4v-moe"])("%s is read the same as GLM-4.6V", async (name) => {
  const folder = changed(name, (_, config) => (config.model_type = "glm46v"))
  const [other, model] = await Promise.all(
    [folder, goldenFolder("vision", name)].map((path) => openModel(path, { sees: true })),
  )
  onTestFinished(async () => void (await Promise.all([other!.close(), model!.close()])))
  expect(other!.config).toEqual(model!.config)
  expect(other!.vision).toMatchObject({
    config: model!.vision!.config,
    images: model!.vision!.images,
  })
})

test.each(turning)("%s: tokens of its prompts stand where transformers has them", (name) => {
  const tensors = readTensors(join(goldenFolder("vision", name), "golden.safetensors"))
  for (const [i, { ids, behind }] of golden<Placed>(name).entries()) {
    const coordinates = new Int32Array(tensors(`coordinates.${i}`)) // [3, length]
    const soft = { text: "<|image_pad|>", id: 324 }
    const prepare = () => Promise.reject(new Error("nothing is prepared"))
    const sight = new Media(
      new Senses([{ kind: "image", mark: soft.text, soft, prepare }]),
      [],
      undefined,
    )
    const images = gridsOf(name)[i]!.map((grid) => ({
      kind: "image" as const,
      hash: "",
      text: "",
      rows: grid!.height * grid!.width + (isFramed(name) ? 2 : 0),
      grid: grid!,
      encode: prepare,
    }))
    const { placed } = sight.found(Int32Array.from(ids), images)
    expect(placed.coordinates).toEqual({ ofPrompt: coordinates, behind })
  }
})

describe.each(fitting)("%s answers as transformers does", answersAsGolden)
