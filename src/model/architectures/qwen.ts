// Qwen2 and Qwen2.5: llama with biases on queries, keys and values, always, and never on the output projection. Qwen3, the
// dense models: a norm on each query and key head before it is turned, and heads wider than hidden / heads;
// `attention_bias`, mostly false, biases all four projections. Configurations write a sliding window that most of them do
// not use. Sources: modeling_qwen2.py and modeling_qwen3.py of transformers.

import { withAttention, withBlocks } from "../block.ts"
import { checkLayerTypes, type ModelConfig, readDecoder, readOptionalWindow } from "../config.ts"
import type { Fields } from "../fields.ts"

export function readQwen2(fields: Fields): ModelConfig {
  const config = readOptionalWindow(fields, readDecoder(fields))
  checkLayerTypes(fields, config)
  return withBlocks(config, (block) => withAttention(block, { bias: { qkv: true, o: false } }))
}

export function readQwen3(fields: Fields): ModelConfig {
  const config = readOptionalWindow(fields, readDecoder(fields))
  checkLayerTypes(fields, config)
  const bias = fields.flag("attention_bias", false)
  return withBlocks(config, (block) =>
    withAttention(block, {
      bias: { qkv: bias, o: bias },
      norms: { ...block.norm, over: "every head", place: "before" },
    }),
  )
}
