// Hunyuan, the dense models: llama with a norm on each query and key head after it is turned.
// Source: modeling_hunyuan_v1_dense.py of transformers.

import { withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"

export function readHunyuan(fields: Fields): ModelConfig {
  const bias = fields.flag("attention_bias", false)
  return withBlocks(readDecoder(fields, { absent: { epsilon: 1e-5 } }), (block) =>
    withAttention(block, {
      bias: { qkv: bias, o: bias },
      norms: { ...block.norm, over: "every head", place: "after" },
    }),
  )
}

export const hunyuanNaming: Naming = withParts(llamaNaming, {
  "self_attn.q_norm": "self_attn.query_layernorm",
  "self_attn.k_norm": "self_attn.key_layernorm",
})
