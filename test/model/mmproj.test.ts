// GGUF models with the mmproj files beside them (test/golden/gguf/vision, which llama.cpp's converters wrote) see what their folders
// see, and say what those say (test/golden/vision).

import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, onTestFinished, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { printGraph } from "../../src/compiler/graph/graph.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { compileFolder } from "../../src/model/compile-folder.ts"
import { type Model, type OpenOptions, openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { type LoadableProgram, SEEN } from "../../src/runtime/program.ts"
import { bools, type GgufFileParts, int32s, rewritten, string, uint32 } from "./gguf-file.ts"
import { goldenFolder, readGolden } from "./golden.ts"
import {
  answersAsGolden,
  judgeTower as judgePictures,
  opening,
  picturedModels,
} from "./pictures.ts"
import { batch, blocksFor, continueGreedily, limitsFor, take, worstDifference } from "./steps.ts"
import { judgeTower, type Open } from "./towers.ts"
import { readSights } from "./vision.ts"

const names = ["smolvlm", "gemma3", "internvl", "llava-clip"]
const folderOf = (name: string) => join(goldenFolder("gguf", "vision"), name)

async function opened(path: string, options: OpenOptions = {}): Promise<Model> {
  const model = await openModel(path, { sees: true, ...options })
  onTestFinished(() => model.close())
  return model
}

/** Tower and text model, one behind the other. */
async function judge(name: string, open: Open): Promise<void> {
  const model = await opened(folderOf(name))
  const vision = model.vision!
  const rows = await judgeTower(vision, readSights(name), open)
  const { graph, format, codecOf, weights } = model
  const options = { format, ...(codecOf && { codecOf }), activations: "float", kv: "f32" } as const
  const plan = compile(graph, options)
  const limits = { blocks: 10, tokens: 64, sequences: 1, rows: 8 }
  const program = await open(plan, limitsFor(plan, limits))
  onTestFinished(() => program.close())
  await loadParameters(weights, program.manifest, program)
  const soft = vision.config.softToken
  for (const [i, golden] of readGolden(goldenFolder("vision", name)).entries())
    await expectSeen(program, golden, soft, rows[i]!)
}

/** That the prompt, its soft tokens' places taken by rows, has the golden logits and goes on with the golden tokens. */
async function expectSeen(
  program: LoadableProgram,
  { tokens, firstRow, logits, greedy }: ReturnType<typeof readGolden>[number],
  soft: number,
  hiddenIn: Float32Array,
): Promise<void> {
  let row = 0
  const given = tokens.map((token) => (token === soft ? SEEN + row++ : token))
  const isSoft = (at: number) => tokens[at] === soft
  const seenTo = tokens.map((_, at) => {
    let last = at
    while (isSoft(at) && isSoft(last + 1)) last++
    return last
  })
  const { length } = tokens
  const blocks = blocksFor(length + greedy.length)
  const wanted = Array.from({ length: length - firstRow }, (_, i) => firstRow + i)
  const step = batch([{ tokens: given, from: 0, blocks, logits: wanted }])
  const { mutual } = program.manifest
  const done = await take(program, { ...step, hiddenIn, ...(mutual && { seenTo }) })
  expect(worstDifference(done.logits!, logits)).toBeLessThan(1e-3)
  const first = done.tokens.at(-1)!
  const ours = await continueGreedily(program, first, length, greedy.length, blocks)
  expect(ours).toEqual([...greedy])
}

describe.each(names)("%s", (name) => {
  test("on reference", () => judge(name, openReference))

  test(
    "on cpu",
    () => judge(name, async (plan, limits) => (await targets.cpu.prepare(plan)).open(limits)),
    120_000,
  )
})

describe.each(picturedModels.filter((name) => existsSync(folderOf(name))))("%s", (name) => {
  test("on reference", () => judgePictures(name, opening.reference, { path: folderOf(name) }))

  // Whose programs are the processor's. Files of Gemma 4, LFM2-VL and Muse Glimmer do not say how many tokens an image becomes.
  if (!["gemma4", "lfm2-vl", "muse-glimmer"].includes(name)) answersAsGolden(name, folderOf(name))
})

test("Kimi VL sees what Kimi K2.5 does", async () => {
  await judgePictures("kimi-k25", opening.reference, { path: folderOf("kimi-vl") })
  const { images } = (await opened(folderOf("kimi-vl"))).vision!
  const area = 4096 * 4 * 4 // as the first of the published ones say, of patches of 4 pixels
  expect(images.cutting).toEqual({ kind: "shrink", area, longest: 510 * 4, most: 5120 * 4 * 4 })
})

test("images are prepared as the folder says, in the words of its family", async () => {
  const file = await opened(folderOf("smolvlm"))
  const folder = await opened(goldenFolder("vision", "smolvlm"))
  expect(file.vision!.images).toEqual(folder.vision!.images)
  const { images: gemma } = (await opened(folderOf("gemma3"))).vision!
  expect(gemma).toMatchObject({ cutting: { kind: "stretch" }, filter: "bilinear" })
  expect(gemma).toMatchObject({ mark: "<start_of_image>", soft: "<image_soft_token>" })
  const { images: llava } = (await opened(folderOf("llava-clip"))).vision!
  expect(llava).toMatchObject({ cutting: { kind: "crop", shortest: 20 }, soft: "<image>" })
  const clip = [0.48145466, 0.4578275, 0.40821073] // of transformers' CLIPImageProcessor
  expect([...llava.mean].map(Math.fround)).toEqual(clip.map(Math.fround))
})

const scratch = mkdtempSync(join(tmpdir(), "sinter-mmproj-"))
afterAll(() => rmSync(scratch, { recursive: true }))

const MMPROJ: Readonly<Record<string, string>> = {
  "granite-vision": "mmproj-model-f16.gguf",
  "llava-clip": "mmproj-model-f16.gguf",
  "llava-next": "mmproj-model-f16.gguf",
  "minicpm-v": "mmproj-model-f16.gguf",
}
const mmprojOf = (name: string) => join(folderOf(name), MMPROJ[name] ?? "mmproj-model-bf16.gguf")

/** A folder with these files. */
function folderWith(files: Readonly<Record<string, string | Buffer>>): string {
  const folder = mkdtempSync(join(scratch, "model-"))
  for (const [name, file] of Object.entries(files))
    if (typeof file === "string") cpSync(file, join(folder, name))
    else writeFileSync(join(folder, name), file)
  return folder
}

const modelOf = (name: string) => join(folderOf(name), "model.gguf")
const changed = (path: string, change: (parts: GgufFileParts) => void) =>
  rewritten(readFileSync(path), change)

test("of several files of one kind that in f16 is taken, and another where it is named", async () => {
  const other = mmprojOf("smolvlm")
  const files = { "m-Q8_0.gguf": modelOf("smolvlm"), "mmproj-m-F32.gguf": other }
  const folder = folderWith({ ...files, "mmproj-m-f16.gguf": other, "mmproj-m-bf16.gguf": other })
  const model = await opened(folder)
  expect(model.vision).toMatchObject({ path: folder, configuration: "mmproj-m-f16.gguf" })
  const named = await opened(folder, { mmproj: join(folder, "mmproj-m-bf16.gguf") })
  expect(named.vision!.configuration).toBe("mmproj-m-bf16.gguf")
  expect(named.vision!.graph).toEqual(model.vision!.graph)
  const none = await opened(folder, { mmproj: "none" })
  expect([none.vision, none.blind]).toEqual([undefined, undefined])
})

test("a model sees with what lies elsewhere, and with nothing where nobody asks", async () => {
  const folder = folderWith({ "model.gguf": modelOf("gemma3") })
  expect((await opened(folder)).vision).toBeUndefined()
  expect((await opened(folder, { ownMmproj: mmprojOf("gemma3") })).vision).toBeDefined()
  expect((await opened(folderOf("gemma3"), { sees: false })).vision).toBeUndefined()
})

test("of a repository in the hub's cache it may lie outermost, the model in a folder", async () => {
  const snapshot = join(scratch, "models--org--sees", "snapshots", "c0ffee")
  cpSync(modelOf("smolvlm"), join(snapshot, "Q8_0", "m-Q8_0.gguf"))
  cpSync(mmprojOf("smolvlm"), join(snapshot, "mmproj-F16.gguf"))
  const { vision } = await opened(join(snapshot, "Q8_0", "m-Q8_0.gguf"))
  expect(vision).toMatchObject({ path: snapshot, configuration: "mmproj-F16.gguf" })
})

test("rows stand in the place of another token where the vocabulary has none for them", async () => {
  const renamed = changed(modelOf("llava-clip"), ({ pairs }) => {
    const tokens = pairs.get("tokenizer.ggml.tokens")!
    const at = tokens.indexOf("<image>")
    const blank = Buffer.from(tokens)
    blank.write("<imago>", at)
    pairs.set("tokenizer.ggml.tokens", blank)
  })
  const mmproj = mmprojOf("llava-clip")
  const blind = await opened(folderWith({ "model.gguf": renamed, "mmproj-f16.gguf": mmproj }))
  expect(blind.blind).toMatch(
    /model\.gguf has no token that could stand for rows of an image: none/,
  )
  const unknown = changed(modelOf("llava-clip"), ({ pairs }) => {
    const tokens = Buffer.from(pairs.get("tokenizer.ggml.tokens")!)
    const at = tokens.indexOf("<image>") - 8
    tokens.writeUInt32LE(5, at)
    pairs.set(
      "tokenizer.ggml.tokens",
      Buffer.concat([tokens.subarray(0, at + 8), Buffer.from("<unk>"), tokens.subarray(at + 15)]),
    )
  })
  const { vision } = await opened(folderWith({ "a.gguf": unknown, "mmproj-f16.gguf": mmproj }))
  expect(vision!.images).toMatchObject({ mark: "<image>", soft: "<unk>" })
  expect(vision!.config.softToken).toBe(319)
})

test("a model of another kind is known by its tokens", async () => {
  const files = { "model.gguf": modelOf("smolvlm"), "mmproj-f16.gguf": mmprojOf("gemma3") }
  expect((await opened(folderWith(files))).blind).toMatch(
    /mmproj-f16\.gguf: model\.gguf has no token <start_of_image>, which it reads around images/,
  )
})

test("two that the model may see with: neither is taken, and both are named", async () => {
  const mmproj = mmprojOf("smolvlm")
  const files = { "m.gguf": modelOf("smolvlm"), "mmproj-a-f16.gguf": mmproj }
  const folder = folderWith({ ...files, "mmproj-b-f16.gguf": mmproj })
  const { vision, blind } = await opened(folder)
  expect(vision).toBeUndefined()
  expect(blind).toBe(
    `${folder} holds several mmproj files; name one of mmproj-a-f16.gguf, mmproj-b-f16.gguf with --mmproj.`,
  )
})

test.each<[string, string, (parts: GgufFileParts) => void, string]>([
  [
    "another projector",
    "smolvlm",
    ({ pairs }) => pairs.set("clip.projector_type", string("ldp")),
    'clip.projector_type is "ldp"; known: mlp, idefics3, granite4_vision, internvl, llama4, mllama, janus_pro, kimivl, kimik25, resampler, minicpmv4_6, lfm2, gemma3, gemma4v, pixtral, lightonocr, paddleocr, hunyuanvl, muse-glimmer, qwen2vl_merger, qwen2.5vl_merger, qwen2.5o, exaone4_5, qwen3vl_merger',
  ],
  [
    "half of a patch's matrix",
    "qwen2-vl",
    ({ tensors }) => tensors.delete("v.patch_embd.weight.1"),
    "there is no tensor v.patch_embd.weight.1",
  ],
  [
    "windows everywhere",
    "qwen2-5-vl",
    ({ pairs }) => pairs.delete("clip.vision.n_wa_pattern"),
    "clip.vision.n_wa_pattern is missing",
  ],
  [
    "rows of fewer layers",
    "qwen3-vl",
    ({ pairs }) => pairs.set("clip.vision.is_deepstack_layers", bools([false, true, false])),
    "rows of 1 layers come out beside its last, and model.gguf takes those of 2; take",
  ],
  [
    "no more layers than tensors",
    "qwen3-vl",
    ({ pairs }) => pairs.set("clip.vision.block_count", uint32(0xffffffff)),
    "clip.vision.block_count is 4294967295, but the file has 58 tensors in all",
  ],
  [
    "another width",
    "smolvlm",
    ({ tensors }) => {
      const matrix = tensors.get("mm.model.fc.weight")!
      matrix.dims[1] = 20
      matrix.data = matrix.data.subarray(0, matrix.data.length / 2)
    },
    "it makes rows of 20 columns, and those of model.gguf have 40; take the file that belongs to this model",
  ],
  [
    "no mmproj",
    "smolvlm",
    ({ pairs }) => pairs.set("general.architecture", string("llama")),
    'general.architecture is "llama"; that of an mmproj file is "clip"',
  ],
  [
    "tiles put together without grids",
    "llava-clip",
    ({ pairs }) => pairs.set("clip.vision.mm_patch_merge_type", string("spatial_unpad")),
    'clip.vision.mm_patch_merge_type is "spatial_unpad"; known without image_grid_pinpoints: flat',
  ],
  [
    "grids whose tiles follow one another",
    "llava-next",
    ({ pairs }) => pairs.set("clip.vision.mm_patch_merge_type", string("flat")),
    'clip.vision.mm_patch_merge_type is "flat"; known with image_grid_pinpoints: spatial_unpad',
  ],
  [
    "a layer that there is not",
    "granite-vision",
    ({ pairs }) => pairs.set("clip.vision.feature_layer", int32s([1, 4])),
    "mmproj-f16.gguf: clip.vision.feature_layer holds 4, which is none of 3 layers",
  ],
  [
    "a width without a height",
    "llava-next",
    ({ pairs }) => pairs.set("clip.vision.image_grid_pinpoints", int32s([20, 40, 40])),
    "clip.vision.image_grid_pinpoints has 3 numbers, which are no pairs",
  ],
  [
    "no row that ends lines",
    "llava-next",
    ({ tensors }) => tensors.delete("model.image_newline"),
    "there is no tensor model.image_newline",
  ],
  [
    "a norm of columns that no patches have",
    "lfm2-vl",
    ({ pairs }) => pairs.set("clip.vision.projector.scale_factor", uint32(4)),
    "tensor mm.input_norm.weight",
  ],
  [
    "a line break of its own",
    "llava-clip",
    ({ tensors }) => tensors.set("model.image_newline", tensors.get("v.class_embd")!),
    "it holds tensor model.image_newline, which is not known of this architecture",
  ],
  [
    "fewer heads of keys",
    "gemma3",
    ({ pairs }) => pairs.set("clip.vision.attention.head_count_kv", uint32(2)),
    "clip.vision.attention.head_count_kv is not 4",
  ],
  [
    "means of no squares",
    "gemma3",
    ({ pairs }) => pairs.set("clip.vision.projector.scale_factor", uint32(5)),
    "what clip.vision.projector.scale_factor leads to is 1.44, not a whole number",
  ],
  [
    "more layers than there are",
    "internvl",
    ({ pairs }) => pairs.set("clip.vision.block_count", uint32(4)),
    "there is no tensor v.blk.3.ln1.weight",
  ],
  [
    "a layer that is not read",
    "internvl",
    ({ pairs }) => pairs.set("clip.vision.block_count", uint32(2)),
    "it holds tensor v.blk.2.",
  ],
  [
    "no factor",
    "internvl",
    ({ pairs }) => pairs.delete("clip.vision.projector.scale_factor"),
    "clip.vision.projector.scale_factor is missing",
  ],
])(
  "%s is refused: the model is served without, or not where it was named",
  async (_, name, change, words) => {
    const folder = folderWith({
      "model.gguf": modelOf(name),
      "mmproj-f16.gguf": changed(mmprojOf(name), change),
    })
    const file = join(folder, "mmproj-f16.gguf")
    const { vision, blind } = await opened(folder)
    expect(vision).toBeUndefined()
    expect(blind).toMatch(new RegExp(`^${file.replaceAll(".", "\\.")}`))
    expect(blind).toContain(words)
    const asked = openModel(folder, { sees: true, mmproj: file })
    await expect(asked).rejects.toMatchObject({
      code: "model_broken",
      message: expect.stringContaining(words),
    })
  },
)

test("a text model that turns by one coordinate alone does not see with Qwen's", async () => {
  const text = changed(modelOf("qwen2-vl"), ({ pairs }) =>
    pairs.delete("qwen2vl.rope.dimension_sections"),
  )
  const files = { "model.gguf": text, "mmproj-f16.gguf": mmprojOf("qwen2-vl") }
  expect((await opened(folderWith(files))).blind).toMatch(
    /mmproj-f16\.gguf: model\.gguf does not turn tokens by height and width \(rope\.dimension_sections\)/,
  )
})

test("Qwen 2's by the older converter: up and down for each other, positions that nobody reads", async () => {
  const older = changed(mmprojOf("qwen2-vl"), ({ tensors }) => {
    const named = [...tensors].map(([name, tensor]) => {
      const other = { up: "down", down: "up" } as Readonly<Record<string, string>>
      return [name.replace(/(?<=ffn_)(up|down)/, (way) => other[way]!), tensor] as const
    })
    tensors.clear()
    for (const [name, tensor] of named) tensors.set(name, tensor)
    tensors.set("v.position_embd.weight", {
      type: "F32",
      dims: [10, 10],
      data: Buffer.alloc(400),
    })
  })
  const files = { "model.gguf": modelOf("qwen2-vl"), "mmproj-f16.gguf": older }
  const [other, usual] = [await opened(folderWith(files)), await opened(folderOf("qwen2-vl"))]
  expect(other.blind).toBeUndefined()
  expect(printGraph(other.vision!.graph)).toBe(printGraph(usual.vision!.graph))
  const up = ({ vision }: Model) =>
    vision!.weights.tensor("model.layers.0.mlp.up_proj.weight", 64, 32).read(0, 64)
  expect(await up(other)).toEqual(await up(usual))
})

test("the row of [IMG_BREAK] in Pixtral's files is the text model's, and not read", async () => {
  const row = changed(mmprojOf("mistral3"), ({ tensors }) =>
    tensors.set("v.token_embd.img_break", {
      type: "F32",
      dims: [40],
      data: Buffer.alloc(160),
    }),
  )
  const files = { "model.gguf": modelOf("mistral3"), "mmproj-f16.gguf": row }
  const { vision, blind } = await opened(folderWith(files))
  expect(blind).toBeUndefined()
  expect(vision!.images.wording.betweenLines).toBe("[IMG_BREAK]")
})

test("the least area of Qwen's images is that of the published models where a file does not say it", async () => {
  const silent = async (name: string) => {
    const mmproj = changed(mmprojOf(name), ({ pairs }) =>
      pairs.delete("clip.vision.image_min_pixels"),
    )
    return opened(folderWith({ "model.gguf": modelOf(name), "mmproj-f16.gguf": mmproj }))
  }
  const cutting = { kind: "fit", least: 56 * 56, most: 4096 }
  expect((await silent("qwen2-vl")).vision!.images.cutting).toEqual(cutting)
  expect((await silent("qwen3-vl")).blind).toContain("is 65536, more than max_pixels, 4096")
})

test("of MiniCPM-V a slice is as large as published models have it, and its table of sines is not read", async () => {
  const { images, config } = (await opened(folderOf("minicpm-v"))).vision!
  expect(images).toMatchObject({ cutting: { kind: "slices", edge: 24, most: 9 }, nearest: 7 })
  expect(config.resampler).toMatchObject({ queries: 5, columns: 128, heads: 1 })
  const older = changed(mmprojOf("minicpm-v"), ({ pairs }) =>
    pairs.set("clip.minicpmv_version", uint32(2)),
  )
  const files = { "model.gguf": modelOf("minicpm-v"), "mmproj-f16.gguf": older }
  expect((await opened(folderWith(files))).blind).toContain(
    "clip.minicpmv_version is 2; known: 3, 4, 5, 6, 100045",
  )
})

test("MiniCPM-V's file, packed anew, sees what it saw", async () => {
  const output = mkdtempSync(join(scratch, "packed-"))
  await compileFolder(await opened(folderOf("minicpm-v")), output, { format: "q4f16_1" })
  await judgePictures("minicpm-v", opening.reference, { path: output })
})

test("what ends lines of LLaVA 1.6's images has a newer name, too", async () => {
  const renamed = changed(mmprojOf("llava-next"), ({ tensors }) => {
    tensors.set("v.image_newline", tensors.get("model.image_newline")!)
    tensors.delete("model.image_newline")
  })
  const files = { "model.gguf": modelOf("llava-next"), "mmproj-f16.gguf": renamed }
  const [newer, usual] = [await opened(folderWith(files)), await opened(folderOf("llava-next"))]
  expect(newer.vision!.apart).toEqual(usual.vision!.apart)
  expect(usual.vision!.apart).toHaveLength(40)
})

test("images of LFM2-VL become as many tokens as those of the published models", async () => {
  const { images } = (await opened(folderOf("lfm2-vl"))).vision!
  // Of patches of 4 pixels, where published ones have 16: tiles of 512 are so many patches.
  expect(images.cutting).toEqual({
    kind: "fit",
    least: 64 * 8 * 8,
    most: 256 * 8 * 8,
    tiles: { above: 2 * 256 * 8 * 8, least: 2, most: 10, edge: 512 / 4 },
  })
})

test("a file that is named is there, and for a model that it can belong to", async () => {
  const refused = (path: string, mmproj: string) =>
    expect(openModel(path, { sees: true, mmproj })).rejects
  const gone = join(scratch, "gone.gguf")
  await refused(folderOf("smolvlm"), gone).toThrow(`${gone}: there is no such file`)
  const folder = goldenFolder("vision", "smolvlm")
  const sentence = "--mmproj: is for GGUF models that write, and"
  await refused(folder, mmprojOf("smolvlm")).toThrow(`${sentence} ${join(folder, "config.json")}`)
  const encoder = join(goldenFolder("gguf", "encoders"), "bert.gguf")
  await refused(encoder, mmprojOf("smolvlm")).toThrow(`${sentence} ${encoder} is none`)
})

test("what a model sees with is no model", async () => {
  const mmproj = mmprojOf("llava-clip")
  await expect(openModel(mmproj)).rejects.toThrow(
    `${mmproj}: general.architecture is "clip": name its model, and this with --mmproj`,
  )
})
