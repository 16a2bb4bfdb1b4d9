// Granite 3: llama whose embedding, residual additions, scores and logits are multiplied with constants of the
// configuration. Source: modeling_granite.py of transformers; logits are divided by theirs, scores have theirs in place of
// 1 / sqrt(head_dim).

import { withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { withBiases } from "./llama.ts"

export function readGranite(fields: Fields): ModelConfig {
  const config = withBiases(fields, readDecoder(fields))
  const scale = fields.positive("attention_multiplier", 1)
  const residual = fields.positive("residual_multiplier", 1)
  return {
    ...withBlocks(config, (block) => ({ ...withAttention(block, { scale }), residual })),
    embedding: { ...config.embedding, factor: fields.positive("embedding_multiplier", 1) },
    head: { ...config.head, factor: 1 / fields.positive("logits_scaling", 1) },
  }
}
