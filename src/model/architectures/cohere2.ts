// Command R, R7B and A, and Aya: attention and MLP side by side behind one LayerNorm without bias, neighbours turned with each other,
// logits multiplied with a constant. From R7B on there are windows in three of four layers, and the fourth is not turned at all.
// Sources: modeling_cohere.py and modeling_cohere2.py of transformers.

import { NORMS, withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder, readLayerTypes } from "../config.ts"
import type { Fields } from "../fields.ts"

export function readCohere(fields: Fields): ModelConfig {
  if (fields.flag("use_qk_norm", false))
    throw fields.wrong("use_qk_norm", "is true, which is not known of this architecture")
  const config = readDecoder(fields, {
    epsilon: "layer_norm_eps",
    absent: { tied: true, epsilon: 1e-5 },
    norm: { kind: "layer", bias: false },
  })
  const bias = fields.flag("attention_bias", false)
  return {
    ...withBlocks(config, (block) => ({
      ...withAttention(block, { bias: { qkv: bias, o: bias } }),
      norms: NORMS.shared,
      parallel: true,
    })),
    head: { ...config.head, factor: fields.positive("logit_scale", 0.0625) },
  }
}

export function readCohere2(fields: Fields): ModelConfig {
  const config = readCohere(fields)
  const window = fields.count("sliding_window", 4096)
  const types = readLayerTypes(
    fields,
    config.shapes.layers,
    fields.count("sliding_window_pattern", 4),
  )
  return withBlocks(config, (block, i) => {
    const slides = types[i] === "sliding_attention"
    return withAttention(block, {
      window: slides ? window : undefined,
      rotation: slides ? block.attention.rotation : undefined,
    })
  })
}
