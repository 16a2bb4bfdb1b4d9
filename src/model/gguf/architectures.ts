// Which architectures are read from GGUF files: what each is called in a config.json, how the keys of the file become that
// configuration's fields, and where its tensors lie. Keys: llama-arch.cpp of llama.cpp; what converters change:
// convert_hf_to_gguf.py there. Not in a file, and so of the architecture: activations and the places of norms. A bias is
// there when its tensor is.

import type { Json } from "../folder.ts"
import type { Keys } from "./keys.ts"

export interface GgufArchitecture {
  /** The `model_type`, which may hang on a key. */
  model: (keys: Keys) => string
  /** Rows of queries and keys are written for turning neighbours with each other. */
  neighbours: boolean
}

export const ggufArchitectures: Readonly<Record<string, GgufArchitecture>> = {
  llama: {
    // Mistral's files say llama; their window, where one is written, tells them apart.
    model: (keys) => (keys.has("llama.attention.sliding_window") ? "mistral" : "llama"),
    neighbours: true,
  },
  qwen2: { model: () => "qwen2", neighbours: false },
  qwen3: { model: () => "qwen3", neighbours: false },
}

export interface Tensors {
  has(name: string): boolean
  /** Rows of the embedding. */
  vocabulary: number
  /** What each frequency is divided by, where the file has such a list. */
  divisors: readonly number[] | undefined
}

/** The fields of a config.json that say the same as the keys. */
export function configOf(keys: Keys, name: string, tensors: Tensors): Json {
  const key = (rest: string) => `${name}.${rest}`
  const count = (rest: string) => keys.count(key(rest))
  if ((keys.countIfThere(key("expert_count")) ?? 0) > 0)
    throw keys.wrong(key("expert_count"), "is not 0: mixtures of experts are not known")
  const hidden = count("embedding_length")
  const heads = count("attention.head_count")
  const headDim =
    keys.countIfThere(key("attention.key_length")) ?? Math.floor(hidden / Math.max(1, heads))
  checkTurned(keys, key("rope.dimension_count"), headDim)
  const window = keys.countIfThere(key("attention.sliding_window"))
  const bias = (tensor: string) => tensors.has(`blk.0.${tensor}.bias`)
  return {
    model_type: ggufArchitectures[name]!.model(keys),
    vocab_size: tensors.vocabulary,
    hidden_size: hidden,
    intermediate_size: count("feed_forward_length"),
    num_hidden_layers: count("block_count"),
    num_attention_heads: heads,
    num_key_value_heads: keys.countIfThere(key("attention.head_count_kv")) ?? heads,
    head_dim: headDim,
    max_position_embeddings: count("context_length"),
    rms_norm_eps: keys.numberIfThere(key("attention.layer_norm_rms_epsilon")) ?? 1e-6,
    rope_theta: keys.numberIfThere(key("rope.freq_base")) ?? 10000,
    rope_scaling: scalingOf(keys, key, tensors.divisors),
    sliding_window: window || null,
    use_sliding_window: false,
    tie_word_embeddings: !tensors.has("output.weight"),
    attention_bias: bias(name === "qwen3" ? "attn_q" : "attn_output"),
    mlp_bias: bias("ffn_down"),
  }
}

function checkTurned(keys: Keys, key: string, headDim: number): void {
  const turned = keys.countIfThere(key) ?? headDim
  if (turned !== headDim)
    throw keys.wrong(key, `is ${turned} of ${headDim}; only whole heads are turned`)
}

function scalingOf(
  keys: Keys,
  key: (rest: string) => string,
  divisors: readonly number[] | undefined,
): Json | null {
  // A list of its own for every pair: what llama3's scaling became.
  if (divisors)
    return {
      rope_type: "longrope",
      short_factor: divisors,
      long_factor: divisors,
      attention_factor: 1,
    }
  const factor =
    keys.numberIfThere(key("rope.scaling.factor")) ??
    keys.numberIfThere(key("rope.scale_linear")) ??
    0
  const type = keys.textIfThere(key("rope.scaling.type")) ?? "linear"
  if (type === "none" || factor === 0 || (type === "linear" && factor === 1)) return null
  const attention = keys.numberIfThere(key("rope.scaling.attn_factor"))
  switch (type) {
    case "linear":
      return { rope_type: "linear", factor }
    case "yarn":
      return {
        rope_type: "yarn",
        factor,
        original_max_position_embeddings:
          keys.countIfThere(key("rope.scaling.original_context_length")) ??
          keys.count(key("context_length")),
        ...(attention === undefined ? {} : { attention_factor: attention }),
      }
    default:
      throw keys.wrong(key("rope.scaling.type"), `is "${type}"; known: none, linear, yarn`)
  }
}

/** By the names without .weight and .bias that the graph asks for. */
export const outsideNames: Readonly<Record<string, string>> = {
  "model.embed_tokens": "token_embd",
  "model.norm": "output_norm",
  lm_head: "output",
}

export const layerNames: Readonly<Record<string, string>> = {
  input_layernorm: "attn_norm",
  post_attention_layernorm: "ffn_norm",
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.o_proj": "attn_output",
  "self_attn.q_norm": "attn_q_norm",
  "self_attn.k_norm": "attn_k_norm",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
}
