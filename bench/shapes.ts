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
} as const

export type ShapeName = keyof typeof shapes

export function graphOf(shape: ShapeName): Graph {
  const fields = new Fields(shapes[shape], (what) => new Error(`internal: ${what}`) as never)
  const { model_type: name } = shapes[shape]
  return decoder(name, architectures[name].read(fields))
}
