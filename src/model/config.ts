// What a decoder model's configuration says, in our own words: the same whether it was read from a config.json or from an
// mlc-chat-config.json, whose fields are renamed here to the former's. What would change the mathematics and is not known
// is refused: ignoring it gives wrong text.

import type { Shapes } from "../runtime/manifest.ts"
import type { Fields } from "./fields.ts"
import type { Json } from "./folder.ts"

export interface ModelConfig {
  shapes: Shapes
  epsilon: number // of the RMS norms
  tied: boolean // the head is the embedding table
  rope: Rope
  attentionBias: boolean
  mlpBias: boolean
  /** Positions a token sees, itself included, in layers from `firstSliding` on. */
  window: number | undefined
  firstSliding: number
  sinks: number
}

export interface Rope {
  theta: number
  scaling: RopeScaling
}

export type RopeScaling =
  | { kind: "none" }
  | { kind: "linear"; factor: number }
  | { kind: "llama3"; factor: number; low: number; high: number; original: number }

const WIDEST_HEAD = 1 << 16 // a list is made of its pairs before any tensor can contradict it

/** Reads the fields that all decoder architectures here share. */
export function readDecoder(fields: Fields): ModelConfig {
  refuseUnknown(fields)
  const hidden = fields.count("hidden_size")
  const heads = fields.count("num_attention_heads")
  const kvHeads = fields.count("num_key_value_heads", heads)
  if (heads % kvHeads !== 0)
    throw fields.wrong("num_key_value_heads", `is ${kvHeads}, which does not divide ${heads} heads`)
  if (!fields.has("head_dim") && hidden % heads !== 0)
    throw fields.wrong(
      "num_attention_heads",
      `is ${heads}, which does not divide ${hidden} columns`,
    )
  const headDim = fields.count("head_dim", hidden / heads, 1, WIDEST_HEAD)
  if (headDim % 2 !== 0)
    throw fields.wrong("head_dim", `is ${headDim}: an odd width cannot be rotated`)
  const shapes = {
    vocabulary: fields.count("vocab_size"),
    hidden,
    layers: fields.count("num_hidden_layers"),
    heads,
    kvHeads,
    headDim,
    intermediate: fields.count("intermediate_size"),
    context: fields.count("max_position_embeddings"),
  }
  return {
    shapes,
    epsilon: fields.positive("rms_norm_eps", 1e-6),
    tied: fields.flag("tie_word_embeddings", false),
    rope: readRope(fields),
    attentionBias: false,
    mlpBias: false,
    window: undefined,
    firstSliding: 0,
    sinks: fields.count("attention_sink_size", 0, 0),
  }
}

/** What these architectures could say and this program could not follow. */
function refuseUnknown(fields: Fields): void {
  const activation = fields.text("hidden_act", "silu")
  if (activation !== "silu" && activation !== "swish")
    throw fields.wrong("hidden_act", `is "${activation}"; known: silu`)
  const packed = fields.object("quantization_config")
  if (packed)
    throw fields.wrong(
      "quantization_config",
      `says the weights are packed by ${packed.text("quant_method", "an unknown method")}, which cannot be read; use the original weights`,
    )
  const rotated = fields.positive("partial_rotary_factor", 1)
  if (rotated !== 1) throw fields.wrong("partial_rotary_factor", `is ${rotated}; only 1 is known`)
}

/** The new spelling, `rope_parameters` with everything in it, or the old one, `rope_theta` and `rope_scaling`. */
function readRope(fields: Fields): Rope {
  const parameters = fields.object("rope_parameters")
  const theta = (parameters?.has("rope_theta") ? parameters : fields).positive("rope_theta", 10000)
  const scaling = parameters ?? fields.object("rope_scaling")
  return { theta, scaling: scaling ? readScaling(scaling) : { kind: "none" } }
}

function readScaling(fields: Fields): RopeScaling {
  const name = fields.has("rope_type") ? "rope_type" : "type"
  const kind = fields.text(name, "default")
  switch (kind) {
    case "default":
      return { kind: "none" }
    case "linear":
      return { kind, factor: fields.positive("factor") }
    case "llama3":
      return {
        kind,
        factor: fields.positive("factor"),
        low: fields.positive("low_freq_factor"),
        high: fields.positive("high_freq_factor"),
        original: fields.count("original_max_position_embeddings"),
      }
    default:
      throw fields.wrong(name, `is "${kind}"; known: default, linear, llama3`)
  }
}

/** Newer files say of each layer what it sees; that must be what the other fields say. */
export function checkLayerTypes(fields: Fields, config: ModelConfig): void {
  if (!fields.has("layer_types")) return
  const { window, firstSliding, shapes } = config
  const types = fields.texts("layer_types")
  const wrong = Array.from({ length: shapes.layers }, (_, i) =>
    window !== undefined && i >= firstSliding ? "sliding_attention" : "full_attention",
  ).findIndex((type, i) => types[i] !== type)
  if (wrong >= 0)
    throw fields.wrong(
      "layer_types",
      `says ${types[wrong]} of layer ${wrong}, which the other fields do not`,
    )
}

/** A sliding window, for architectures that switch it on and off: qwen's. */
export function readOptionalWindow(fields: Fields, config: ModelConfig): ModelConfig {
  if (!fields.flag("use_sliding_window", false) || !fields.has("sliding_window")) return config
  const { layers } = config.shapes
  const window = fields.count("sliding_window")
  return {
    ...config,
    window,
    firstSliding: Math.min(layers, fields.count("max_window_layers", 28, 0)),
  }
}

const FAR = 32768 // an MLC folder with a sliding window may say no context at all

/** An mlc-chat-config.json in the words of a config.json. */
export function fromMlc(chat: Fields): Json {
  const model = chat.object("model_config")
  if (!model) throw chat.wrong("model_config", "is missing")
  /** MLC writes -1 for what is off. */
  const above = (name: string) => (Number(chat.json[name]) > 0 ? chat.json[name] : undefined)
  const window = above("sliding_window_size")
  return {
    ...model.json,
    model_type: chat.json.model_type,
    vocab_size: chat.json.vocab_size ?? model.json.vocab_size,
    rope_theta: model.json.rope_theta ?? model.json.position_embedding_base,
    max_position_embeddings:
      above("context_window_size") ?? model.json.max_position_embeddings ?? (window && FAR),
    sliding_window: window ?? null,
    use_sliding_window: window !== undefined,
    max_window_layers: model.json.max_window_layers ?? 0,
    attention_sink_size: above("attention_sink_size") ?? 0,
  }
}
