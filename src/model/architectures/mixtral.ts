// Mixtral: Mistral with experts in the place of every MLP. Source: modeling_mixtral.py of transformers; folders keep each
// expert's matrices as w1, w3 and w2.

import { withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { expertNames, llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { readRouting } from "./experts.ts"
import { withWindow } from "./mistral.ts"

export function readMixtral(fields: Fields): ModelConfig {
  const config = withWindow(fields, readDecoder(fields, { rotation: { theta: 1e6 } }))
  const names = { count: "num_local_experts", active: "num_experts_per_tok" }
  const experts = { ...readRouting(fields, names), chosenByBias: false, shared: undefined }
  return withBlocks(config, (block) => ({ ...block, experts }))
}

export const mixtralNaming: Naming = withParts(llamaNaming, {
  "mlp.gate": "block_sparse_moe.gate",
  ...expertNames({
    gate: "block_sparse_moe.experts.*.w1",
    up: "block_sparse_moe.experts.*.w3",
    down: "block_sparse_moe.experts.*.w2",
  }),
})
