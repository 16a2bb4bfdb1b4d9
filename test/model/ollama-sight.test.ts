// Files that hold text model and tower, as Ollama's converter writes them, are what the pairs of llama.cpp's converter are
// (test/golden/gguf/vision), bit by bit: their tensors and keys are given the names here that Ollama's have
// (convert/convert_gemma3.go, convert_qwen25vl.go, convert_qwen3vl.go there).

import { createHash } from "node:crypto"
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
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

const pairOf = (name: string) => {
  const folder = join(goldenFolder("gguf", "vision"), name)
  return { model: join(folder, "model.gguf"), mmproj: join(folder, "mmproj-model-bf16.gguf") }
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
    if (name.includes("attn_qkv")) {
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

const layouts: Record<string, Layout> = {
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
        /^(gemma3|qwen2vl|qwen3vl|qwen3vlmoe)\.(.+)$/.exec(key) ?? []
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
  },
)

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

test("compiled as it is, it stays one file", async () => {
  const model = await opened(asOllama("gemma3"))
  const output = join(scratch, "compiled")
  await compileFolder({ ...model, format: "gguf" }, output, { format: "gguf" })
  expect(readdirSync(output).filter((name) => name.endsWith(".gguf")).length).toBe(1)
  const compiled = await opened(output)
  expect(printGraph(compiled.vision!.graph)).toBe(printGraph(model.vision!.graph))
})

test.each<[string, string, (parts: GgufFileParts) => void, string]>([
  [
    "a tensor less",
    "gemma3",
    ({ tensors }) => tensors.delete("v.blk.1.layer_norm2.bias"),
    "there is no tensor v.blk.1.ln2.bias",
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
