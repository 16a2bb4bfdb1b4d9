// Compiled folders as this program writes them: the same bytes that an independent converter wrote, read back to the same
// logits, and never half there.

import {
  cpSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { printGraph } from "../../src/compiler/graph/graph.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { rowsOf, tileOf } from "../../src/images/patches.ts"
import { architectures } from "../../src/model/architectures.ts"
import { compileFolder, senseFor } from "../../src/model/compile-folder.ts"
import type { ModelConfig } from "../../src/model/config.ts"
import { weightsOf } from "../../src/model/graph-weights.ts"
import { type Model, type OpenOptions, openModel } from "../../src/model/model.ts"
import { mlcNames } from "../../src/model/weights/mlc-names.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { writeMlc } from "../../src/model/weights/write-mlc.ts"
import { type FormatName, isMixed } from "../../src/runtime/format.ts"
import { goldenFolder, readGolden } from "./golden.ts"
import { batch, blocksFor, limitsFor, prefill, take, worstDifference } from "./steps.ts"

let scratch: string
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), "compile-"))
})
afterEach(() => rmSync(scratch, { recursive: true }))

/** Logits of one of the golden prompts. */
async function logitsOf(model: Model, format: FormatName, prompt = 3): Promise<Float32Array> {
  const codecs = isMixed(format) && model.codecOf ? { codecOf: model.codecOf } : {}
  const plan = compile(model.graph, { format, activations: "float", kv: "f32", ...codecs })
  const limits = limitsFor(plan, { blocks: 4, tokens: 64, sequences: 1, rows: 64 })
  const program = openReference(plan, limits)
  await loadParameters(model.weights, program.manifest, program)
  const { vocabulary } = model.config.shapes
  const golden = readGolden(goldenFolder("models", "llama-odd"))[prompt]!
  const tokens = golden.tokens.map((token) => token % vocabulary)
  return prefill(program, tokens, blocksFor(tokens.length), { firstRow: 30 })
}

/** What a copy of a folder, changed, says of text, and what is left of it in the folder compiled from that. */
async function textsThrough(from: string, change: (folder: string) => void) {
  const folder = join(scratch, "changed")
  cpSync(from, folder, { recursive: true })
  change(folder)
  const model = await openModel(folder)
  await compileFolder(model, join(scratch, "out"), { format: "q4f16_1" })
  const compiled = await openModel(join(scratch, "out"))
  await Promise.all([model.close(), compiled.close()])
  return { before: model.texts, after: compiled.texts }
}

/** With a processor, where the golden folder has none: that of its tower. */
async function openSeeing(from: string): Promise<Model> {
  const folder = join(scratch, "seeing")
  cpSync(from, folder, { recursive: true })
  const { vision_config: vision } = JSON.parse(readFileSync(join(folder, "config.json"), "utf8"))
  const [size] = [vision.image_size].flat()
  const file = join(folder, "preprocessor_config.json")
  const image = { size: { height: size, width: size }, crop_size: { height: size, width: size } }
  const split = { max_image_size: { longest_edge: size } }
  const isSplit = /idefics3|smolvlm/.test(vision.model_type)
  if (!readdirSync(folder).includes("preprocessor_config.json"))
    writeFileSync(file, JSON.stringify(isSplit ? split : image))
  const model = await openModel(folder, { sees: true })
  expect(model.blind).toBeUndefined()
  return model
}

/** What the tower makes of a tile of some pixels, on the reference. */
async function featuresOf({ vision }: Model): Promise<Float32Array> {
  const { graph, format, codecOf, weights, images } = vision!
  const codecs = codecOf ? { codecOf } : {}
  const plan = compile(graph, { format, activations: "float", kv: "f32", ...codecs })
  const { taken } = graph.shapes
  // Slices are of any proportions, and small ones soon read.
  const side = 2 * images.patch * images.joined
  const isSlice = images.cutting.kind === "slices"
  const layout = isSlice ? { ...images, tile: { width: side, height: side } } : images
  const rows = rowsOf(layout)
  const limits = limitsFor(plan, { blocks: 4, tokens: rows, sequences: 1, rows })
  const program = openReference(plan, limits)
  await loadParameters(weights, program.manifest, program)
  const hiddenIn = Float32Array.from({ length: rows * taken! }, (_, i) => Math.sin(i))
  const { places, wanted, given: _, ...told } = tileOf(hiddenIn, layout)
  const tile = { tokens: places, from: 0, blocks: blocksFor(rows), logits: [], hidden: [...wanted] }
  return (await take(program, { ...batch([tile]), ...told, hiddenIn })).hidden
}

function withoutField(folder: string, name: string): void {
  const file = join(folder, "tokenizer_config.json")
  const { [name]: _, ...rest } = JSON.parse(readFileSync(file, "utf8"))
  writeFileSync(file, JSON.stringify(rest))
}

const golden: [string, string, FormatName, number?][] = [
  ["llama-wide-q4f16_1", "llama-wide", "q4f16_1"],
  ["llama-wide-q3f16_1", "llama-wide", "q3f16_1"],
  ["llama-odd-q4f16_1", "llama-odd", "q4f16_1"],
  ["llama-tied-q0f16", "llama-tied", "q0f16", 70000],
  ["llama-tied-q0bf16", "llama-tied", "q0bf16"],
  ["qwen2-q4f32_1", "qwen2", "q4f32_1", 40000],
  ["qwen2-q0f32", "qwen2", "q0f32"],
  ["qwen3-q3f16_1", "qwen3", "q3f16_1"],
  ["qwen3-q8f16_1", "qwen3", "q8f16_1"],
]

test.each(golden)("%s is written byte for byte", async (name, from, format, shardBytes) => {
  const model = await openModel(goldenFolder("models", from))
  const names = mlcNames(model.config, architectures[model.architecture].mlcAttention)
  await writeMlc(weightsOf(model.graph), model.weights, scratch, {
    format,
    stored: model.format,
    names,
    ...(shardBytes ? { shardBytes } : {}),
  })
  await model.close()
  const theirs = goldenFolder("mlc", name)
  const table = readdirSync(theirs).find((file) => /^(tensor|ndarray)-cache.json$/.test(file))!
  const ours = JSON.parse(readFileSync(join(scratch, "tensor-cache.json"), "utf8"))
  expect(ours).toEqual(JSON.parse(readFileSync(join(theirs, table), "utf8")))
  for (const { dataPath } of ours.records)
    expect(readFileSync(join(scratch, dataPath)).equals(readFileSync(join(theirs, dataPath)))).toBe(
      true,
    )
})

describe("a compiled folder", () => {
  /** Rows of a table that nobody reads are not compiled. */
  const ofReadRows = (config: ModelConfig) => ({
    ...config,
    embedding: { ...config.embedding, stored: undefined },
  })

  const models = readdirSync(goldenFolder("models", "."), { withFileTypes: true })
  const names = models.flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))
  test.each(names)("of %s opens again as the same model", async (name) => {
    const model = await openModel(goldenFolder("models", name))
    const output = join(scratch, "out")
    const seen: [number, number][] = []
    await compileFolder(model, output, {
      format: model.format,
      progress: (written, total) => seen.push([written, total]),
    })
    const compiled = await openModel(output)
    expect(ofReadRows(compiled.config)).toEqual(ofReadRows(model.config))
    expect(compiled.format).toBe(model.format)
    expect(compiled.texts.endTokens).toEqual(model.texts.endTokens)
    expect(compiled.texts.sampling).toMatchObject(model.texts.sampling)
    expect(compiled.texts.specialTokens).toEqual(model.texts.specialTokens)
    expect(compiled.texts.templates.get("default")?.text).toBe(
      model.texts.templates.get("default")?.text,
    )
    expect(await logitsOf(compiled, model.format)).toEqual(await logitsOf(model, model.format))
    if (!isMixed(model.format)) expect(seen.at(-1)![0]).toBe(seen.at(-1)![1])
    expect(readdirSync(scratch)).toEqual(["out"])
    await Promise.all([model.close(), compiled.close()])
  })

  const seeing = readdirSync(goldenFolder("vision", "."), { withFileTypes: true })
  const eyes = seeing.flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))
  test.each(eyes)("of %s sees what the model sees, packed or not", async (name) => {
    const model = await openSeeing(goldenFolder("vision", name))
    const { format } = model.vision!
    const seen = await featuresOf(model)
    const formats = [model.format, ...(isMixed(model.format) ? [] : ["q4f16_1" as const])]
    for (const packed of formats) {
      const output = join(scratch, packed)
      await compileFolder(model, output, { format: packed })
      const compiled = await openModel(output, { sees: true })
      expect(compiled.config).toEqual(model.config)
      expect(compiled.vision).toMatchObject({ format, images: model.vision!.images })
      // As text: whoever compares nodes goes every way that leads to one.
      expect(printGraph(compiled.vision!.graph)).toBe(printGraph(model.vision!.graph))
      expect(await featuresOf(compiled)).toEqual(seen)
      await compiled.close()

      const again = join(scratch, `${packed}-again`)
      const source = await openModel(output, { sees: true })
      await compileFolder(source, again, { format: packed })
      await source.close()
      const twice = await openModel(again, { sees: true })
      expect(await featuresOf(twice)).toEqual(seen)
      await twice.close()
    }
    await model.close()
  })

  test("whose tower is damaged, or cut short, does not open to be compiled, and is blind elsewhere", async () => {
    const model = await openModel(goldenFolder("vision", "smolvlm"), { sees: true })
    const output = join(scratch, "out")
    await compileFolder(model, output, { format: "q0f16" })
    await model.close()
    const file = join(output, "vision/params_shard_0.bin")
    const bytes = readFileSync(file)
    writeFileSync(file, bytes.fill(bytes[999]! ^ 1, 999, 1000))
    await expect(openModel(output, { sees: true })).rejects.toThrow(
      /vision\/params_shard_0\.bin: its checksum is .+ it was damaged/,
    )
    writeFileSync(file, bytes.subarray(0, 5000))
    const blind = await openModel(output, { sees: true, verify: false })
    expect(blind.vision).toBeUndefined()
    expect(blind.blind).toMatch(/vision\/params_shard_0\.bin: it is 5000 bytes long/)
    expect(blind.config.embedding.sees).toBeUndefined()
    await blind.close()
  })

  const ggufs = readdirSync(goldenFolder("gguf", "vision"), { withFileTypes: true })
  const pairs = ggufs.flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))
  test.each(pairs)("of a GGUF file, packed anew, sees what %s sees", async (name) => {
    const model = await openModel(join(goldenFolder("gguf", "vision"), name), { sees: true })
    const output = join(scratch, "out")
    await compileFolder(model, output, { format: "q4f16_1" })
    const compiled = await openModel(output, { sees: true })
    const floats = senseFor(model.vision!, "q4f16_1")!
    expect(compiled.vision).toMatchObject({ path: join(output, "vision"), format: floats.format })
    expect(compiled.vision!.images).toEqual(model.vision!.images)
    expect(printGraph(compiled.vision!.graph)).toBe(printGraph(model.vision!.graph))
    expect(printGraph(compiled.graph)).toBe(printGraph(model.graph))
    expect(await featuresOf(compiled)).toEqual(await featuresOf({ ...model, vision: floats }))
    await Promise.all([model.close(), compiled.close()])
  })

  test("of a GGUF file whose tower is in codes, or is told of in no file, has none", async () => {
    const folder = goldenFolder("gguf", "vision/smolvlm")
    const model = await openModel(folder, { sees: true })
    const { files: _, ...nameless } = model.vision!
    const packed = { ...model, vision: nameless }
    expect(senseFor(nameless, "q4f16_1")).toBeUndefined()
    expect(senseFor(nameless, "gguf")).toBe(nameless)
    await expect(
      compileFolder(packed, join(scratch, "packed"), { format: "q4f16_1" }),
    ).rejects.toThrow("a tower that stays as it is")
    await model.close()
  })

  test("of a GGUF file as it is has its mmproj file, wherever that lay", async () => {
    const model = goldenFolder("gguf", "vision/smolvlm")
    const blob = join(scratch, "blob")
    cpSync(join(model, "mmproj-model-bf16.gguf"), blob)
    const cases: [OpenOptions, string][] = [
      [{}, "mmproj-model-bf16.gguf"],
      [{ ownMmproj: blob }, "mmproj.gguf"],
    ]
    for (const [options, name] of cases) {
      const opened = await openModel(model, { sees: true, ...options })
      const output = join(scratch, name)
      await compileFolder({ ...opened, format: "gguf" }, output, { format: "gguf" })
      expect(readdirSync(output).sort()).toEqual([name, "model.gguf", "sinter.json"].sort())
      const compiled = await openModel(output, { sees: true })
      expect(compiled.vision!.images).toEqual(opened.vision!.images)
      expect(compiled.vision!.graph).toEqual(opened.vision!.graph)
      await compiled.close()
      await opened.close()
    }
  })

  test("of an MLC folder keeps the conversation that only its configuration describes", async () => {
    const { before, after } = await textsThrough(goldenFolder("mlc", "qwen2-q0f32"), (folder) =>
      withoutField(folder, "chat_template"),
    )
    const template = after.templates.get("default")!.text
    expect(template).toContain("You answer in few words.")
    expect(template).toBe(before.templates.get("default")!.text)
    expect(new Set(after.endTokens)).toEqual(new Set(before.endTokens))
  })

  test("keeps templates for a purpose", async () => {
    const { after } = await textsThrough(goldenFolder("models", "llama-tied"), (folder) => {
      mkdirSync(join(folder, "additional_chat_templates"))
      writeFileSync(join(folder, "additional_chat_templates/tool_use.jinja"), "tools")
    })
    expect(after.templates.get("tool_use")!.text).toBe("tools")
  })

  test("keeps tokens that are added in a file of their own", async () => {
    const { before, after } = await textsThrough(goldenFolder("models", "llama-tied"), (folder) => {
      withoutField(folder, "added_tokens_decoder")
      writeFileSync(join(folder, "added_tokens.json"), '{"<mine>": 100}')
    })
    expect(after.tokenizer.beside).toEqual(before.tokenizer.beside)
    const spelled = after.tokenizer.beside!.named.map(({ content }) => content)
    expect(spelled).toContain("<mine>")
  })

  test("keeps what a tekken.json says as the files that others read", async () => {
    const { before, after } = await textsThrough(goldenFolder("models", "llama-tied"), (folder) => {
      for (const file of ["tokenizer.json", "tokenizer_config.json"]) rmSync(join(folder, file))
      rmSync(join(folder, "special_tokens_map.json"), { force: true })
      cpSync(join(import.meta.dirname, "../golden/tekken/tekken.json"), join(folder, "tekken.json"))
    })
    expect(after.tokenizer.file).toBe(join(scratch, "out", "tokenizer.json"))
    expect(after.tokenizer.json.equals(before.tokenizer.json)).toBe(true)
    expect(after.specialTokens).toEqual(before.specialTokens)
    expect(after.templates.get("default")!.text).toBe(before.templates.get("default")!.text)
  })

  test("packed once is packed the same when it is served unpacked", async () => {
    const model = await openModel(goldenFolder("models", "llama-wide"))
    await compileFolder(model, join(scratch, "out"), { format: "q4f16_1" })
    const compiled = await openModel(join(scratch, "out"))
    expect(await logitsOf(compiled, "q4f16_1")).toEqual(await logitsOf(model, "q4f16_1"))
    await Promise.all([model.close(), compiled.close()])
  })

  test("keeps float32 that bf16 cannot hold", async () => {
    const model = await openModel(goldenFolder("models", "llama-untied"))
    await compileFolder(model, join(scratch, "out"), { format: "q0f32" })
    const compiled = await openModel(join(scratch, "out"))
    expect(worstDifference(await logitsOf(compiled, "q0f32"), await logitsOf(model, "q0f32"))).toBe(
      0,
    )
    await Promise.all([model.close(), compiled.close()])
  })

  test("cannot be packed another way, nor overwrite something", async () => {
    const packed = await openModel(goldenFolder("mlc", "llama-wide-q4f16_1"))
    const output = join(scratch, "out")
    await expect(compileFolder(packed, output, { format: "q8f16_1" })).rejects.toThrow(
      /packed as q4f16_1 already; q8f16_1 needs the original weights/,
    )
    await packed.close()
    mkdirSync(join(output, "mine"), { recursive: true })
    const model = await openModel(goldenFolder("models", "llama-tied"))
    await expect(compileFolder(model, output, { format: "q0f16" })).rejects.toThrow(/not empty/)
    await model.close()
  })

  test("leaves what has come to its place meanwhile", async () => {
    const model = await openModel(goldenFolder("models", "llama-tied"))
    for (const [name, isThere] of [
      ["new", false],
      ["empty", true],
    ] as const) {
      const output = join(scratch, name)
      if (isThere) mkdirSync(output)
      const finish = async () => {
        mkdirSync(output, { recursive: true })
        writeFileSync(join(output, "notes"), "theirs")
      }
      await expect(compileFolder(model, output, { format: "q0f16", finish })).rejects.toThrow(
        `--output: ${output} is there already and is not empty`,
      )
      expect(readdirSync(output)).toEqual(["notes"])
    }
    await model.close()
    expect(readdirSync(scratch).sort()).toEqual(["empty", "new"])
  })

  test("is written in a folder that is there, or that a link leads to", async () => {
    const model = await openModel(goldenFolder("models", "llama-tied"))
    const [output, elsewhere] = [join(scratch, "out"), join(scratch, "elsewhere")]
    for (const folder of [output, elsewhere]) mkdirSync(folder, 0o700)
    symlinkSync(elsewhere, join(scratch, "link"))
    symlinkSync(join(scratch, "none"), join(scratch, "nowhere"))
    const { ino } = statSync(output)
    let seen: string[] = []
    const finish = async () => {
      seen = readdirSync(output)
    }
    await compileFolder(model, output, { format: "q0f16", finish })
    expect(seen).toEqual([expect.stringMatching(/^\.out\.partial-/)])
    expect(statSync(output).ino).toBe(ino)
    await compileFolder(model, join(scratch, "link"), { format: "q0f16" })
    expect(readdirSync(elsewhere)).toEqual(readdirSync(output))
    expect(lstatSync(join(scratch, "link")).isSymbolicLink()).toBe(true)
    await expect(
      compileFolder(model, join(scratch, "nowhere"), { format: "q0f16" }),
    ).rejects.toThrow("nowhere is there already")
    await model.close()
    for (const folder of [output, elsewhere]) await (await openModel(folder)).close()
    expect(readdirSync(scratch).sort()).toEqual(["elsewhere", "link", "nowhere", "out"])
  })

  test("is not there when writing it failed", async () => {
    const model = await openModel(goldenFolder("models", "llama-tied"))
    const finish = () => Promise.reject(new Error("no compiler"))
    const output = join(scratch, "out")
    await expect(compileFolder(model, output, { format: "q0f16", finish })).rejects.toThrow(
      "no compiler",
    )
    expect(readdirSync(scratch)).toEqual([])
    await model.close()
  })
})

test("a folder whose table is missing does not open: a killed run leaves no model", async () => {
  const copy = join(scratch, "cut")
  cpSync(goldenFolder("mlc", "qwen2-q0f32"), copy, { recursive: true })
  rmSync(join(copy, "tensor-cache.json"))
  await expect(openModel(copy)).rejects.toThrow(/tensor-cache.json: there is no such file/)
})
