// OLMo 2 and 3: norms behind attention and MLP instead of before, and one norm over all query heads together, one over all
// key heads. OLMo 3 has windows in three of four layers, and stretches the others alone. Sources: modeling_olmo2.py and
// modeling_olmo3.py of transformers.

import { NORMS, withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder, readLayerTypes } from "../config.ts"
import type { Fields } from "../fields.ts"
import { readRotation } from "../rotation.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"

export function readOlmo2(fields: Fields): ModelConfig {
  return withNormsBehind(fields, readDecoder(fields, { absent: { epsilon: 1e-5 } }))
}

export function readOlmo3(fields: Fields): ModelConfig {
  const theta = 5e5
  const config = withNormsBehind(
    fields,
    readDecoder(fields, {
      absent: { epsilon: 1e-5 },
      rotation: { theta, layers: "full_attention" },
    }),
  )
  const { layers, headDim, context } = config.shapes
  const types = readLayerTypes(fields, layers, 4)
  const window = fields.count("sliding_window", 4096)
  const scaled = fields.object("rope_parameters")?.has("sliding_attention") ?? false
  const plain = readRotation(fields, {
    headDim,
    context,
    theta,
    layers: "sliding_attention",
    scaled,
  })
  return withBlocks(config, (block, i) =>
    types[i] === "sliding_attention"
      ? withAttention(block, { window, rotation: { query: plain, key: plain } })
      : block,
  )
}

function withNormsBehind(fields: Fields, config: ModelConfig): ModelConfig {
  const bias = fields.flag("attention_bias", false)
  return withBlocks(config, (block) => ({
    ...withAttention(block, {
      bias: { qkv: bias, o: bias },
      norms: { ...block.norm, over: "all heads", place: "before" },
    }),
    norms: NORMS.after,
  }))
}

/** Also EXAONE 4's. */
export const normsBehind: Naming = withParts(llamaNaming, {
  "self_attn.output_norm": "post_attention_layernorm",
  "mlp.output_norm": "post_feedforward_layernorm",
})
