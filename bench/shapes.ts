// Real shapes for benchmarks: speed depends on a model's shape and format and not on its values, so nobody has to download
// anything. The fields are those of the published config.json.

import type { Graph } from "../src/compiler/graph/graph.ts"
import { architectures } from "../src/model/architectures.ts"
import { Fields } from "../src/model/fields.ts"
import { decoder } from "../src/model/layers.ts"

export const shapes = {
  // Llama-3.2-1B
  "1B": {
    model_type: "llama",
    hidden_size: 2048,
    intermediate_size: 8192,
    num_hidden_layers: 16,
    num_attention_heads: 32,
    num_key_value_heads: 8,
    head_dim: 64,
    vocab_size: 128256,
    max_position_embeddings: 131072,
    rms_norm_eps: 1e-5,
    rope_theta: 500000,
    rope_scaling: {
      rope_type: "llama3",
      factor: 32,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 8192,
    },
    tie_word_embeddings: true,
    bos_token_id: 128000,
    eos_token_id: 128001,
  },
  // Llama-3.1-8B
  "8B": {
    model_type: "llama",
    hidden_size: 4096,
    intermediate_size: 14336,
    num_hidden_layers: 32,
    num_attention_heads: 32,
    num_key_value_heads: 8,
    head_dim: 128,
    vocab_size: 128256,
    max_position_embeddings: 131072,
    rms_norm_eps: 1e-5,
    rope_theta: 500000,
    rope_scaling: {
      rope_type: "llama3",
      factor: 8,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 8192,
    },
    tie_word_embeddings: false,
    bos_token_id: 128000,
    eos_token_id: 128001,
  },
  // Nobody's: for seeing that a benchmark runs, where a processor poses as a GPU
  "2M": {
    model_type: "llama",
    hidden_size: 256,
    intermediate_size: 512,
    num_hidden_layers: 3,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    head_dim: 64,
    vocab_size: 2048,
    max_position_embeddings: 8192,
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
    tie_word_embeddings: true,
    bos_token_id: 2046,
    eos_token_id: 2047,
  },
  // Qwen3-0.6B
  "0.6B": {
    model_type: "qwen3",
    hidden_size: 1024,
    intermediate_size: 3072,
    num_hidden_layers: 28,
    num_attention_heads: 16,
    num_key_value_heads: 8,
    head_dim: 128,
    vocab_size: 151936,
    max_position_embeddings: 40960,
    rms_norm_eps: 1e-6,
    rope_theta: 1000000,
    tie_word_embeddings: true,
    bos_token_id: 151643,
    eos_token_id: 151645,
  },
  // SmolLM2-135M, for devices that a processor poses as; its two special tokens stand at the end, as the others' do
  "135M": {
    model_type: "llama",
    hidden_size: 576,
    intermediate_size: 1536,
    num_hidden_layers: 30,
    num_attention_heads: 9,
    num_key_value_heads: 3,
    head_dim: 64,
    vocab_size: 49152,
    max_position_embeddings: 8192,
    rms_norm_eps: 1e-5,
    rope_theta: 100000,
    tie_word_embeddings: true,
    bos_token_id: 49150,
    eos_token_id: 49151,
  },
  // Gemma-3-1B, with its two special tokens at the end, too
  "gemma3-1B": {
    model_type: "gemma3_text",
    hidden_size: 1152,
    intermediate_size: 6912,
    num_hidden_layers: 26,
    num_attention_heads: 4,
    num_key_value_heads: 1,
    head_dim: 256,
    vocab_size: 262144,
    max_position_embeddings: 32768,
    rms_norm_eps: 1e-6,
    rope_theta: 1000000,
    rope_local_base_freq: 10000,
    sliding_window: 512,
    sliding_window_pattern: 6,
    query_pre_attn_scalar: 256,
    hidden_activation: "gelu_pytorch_tanh",
    tie_word_embeddings: true,
    bos_token_id: 262142,
    eos_token_id: 262143,
  },
  // Qwen3-30B-A3B with half of its layers: 16 billion weights, of which a token meets 1.7
  "16B-A2B": {
    model_type: "qwen3_moe",
    hidden_size: 2048,
    intermediate_size: 6144,
    moe_intermediate_size: 768,
    num_experts: 128,
    num_experts_per_tok: 8,
    norm_topk_prob: true,
    num_hidden_layers: 24,
    num_attention_heads: 32,
    num_key_value_heads: 4,
    head_dim: 128,
    vocab_size: 151936,
    max_position_embeddings: 40960,
    rms_norm_eps: 1e-6,
    rope_theta: 1000000,
    tie_word_embeddings: false,
    bos_token_id: 151643,
    eos_token_id: 151645,
  },
  // 0.6B with eight experts in the place of its MLP, of which each token meets one: what it costs beside 0.6B is what choosing costs
  "0.6B-of-8": {
    model_type: "qwen3_moe",
    hidden_size: 1024,
    intermediate_size: 3072,
    moe_intermediate_size: 3072,
    num_experts: 8,
    num_experts_per_tok: 1,
    norm_topk_prob: true,
    num_hidden_layers: 28,
    num_attention_heads: 16,
    num_key_value_heads: 8,
    head_dim: 128,
    vocab_size: 151936,
    max_position_embeddings: 40960,
    rms_norm_eps: 1e-6,
    rope_theta: 1000000,
    tie_word_embeddings: true,
    bos_token_id: 151643,
    eos_token_id: 151645,
  },
} as const

export type ShapeName = keyof typeof shapes

/** The dense shape whose weights are those that a token of a mixture meets, all but its routers. */
export function denseOf(shape: ShapeName): ShapeName {
  if (shape === "0.6B-of-8") return "0.6B"
  throw new Error(`${shape} has no dense shape beside it; 0.6B-of-8 has`)
}

/** @param layers instead of the shape's own */
export function graphOf(shape: ShapeName, layers?: number): Graph {
  const config = { ...shapes[shape], ...(layers && { num_hidden_layers: layers }) }
  const fields = new Fields(config, (what) => new Error(`internal: ${what}`) as never)
  const { model_type: name } = shapes[shape]
  return decoder(name, architectures[name].read(fields))
}
