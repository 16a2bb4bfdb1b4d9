// Folders as Mistral publishes them, made of golden ones: a params.json, and the weights under Mistral's names in consolidated files,
// the rows of query and key heads in the order from which `permute_for_rope` of transformers' converters takes them.

import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { printGraph } from "../../src/compiler/graph/graph.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { compileFolder } from "../../src/model/compile-folder.ts"
import type { Json } from "../../src/model/folder.ts"
import { weightsOf } from "../../src/model/graph-weights.ts"
import { locateModel } from "../../src/model/locate.ts"
import { type Model, openModel } from "../../src/model/model.ts"
import { loadParameters, type Weights } from "../../src/model/weights/weights.ts"
import { float8Values } from "../../src/runtime/dtype.ts"
import { goldenFolder, readGolden } from "./golden.ts"
import { blocksFor, limitsFor, prefill, worstDifference } from "./steps.ts"
import { read, type Tensor, type Tensors, write } from "./tensor-file.ts"

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "params-"))
})
afterEach(() => rmSync(folder, { recursive: true }))

type Config = ReturnType<typeof JSON.parse>

const configOf = (golden: string): Config =>
  JSON.parse(readFileSync(join(golden, "config.json"), "utf8"))

/** Mistral's names by transformers'; the first that fits. */
const NAMES: readonly (readonly [RegExp, string])[] = [
  [/^(language_model\.)?lm_head/, "output"],
  [/^multi_modal_projector\.linear_1/, "vision_language_adapter.w_in"],
  [/^multi_modal_projector\.linear_2/, "vision_language_adapter.w_out"],
  [/^multi_modal_projector\.patch_merger/, "patch_merger"],
  [/^multi_modal_projector\.norm/, "pre_mm_projector_norm"],
  [/^vision_tower/, "vision_encoder"],
  [/^(language_model\.)?model\./, ""],
]
const PARTS: Readonly<Record<string, string>> = {
  embed_tokens: "tok_embeddings",
  input_layernorm: "attention_norm",
  post_attention_layernorm: "ffn_norm",
  self_attn: "attention",
  mlp: "feed_forward",
  block_sparse_moe: "feed_forward",
  q_proj: "wq",
  k_proj: "wk",
  v_proj: "wv",
  o_proj: "wo",
  gate_proj: "w1",
  down_proj: "w2",
  up_proj: "w3",
  weight_scale_inv: "qscale_weight",
}

function nameOf(name: string): string {
  const [pattern, start] = NAMES.find(([each]) => each.test(name))!
  const parts = name.replace(pattern, start).split(".")
  return parts.map((part) => PARTS[part] ?? part).join(".")
}

/** Row 2 i + h of a head is what transformers has as its row i in half h. */
function paired(tensor: Tensor, headDim: number): Tensor {
  const rows = tensor.rows.map((_, row) => {
    const at = row % headDim
    return tensor.rows[row - at + (at % 2) * (headDim / 2) + Math.floor(at / 2)]!
  })
  return { ...tensor, rows }
}

function asMistral(tensors: Tensors, { text, vision }: Record<"text" | "vision", number>): Tensors {
  return new Map(
    [...tensors].map(([name, tensor]) => {
      const headDim = name.startsWith("vision_tower") ? vision : text
      const isPaired = /\.[qk]_proj\.weight$/.test(name)
      return [nameOf(name), isPaired ? paired(tensor, headDim) : tensor]
    }),
  )
}

function textParams(config: Config): Json {
  const { rope_parameters: rope = {}, hidden_size: dim, num_attention_heads: n_heads } = config
  return {
    dim,
    n_layers: config.num_hidden_layers,
    head_dim: config.head_dim ?? dim / n_heads,
    hidden_dim: config.intermediate_size,
    n_heads,
    n_kv_heads: config.num_key_value_heads,
    rope_theta: rope.rope_theta ?? config.rope_theta,
    norm_eps: config.rms_norm_eps,
    vocab_size: config.vocab_size,
    max_position_embeddings: config.max_position_embeddings,
    tied_embeddings: config.tie_word_embeddings,
  }
}

const windowed = (config: Config) => ({
  ...textParams(config),
  sliding_window: String(config.sliding_window),
})

const mixed = (config: Config) => ({
  ...textParams(config),
  moe: {
    num_experts: config.num_local_experts,
    num_experts_per_tok: config.num_experts_per_tok,
  },
})

function stretched(config: Config): Json {
  const { rope_parameters: rope } = config
  const original_max_position_embeddings = rope.original_max_position_embeddings
  return {
    ...textParams(config),
    yarn: {
      factor: rope.factor,
      beta: rope.beta_fast,
      alpha: rope.beta_slow,
      apply_scale: false,
      original_max_position_embeddings,
    },
    llama_4_scaling: { beta: rope.llama_4_scaling_beta, original_max_position_embeddings },
  }
}

function seeing(config: Config, longest: number): Json {
  const { vision_config: vision, text_config: text } = config
  const isMerged = config.model_type === "mistral3"
  const { num_channels = 3, image_size, patch_size, hidden_size, rope_theta } = vision
  return {
    ...textParams({ ...text, tie_word_embeddings: config.tie_word_embeddings ?? false }),
    vision_encoder: {
      ...{ num_channels, image_size, patch_size, hidden_size },
      rope_theta: rope_theta ?? vision.rope_parameters.rope_theta,
      intermediate_size: vision.intermediate_size,
      num_hidden_layers: vision.num_hidden_layers,
      num_attention_heads: vision.num_attention_heads,
      image_token_id: config.image_token_index ?? config.image_token_id,
      max_image_size: longest,
      adapter_bias: config.multimodal_projector_bias ?? true,
      ...(isMerged && {
        mm_projector_id: "patch_merge",
        spatial_merge_size: config.spatial_merge_size,
        add_pre_mm_projector_layer_norm: true,
      }),
    },
  }
}

/** The folder, with a golden one's model in it as Mistral has it. */
function publish(golden: string, params: Json, tensors?: Tensors): void {
  const { vision_config: vision, text_config, ...config } = configOf(golden)
  const inner = text_config ?? config
  const of = (own: Config) => own.head_dim ?? own.hidden_size / own.num_attention_heads
  const all = tensors ?? read(join(golden, "model.safetensors"))
  const own = asMistral(all, { text: of(inner), vision: vision ? of(vision) : 0 })
  for (const name of ["tokenizer.json", "tokenizer_config.json"])
    if (existsSync(join(golden, name))) copyFileSync(join(golden, name), join(folder, name))
  writeFileSync(join(folder, "params.json"), JSON.stringify(params))
  write(join(folder, "consolidated.safetensors"), own)
}

async function opened(path = folder, sees = false): Promise<Model> {
  const model = await openModel(path, { sees })
  onTestFinished(() => model.close())
  return model
}

const limits = { blocks: 12, tokens: 150, sequences: 1, rows: 150 }

async function logitsOf(model: Model, golden: string): Promise<number> {
  const { format, codecOf } = model
  const options = { format, activations: "float", kv: "f32", ...(codecOf && { codecOf }) } as const
  const plan = compile(model.graph, options)
  const program = openReference(plan, limitsFor(plan, limits))
  await loadParameters(model.weights, program.manifest, program)
  let worst = 0
  for (const { tokens, firstRow, logits } of readGolden(golden)) {
    if (tokens.length > limits.tokens) continue
    const ours = await prefill(program, tokens, blocksFor(tokens.length), { firstRow })
    worst = Math.max(worst, worstDifference(ours, logits))
  }
  await program.close()
  return worst
}

const kinds: [string, string, (config: Config) => Json][] = [
  ["mistral-swa", "mistral", windowed],
  ["mixtral", "mixtral", mixed],
  ["ministral3", "ministral3", stretched],
]

describe.each(kinds)("%s", (name, architecture, paramsOf) => {
  const golden = goldenFolder("models", name)

  test("gives the logits of the folder that transformers has", async () => {
    publish(golden, paramsOf(configOf(golden)))
    const model = await opened()
    expect(model.architecture).toBe(architecture)
    expect(model.configuration).toBe("params.json")
    expect(await logitsOf(model, golden)).toBeLessThan(1e-4)
  })
})

const plain = goldenFolder("models", "mistral-swa")
const params = () => windowed(configOf(plain))

test("weights in several files are found by their index", async () => {
  publish(plain, params())
  const tensors = [...read(join(folder, "consolidated.safetensors"))]
  rmSync(join(folder, "consolidated.safetensors"))
  const names = [
    "consolidated-00001-of-00002.safetensors",
    "consolidated-00002-of-00002.safetensors",
  ]
  const weight_map: Record<string, string> = {}
  for (const [i, name] of names.entries()) {
    const own = tensors.filter((_, at) => at % 2 === i)
    write(join(folder, name), new Map(own))
    for (const [tensor] of own) weight_map[tensor] = name
  }
  const index = join(folder, "consolidated.safetensors.index.json")
  writeFileSync(index, JSON.stringify({ weight_map }))
  expect(await logitsOf(await opened(), plain)).toBeLessThan(1e-4)
})

test("what transformers reads goes first, and Mistral's own where its weights are not there", async () => {
  publish(plain, params())
  copyFileSync(join(plain, "config.json"), join(folder, "config.json"))
  expect((await opened()).configuration).toBe("params.json")
  copyFileSync(join(plain, "model.safetensors"), join(folder, "model.safetensors"))
  expect((await opened()).configuration).toBe("config.json")
})

test("such a folder is a model's by its name, and one with a params.json alone is none", () => {
  const find = () => locateModel("own", { cwd: join(folder, ".."), env: { SINTER_HOME: folder } })
  expect(find).toThrow()
  publish(plain, params())
  const name = folder.split("/").at(-1)!
  expect(locateModel(name, { cwd: join(folder, "..") })).toBe(folder)
  rmSync(join(folder, "consolidated.safetensors"))
  expect(() => locateModel(name, { cwd: join(folder, "..") })).toThrow()
})

test("floats of 8 bits under one scale are read as those of transformers", async () => {
  const tensors = read(join(plain, "model.safetensors"))
  for (const [name, { shape, rows }] of [...tensors]) {
    if (!/_proj\.weight$/.test(name)) continue
    const values = rows.map((row) =>
      Float32Array.from({ length: row.length / 2 }, (_, i) => halfOf(row, i)),
    )
    const scale = Math.max(...values.flatMap((row) => [...row].map(Math.abs))) / 448
    const codes = values.map((row) =>
      Buffer.from(Array.from(row, (value) => nearest(value / scale))),
    )
    tensors.set(name, { dtype: "F8_E4M3", shape, rows: codes })
    const bytes = Buffer.from(Float32Array.of(scale).buffer)
    tensors.set(`${name}_scale_inv`, { dtype: "F32", shape: [], rows: [bytes] })
  }
  publish(
    plain,
    { ...params(), quantization: { qformat_weight: "fp8_e4m3", qscheme_act: "TENSOR" } },
    tensors,
  )
  const other = mkdtempSync(join(folder, "plain-"))
  for (const name of ["tokenizer.json", "tokenizer_config.json"])
    copyFileSync(join(plain, name), join(other, name))
  const quantization_config = { quant_method: "fp8", weight_block_size: null }
  writeFileSync(
    join(other, "config.json"),
    JSON.stringify({ ...configOf(plain), quantization_config }),
  )
  write(join(other, "model.safetensors"), tensors)
  const [own, theirs] = [await opened(), await opened(other)]
  expect(own.format).toBe("fp8")
  await expectSame(own, theirs)
})

const halfOf = (row: Buffer, i: number) => {
  const bits = Buffer.alloc(4)
  bits.writeUInt16LE(row.readUInt16LE(2 * i), 2)
  return bits.readFloatLE(0)
}

function nearest(value: number): number {
  let best = 0
  for (let code = 0; code < 256; code++)
    if (Math.abs(float8Values[code]! - value) < Math.abs(float8Values[best]! - value)) best = code
  return best
}

type Read = Pick<Model, "graph"> & { weights: Weights }

/** Every tensor that the graph reads has the same bytes. */
async function expectSame(own: Read, theirs: Read): Promise<void> {
  expect(printGraph(own.graph)).toBe(printGraph(theirs.graph))
  for (const { sources, columns } of weightsOf(own.graph))
    for (const { tensor, rows } of sources) {
      const [a, b] = [own, theirs].map(({ weights }) => weights.tensor(tensor, rows, columns))
      expect(a!.codec, tensor).toBe(b!.codec)
      const [mine, other] = [await a!.read(0, rows), await b!.read(0, rows)]
      expect(Buffer.from(mine.values).equals(Buffer.from(other.values)), tensor).toBe(true)
      expect(mine.scales, tensor).toEqual(other.scales)
    }
}

/** What Voxtral's folders say of what hears. */
const ear = {
  encoder_args: {
    audio_encoding_args: {
      sampling_rate: 16_000,
      num_mel_bins: 16,
      hop_length: 160,
      window_size: 400,
    },
    dim: 32,
    n_layers: 2,
    head_dim: 8,
    hidden_dim: 128,
    n_heads: 4,
    vocab_size: 51866,
    max_source_positions: 1500,
  },
  downsample_args: { downsample_factor: 4 },
}

/** Mistral's names of Voxtral's tensors, as `STATE_DICT_MAPPING` of convert_voxtral_weights_to_hf.py has them. */
const HEARING: readonly (readonly [RegExp, string])[] = [
  [/^language_model\.model\.embed_tokens/, "mm_whisper_embeddings.tok_embeddings"],
  [/^audio_tower\.conv1/, "mm_whisper_embeddings.whisper_encoder.conv_layers.0"],
  [/^audio_tower\.conv2/, "mm_whisper_embeddings.whisper_encoder.conv_layers.1"],
  [/^audio_tower\.layer_norm/, "mm_whisper_embeddings.whisper_encoder.transformer.norm"],
  [/^audio_tower\./, "mm_whisper_embeddings.whisper_encoder.transformer."],
  [/self_attn_layer_norm/, "attention_norm"],
  [/final_layer_norm/, "ffn_norm"],
  [/self_attn\.([qkv])_proj/, "attention.w$1"],
  [/self_attn\.out_proj/, "attention.wo"],
  [/\.fc1\./, ".feed_forward.w1."],
  [/\.fc2\./, ".feed_forward.w2."],
  [/^multi_modal_projector\.linear_1/, "mm_whisper_embeddings.audio_language_projection.0"],
  [/^multi_modal_projector\.linear_2/, "mm_whisper_embeddings.audio_language_projection.2"],
]
function heardName(name: string): string {
  if (/^language_model\.(?!model\.embed_tokens)/.test(name)) return nameOf(name)
  return HEARING.reduce((own, [pattern, to]) => own.replace(pattern, to), name)
}

/** `sinusoids` of transformers' modeling_whisper.py: what its converter adds. */
function sinusoids(length: number, channels: number): Tensor {
  const step = Math.log(10_000) / (channels / 2 - 1)
  const rows = Array.from({ length }, (_, place) => {
    const angles = Array.from({ length: channels / 2 }, (_, i) => place * Math.exp(-step * i))
    const row = Float32Array.from([...angles.map(Math.sin), ...angles.map(Math.cos)])
    return Buffer.from(row.buffer)
  })
  return { dtype: "F32", shape: [length, channels], rows }
}

describe("voxtral", () => {
  const golden = goldenFolder("hearing", "voxtral")
  const { text_config: text } = configOf(golden)
  const params = { ...textParams(text), multimodal: { whisper_model_args: ear } }

  function publishHearing(): void {
    const { tie_word_embeddings: tied = false } = configOf(golden)
    publish(golden, { ...params, tied_embeddings: tied }, new Map())
    const tensors = [...read(join(golden, "model.safetensors"))]
    const stored = tensors.filter(([name]) => !name.endsWith("embed_positions.weight"))
    const named = stored.map(([name, tensor]) => {
      const isPaired = /^language_model.*\.[qk]_proj\.weight$/.test(name)
      return [heardName(name), isPaired ? paired(tensor, text.head_dim) : tensor] as const
    })
    write(join(folder, "consolidated.safetensors"), new Map(named))
  }
  /** The folder that transformers' converter makes of it. */
  function converted(): string {
    const other = join(folder, "plain")
    cpSync(golden, other, { recursive: true })
    const tensors = read(join(golden, "model.safetensors"))
    tensors.set("audio_tower.embed_positions.weight", sinusoids(1500, 32))
    write(join(other, "model.safetensors"), tensors)
    writeFileSync(
      join(other, "config.json"),
      JSON.stringify({ ...configOf(golden), audio_token_id: 24 }),
    )
    return other
  }

  test("hears with the same tower, and answers with the same model", async () => {
    publishHearing()
    const [own, theirs] = [await opened(folder, true), await opened(converted(), true)]
    expect(own.deaf).toBeUndefined()
    expect(own.configuration).toBe("params.json")
    expect(own.hearing!.audio).toEqual(theirs.hearing!.audio)
    expect(own.hearing!.config.softToken).toBe(24)
    expect(own.hearing!.transcription).toBe(theirs.hearing!.transcription)
    await expectSame(own, theirs)
    await expectSame(own.hearing!, theirs.hearing!)
  })

  test("is compiled with what it hears with", async () => {
    publishHearing()
    const output = join(folder, "compiled")
    await compileFolder(await opened(folder, true), output, { format: "q4f16_1" })
    const compiled = await opened(output, true)
    expect(compiled.deaf).toBeUndefined()
    expect(compiled.hearing!.audio).toEqual((await opened(folder, true)).hearing!.audio)
  })
})

describe.each(["mistral3", "llava-pixtral"])("%s", (name) => {
  const golden = goldenFolder("vision", name)
  const file = join(golden, "preprocessor_config.json")
  const given = seeing(configOf(golden), JSON.parse(readFileSync(file, "utf8")).size.longest_edge)

  test("sees with the same tower, and is shown images in the same way", async () => {
    publish(golden, given)
    const other = join(folder, "plain") // whose gates are Mistral's, and not the default of transformers
    cpSync(golden, other, { recursive: true })
    const { vision_config: vision, ...config } = configOf(golden)
    const vision_config = { ...vision, hidden_act: "silu" }
    writeFileSync(join(other, "config.json"), JSON.stringify({ ...config, vision_config }))
    const [own, theirs] = [await opened(folder, true), await opened(other, true)]
    expect(own.blind).toBeUndefined()
    expect(own.vision!.images).toEqual(theirs.vision!.images)
    await expectSame(own, theirs)
    await expectSame(own.vision!, theirs.vision!)
  })

  test("is compiled with what it sees with", async () => {
    publish(golden, given)
    const own = await opened(folder, true)
    await compileFolder(own, join(folder, "out"), { format: "q0bf16" })
    const compiled = await opened(join(folder, "out"), true)
    expect(compiled.blind).toBeUndefined()
    expect(compiled.vision!.images).toEqual(own.vision!.images)
    await expectSame(compiled, own)
  })
})

describe("params.json", () => {
  const eye = {
    ...(seeing(configOf(goldenFolder("vision", "mistral3")), 64).vision_encoder as Json),
  }
  test.each<[string, Json, string]>([
    ["a field that is not known", { qk_norm: true }, "qk_norm is not known here; use the model as"],
    ["latent attention", { q_lora_rank: 1536 }, "q_lora_rank is not known here"],
    ["another kind of model", { model_type: "mamba" }, 'model_type is "mamba"; known: transformer'],
    ["what sees both ways", { causal: false }, "causal is false, which is not known"],
    ["no theta", { rope_theta: null }, "rope_theta is missing"],
    ["an activation", { activation: "tanh" }, 'hidden_act is "tanh"'],
    [
      "windows of several sizes",
      { sliding_window: [8, 16, null] },
      "sliding_window has windows of several",
    ],
    ["windows that do not fit", { sliding_window: [8, null] }, "not as many as divide 3 layers"],
    ["a window that is none", { sliding_window: "wide" }, 'sliding_window is "wide"'],
    [
      "shared experts",
      { moe: { num_experts: 4, num_shared_experts: 1 } },
      "moe.num_shared_experts is not known",
    ],
    ["another yarn", { yarn: { factor: 2, gamma: 1 } }, "yarn.gamma is not known here"],
    [
      "two original lengths",
      {
        yarn: { factor: 2, beta: 32, alpha: 1, original_max_position_embeddings: 32 },
        llama_4_scaling: { beta: 0.1, original_max_position_embeddings: 16 },
      },
      "llama_4_scaling.original_max_position_embeddings is 16, and yarn's 32",
    ],
    [
      "codes",
      { quantization: { qformat_weight: "nvfp4" } },
      'quantization.qformat_weight is "nvfp4"; known: fp8_e4m3',
    ],
    [
      "what hears, of which nothing is said",
      { multimodal: { whisper_model_args: {} } },
      "multimodal.whisper_model_args.encoder_args is missing",
    ],
    [
      "what hears and joins more rows",
      { multimodal: { whisper_model_args: { ...ear, downsample_args: { downsample_factor: 8 } } } },
      "multimodal.whisper_model_args.downsample_args.downsample_factor is 8; only 4 is known",
    ],
    [
      "what hears in another way",
      {
        multimodal: { whisper_model_args: { encoder_args: { ...ear.encoder_args, causal: true } } },
      },
      "multimodal.whisper_model_args.encoder_args.causal is not known here",
    ],
    [
      "what hears with other heads",
      {
        multimodal: { whisper_model_args: { encoder_args: { ...ear.encoder_args, head_dim: 16 } } },
      },
      "multimodal.whisper_model_args.encoder_args.head_dim is not 8, as wide as 4 heads",
    ],
    [
      "another projector",
      { vision_encoder: { ...eye, mm_projector_id: "resampler" } },
      'vision_encoder.mm_projector_id is "resampler"; known: patch_merge',
    ],
    [
      "a projector without its norm",
      { vision_encoder: { ...eye, add_pre_mm_projector_layer_norm: false } },
      "vision_encoder.add_pre_mm_projector_layer_norm is false",
    ],
    [
      "a merger that is not named",
      { vision_encoder: { ...eye, mm_projector_id: "", add_pre_mm_projector_layer_norm: false } },
      'vision_encoder.spatial_merge_size is 2, which only "patch_merge" has',
    ],
  ])("with %s is refused", async (_, changes, words) => {
    publish(plain, { ...params(), ...changes })
    await expect(openModel(folder)).rejects.toThrow(words)
  })

  test("may list windows layer by layer, and say nothing of a context", async () => {
    publish(plain, { ...params(), sliding_window: [null, 24, null], max_position_embeddings: null })
    const { config } = await opened()
    expect(config.blocks.map(({ attention }) => attention.window)).toEqual([
      undefined,
      24,
      undefined,
    ])
    expect(config.shapes.context).toBe(128_000)
  })

  test("whose yarn scales lets cosines and sines grow", async () => {
    const golden = goldenFolder("models", "ministral3")
    const given = stretched(configOf(golden))
    const factorBy = async (yarn: Json) => {
      publish(golden, { ...given, yarn: { ...(given.yarn as Json), ...yarn } })
      return (await opened()).config.blocks[0]!.attention.rotation!.query.factor
    }
    expect(await factorBy({})).toBe(1)
    expect(await factorBy({ apply_scale: true })).toBeCloseTo(0.1 * Math.log(8) + 1, 6)
  })
})
