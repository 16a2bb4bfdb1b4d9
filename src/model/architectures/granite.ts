// Granite 3: llama whose embedding, residual additions, scores and logits are multiplied with constants of the
// configuration. Source: modeling_granite.py of transformers; logits are divided by theirs, scores have theirs in place of
// 1 / sqrt(head_dim). Its mixtures (modeling_granitemoe.py) keep the matrices of all experts in one tensor.

import { withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, stackedExperts, withParts } from "../weights/names.ts"
import { readRouting } from "./experts.ts"
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

export function readGraniteMoe(fields: Fields): ModelConfig {
  const names = { count: "num_local_experts", active: "num_experts_per_tok" }
  const experts = { ...readRouting(fields, names), chosenByBias: false, shared: undefined }
  return withBlocks(readGranite(fields), (block) => ({ ...block, experts }))
}

export function graniteMoeNaming({ shapes, blocks: [block] }: ModelConfig): Naming {
  const { count } = block!.experts!
  return withParts(llamaNaming, {
    "mlp.gate": "block_sparse_moe.router.layer",
    ...stackedExperts(
      { count, ...shapes },
      { gateUp: "block_sparse_moe.input_linear", down: "block_sparse_moe.output_linear" },
    ),
  })
}
