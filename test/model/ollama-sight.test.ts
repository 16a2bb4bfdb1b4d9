// Files that hold text model and tower, as Ollama's converter writes them, are what the pairs of llama.cpp's converter are
// (test/golden/gguf/vision), bit by bit: their tensors and keys are given the names here that Ollama's have
// (convert/convert_gemma3.go, convert_gemma4.go, convert_lfm2_vl.go, convert_llama4.go, convert_mistral.go, convert_qwen25vl.go,
// convert_qwen3next.go, convert_qwen3vl.go there). One pair hears, too (test/golden/gguf/senses).

import { createHash } from "node:crypto"
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, onTestFinished, test } from "vitest"
import { printGraph } from "../../src/compiler/graph/graph.ts"
import type { ImageProcessing } from "../../src/images/image.ts"
import { compileFolder } from "../../src/model/compile-folder.ts"
import { weightsOf } from "../../src/model/graph-weights.ts"
import { type Model, openModel } from "../../src/model/model.ts"
import {
  bool,
  float32,
  float32s,
  type GgufFileParts,
  type GgufTensor,
  int32s,
  rewritten,
  string,
  uint32,
} from "./gguf-file.ts"
import { goldenFolder } from "./golden.ts"

const scratch = mkdtempSync(join(tmpdir(), "sinter-ollama-sight-"))
afterAll(() => rmSync(scratch, { recursive: true }))

const MMPROJ = "mmproj-model-bf16.gguf"

const pairOf = (name: string) => {
  const folder = name === BOTH ? withPlaces() : join(goldenFolder("gguf", "vision"), name)
  return { model: join(folder, "model.gguf"), mmproj: join(folder, MMPROJ) }
}

/** A pair that sees and hears, whose matrices have bounds. */
const BOTH = "gemma4-senses"

/** Its tower has places for images of fewer rows than usual: here for more, which say nothing. */
function withPlaces(): string {
  const folder = join(scratch, BOTH)
  if (existsSync(folder)) return folder
  const golden = join(goldenFolder("gguf", "senses"), "gemma4")
  cpSync(golden, folder, { recursive: true })
  const more = rewritten(readFileSync(join(golden, MMPROJ)), ({ tensors }) => {
    const { type, dims, data } = tensors.get("v.position_embd.weight")!
    const [width, places] = dims as [number, number]
    const [few, most] = [places, 600].map((count) => 4 * width * count)
    const tables = [0, few!].map((at) =>
      Buffer.concat([data.subarray(at, at + few!), Buffer.alloc(most! - few!)]),
    )
    const table = { type, dims: [width, 600, 2], data: Buffer.concat(tables) }
    tensors.set("v.position_embd.weight", table)
  })
  writeFileSync(join(folder, MMPROJ), more)
  return folder
}

async function opened(path: string): Promise<Model> {
  const model = await openModel(path, { sees: true })
  onTestFinished(() => model.close())
  return model
}

type Names = readonly (readonly [from: RegExp | string, to: string])[]

interface Layout {
  /** Of the text model's own keys. */
  architecture: string
  names: Names
  /** Keys under the architecture, beside those that all have. */
  keys: Record<string, Buffer>
  rest?: (parts: GgufFileParts) => void
}

const BYTES: GgufTensor = { type: "F32", dims: [1], data: Buffer.alloc(4) }

const BLOCKS = { embedding_length: 48, block_count: 3, "attention.head_count": 4, patch_size: 4 }

const ofVision = (keys: Record<string, number>) =>
  Object.fromEntries(Object.entries(keys).map(([key, value]) => [`vision.${key}`, uint32(value)]))

/** Frame by frame in two tensors becomes colour by colour in one: [rows * colours, frames, height, width]. */
function joinFrames({ tensors }: GgufFileParts): void {
  const [first, second] = ["v.patch_embed.weight", "v.patch_embed.weight.1"].map(
    (name) => tensors.get(name)!,
  ) as [GgufTensor, GgufTensor]
  const [width, height, colours, rows] = first.dims as [number, number, number, number]
  const size = 4 * width * height
  const data = Array.from({ length: colours * rows }, (_, i) =>
    [first, second].map((frame) => frame.data.subarray(i * size, (i + 1) * size)),
  )
  tensors.delete("v.patch_embed.weight.1")
  tensors.set("v.patch_embed.weight", {
    ...first,
    dims: [width, height, 2, colours * rows],
    data: Buffer.concat(data.flat()),
  })
}

/** Queries, keys and values, each with a tensor of its own. */
function splitJoined({ tensors }: GgufFileParts): void {
  for (const [name, { type, dims, data }] of [...tensors])
    if (/^v\..*attn_qkv/.test(name)) {
      tensors.delete(name)
      for (const [i, part] of ["q", "k", "v"].entries()) {
        const own = data.subarray((i * data.length) / 3, ((i + 1) * data.length) / 3)
        const size = dims.with(-1, dims.at(-1)! / 3)
        tensors.set(name.replace("qkv", part), { type, dims: size, data: own })
      }
    }
}

const qwen3 = (architecture: string, layers: readonly number[]): Layout => ({
  architecture,
  names: [
    [/^v\.post_ln/, "v.merger.norm"],
    [/^mm\.0/, "v.merger.linear_fc1"],
    [/^mm\.2/, "v.merger.linear_fc2"],
    ["v.patch_embd", "v.patch_embed"],
    ["v.position_embd", "v.pos_embed"],
    ...layers.map((layer, i) => [`v.deepstack.${layer}.`, `v.deepstack_merger.${i}.`] as const),
    [".fc1", ".linear_fc1"],
    [".fc2", ".linear_fc2"],
    [/^(v\..*)ffn_up/, "$1mlp.linear_fc1"],
    [/^(v\..*)ffn_down/, "$1mlp.linear_fc2"],
    [".ln1", ".norm1"],
    [".ln2", ".norm2"],
  ],
  keys: {
    ...ofVision({ ...BLOCKS, spatial_merge_size: 2, shortest_edge: 256, longest_edge: 4096 }),
    "vision.deepstack_visual_indexes": int32s(layers),
    "rope.mrope_section": int32s([3, 3, 2]),
  },
  rest(parts) {
    joinFrames(parts)
    splitJoined(parts)
    parts.pairs.delete(`${architecture}.n_deepstack_layers`)
  },
})

/** Rows of queries and keys of what sees lie as they were published: halves of heads behind one another, not by turns. */
function untangled({ tensors }: GgufFileParts): void {
  for (const [name, { dims, data }] of tensors)
    if (/^v\..*attn_[qk]\./.test(name)) {
      const rows = dims.at(-1)!
      const [size, half] = [data.length / rows, rows / 4 / 2]
      const before = Buffer.from(data)
      for (let row = 0; row < rows; row++) {
        const [head, at] = [Math.floor(row / (2 * half)), row % (2 * half)]
        const from = head * 2 * half + 2 * (at % half) + Math.floor(at / half)
        before.copy(data, row * size, from * size, (from + 1) * size)
      }
    }
}

const gemma4Keys = {
  ...ofVision({ embedding_length: 32, block_count: 2, "attention.head_count": 4, patch_size: 2 }),
  ...ofVision({ feed_forward_length: 40, num_channels: 3, "projector.scale_factor": 2 }),
  "vision.attention.layer_norm_epsilon": float32(1e-6),
}

const layouts: Record<string, Layout> = {
  gemma4: { architecture: "gemma4", names: [], keys: gemma4Keys },
  [BOTH]: {
    architecture: "gemma4",
    names: [
      ["a.pre_encode.out", "mm.a.fc"],
      [/^a\.input_projection/, "a.pre_encode.out"],
      [/^(a\..*)\.ln2/, "$1.layer_pre_norm"],
      [/^(a\..*)attn_post_norm/, "$1ln2"],
      ["attn_pre_norm", "ln1"],
      ["attn_k_rel", "linear_pos"],
    ],
    keys: {
      ...gemma4Keys,
      "audio.block_count": uint32(2),
      "audio.embedding_length": uint32(32),
      "audio.feed_forward_length": uint32(128),
      "audio.attention.head_count": uint32(4),
      "audio.attention.layer_norm_epsilon": float32(1e-6),
      "audio.conv_kernel_size": uint32(4),
    },
    rest: ({ tensors }) => tensors.set("model.vision_tower.another", BYTES),
  },
  "lfm2-vl": {
    architecture: "lfm2",
    names: [["mm.input_norm", "mm.layer_norm"]],
    keys: {
      ...ofVision({ ...BLOCKS, feed_forward_length: 56, image_size: 64, num_channels: 3 }),
      ...ofVision({ "projector.scale_factor": 2, tile_size: 128, min_tiles: 2, max_tiles: 10 }),
      ...ofVision({ min_image_tokens: 64, max_image_tokens: 256, image_token_id: 319 }),
      "vision.attention.layer_norm_epsilon": float32(1e-6),
      "vision.max_pixels_tolerance": float32(2),
      "vision.projector.use_layernorm": bool(true),
      "vision.do_image_splitting": bool(true),
      "vision.use_thumbnail": bool(true),
      "vision.use_image_special_tokens": bool(true),
      "vision.image_mean": float32s([0.5, 0.5, 0.5]),
      "vision.image_std": float32s([0.5, 0.5, 0.5]),
    },
    rest({ tensors }) {
      tensors.set("output_norm.weight", tensors.get("token_embd_norm.weight")!)
      tensors.delete("token_embd_norm.weight")
    },
  },
  llama4: {
    architecture: "llama4",
    names: [
      ["mm.model.mlp.", "v.vision_adapter.mlp.fc"],
      ["mm.model.fc", "mm.linear_1"],
      ["v.class_embd", "v.class_embedding"],
      ["v.position_embd.weight", "v.positional_embedding_vlm"],
      ["v.pre_ln", "v.layernorm_pre"],
      ["v.post_ln", "v.layernorm_post"],
      ["v.patch_embd", "v.patch_embedding"],
      [/^(v\..*)attn_out\./, "$1attn_output."],
      [/^(v\..*)ln1/, "$1attn_norm"],
      [/^(v\..*)attn_post_norm/, "$1ffn_norm"],
      [/^(v\..*)ffn_up/, "$1mlp.fc1"],
      [/^(v\..*)ffn_down/, "$1mlp.fc2"],
    ],
    keys: {
      ...ofVision({ ...BLOCKS, patch_size: 6, feed_forward_length: 192, image_size: 24 }),
      "vision.rope.freq_base": float32(100),
      "vision.layer_norm_epsilon": float32(1e-5),
      "vision.pixel_shuffle_ratio": float32(0.5),
      use_qk_norm: bool(true),
    },
  },
  mistral3: {
    architecture: "mistral3",
    names: [
      ["v.patch_embd", "v.patch_conv"],
      ["v.pre_ln", "v.encoder_norm"],
      [/^(v\..*)attn_out\./, "$1attn_output."],
      [/^(v\..*)ln1/, "$1attn_norm"],
      [/^(v\..*)ln2/, "$1ffn_norm"],
      [/^mm\.([12])/, "mm.linear_$1"],
      ["mm.input_norm", "mm.norm"],
      ["mm.patch_merger", "mm.patch_merger.merging_layer"],
    ],
    keys: {
      ...ofVision({ ...BLOCKS, feed_forward_length: 56, image_size: 64, num_channels: 3 }),
      "vision.attention.key_length": uint32(12),
      "vision.rope.freq_base": float32(100),
      spatial_merge_size: uint32(2),
      image_token_index: uint32(10),
      "mm.projector_bias": bool(false),
      "mm.projector_hidden_act": string("gelu"),
      "rope.scaling.type": string(""),
      "rope.scaling.factor": float32(0),
      "rope.scaling.beta_fast": float32(0),
      "rope.scaling.beta_slow": float32(0),
    },
    rest: untangled,
  },
  "qwen3-5": {
    ...qwen3("qwen35", []),
    keys: {
      ...ofVision({ ...BLOCKS, spatial_merge_size: 2, shortest_edge: 256, longest_edge: 4096 }),
      "vision.temporal_patch_size": uint32(2),
      "vision.deepstack_visual_indexes": int32s([]),
      "rope.mrope_section": int32s([2, 1, 1]),
      mrope_sections: int32s([2, 1, 1]),
      "rope.mrope_interleaved": bool(true),
      "attention.head_count_kv": int32s([0, 0, 0, 1]),
      "ssm.v_head_reordered": bool(true),
    },
    rest(parts) {
      const { pairs, tensors } = parts
      joinFrames(parts)
      splitJoined(parts)
      pairs.delete("qwen35.attention.recurrent_layers")
      pairs.delete("qwen35.full_attention_interval")
      for (const [name, tensor] of [...tensors])
        if (name.endsWith(".ssm_dt.bias")) {
          tensors.delete(name)
          tensors.set(name.replace(".bias", ""), tensor)
        }
      tensors.set("mtp.norm.weight", { type: "F32", dims: [32], data: Buffer.alloc(128) })
    },
  },
  gemma3: {
    architecture: "gemma3",
    names: [
      ["v.patch_embd", "v.patch_embedding"],
      ["v.position_embd", "v.position_embedding"],
      ["v.post_ln", "v.post_layernorm"],
      [".ln1", ".layer_norm1"],
      [".ln2", ".layer_norm2"],
      [".attn_out.", ".attn_output."],
      [/^(v\..*)ffn_up/, "$1mlp.fc1"],
      [/^(v\..*)ffn_down/, "$1mlp.fc2"],
      [/^mm\./, "mm.mm_"],
    ],
    keys: {
      ...ofVision({ ...BLOCKS, feed_forward_length: 56, image_size: 24, num_channels: 3 }),
      "vision.attention.layer_norm_epsilon": float32(1e-6),
      "mm.tokens_per_image": uint32(4),
    },
  },
  "qwen2-5-vl": {
    architecture: "qwen25vl",
    names: [
      ["v.post_ln", "v.merger.ln_q"],
      [/^mm\./, "v.merger.mlp."],
      [/^v\.patch_embd\.weight$/, "v.patch_embd_0.weight"],
      [/^v\.patch_embd\.weight\.1$/, "v.patch_embd_1.weight"],
    ],
    keys: {
      ...ofVision({ ...BLOCKS, embedding_length: 32, spatial_merge_size: 2, window_size: 16 }),
      "vision.fullatt_block_indexes": int32s([1]),
      "rope.mrope_section": int32s([1, 2, 3]),
    },
  },
  "qwen3-vl": qwen3("qwen3vl", [1, 0]),
  "qwen3-vl-moe": qwen3("qwen3vlmoe", [1]),
}

/** One file of two. */
function asOllama(name: string, change: (parts: GgufFileParts) => void = () => {}): string {
  const { architecture, names, keys, rest } = layouts[name]!
  const { model, mmproj } = pairOf(name)
  const path = join(scratch, `${name}-${Math.random()}.gguf`)
  const tower = new Map<string, GgufTensor>()
  rewritten(readFileSync(mmproj), ({ tensors }) => {
    for (const [name, tensor] of tensors) tower.set(name, tensor)
  })
  const whole = rewritten(readFileSync(model), (parts) => {
    const { pairs, tensors } = parts
    for (const [name, tensor] of tower)
      tensors.set(
        names.reduce((name, [from, to]) => name.replace(from, to), name),
        tensor,
      )
    for (const [key, value] of [...pairs]) {
      const [, before = "", rest = ""] =
        /^(gemma3|gemma4|lfm2|llama4|mistral3|qwen2vl|qwen35|qwen3vl|qwen3vlmoe)\.(.+)$/.exec(
          key,
        ) ?? []
      if (before === "") continue
      pairs.delete(key)
      if (rest !== "rope.dimension_sections") pairs.set(`${architecture}.${rest}`, value)
    }
    pairs.set("general.architecture", string(architecture))
    pairs.set("tokenizer.ggml.add_unknown_token", bool(false))
    for (const [key, value] of Object.entries(keys)) pairs.set(`${architecture}.${key}`, value)
    rest?.(parts)
    change(parts)
  })
  writeFileSync(path, whole)
  return path
}

/** All that a graph reads, by hashes. */
async function valuesOf({ graph, weights }: Pick<Model, "graph" | "weights">) {
  const values = new Map<string, string>()
  for (const { sources, columns } of weightsOf(graph))
    for (const { tensor, rows } of sources) {
      const read = await weights.tensor(tensor, rows, columns).read(0, rows)
      values.set(tensor, createHash("sha256").update(read.values).digest("hex"))
    }
  return values
}

/** As files have means and deviations. */
const inFloats = (images: ImageProcessing) => ({
  ...images,
  mean: images.mean.map(Math.fround),
  std: images.std.map(Math.fround),
})

test.each(Object.keys(layouts))(
  "%s in one file is the model and the tower of two",
  async (name) => {
    const [one, two] = [await opened(asOllama(name)), await opened(pairOf(name).model)]
    expect(one.blind).toBeUndefined()
    const [own, other] = [one.vision!, two.vision!]
    expect(printGraph(own.graph)).toBe(printGraph(other.graph))
    expect(printGraph(one.graph)).toBe(printGraph(two.graph))
    expect(await valuesOf(own)).toEqual(await valuesOf(other))
    expect(await valuesOf(one)).toEqual(await valuesOf(two))
    const usual = { least: 56 * 56, most: 1280 * 8 * 8 } // of Qwen 2.5's, which says nothing of it
    const cutting = { ...other.images.cutting, ...(name === "qwen2-5-vl" && usual) }
    expect(inFloats(own.images)).toEqual({ ...inFloats(other.images), cutting })
    expect(one.deaf).toBeUndefined()
    expect(one.hearing === undefined).toBe(name !== BOTH)
    if (!one.hearing) return
    expect(printGraph(one.hearing.graph)).toBe(printGraph(two.hearing!.graph))
    expect(await valuesOf(one.hearing)).toEqual(await valuesOf(two.hearing!))
    expect(one.hearing.audio).toEqual(two.hearing!.audio)
  },
)

/** Least and most of what each matrix reads and gives, layer by layer, and four numbers that nobody reads. */
function listBounds({ tensors }: GgufFileParts): void {
  const matrices = ["attn_q", "attn_k", "attn_v", "attn_out", "ffn_gate", "ffn_up", "ffn_down"]
  const ends = ["input_min", "input_max", "output_min", "output_max"]
  const names = [0, 1].flatMap((layer) =>
    matrices.flatMap((matrix) => ends.map((end) => `v.blk.${layer}.${matrix}.${end}`)),
  )
  const data = Buffer.concat([...names.map((name) => tensors.get(name)!.data), Buffer.alloc(16)])
  for (const name of names) tensors.delete(name)
  tensors.set("v.clamp_data", { type: "F32", dims: [names.length + 4], data })
}

test("bounds of Gemma 4's matrices may lie in one list, which counts where there are no others", async () => {
  const [usual, listed] = [await opened(asOllama(BOTH)), await opened(asOllama(BOTH, listBounds))]
  expect(listed.blind).toBeUndefined()
  expect(printGraph(listed.vision!.graph)).toBe(printGraph(usual.vision!.graph))
  expect(await valuesOf(listed.vision!)).toEqual(await valuesOf(usual.vision!))
  const beside = asOllama(BOTH, ({ tensors }) => tensors.set("v.clamp_data", BYTES))
  expect(await valuesOf((await opened(beside)).vision!)).toEqual(await valuesOf(usual.vision!))
})

test("what of Gemma 4 cannot be read of one sense does not matter to the other", async () => {
  const blind = asOllama(BOTH, ({ tensors }) => tensors.delete("v.blk.1.ln1.weight"))
  const deaf = asOllama(BOTH, ({ tensors }) => tensors.delete("mm.a.fc.bias"))
  const [sees, hears] = [await opened(deaf), await opened(blind)]
  expect([sees.blind, hears.deaf]).toEqual([undefined, undefined])
  expect(sees.deaf).toContain("there is no tensor a.pre_encode.out.bias")
  expect(hears.blind).toContain("there is no tensor v.blk.1.ln1.weight")
})

test("images of LFM2-VL are cut as Ollama's files say", async () => {
  const path = asOllama("lfm2-vl", ({ pairs }) => {
    pairs.set("lfm2.vision.tile_size", uint32(64))
    pairs.set("lfm2.vision.max_tiles", uint32(6))
    pairs.set("lfm2.vision.min_tiles", uint32(3))
    pairs.set("lfm2.vision.max_image_tokens", uint32(128))
    pairs.set("lfm2.vision.min_image_tokens", uint32(16))
    pairs.set("lfm2.vision.max_pixels_tolerance", float32(1.5))
  })
  const { images } = (await opened(path)).vision!
  expect(images.cutting).toEqual({
    kind: "fit",
    least: 16 * 8 * 8,
    most: 128 * 8 * 8,
    tiles: { above: 1.5 * 128 * 8 * 8, least: 3, most: 6, edge: 64 },
  })
  const whole = asOllama("lfm2-vl", ({ pairs }) =>
    pairs.set("lfm2.vision.do_image_splitting", bool(false)),
  )
  expect((await opened(whole)).vision!.images.cutting).not.toHaveProperty("tiles")
})

test("a tower inside goes before one beside, and not before one that is named", async () => {
  const path = asOllama("gemma3")
  const { mmproj } = pairOf("gemma3")
  expect((await opened(path)).vision!.configuration).toMatch(/^gemma3-.*\.gguf$/)
  const named = await openModel(path, { sees: true, mmproj })
  onTestFinished(() => named.close())
  expect(named.vision!.configuration).toBe("mmproj-model-bf16.gguf")
  const none = await openModel(path, { sees: true, mmproj: "none" })
  onTestFinished(() => none.close())
  expect([none.vision, none.blind]).toEqual([undefined, undefined])
})

test("Ministral 3 turns and scales as the same words of llama.cpp's converter say", async () => {
  const stretched = (names: Record<string, string>) => {
    const value: Record<string, number> = { fast: 8, slow: 4, all: 0.5, scale: 0.25 }
    return asOllama("mistral3", ({ pairs }) => {
      for (const name of ["type", "factor", "beta_fast", "beta_slow"])
        pairs.delete(`mistral3.rope.scaling.${name}`)
      pairs.set("mistral3.rope.scaling.type", string("yarn"))
      pairs.set("mistral3.rope.scaling.factor", float32(4))
      pairs.set("mistral3.rope.scaling.original_context_length", uint32(2048))
      for (const [word, name] of Object.entries(names))
        pairs.set(`mistral3.${name}`, float32(value[word]!))
    })
  }
  const one = stretched({
    fast: "rope.scaling.beta_fast",
    slow: "rope.scaling.beta_slow",
    all: "rope.scaling.mscale_all_dim",
    scale: "rope.scaling_beta",
  })
  const two = stretched({
    fast: "rope.scaling.yarn_beta_fast",
    slow: "rope.scaling.yarn_beta_slow",
    all: "rope.scaling.yarn_log_multiplier",
    scale: "attention.temperature_scale",
  })
  const [own, other, usual] = await Promise.all([one, two, asOllama("mistral3")].map(opened))
  expect(own!.config).toEqual(other!.config)
  expect(own!.config.blocks).not.toEqual(usual!.config.blocks)
})

test("Llama 4's widths are read under the converter's first names for them", async () => {
  const first = asOllama("llama4", ({ pairs }) => {
    pairs.set("llama4.intermediate_size", pairs.get("llama4.feed_forward_length")!)
    const experts = pairs.get("llama4.expert_feed_forward_length")!
    pairs.delete("llama4.expert_feed_forward_length")
    pairs.set("llama4.feed_forward_length", experts)
    pairs.set("llama4.intermediate_size_moe", experts)
  })
  const [own, other] = [await opened(first), await opened(asOllama("llama4"))]
  expect(printGraph(own.graph)).toBe(printGraph(other.graph))
})

test.each([
  ["mistral3", "tekken"],
  ["llama4", "llama4"],
])(
  "%s: texts are cut by the model's rule where the file says the default one",
  async (name, rule) => {
    const [own, told] = await Promise.all(
      ["default", rule].map((pre) =>
        opened(asOllama(name, ({ pairs }) => pairs.set("tokenizer.ggml.pre", string(pre)))),
      ),
    )
    expect(own!.texts.tokenizer.json).toEqual(told!.texts.tokenizer.json)
    const unknown = asOllama(name, ({ pairs }) => {
      pairs.delete("tokenizer.ggml.add_unknown_token") // a file of llama.cpp's
      pairs.set("tokenizer.ggml.pre", string("default"))
    })
    expect((await opened(unknown)).texts.tokenizer.json).not.toEqual(told!.texts.tokenizer.json)
  },
)

test.each(["gemma3", BOTH])("%s compiled as it is stays one file", async (name) => {
  const model = await opened(asOllama(name))
  const output = join(scratch, `compiled-${name}`)
  await compileFolder({ ...model, format: "gguf" }, output, { format: "gguf" })
  expect(readdirSync(output).filter((file) => file.endsWith(".gguf")).length).toBe(1)
  const compiled = await opened(output)
  expect(printGraph(compiled.vision!.graph)).toBe(printGraph(model.vision!.graph))
  expect(compiled.hearing && printGraph(compiled.hearing.graph)).toBe(
    model.hearing && printGraph(model.hearing.graph),
  )
})

test("packed anew, what it sees and hears with has folders of its own", async () => {
  const model = await opened(asOllama(BOTH))
  const output = join(scratch, "packed")
  await compileFolder(model, output, { format: "q4f16_1" })
  expect(readdirSync(output)).toEqual(expect.arrayContaining(["vision", "hearing"]))
  const packed = await opened(output)
  expect([packed.blind, packed.deaf]).toEqual([undefined, undefined])
  expect(printGraph(packed.hearing!.graph)).toBe(printGraph(model.hearing!.graph))
  expect(packed.hearing!.audio).toEqual(model.hearing!.audio)
})

test.each<[string, string, (parts: GgufFileParts) => void, string]>([
  [
    "a tensor less",
    "gemma3",
    ({ tensors }) => tensors.delete("v.blk.1.layer_norm2.bias"),
    "there is no tensor v.blk.1.ln2.bias",
  ],
  [
    "another activation between the projector's matrices",
    "mistral3",
    ({ pairs }) => pairs.set("mistral3.mm.projector_hidden_act", string("relu")),
    'mistral3.mm.projector_hidden_act is "relu"; known: "gelu"',
  ],
  [
    "tiles of no whole number of squares",
    "llama4",
    ({ pairs }) => pairs.set("llama4.vision.pixel_shuffle_ratio", float32(0.4)),
    "clip.vision.projector.scale_factor is not a whole number",
  ],
  [
    "means of no squares",
    "gemma3",
    ({ pairs }) => pairs.set("gemma3.mm.tokens_per_image", uint32(5)),
    "clip.vision.projector.scale_factor is not a whole number",
  ],
  [
    "pairs that turn as those of the published models",
    "qwen3-vl",
    ({ pairs }) => pairs.delete("qwen3vl.rope.mrope_section"),
    "mrope_section is [24, 20, 20], not three parts of 8",
  ],
  [
    "rows of a layer that there is not",
    "qwen3-vl-moe",
    ({ pairs }) => pairs.set("qwen3vlmoe.vision.deepstack_visual_indexes", int32s([3])),
    "names layer 3 of 3",
  ],
  [
    "a list of bounds of another length",
    BOTH,
    (parts) => {
      listBounds(parts)
      const list = parts.tensors.get("v.clamp_data")!
      parts.tensors.set("v.clamp_data", { ...list, dims: [56], data: list.data.subarray(16) })
    },
    "tensor v.clamp_data is no list of type F32 of 28 numbers a layer and 4 more",
  ],
  [
    "images without tokens around them",
    "lfm2-vl",
    ({ pairs }) => pairs.set("lfm2.vision.use_image_special_tokens", bool(false)),
    "clip.vision.use_image_special_tokens is false; only true is known",
  ],
  [
    "no thumbnail",
    "lfm2-vl",
    ({ pairs }) => pairs.set("lfm2.vision.use_thumbnail", bool(false)),
    "use_thumbnail is false, which is not known",
  ],
  [
    "more layers than any tower has",
    "qwen3-vl",
    ({ pairs }) =>
      pairs.set("qwen3vl.vision.deepstack_visual_indexes", int32s(Array(200_000).fill(1))),
    "vision.deepstack_visual_indexes is no list of layers below 1024, each of them once",
  ],
])("%s: the text model inside is served, and it is said why", async (_, name, change, words) => {
  const { vision, blind } = await opened(asOllama(name, change))
  expect(vision).toBeUndefined()
  expect(blind).toContain(words)
})
