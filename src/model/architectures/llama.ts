// Llama 1 to 3.x and everything that is written as one: TinyLlama, SmolLM2, Vicuna, Yi, the embedded model.
// Seed OSS is one with biases on queries, keys and values. Sources: modeling_llama.py, where `attention_bias` biases the output
// projection too, and modeling_seed_oss.py of transformers.

import { withAttention, withBlocks, withMlp } from "../block.ts"
import { checkLayerTypes, type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"

export function readLlama(fields: Fields): ModelConfig {
  const config = withBiases(fields, readDecoder(fields))
  checkLayerTypes(fields, config)
  return config
}

export function readSeedOss(fields: Fields): ModelConfig {
  return readLlama(fields.with({ attention_bias: true, attention_out_bias: false, head_dim: 128 }))
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
