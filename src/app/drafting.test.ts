import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { cp } from "node:fs/promises"
import { tmpdir } from "node:os"
import { isAbsolute, join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { writeEagle, writeEagle3, writeMedusa } from "../../test/heads.ts"
import { mtpModels, writeMtpModel } from "../../test/model/golden.ts"
import { createLog } from "../log.ts"
import { compileFolder, compileHeadFolder } from "../model/compile-folder.ts"
import { type Head, headKindOf, openHead } from "../model/head.ts"
import { type Model, openModel } from "../model/model.ts"
import { openOwnLayer } from "../model/own-layers.ts"
import { loadParameters } from "../model/weights/weights.ts"
import { type DraftingOptions, draftingOfEach, graphFor, prepareDrafting } from "./drafting.ts"

const tiny = join(import.meta.dirname, "../../models/tiny")
const gguf = join(import.meta.dirname, "../../test/golden/gguf/llama-q4_0/llama-q4_0.gguf")
let model: Model
let folder: string
let other: string // like tiny, but for two tokens that have changed places

beforeAll(async () => {
  model = await openModel(tiny)
  folder = mkdtempSync(join(tmpdir(), "sinter-drafting-"))
  writeEagle(join(folder, "eagle"))
  writeEagle(join(folder, "wide-eagle"), { hidden: 320 })
  writeEagle3(join(folder, "eagle3"))
  writeEagle3(join(folder, "wide-eagle3"), { hidden: 320 })
  writeMedusa(join(folder, "medusa"))
  writeMedusa(join(folder, "large-medusa"), { vocabulary: 2600 })
  writeMedusa(join(folder, "wide-medusa"), { hidden: 320 })
  writeMedusa(join(folder, "many-medusa"))
  change(join(folder, "many-medusa"), { medusa_num_heads: 5 })
  writeEagle(join(folder, "deep-eagle"))
  change(join(folder, "deep-eagle"), { num_hidden_layers: 2 })
  mkdirSync(join(folder, "pickle"))
  writeFileSync(join(folder, "pickle", "config.json"), "{}")
  writeFileSync(join(folder, "pickle", "medusa_lm_head.pt"), "")
  other = join(folder, "other")
  await cp(tiny, other, { recursive: true })
  const file = join(other, "tokenizer.json")
  const json = JSON.parse(readFileSync(file, "utf8"))
  const [one, two] = Object.entries(json.model.vocab as Record<string, number>).slice(300, 302)
  Object.assign(json.model.vocab, { [one![0]]: two![1], [two![0]]: one![1] })
  writeFileSync(file, JSON.stringify(json))
})

afterAll(async () => {
  await model.close()
  rmSync(folder, { recursive: true })
})

function change(head: string, fields: object): void {
  const file = join(head, "config.json")
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), ...fields }))
}

const prepare = (drafting: DraftingOptions, overrides = {}, drawing = model, repeats?: true) =>
  prepareDrafting({
    ...drafting,
    model: drawing,
    repeats,
    format: "q0bf16",
    device: { name: "cpu", id: 0 },
    target: "reference",
    overrides,
    log: createLog("silent", false),
  })

describe("refused in one sentence with both figures", () => {
  test.each([
    [
      "small_draft",
      undefined,
      "--speculative-mode: small_draft needs 1 additional model and 0 are",
    ],
    ["disable", tiny, "1 additional model is given and --speculative-mode disable takes 0"],
    ["lookup", tiny, "1 additional model is given and --speculative-mode lookup takes 0"],
    ["auto", tiny, "1 additional model is given and --speculative-mode auto takes 0"],
    ["mtp", tiny, "1 additional model is given and --speculative-mode mtp takes 0"],
    ["small_draft", `${tiny},a.so,b.so`, "expected PATH or PATH,LIBRARY, 1 model in all"],
    ["small_draft", `${tiny},`, "expected PATH or PATH,LIBRARY, 1 model in all"],
    ["small_draft", "./nowhere", "./nowhere"],
    ["small_draft", `${tiny},./nowhere.so`, "nowhere.so"],
  ] as const)("%s with %s", async (mode, models, sentence) => {
    const refusal = await prepare({ mode, models }).then(
      () => "",
      (error: Error) => error.message,
    )
    expect(refusal).toContain(sentence)
    expect(refusal).not.toContain("\n")
  })

  test("vocabularies that differ in content", async () => {
    await expect(prepare({ mode: "small_draft", models: other })).rejects.toThrow(
      /other and tiny have different vocabularies: token \d+ is ".+" in one and ".+" in the other/,
    )
  })

  test.each([
    [
      "eagle",
      tiny,
      "tiny is a whole model and --speculative-mode eagle takes an EAGLE head; choose small_draft",
    ],
    ["medusa", tiny, "takes Medusa heads; choose small_draft"],
    ["small_draft", gguf, "llama-q4_0 and tiny have different vocabularies"],
    ["eagle", gguf, "llama-q4_0.gguf is a whole model and --speculative-mode eagle takes"],
    [
      "small_draft",
      "eagle",
      "eagle holds an EAGLE head and --speculative-mode small_draft takes a whole model; choose eagle",
    ],
    [
      "eagle",
      "medusa",
      "medusa holds Medusa heads and --speculative-mode eagle takes an EAGLE head",
    ],
    [
      "medusa",
      "eagle3",
      "eagle3 holds an EAGLE 3 head and --speculative-mode medusa takes Medusa heads; choose eagle",
    ],
    ["eagle", "wide-eagle3", "a model of 320 columns (target_hidden_size), and tiny has 256"],
    ["eagle", "wide-eagle", "made for a model of 320 columns (hidden_size), and tiny has 256"],
    ["medusa", "large-medusa", "made for a model of 2600 tokens (vocab_size), and tiny has 2560"],
    ["medusa", "wide-medusa", "made for a model of 320 columns (hidden_size), and tiny has 256"],
    ["medusa", "many-medusa", "config.json: medusa_num_heads is 5, and the weights hold 3"],
    ["eagle", "deep-eagle", "config.json: num_hidden_layers is 2, and the weights hold 1"],
    [
      "medusa",
      "pickle",
      "it is a pickle, which can run any program and is not opened; convert it once",
    ],
  ] as const)("%s with %s", async (mode, name, sentence) => {
    const models = isAbsolute(name) ? name : join(folder, name)
    await expect(prepare({ mode, models })).rejects.toThrow(sentence)
  })

  test("more tokens at once than there are heads", async () => {
    const models = join(folder, "medusa")
    await expect(prepare({ mode: "medusa", models }, { spec_draft_length: 4 })).rejects.toThrow(
      "4 tokens are to be proposed at once and medusa has 3 heads",
    )
  })

  test("a model with states has drafts, and proposes none", async () => {
    const folder = join(import.meta.dirname, "../../test/golden/models/qwen3-5")
    const stateful = await openModel(folder)
    await prepare({ mode: "lookup" }, {}, stateful)
    await expect(prepare({ mode: "small_draft", models: folder }, {}, stateful)).rejects.toThrow(
      /qwen3-5 remembers a state/,
    )
    await stateful.close()
  })

  test("a length without a mode", async () => {
    await expect(prepare({ mode: "disable" }, { spec_draft_length: 4 })).rejects.toThrow(
      "4 tokens are to be proposed and --speculative-mode is disable, which proposes 0",
    )
    await expect(prepare({ mode: "auto" }, { spec_draft_length: 4 }, model, true)).rejects.toThrow(
      "--speculative-mode is auto, which proposes as many as cost nothing",
    )
  })
})

describe("EAGLE 3 heads that would compute something else are refused by what says so", () => {
  const speculators = join(import.meta.dirname, "../../test/golden/eagle3/speculators")
  test.each([
    [{ logit_scale: 2 }, "config.json: logit_scale is 2; of EAGLE 3 heads, 1 is known"],
    [{ num_hidden_layers: 2 }, "config.json: num_hidden_layers is 2, and the weights hold 1"],
    [{ model_type: "gemma" }, 'model_type is "gemma"; of EAGLE 3 heads, llama and qwen3 are known'],
    [{ eagle_config: { use_mtp_layernorm: true } }, "eagle_config.use_mtp_layernorm is true; of"],
    [{ eagle_config: { use_magic: 1 } }, "eagle_config.use_magic is not known of EAGLE 3 heads"],
    [
      { eagle_config: { eagle_aux_hidden_state_layer_ids: [1, 2, 7] } },
      "eagle_aux_hidden_state_layer_ids does not fit: it reads rows of layers 2, 3, 8, and tiny has 7",
    ],
    [{ draft_vocab_size: 900 }, "tensor d2t is I64 [853], not I64 [900]"],
    [{ model_type: "constructor" }, 'model_type is "constructor"; of EAGLE 3 heads, llama and'],
    [{ vocab_size: 2 ** 31 - 1 }, "vocab_size is 2147483647, and tiny has 2560"],
    [{ attention_bias: true }, "there is no tensor midlayer.self_attn.q_proj.bias"],
    [{ norm_before_fc: true }, "there is no tensor input_norm.weight"],
  ])("%j", async (fields, sentence) => {
    const head = join(folder, "changed-eagle3")
    writeEagle3(head)
    change(head, fields)
    await expect(openHead(head, model)).rejects.toThrow(sentence)
  })

  test.each([
    [{ speculators_model_type: "peagle" }, 'speculators_model_type is "peagle"; known: eagle3'],
    [{ norm_before_residual: null }, "norm_before_residual is missing"],
    [{ norm_before_fc: true }, "fc_norm and norm_before_fc are both true"],
    [{ transformer_layer_config: null }, "transformer_layer_config is missing"],
  ])("%j", async (fields, sentence) => {
    const head = join(folder, "changed-speculators")
    await cp(speculators, head, { recursive: true })
    change(head, fields)
    await expect(openHead(head, model)).rejects.toThrow(sentence)
  })

  test("a model of several rows of a token", async () => {
    const head = join(folder, "streams-eagle3")
    const name = join(import.meta.dirname, "../../test/golden/models/gemma3n")
    const streams = await openModel(name)
    writeEagle3(head, { hidden: 32, vocabulary: 320 })
    change(head, { eagle_config: { eagle_aux_hidden_state_layer_ids: [0, 1, 2] } })
    const wish = {
      mode: "eagle",
      models: head,
      model: streams,
      log: createLog("silent", false),
    } as const
    await expect(graphFor(wish)).rejects.toThrow(/reads 1 row of .+, and gemma3n has [24]/)
    await streams.close()
  })

  test("a tensor that nobody reads", async () => {
    const head = join(folder, "more-eagle3")
    writeEagle3(head, {}, { "midlayer.self_attn.q_norm.weight": [32] })
    await expect(openHead(head, model)).rejects.toThrow(
      "tensor midlayer.self_attn.q_norm.weight is not known of EAGLE 3 heads",
    )
  })
})

describe("EAGLE and Medusa heads that would compute something else are refused by what says so", () => {
  test.each([
    [{ qkv_bias: true }, "config.json: qkv_bias is true; of EAGLE heads, false is known"],
    [{ parallel_drafting: true }, "parallel_drafting is true; of EAGLE heads, false is known"],
    [{ dflash_config: {} }, "config.json: dflash_config is not known of EAGLE heads"],
    [
      { model_type: "gemma4_assistant" },
      'model_type is "gemma4_assistant", which reads its model\'s keys and values; choose another',
    ],
  ])("%j", async (fields, sentence) => {
    const head = join(folder, "changed-eagle")
    writeEagle(head)
    change(head, fields)
    await expect(prepare({ mode: "eagle", models: head })).rejects.toThrow(sentence)
  })

  test("a tensor that nobody reads", async () => {
    const [eagle, medusa] = [join(folder, "more-eagle"), join(folder, "more-medusa")]
    writeEagle(eagle, {}, { "layers.0.input_layernorm.weight": [256] })
    await expect(openHead(eagle, model)).rejects.toThrow(
      "model.safetensors: tensor layers.0.input_layernorm.weight is not known of EAGLE heads",
    )
    writeMedusa(medusa, {}, { "prefix_embedding_layer.input_layernorm.weight": [256] })
    await expect(openHead(medusa, model)).rejects.toThrow(
      "tensor prefix_embedding_layer.input_layernorm.weight is not known of Medusa heads",
    )
  })
})

test("heads that fit are prepared in the format of the model, one program for each", async () => {
  const eagle = await prepare({ mode: "eagle", models: join(folder, "eagle") })
  expect(eagle.title).toBe("eagle: eagle, q0bf16, interpreted")
  const { kvHeads, headDim, hidden } = model.config.shapes
  const kept = 4 * 256 // the last hidden row of a block
  expect(hidden).toBe(256)
  expect(eagle.demand.model).toMatchObject({
    bytesPerBlock: 2 * 16 * kvHeads * headDim * 4,
    hostBytesPerBlock: kept,
  })
  // Of each of 4 sequences, 256 rows that wait, and where its prompt ends twice 17; and a step's.
  const limits = { blocks: [1], tokens: 100, sequences: 4, rows: 4 }
  expect(eagle.demand.model!.hostBytes!(limits)).toBe(kept * (4 * (256 + 34) + 100))
  await eagle.close()
  const eagle3 = await prepare({ mode: "eagle", models: join(folder, "eagle3") })
  expect(eagle3.demand.model).toMatchObject({ hostBytesPerBlock: 3 * kept }) // of three layers' rows
  await eagle3.close()
  const medusa = await prepare({ mode: "medusa", models: join(folder, "medusa") })
  expect(medusa.demand).toMatchObject({
    length: 3,
    model: { bytesPerBlock: 0, hostBytesPerBlock: 0 },
  })
  await medusa.close()
})

describe("a layer of the model's own that guesses ahead", () => {
  const modelOf = async (name: (typeof mtpModels)[number]) => {
    const place = join(folder, `ahead-${name}`)
    mkdirSync(place, { recursive: true })
    writeMtpModel(name, place)
    return openModel(place, { sees: true })
  }

  test.each(mtpModels)("%s proposes with it", async (name) => {
    const own = await modelOf(name)
    const prepared = await prepare({ mode: "mtp" }, {}, own)
    expect(prepared.title).toBe(`ahead-${name}: mtp, q0bf16, interpreted`)
    expect(prepared.demand.model!.hostBytesPerBlock).toBe(4 * own.config.shapes.hidden)
    await prepared.close()
    await own.weights.tensor("model.norm.weight", own.config.shapes.hidden, 1).read(0, 1) // still open
    await own.close()
  })

  test("a model that sees takes its own rows alone into it", async () => {
    const own = await modelOf("qwen3-5")
    const { shapes } = own.config
    const seeing = {
      ...own,
      config: { ...own.config, shapes: { ...shapes, taken: 3 * shapes.hidden } },
    }
    expect(openOwnLayer(seeing, "q0bf16").graph).toEqual(openOwnLayer(own, "q0bf16").graph)
    await own.close()
  })

  test.each([
    [
      "llama-odd",
      "llama-odd is of architecture llama; known: bailing_moe, deepseek_v3, deepseek_v32, ernie4_5_moe, exaone4",
    ],
    ["qwen3-5", "guesses ahead, and qwen3-5 holds none that is known; choose another mode"],
  ])("%s has none", async (name, sentence) => {
    const other = await openModel(join(import.meta.dirname, "../../test/golden/models", name))
    await expect(prepare({ mode: "mtp" }, {}, other)).rejects.toThrow(sentence)
    await other.close()
  })

  test.each([
    [
      "nemotron-h-moe",
      { mtp_hybrid_override_pattern: "*M" },
      'override_pattern is "*M"; known: "*E"',
    ],
    [
      "exaone-moe",
      { mtp_sliding_windows: [9] },
      "mtp_sliding_windows is there; known: the model's",
    ],
    ["exaone-moe", { mtp_layer_types: ["recurrent"] }, 'mtp_layer_types begins with "recurrent"'],
  ] as const)(
    "%s's is not known with %j, and is left out where nobody asks",
    async (name, fields, sentence) => {
      const place = join(folder, `changed-${name}`)
      mkdirSync(place, { recursive: true })
      writeMtpModel(name, place)
      change(place, fields)
      const own = await openModel(place)
      await expect(prepare({ mode: "mtp" }, {}, own)).rejects.toThrow(sentence)
      const output = join(folder, `left-out-${Object.keys(fields).join()}`)
      await compileFolder(own, output, { format: "q0bf16" })
      const compiled = await openModel(output)
      expect(compiled.weights.entries.some(({ name }) => name.startsWith("mtp."))).toBe(false)
      await Promise.all([own.close(), compiled.close()])
    },
  )

  test("a compiled folder has none, either because its original had none or because it is older", async () => {
    const published = join(import.meta.dirname, "../../test/golden/models/qwen3-5")
    const [original, output] = [await openModel(published), join(folder, "without-ahead")]
    await compileFolder(original, output, { format: "q0bf16" })
    const compiled = await openModel(output)
    await expect(prepare({ mode: "mtp" }, {}, compiled)).rejects.toThrow(
      "without-ahead was compiled without one; compile its original again, if that has one, or choose another mode.",
    )
    await Promise.all([original.close(), compiled.close()])
  })
})

test("beside a GGUF file, whose codecs no head is packed in, a head has what it shares in 8 bits", async () => {
  const blocks = await openModel(gguf)
  const { hidden, vocabulary } = blocks.config.shapes
  writeEagle(join(folder, "gguf-eagle"), { hidden, vocabulary, headDim: 24 })
  const prepared = await prepareDrafting({
    ...{ mode: "eagle", models: join(folder, "gguf-eagle"), model: blocks, format: "gguf" },
    ...{ device: { name: "cpu", id: 0 }, target: "reference", overrides: {} },
    log: createLog("silent", false),
  })
  expect(prepared.title).toBe("gguf-eagle: eagle, q8f16_1, interpreted")
  let loaded = 0
  await prepared.open({
    limits: { blocks: [4], tokens: 16, sequences: 1, rows: 1 },
    signal: new AbortController().signal,
    load: async ({ weights }, program) => {
      await loadParameters(weights, program.manifest, program)
      loaded++
    },
  })
  expect(loaded).toBe(1)
  await prepared.close()
  await blocks.close()
})

describe.each([
  ["eagle", "eagle", ["q0f32", "q0f16", "q8f16_1"]], // tiny's own, or floats to be packed like it
  ["eagle3", "eagle3", ["q0f32", "q8f16_1", "q4f16_1"]],
  ["medusa", "medusa", ["q0f32", "q0f16", "q8f16_1", "q4f16_1"]],
] as const)("%s heads are compiled", (kind, name, formats) => {
  test.each(formats)("%s", async (format) => {
    const output = join(folder, `${name}-${format}`)
    const head = (await openHead(join(folder, name), model)) as Head
    await compileHeadFolder(head, output, { format })
    await head.close()
    const compiled = (await openHead(output, model)) as Head
    expect(compiled).toMatchObject({ kind, format, config: head.config, graph: head.graph })
    expect(await headKindOf(output)).toBe(kind)
    await compiled.own.weights.verify()
    await compiled.close()
    const mode = kind === "medusa" ? kind : "eagle"
    const prepared = await prepare({ mode, models: output })
    expect(prepared.title).toContain(`${name}-${format}: ${kind}, `)
    await prepared.close()
  })
})

describe("of several models", () => {
  const draftsOf = (models: string | undefined, mode: DraftingOptions["mode"] = "small_draft") =>
    draftingOfEach({ mode, models }, ["/at/a", "b", "org/c"])

  test("each has its own draft, and those that are not named have none", () => {
    expect(draftsOf("c=small,c.so;/at/a=x=y")).toEqual([
      { mode: "small_draft", models: "x=y" },
      { mode: "disable" },
      { mode: "small_draft", models: "small,c.so" },
    ])
    expect(draftsOf(undefined, "lookup").map(({ mode }) => mode)).toEqual(Array(3).fill("lookup"))
  })

  test.each([
    ["small", 'expected MODEL=PATH, as several models are served, got "small"'],
    ["a=small;", 'expected MODEL=PATH, as several models are served, got ""'],
    ["d=small", "d is none of the models that are served: /at/a, b, org/c"],
    ["a=small;/at/a=other", "/at/a has two drafts; give one"],
  ])("%s is refused", (models, sentence) => {
    expect(() => draftsOf(models)).toThrow(sentence)
  })
})

test("unless it is forbidden, what repeats itself is proposed where that costs nothing, in no more room", async () => {
  const nothing = await prepare({ mode: "disable" })
  const repeated = await prepare({ mode: "auto" }, {}, model, true)
  expect(repeated).toMatchObject({ mode: "auto", thrifty: true, demand: nothing.demand })
  expect(repeated.title).toBe("what a repetition goes on with, where it costs nothing")
  expect(await prepare({ mode: "auto" })).toEqual(nothing) // a GPU, whose steps are chained, or the interpreter
  const folder = join(import.meta.dirname, "../../test/golden/models/qwen3-5")
  const stateful = await openModel(folder)
  expect(await prepare({ mode: "auto" }, {}, stateful, true)).toEqual(nothing)
  await stateful.close()
})

test("nothing, a look-up, and a model that fits are prepared", async () => {
  expect((await prepare({ mode: "disable" })).title).toBeUndefined()
  const lookup = await prepare({ mode: "lookup" }, { spec_draft_length: 3 })
  expect(lookup).toMatchObject({ length: 3, demand: { length: 3 } })
  const draft = await prepare({ mode: "small_draft", models: tiny })
  expect(draft.demand.model!.bytesPerBlock).toBeGreaterThan(0)
  await draft.close()
})
