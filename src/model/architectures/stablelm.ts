// StableLM 2: LayerNorms, a quarter of each head turned; some models have attention and MLP side by side behind one norm,
// and a LayerNorm of its own for every query and key head. Source: modeling_stablelm.py of transformers.

import { NORMS, withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"

export function readStablelm(fields: Fields): ModelConfig {
  const config = readDecoder(fields, {
    epsilon: "layer_norm_eps",
    absent: { epsilon: 1e-5 },
    norm: { kind: "layer", bias: true },
    rotation: { part: 0.25 },
  })
  const parallel = fields.flag("use_parallel_residual", false)
  const qkv = fields.flag("use_qkv_bias", false)
  const normed = fields.flag("qk_layernorm", false)
  return withBlocks(config, (block) => ({
    ...withAttention(block, {
      bias: { qkv, o: false },
      norms: normed
        ? { ...block.norm, bias: false, over: "each head", place: "before" }
        : undefined,
    }),
    norms: parallel ? NORMS.shared : NORMS.before,
    parallel,
  }))
}

export const stablelmNaming: Naming = withParts(llamaNaming, {
  "self_attn.q_norm": "self_attn.q_layernorm.norms",
  "self_attn.k_norm": "self_attn.k_layernorm.norms",
})
