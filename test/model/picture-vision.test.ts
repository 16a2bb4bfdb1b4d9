// Models that see pictures in their own proportions or in tiles of them, from the bytes to the reply: towers, logits and greedy tokens
// are those of transformers (test/golden/vision/pictures.py, fitting.py).

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, onTestFinished, test } from "vitest"
import { createApp } from "../../src/app.ts"
import { Media, Senses } from "../../src/chat/media.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { compileFolder } from "../../src/model/compile-folder.ts"
import { openModel } from "../../src/model/model.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { goldenFolder } from "./golden.ts"
import {
  answersAsGolden,
  blindBy,
  changed,
  type Json,
  judgeTower,
  opening,
  others,
} from "./pictures.ts"
import { read, write } from "./tensor-file.ts"

test.each(others)("the tower of %s on reference", async (name) => {
  await judgeTower(name, opening.reference)
})

/** A row that ends lines, beside the graph; a matrix whose columns are turned around; what nobody stores; what has several names. */
test.each([
  ...["lfm2-vl", "lighton-ocr", "llava-onevision", "minicpm-v", "minicpm-v-4-6", "mistral3"],
  ...["hunyuan-ocr", "paddleocr-vl", "glm-ocr", "granite-docling", "minicpm-ocr", "qianfan-ocr"],
  ...["granite4-vision", "lfm3-vl", "paligemma"],
])("the tower of %s, compiled", async (name) => {
  const model = await openModel(goldenFolder("vision", name), { sees: true })
  onTestFinished(() => model.close())
  const folder = mkdtempSync(join(tmpdir(), "sinter-compiled-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  await compileFolder(model, folder, { format: model.format })
  await judgeTower(name, opening.reference, { path: folder })
})

const { isSkipped, why } = lackOf("vulkan")

/** Rows that ask, and do not see themselves; patches that are merged between layers. */
test.skipIf(isSkipped).each(["minicpm-v", "minicpm-v-4-6", "granite-docling"])(
  `the tower of %s on vulkan${why}`,
  async (name) => {
    await judgeTower(name, opening.vulkan, { sums: traitsOf("vulkan").sums })
  },
  GPU_MILLISECONDS,
)

/** Whose tower runs on compiled kernels. */
describe.each(others)("%s answers as transformers does", (name) => answersAsGolden(name))

/** A folder of MiniCPM-V with other words for its images. */
function slicedBy(image: Json, change: (config: Json) => void = () => {}): string {
  const folder = changed("minicpm-v", (_, config) => change(config))
  const file = join(folder, "preprocessor_config.json")
  const own = JSON.parse(readFileSync(file, "utf8"))
  writeFileSync(file, JSON.stringify({ ...own, ...image }))
  return folder
}

type Side = [width: number, height: number]

interface CanvasPrompt {
  ids: number[]
  canvases: { whole: Side; each?: Side; columns?: number; lines?: number }[]
  coordinates: number[]
  behind: number
}

describe("MiniCPM-V", () => {
  test.each<[string, Json, ((config: Json) => void)?]>([
    ["slice_mode is false; only images in slices are known", { slice_mode: false }],
    ['unk is "<pad>"; known: <unk>', { unk: "<pad>" }],
    ["image_feature_size is 64, but the tower has 5 queries", { image_feature_size: 64 }],
    ["patch_size is 14, but the tower's is 4", { patch_size: 14 }],
    [
      "scale_resolution is 448, which makes slices of up to 1585 patches",
      { scale_resolution: 448 },
    ],
    ["query_num is 513, not between 1 and 512", {}, (config) => (config.query_num = 513)],
    [
      "the configuration says [1152, 3, 4, 4]",
      {},
      (config) => (config.vision_config = { patch_size: 4 }),
    ],
  ])("%s, so it is served blind", async (what, image, change) => {
    const model = await openModel(slicedBy(image, change), { sees: true })
    onTestFinished(() => model.close())
    expect(model.vision).toBeUndefined()
    expect(model.blind).toContain(what)
  })

  test.each<[string, (vision: Json, config: Json) => void]>([
    ['downsample_mode is "8x"; known: 4x, 16x', (_, config) => (config.downsample_mode = "8x")],
    [
      'downsample_mode is "16x", but the tower\'s is "4x"',
      (_, config) => (config.downsample_mode = "4x"),
    ],
    ["merger_times is 2; known: 1", (_, config) => (config.merger_times = 2)],
    ["merge_kernel_size is another than 2", (_, config) => (config.merge_kernel_size = [4, 4])],
    ["window_kernel_size is another than 2", (vision) => (vision.window_kernel_size = [4, 4])],
    ["insert_layer_id is 3, not between 0 and 2", (_, config) => (config.insert_layer_id = 3)],
  ])("4.6 is served blind where %s", async (what, change) => {
    expect(await blindBy("minicpm-v-4-6", change)).toContain(what)
  })

  test.each<[string, Json]>([
    ['small_image_upsize is "adaptive"; known: always, never', { small_image_upsize: "adaptive" }],
    ['downsample_mode is "16x", but the tower\'s is "4x"', { downsample_mode: "16x" }],
    ["slice_mode is false; only images in slices are known", { slice_mode: false }],
  ])("MiniCPM-OCR is served blind where %s", async (what, image) => {
    const change = (folder: string) => {
      const file = join(folder, "preprocessor_config.json")
      writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), ...image }))
    }
    expect(await blindBy("minicpm-ocr", () => {}, change)).toContain(what)
  })

  test.each<[string, (config: Json) => void]>([
    ["newline_id is missing", (config) => delete config.newline_id],
    [
      'a tower that is not known: "minicpmv4_7", of type "other"',
      (config) => (config.vision_config = { model_type: "other" }),
    ],
  ])("4.7 is served blind where %s", async (what, change) => {
    expect(await blindBy("minicpm-v-4-7", (_, config) => change(config))).toContain(what)
  })

  test("tokens of 4.7's prompts stand where transformers has them", async () => {
    const folder = goldenFolder("vision", "minicpm-v-4-7")
    const model = await openModel(folder, { sees: true })
    onTestFinished(() => model.close())
    const { marks } = model.vision!.images.canvas!
    const soft = { text: "<|image_pad|>", id: model.vision!.config.softToken }
    const prepare = () => Promise.reject(new Error("nothing is prepared"))
    const senses = new Senses([{ kind: "image", mark: soft.text, soft, prepare }])
    const sight = new Media(senses, [], undefined)
    const sizeOf = ([width, height]: Side) => ({ width, height })
    const prompts: CanvasPrompt[] = JSON.parse(readFileSync(join(folder, "canvases.json"), "utf8"))
    for (const prompt of prompts) {
      const images = prompt.canvases.map(({ whole, each = [0, 0], columns = 0, lines = 0 }) => {
        const slices = columns > 0 && { columns, lines, each: sizeOf(each) }
        const rows = whole[0] * whole[1] + columns * lines * each[0] * each[1]
        const canvas = { whole: sizeOf(whole), ...(slices && { slices }), marks }
        return { kind: "image" as const, hash: "", text: "", rows, canvas, encode: prepare }
      })
      const { placed } = sight.found(Int32Array.from(prompt.ids), images)
      const ofPrompt = Int32Array.from(prompt.coordinates)
      expect(placed.coordinates).toEqual({ ofPrompt, behind: prompt.behind })
    }
  })

  test("its text model is of a version that is known", async () => {
    const opened = openModel(slicedBy({}, (config) => (config.version = 2.5)))
    await expect(opened).rejects.toThrow("version is 2.5; known: 2.6, 4, 4.5")
  })

  test.each([
    ["others", (text: string) => text.replaceAll("<unk>", "<nil>")],
    ["nothing", () => '{ "added_tokens_decoder": null }'],
    ["no number", () => '{ "added_tokens_decoder": { "": { "content": "<unk>" } } }'],
  ])("a tokenizer without the token for its rows is named: it has %s", async (_, change) => {
    const folder = slicedBy({})
    const file = join(folder, "tokenizer_config.json")
    writeFileSync(file, change(readFileSync(file, "utf8")))
    const model = await openModel(folder, { sees: true })
    onTestFinished(() => model.close())
    expect(model.blind).toMatch(/tokenizer_config\.json: has no <unk> in added_tokens_decoder/)
  })

  test("the last layer is left out where its configuration says so, and images are not counted", async () => {
    const folder = slicedBy({ use_image_id: false }, (config) => {
      config.drop_vision_last_layer = true
      ;(config.vision_config as Json).num_hidden_layers = 3
    })
    const models = await Promise.all(
      [folder, goldenFolder("vision", "minicpm-v")].map((path) => openModel(path, { sees: true })),
    )
    onTestFinished(async () => void (await Promise.all(models.map((model) => model.close()))))
    const [other, usual] = models.map(({ vision }) => vision!)
    expect(other!.graph).toEqual(usual!.graph)
    expect(other!.images.wording.opening).toBe("")
    expect(usual!.images.wording.opening).toBe("<image_id>{image}</image_id>")
  })
})

test.each<[string, string, (vision: Json, config: Json) => void]>([
  [
    "lighton-ocr",
    "spatial_merge_size is 0, not between 1 and 32",
    (_, config) => (config.spatial_merge_size = 0),
  ],
  [
    "lighton-ocr",
    'projector_hidden_act is "mish"',
    (_, config) => (config.projector_hidden_act = "mish"),
  ],
  ...(
    [
      ["conv_kernel_size is 5; known: 3", { conv_kernel_size: 5 }],
      ["temporal_patch_size is 1; known: 2", { temporal_patch_size: 1 }],
      ["layer_types is about 2 layers of 3", { layer_types: ["conv", "full_attention"] }],
      ["layer_types names no layer of full_attention", { layer_types: Array(3).fill("conv") }],
      [
        'layer_types holds "mamba"; known: conv, full_attention',
        { layer_types: ["full_attention", "mamba", "conv"] },
      ],
      [
        "hidden_size is 48; patches find each other by 64 columns",
        { hidden_size: 48, num_attention_heads: 4 },
      ],
    ] as const
  ).map(
    ([what, said]) =>
      ["lfm3-vl", what, (vision: Json) => void Object.assign(vision, said)] as [
        string,
        string,
        (vision: Json, config: Json) => void,
      ],
  ),
  [
    "granite-docling",
    "out_hidden_size is 44, and rows of the text model have 40",
    (vision) => (vision.out_hidden_size = 44),
  ],
  [
    "granite-docling",
    "scale_factor joins 4 patches a side, which does not divide 6",
    (vision) => (vision.scale_factor = 4),
  ],
  [
    "granite-docling",
    "deepstack_visual_indexes names layer 3 of 3",
    (vision) => (vision.deepstack_visual_indexes = [0, 3]),
  ],
  ...(
    [
      ['downsample_rate is "3/8"; known: "4/8"', { downsample_rate: "3/8" }],
      ["in 8, or too many squares in one", { downsample_rate: "8/16" }],
      [
        "leads to layer 2 once more",
        { deepstack_layer_map: [[-2, 0]], spatial_target_layers: [2, 1, 2, 3] },
      ],
      ["leads to no layer 0, so that", { deepstack_layer_map: [[-2, 1]] }],
      ["deepstack_layer_map holds 3, which is none of 2", { deepstack_layer_map: [[3, 0]] }],
      ["leads to layer 6 of 6", { deepstack_layer_map: [[-1, 6]] }],
      ["names 3 layers for 4 corners", { spatial_target_layers: [1, 2, 3] }],
      ["num_hidden_layers is 2; known: 1", { qformer_config: { num_hidden_layers: 2 } }],
      ['strategy is "default"; known: full', { vision_feature_select_strategy: "default" }],
    ] as const
  ).map(
    ([what, said]) =>
      ["granite4-vision", what, (_: Json, config: Json) => void Object.assign(config, said)] as [
        string,
        string,
        (vision: Json, config: Json) => void,
      ],
  ),
  [
    "paligemma",
    "projection_dim is 44, and rows of the text model have 40",
    (_, config) => (config.projection_dim = 44),
  ],
  [
    "paligemma2",
    "sliding_window is 17, and a prompt whose image alone has 16 rows is seen whole",
    (_, config) => ((config.text_config as Json).sliding_window = 17),
  ],
  ["qianfan-ocr", 'norm_type is "batch_norm"', (vision) => (vision.norm_type = "batch_norm")],
  [
    "qianfan-ocr",
    'vision_feature_select_strategy is "full"',
    (_, config) => (config.vision_feature_select_strategy = "full"),
  ],
])("%s: %s, so it is served blind", async (name, what, change) => {
  expect(await blindBy(name, change)).toContain(what)
})

test("PaliGemma is served blind where its processor counts other rows of an image", async () => {
  const change = (folder: string) => {
    const file = join(folder, "preprocessor_config.json")
    const own = JSON.parse(readFileSync(file, "utf8"))
    writeFileSync(file, JSON.stringify({ ...own, image_seq_length: 25 }))
  }
  const why = "image_seq_length is 25, but 16 rows of a tile come out of the tower"
  expect(await blindBy("paligemma", () => {}, change)).toContain(why)
})

test("PaliGemma answers one message with an image, as its processor writes it, and says so of others", async () => {
  const app = await createApp({ model: goldenFolder("vision", "paligemma"), servedName: "it" })
  onTestFinished(() => app.close())
  const url = `http://127.0.0.1:${await app.listen(0)}/v1/chat/completions`
  await app.ready
  const ask = async (...messages: Json[]) => {
    const headers = { "content-type": "application/json" }
    const body = JSON.stringify({ model: "it", messages, max_tokens: 1 })
    const response = await fetch(url, { method: "POST", headers, body })
    return ((await response.json()) as { error: { message: string } }).error.message
  }
  const user = { role: "user", content: "What is this?" }
  expect(await ask(user)).toContain("PaliGemma answers about images, and the message has none.")
  const turns = "PaliGemma answers one message of a user, and knows neither turns nor systems."
  expect(await ask(user, { role: "assistant", content: "It." }, user)).toContain(turns)
})

test("Granite Docling is served blind where its images take the way with more rows", async () => {
  const change = (folder: string) => {
    const file = join(folder, "preprocessor_config.json")
    const own = JSON.parse(readFileSync(file, "utf8"))
    writeFileSync(file, JSON.stringify({ ...own, fine_route: true }))
  }
  expect(await blindBy("granite-docling", () => {}, change)).toContain("fine_route is true")
})

test("Kimi K2.5 is read by the names that were published, too", async () => {
  const folder = changed("kimi-k25", (vision, config) => {
    const own = ["hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers"]
    for (const [name, ...others] of [
      ...own.map((name) => [name, "vt_"]),
      ["pos_emb_height", "init_"],
      ["pos_emb_width", "init_"],
    ]) {
      vision[others[0]! + name] = vision[name!]
      delete vision[name!]
    }
    Object.assign(vision, { model_type: "", merge_type: "sd2_tpool", projector_ln_eps: 1e-5 })
    config.media_placeholder_token_id = config.image_token_id
    delete config.image_token_id
  })
  const file = join(folder, "preprocessor_config.json")
  const { patch_size, image_mean, image_std, max_patches, size } = JSON.parse(
    readFileSync(file, "utf8"),
  )
  const media_proc_cfg = {
    ...{ patch_size, image_mean, image_std },
    in_patch_limit: max_patches,
    merge_kernel_size: 2,
    fixed_output_tokens: null,
    patch_limit_on_one_side: size.max_height,
    in_patch_limit_each_frame: 4096,
    sample_fps: 2.0,
    temporal_merge_kernel_size: 4,
    timestamp_mode: "hh:mm:ss.fff",
  }
  writeFileSync(file, JSON.stringify({ auto_map: {}, media_proc_cfg }))
  await judgeTower("kimi-k25", opening.reference, { path: folder })
  const imagesOf = async (path: string) => {
    const model = await openModel(path, { sees: true })
    onTestFinished(() => model.close())
    return model.vision?.images ?? model.blind
  }
  expect(await imagesOf(folder)).toEqual(await imagesOf(goldenFolder("vision", "kimi-k25")))
  const fixed = { ...media_proc_cfg, fixed_output_tokens: 64 }
  writeFileSync(file, JSON.stringify({ media_proc_cfg: fixed }))
  expect(await imagesOf(folder)).toContain("media_proc_cfg.fixed_output_tokens is said")
})

const places = mkdtempSync(join(tmpdir(), "sinter-pictures-"))
afterAll(() => rmSync(places, { recursive: true }))

/** The folder of Kimi K2.5 as one of Kimi VL: it sees with the same, under the names that were published. */
function asKimiVl(image: Json = {}): string {
  const folder = mkdtempSync(join(places, "kimi-vl-"))
  cpSync(goldenFolder("vision", "kimi-k25"), folder, { recursive: true })
  const told = join(folder, "config.json")
  const { image_token_id, vision_config, ...rest } = JSON.parse(readFileSync(told, "utf8"))
  const {
    pos_emb_height,
    pos_emb_width,
    pos_emb_time: _,
    rope_parameters: __,
    ...own
  } = vision_config
  const sides = { init_pos_emb_height: pos_emb_height, init_pos_emb_width: pos_emb_width }
  const config = {
    ...rest,
    model_type: "kimi_vl",
    media_placeholder_token_id: image_token_id,
    vision_config: { ...own, ...sides, model_type: "moonvit" },
  }
  writeFileSync(told, JSON.stringify(config))
  const file = join(folder, "preprocessor_config.json")
  const { patch_size, image_mean, image_std, max_patches } = JSON.parse(readFileSync(file, "utf8"))
  writeFileSync(
    file,
    JSON.stringify({
      ...{ patch_size, image_mean, image_std, in_token_limit: max_patches },
      image_processor_type: "KimiVLImageProcessor",
      merge_kernel_size: [2, 2],
      num_pooled_tokens: 1024,
      pad_input: true,
      ...image,
    }),
  )
  rmSync(join(folder, "processor_config.json"))
  const weights = join(folder, "model.safetensors")
  const tensors = read(weights)
  for (const [name, tensor] of [...tensors])
    if (name.startsWith("mm_projector.")) {
      tensors.delete(name)
      const [, part, rest] = /^mm_projector\.(pre_norm|proj\.\d)\.(.+)$/.exec(name)!
      const own = { "proj.0": "linear_1", "proj.2": "linear_2" }[part!] ?? part
      tensors.set(`multi_modal_projector.${own}.${rest}`, tensor)
    }
  write(weights, tensors)
  return folder
}

describe("Kimi VL sees what Kimi K2.5 does", () => {
  test("its tower, on reference", async () => {
    await judgeTower("kimi-k25", opening.reference, { path: asKimiVl() })
  })

  answersAsGolden("kimi-k25", asKimiVl())

  test.each<[string, Json]>([
    ["pad_input is false, or not there", { pad_input: false }],
    ["merge_kernel_size is not 2, which is the tower's", { merge_kernel_size: [3, 3] }],
    ["patch_size is 14, but the tower's is 4", { patch_size: 14 }],
  ])("%s, so it is served blind", async (what, image) => {
    const model = await openModel(asKimiVl(image), { sees: true })
    onTestFinished(() => model.close())
    expect(model.blind).toContain(what)
  })
})

test.each<[string, string, (vision: Json, config: Json) => void]>([
  [
    "mistral3",
    "vision_feature_layer names 2 layers",
    (_, config) => (config.vision_feature_layer = [-1, -2]),
  ],
  [
    "mistral3",
    "merging_layer.weight has shape [48, 192]",
    (_, config) => (config.spatial_merge_size = 3),
  ],
  [
    "mistral3",
    "num_attention_heads makes heads of 6 columns",
    (vision) => (vision.num_attention_heads = 8),
  ],
  [
    "mistral3",
    'rope_type is "yarn"; known: axial',
    (vision) => (vision.rope_parameters = { rope_type: "yarn", rope_theta: 100 }),
  ],
  [
    "llava-next",
    "vision_feature_select_strategy leaves 0 rows of a tile out",
    (_, config) => (config.vision_feature_select_strategy = "full"),
  ],
  [
    "llava-next",
    "names 200000 layers; there are",
    (_, config) => (config.vision_feature_layer = Array<number>(200_000).fill(-2)),
  ],
  [
    "llava-next",
    "image_grid_pinpoints has other sizes",
    (_, config) => (config.image_grid_pinpoints = [[40, 20]]),
  ],
  [
    "llava-onevision",
    'vision_aspect_ratio is "pad"; known: anyres_max_9',
    (_, config) => (config.vision_aspect_ratio = "pad"),
  ],
  [
    "llava-onevision",
    'vision_aspect_ratio is "anyres_max_2", but the model\'s is "anyres_max_4"',
    (_, config) => (config.vision_aspect_ratio = "anyres_max_4"),
  ],
  [
    "llama4",
    "projector_output_dim is 40, but projector_input_dim is 44",
    (vision) => (vision.projector_output_dim = 40),
  ],
  ["llama4", 'hidden_act is "silu"; known: gelu', (vision) => (vision.hidden_act = "silu")],
  [
    "llama4",
    "multi_modal_projector_bias is true",
    (vision) => (vision.multi_modal_projector_bias = true),
  ],
  [
    "llama4",
    'vision_feature_select_strategy is "full"; known: default',
    (vision) => (vision.vision_feature_select_strategy = "full"),
  ],
  [
    "kimi-k25",
    "pos_emb_height is 6, but pos_emb_width is 5",
    (vision) => (vision.pos_emb_height = 6),
  ],
  ["kimi-k25", 'merge_type is "mean"; known: sd2_tpool', (vision) => (vision.merge_type = "mean")],
  ["janus", "depth is 3; known of this model: 2", (vision) => (vision.depth = 3)],
  ["janus", "projection_dim is 44; known", (vision) => (vision.projection_dim = 44)],
  ["janus", "use_qk_norm is true", (vision) => (vision.use_qk_norm = true)],
  [
    "janus",
    "has shape [57, 48], the configuration says [72, 48]",
    (vision) => (vision.mlp_ratio = 1.5),
  ],
  [
    "llava-pixtral",
    'vision_feature_select_strategy is "default"; known: full',
    (_, config) => delete config.vision_feature_select_strategy,
  ],
])("%s: %s, so it is served blind", async (name, what, change) => {
  expect(await blindBy(name, change)).toContain(what)
})
