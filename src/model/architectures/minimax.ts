// MiniMax M2: experts in every layer, chosen by a bias that does not weigh; one norm over all query heads and one over all key heads,
// a part of each head turned. Source: modeling_minimax_m2.py of transformers; folders keep each expert's matrices as w1, w3 and w2.

import { withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { expertNames, llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { readRouting } from "./experts.ts"

export function readMinimaxM2(fields: Fields): ModelConfig {
  for (const [name, known] of [
    ["scoring_func", "sigmoid"],
    ["qk_norm_type", "per_layer"],
  ] as const)
    if (fields.text(name, known) !== known)
      throw fields.wrong(name, `is "${fields.text(name)}"; known: ${known}`)
  for (const name of ["use_qk_norm", "use_routing_bias"])
    if (!fields.flag(name, true)) throw fields.wrong(name, "is false; known: true")
  if (fields.count("shared_intermediate_size", 0, 0) > 0)
    throw fields.wrong("shared_intermediate_size", "is not 0; known: experts alone")
  const headDim = fields.count("head_dim", 128)
  const part = fields.has("rotary_dim") ? fields.count("rotary_dim") / headDim : 1 // else a factor says it
  const config = readDecoder(fields, { absent: { headDim }, rotation: { theta: 5e6, part } })
  const names = { count: "num_local_experts", active: "num_experts_per_tok" }
  const experts = {
    ...readRouting(fields, names, { score: "sigmoid" }),
    ...{ chosenByBias: true, shared: undefined },
  }
  return withBlocks(config, (block) => ({
    ...withAttention(block, { norms: { ...block.norm, over: "all heads", place: "before" } }),
    experts,
  }))
}

export const minimaxM2Naming: Naming = withParts(llamaNaming, {
  "mlp.gate": "block_sparse_moe.gate",
  "mlp.gate.e_score_correction_bias": "block_sparse_moe.e_score_correction_bias",
  ...expertNames({
    gate: "block_sparse_moe.experts.*.w1",
    up: "block_sparse_moe.experts.*.w3",
    down: "block_sparse_moe.experts.*.w2",
  }),
})
