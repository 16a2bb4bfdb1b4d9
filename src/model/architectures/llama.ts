// Llama 1 to 3.x and everything that is written as one: TinyLlama, SmolLM2, Vicuna, Yi, the embedded model. Seed OSS is one with
// biases on queries, keys and values, EuroBERT one that reads a text both ways, InternLM 3 one that names its biases otherwise, EXAONE 3
// one with GPT-2's names, Helium one that turns neighbours, CWM one with windows in three of four layers. Sources: modeling_llama.py,
// where `attention_bias` biases the output projection too, modeling_seed_oss.py, modeling_eurobert.py, modeling_helium.py,
// modeling_cwm.py, and of the others the configurations and conversion_mapping.py of transformers.

import { withAttention, withBlocks, withMlp } from "../block.ts"
import {
  checkLayerTypes,
  type ModelConfig,
  readDecoder,
  readLayerTypes,
  seeingBothWays,
  withWindows,
} from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Naming } from "../weights/names.ts"

export function readLlama(fields: Fields): ModelConfig {
  const config = withBiases(fields, readDecoder(fields))
  checkLayerTypes(fields, config)
  return config
}

export function readSeedOss(fields: Fields): ModelConfig {
  return readLlama(fields.with({ attention_bias: true, attention_out_bias: false, head_dim: 128 }))
}

export function readInternlm3(fields: Fields): ModelConfig {
  const { bias: mlp_bias, qkv_bias: attention_bias } = fields.json
  const usual = { num_key_value_heads: 2, head_dim: 128, rms_norm_eps: 1e-5 }
  return readLlama(
    fields.with({ ...usual, attention_bias, attention_out_bias: mlp_bias, mlp_bias }),
  )
}

/** IQuest Coder. What its own code knows beside that no published model switches on. */
export function readIquestCoder(fields: Fields): ModelConfig {
  if (fields.has("clip_qkv"))
    throw fields.wrong("clip_qkv", "cuts off queries, keys and values, which is not known")
  if (fields.flag("use_sliding_window", false))
    throw fields.wrong("use_sliding_window", "is true; known: layers that see everything")
  return readLlama(fields.with({ num_key_value_heads: 8, head_dim: 128, rms_norm_eps: 1e-5 }))
}

/** EuroBERT, which embeds. */
export const readEuroBert = (fields: Fields) =>
  seeingBothWays(readLlama(fields.with({ rms_norm_eps: 1e-5 })))

/** EXAONE 3 and 3.5. */
export function readExaone(fields: Fields): ModelConfig {
  const { num_layers, layer_norm_epsilon, activation_function } = fields.json
  return readLlama(
    fields.with({
      num_hidden_layers: num_layers,
      rms_norm_eps: layer_norm_epsilon ?? 1e-5,
      hidden_act: activation_function,
      num_key_value_heads: 8,
      rope_theta: 5e5,
    }),
  )
}

export const exaoneNaming: Naming = {
  roots: [{ root: "transformer.", head: "" }],
  layers: "h.",
  parts: {
    embed_tokens: "wte",
    norm: "ln_f",
    input_layernorm: "ln_1",
    post_attention_layernorm: "ln_2",
    "self_attn.q_proj": "attn.attention.q_proj",
    "self_attn.k_proj": "attn.attention.k_proj",
    "self_attn.v_proj": "attn.attention.v_proj",
    "self_attn.o_proj": "attn.attention.out_proj",
    "mlp.gate_proj": "mlp.c_fc_0",
    "mlp.up_proj": "mlp.c_fc_1",
    "mlp.down_proj": "mlp.c_proj",
  },
}

export function readHelium(fields: Fields): ModelConfig {
  const config = readDecoder(fields, {
    absent: { epsilon: 1e-8, headDim: 128 },
    rotation: { theta: 1e5 },
  })
  return withBiases(fields.with({ attention_out_bias: false }), config)
}

/** Where a configuration does not say how heads are turned. */
const rope_scaling = {
  rope_type: "llama3",
  factor: 16,
  high_freq_factor: 4,
  low_freq_factor: 1,
  original_max_position_embeddings: 8192,
}

export function readCwm(given: Fields): ModelConfig {
  const fields = given.has("rope_parameters") ? given : given.with({ rope_scaling })
  const config = readDecoder(fields, {
    absent: { kvHeads: 8, headDim: 128, epsilon: 1e-5 },
    rotation: { theta: 1e6 },
  })
  const types = readLayerTypes(fields, config.shapes.layers, 4, "first")
  return withWindows(withBiases(fields, config), types, fields.count("sliding_window", 8192))
}

/** Biases where `attention_bias` and `mlp_bias` say so; the output projection has none where `attention_out_bias` says that. */
export function withBiases(fields: Fields, config: ModelConfig): ModelConfig {
  const attention = fields.flag("attention_bias", false)
  const output = fields.flag("attention_out_bias", attention)
  const mlp = fields.flag("mlp_bias", false)
  return withBlocks(config, (block) =>
    withMlp(withAttention(block, { bias: { qkv: attention, o: output } }), { bias: mlp }),
  )
}
