// A folder as Mistral publishes it: a params.json and consolidated weights, under names of their own. What params.json says is read in
// the words of a config.json; what is not known of it is refused by name. The weights are llama's, but the rows of a query or key head
// lie as pairs that are turned with each other lie side by side. What it sees with is Pixtral's tower, what it hears with Voxtral's.
// Sources: transformers' convert_mistral3_weights_to_hf.py, convert_ministral3_weights_to_hf.py and convert_voxtral_weights_to_hf.py,
// vLLM's configs/mistral.py.

import { CONSOLIDATED, PARAMS } from "../hub/selection.ts"
import type { ModelConfig } from "./config.ts"
import { Fields } from "./fields.ts"
import type { Folder, Json } from "./folder.ts"
import type { HearingConfig } from "./hearing/tower.ts"
import type { TowerConfig } from "./vision/tower.ts"
import { expertNames, type Naming } from "./weights/names.ts"

/** What such a folder says, as the files of others would. */
export interface Params {
  /** In the words of a config.json. */
  whole: Fields
  /** In those of a preprocessor_config.json; absent: it sees nothing. */
  image?: Fields
  /** In those of a feature extractor; absent: it hears nothing. */
  extractor?: Fields
}

/** Whether a folder has such weights, and what describes them. */
export async function bringsParams(folder: Folder): Promise<boolean> {
  const { single, index } = CONSOLIDATED
  return (await folder.has(PARAMS)) && ((await folder.has(single)) || (await folder.has(index)))
}

/** @throws `model_broken`, naming the field and what is wrong with it */
export async function readParams(folder: Folder): Promise<Params> {
  const broken = (what: string) => folder.broken(PARAMS, what)
  const params = new Fields(await folder.json(PARAMS), broken)
  refuseOthers(params, KNOWN)
  const text = readText(params)
  const eye = params.object("vision_encoder") ?? seeingPart(params)
  const quantization_config = readQuantization(params)
  const ear = params.object("multimodal")?.object("whisper_model_args")
  if (ear) {
    const { whole, extractor } = readEar(ear)
    const { tie_word_embeddings } = text
    const all = { ...whole, tie_word_embeddings, quantization_config, text_config: text }
    return { whole: new Fields(all, broken), extractor: new Fields(extractor, broken) }
  }
  if (!eye) return { whole: new Fields({ ...text, quantization_config }, broken) }
  const { whole, image } = readEye(eye)
  const outside = { tie_word_embeddings: text.tie_word_embeddings, quantization_config }
  return {
    whole: new Fields({ ...whole, ...outside, text_config: text }, broken),
    image: new Fields(image, broken),
  }
}

/** Fields that are read, and such as say nothing of what is computed. */
const KNOWN = [
  ...["dim", "n_layers", "head_dim", "hidden_dim", "n_heads", "n_kv_heads", "norm_eps"],
  ...["rope_theta", "vocab_size", "tied_embeddings", "activation", "sliding_window", "yarn"],
  ...["llama_4_scaling", "moe", "quantization", "vision_encoder", "multimodal", "model_type"],
  ...["max_position_embeddings", "max_seq_len", "causal", "dtype", "use_cache"],
  ...["model_parallel", "ragged_attention", "max_batch_size"],
]

/** A field that is null or false says nothing. */
function refuseOthers(fields: Fields, known: readonly string[]): void {
  const other = Object.entries(fields.json).find(
    ([name, value]) => !known.includes(name) && value !== null && value !== false,
  )
  if (other) throw fields.wrong(other[0], `is not known here; ${ELSEWHERE}`)
}

const ELSEWHERE =
  "use the model as transformers has it, with a config.json and a model.safetensors, or as GGUF"

const CONTEXT = 128_000 // vLLM's, where nothing is said

function readText(params: Fields): Json {
  const kind = params.text("model_type", "transformer")
  if (kind !== "transformer") throw params.wrong("model_type", `is "${kind}"; known: transformer`)
  if (!params.flag("causal", true)) throw params.wrong("causal", "is false, which is not known")
  const layers = params.count("n_layers")
  const experts = readExperts(params)
  const rotation = readRotation(params)
  const context = params.has("max_position_embeddings")
    ? params.count("max_position_embeddings")
    : params.count("max_seq_len", CONTEXT)
  return {
    model_type: experts ? "mixtral" : rotation.isStretched ? "ministral3" : "mistral",
    hidden_size: params.count("dim"),
    num_hidden_layers: layers,
    num_attention_heads: params.count("n_heads"),
    num_key_value_heads: params.count("n_kv_heads"),
    head_dim: params.count("head_dim"),
    intermediate_size: params.count("hidden_dim"),
    rms_norm_eps: params.positive("norm_eps"),
    vocab_size: params.count("vocab_size"),
    max_position_embeddings: context,
    hidden_act: params.text("activation", "silu"),
    tie_word_embeddings: params.flag("tied_embeddings", false),
    rope_parameters: rotation.parameters,
    ...readWindow(params, layers),
    ...experts,
  }
}

/** A number, which may be written as a text, or a list that is repeated over the layers, null for those that see everything. */
function readWindow(params: Fields, layers: number): Json {
  const name = "sliding_window"
  if (!params.has(name)) return {}
  const given = params.json[name]
  if (!Array.isArray(given)) return { sliding_window: windowOf(params, given) }
  const windows = given.map((window) => (window === null ? null : windowOf(params, window)))
  const [window, ...others] = new Set(windows.filter((each) => each !== null))
  if (others.length > 0 || windows.length === 0 || layers % windows.length !== 0)
    throw params.wrong(
      name,
      `has windows of several sizes, or not as many as divide ${layers} layers`,
    )
  if (window === undefined) return {}
  const types = Array.from({ length: layers }, (_, layer) =>
    windows[layer % windows.length] === null ? "full_attention" : "sliding_attention",
  )
  return { sliding_window: window, layer_types: types }
}

function windowOf(params: Fields, given: unknown): number {
  const window = typeof given === "string" && /^\d+$/.test(given) ? Number(given) : given
  return params.over({ sliding_window: window }).count("sliding_window")
}

/** Mixtral's; those of Mistral Large 3 stand beside others, behind latent attention. */
function readExperts(params: Fields): Json | undefined {
  const moe = params.object("moe")
  if (!moe) return undefined
  refuseOthers(moe, ["num_experts", "num_experts_per_tok"])
  return {
    num_local_experts: moe.count("num_experts"),
    num_experts_per_tok: moe.count("num_experts_per_tok"),
  }
}

/** Stretched by yarn, and with queries that grow with their position, or neither. */
function readRotation(params: Fields): { parameters: Json; isStretched: boolean } {
  const rope_theta = params.positive("rope_theta")
  const [yarn, scaling] = [params.object("yarn"), params.object("llama_4_scaling")]
  const original = "original_max_position_embeddings"
  if (yarn) refuseOthers(yarn, ["factor", original, "beta", "alpha", "apply_scale"])
  if (scaling) refuseOthers(scaling, ["beta", original])
  if (yarn && scaling && yarn.count(original) !== scaling.count(original))
    throw scaling.wrong(
      original,
      `is ${scaling.count(original)}, and yarn's ${yarn.count(original)}`,
    )
  const stretched = yarn && {
    rope_type: "yarn",
    factor: yarn.positive("factor"),
    beta_fast: yarn.positive("beta"),
    beta_slow: yarn.positive("alpha"),
    ...(!yarn.flag("apply_scale", true) && { attention_factor: 1 }),
  }
  const grown = scaling && { llama_4_scaling_beta: scaling.positive("beta") }
  const length = (yarn ?? scaling)?.count(original)
  return {
    parameters: {
      rope_type: "default",
      rope_theta,
      ...stretched,
      ...grown,
      ...(length !== undefined && { [original]: length }),
    },
    isStretched: Boolean(yarn ?? scaling),
  }
}

/** Floats of 8 bits, each matrix under one scale; what activations are rounded to is nobody's to know here, as with others' floats. */
function readQuantization(params: Fields): Json | undefined {
  const quantization = params.object("quantization")
  if (!quantization) return undefined
  refuseOthers(quantization, ["qformat_weight", "qscheme_act"])
  const format = quantization.text("qformat_weight", "")
  if (format !== "fp8_e4m3")
    throw quantization.wrong("qformat_weight", `is "${format}"; known: fp8_e4m3`)
  return { quant_method: "fp8" }
}

function seeingPart(params: Fields): Fields | undefined {
  const multimodal = params.object("multimodal")
  if (!multimodal) return undefined
  refuseOthers(multimodal, ["vision_encoder_args", "whisper_model_args"])
  return multimodal.object("vision_encoder_args")
}

const MERGER = "patch_merge"

/** Pixtral 12B's rows come out of the tower one by one; those of later ones are normed, and several made one. */
function readEye(eye: Fields): { whole: Json; image: Json } {
  const own = [
    ...["hidden_size", "num_channels", "image_size", "patch_size", "intermediate_size"],
    ...["num_hidden_layers", "num_attention_heads", "rope_theta"],
  ]
  const others = ["image_token_id", "image_break_token_id", "image_end_token_id", "max_image_size"]
  const ending = ["adapter_bias", "mm_projector_id", "spatial_merge_size"]
  const norm = "add_pre_mm_projector_layer_norm"
  refuseOthers(eye, [...own, ...others, ...ending, norm])
  const projector = eye.text("mm_projector_id", "")
  if (projector !== "" && projector !== MERGER)
    throw eye.wrong("mm_projector_id", `is "${projector}"; known: ${MERGER}`)
  const merges = projector === MERGER
  if (eye.flag(norm, false) !== merges)
    throw eye.wrong(norm, `is ${eye.flag(norm, false)}, which is not known of such a projector`)
  const joined = eye.count("spatial_merge_size", 1)
  if (!merges && joined !== 1)
    throw eye.wrong("spatial_merge_size", `is ${joined}, which only "${MERGER}" has`)
  const sizes = own.map((name) => [
    name,
    name === "rope_theta" ? eye.positive(name) : eye.count(name),
  ])
  return {
    whole: {
      model_type: merges ? "mistral3" : "llava",
      image_token_index: eye.count("image_token_id", 10, 0),
      multimodal_projector_bias: eye.flag("adapter_bias", true),
      projector_hidden_act: "gelu",
      vision_feature_layer: -1,
      ...(merges ? { spatial_merge_size: joined } : { vision_feature_select_strategy: "full" }),
      vision_config: { model_type: "pixtral", hidden_act: "silu", ...Object.fromEntries(sizes) },
    },
    image: {
      image_processor_type: "PixtralImageProcessor",
      patch_size: eye.count("patch_size"),
      size: { longest_edge: eye.count("max_image_size", eye.count("image_size")) },
    },
  }
}

const JOINED = 4 // rows of Voxtral's encoder that become one

function readEar(ear: Fields): { whole: Json; extractor: Json } {
  refuseOthers(ear, ["encoder_args", "downsample_args"])
  const encoder = ear.object("encoder_args")
  if (!encoder) throw ear.wrong("encoder_args", "is missing")
  const known = ["dim", "n_layers", "head_dim", "hidden_dim", "n_heads", "vocab_size"]
  refuseOthers(encoder, [...known, "max_source_positions", "audio_encoding_args"])
  const [dim, heads] = [encoder.count("dim"), encoder.count("n_heads")]
  if (encoder.count("head_dim", dim / heads) !== dim / heads)
    throw encoder.wrong(
      "head_dim",
      `is not ${dim / heads}, as wide as ${heads} heads are together ${dim}`,
    )
  const down = ear.object("downsample_args")
  if (down) refuseOthers(down, ["downsample_factor"])
  const joined = down?.count("downsample_factor") ?? JOINED
  if (joined !== JOINED)
    throw down!.wrong("downsample_factor", `is ${joined}; only ${JOINED} is known`)
  const sound = encoder.object("audio_encoding_args")
  if (sound) refuseOthers(sound, ["sampling_rate", "num_mel_bins", "hop_length", "window_size"])
  const bands = sound?.count("num_mel_bins") ?? 128
  return {
    whole: {
      model_type: "voxtral",
      projector_hidden_act: "gelu",
      audio_config: {
        model_type: "voxtral_encoder",
        hidden_size: dim,
        num_hidden_layers: encoder.count("n_layers"),
        num_attention_heads: heads,
        intermediate_size: encoder.count("hidden_dim"),
        max_source_positions: encoder.count("max_source_positions", 1500),
        num_mel_bins: bands,
      },
    },
    extractor: {
      feature_size: bands,
      sampling_rate: sound?.count("sampling_rate", 16_000),
      hop_length: sound?.count("hop_length", 160),
      n_fft: sound?.count("window_size", 400),
    },
  }
}

/** Of heads whose pairs lie side by side. */
const paired = (name: string, headDim: number) => ({
  name,
  neighbours: { headDim, turned: headDim },
})

const attentionNames = (headDim: number): Naming["parts"] => ({
  input_layernorm: "attention_norm",
  "self_attn.q_proj": paired("attention.wq", headDim),
  "self_attn.k_proj": paired("attention.wk", headDim),
  "self_attn.v_proj": "attention.wv",
  "self_attn.o_proj": "attention.wo",
  post_attention_layernorm: "ffn_norm",
  "mlp.gate_proj": "feed_forward.w1",
  "mlp.up_proj": "feed_forward.w3",
  "mlp.down_proj": "feed_forward.w2",
})

const EARS = "mm_whisper_embeddings."

/** Where the tensors of the text model lie. @param hears its embedding lies with what hears */
export function paramsNaming({ shapes }: ModelConfig, hears: boolean): Naming {
  return {
    roots: [{ root: "", head: "" }],
    layers: "layers.",
    parts: {
      ...attentionNames(shapes.headDim),
      embed_tokens: `${hears ? EARS : ""}tok_embeddings`,
      lm_head: "output",
      "mlp.gate": "feed_forward.gate",
      ...expertNames({
        gate: "feed_forward.experts.*.w1",
        up: "feed_forward.experts.*.w3",
        down: "feed_forward.experts.*.w2",
      }),
    },
  }
}

/** Where those of its tower do, and of what stands behind it. */
export function paramsTowerNaming({ blocks, naming }: TowerConfig): Naming {
  const { "merging.weight": merging, ...parts } = naming.parts
  return {
    roots: [{ root: "vision_encoder.", head: "vision_language_adapter.", apart: "" }],
    layers: naming.layers,
    parts: {
      ...parts,
      ...attentionNames(blocks[0]!.attention.headDim),
      linear_1: "w_in",
      linear_2: "w_out",
      ...(merging && {
        "merging.weight": { ...(merging as object), apart: true } as typeof merging,
      }),
      "merging_norm.weight": { name: "pre_mm_projector_norm.weight", apart: true },
    },
  }
}

/** Where those of what hears do. Places are not stored. */
export function paramsHearingNaming({ width, bands }: HearingConfig): Naming {
  const taps = (number: number, channels: number): Naming["parts"] => ({
    [`conv${number}.weight`]: {
      name: `conv_layers.${number - 1}.weight`,
      apart: true,
      shape: [width, channels, 3],
      turnedColumns: 3,
    },
    [`conv${number}.bias`]: { name: `conv_layers.${number - 1}.bias`, apart: true },
  })
  const encoder = `${EARS}whisper_encoder.`
  const head = `${EARS}audio_language_projection.`
  return {
    roots: [{ root: `${encoder}transformer.`, head, apart: encoder }],
    layers: "layers.",
    parts: {
      embed_tokens: "norm", // by which the tower is found
      ...taps(1, bands),
      ...taps(2, width),
      "positions.weight": { name: "positions", sines: "closed" },
      input_layernorm: "attention_norm",
      "self_attn.q_proj": "attention.wq",
      "self_attn.k_proj": "attention.wk",
      "self_attn.k_proj.bias": { name: "attention.wk.bias", constant: 0 },
      "self_attn.v_proj": "attention.wv",
      "self_attn.o_proj": "attention.wo",
      post_attention_layernorm: "ffn_norm",
      "mlp.up_proj": "feed_forward.w1",
      "mlp.down_proj": "feed_forward.w2",
      linear_1: "0",
      linear_2: "2",
    },
  }
}
