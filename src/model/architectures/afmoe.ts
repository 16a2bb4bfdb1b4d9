// Arcee's Trinity: norms before and behind, on each query and key head, too; windows in three of four layers, which are turned, while
// the fourth sees everything and is not; what heads give is gated; DeepSeek V3's experts behind the first layers. Source:
// modeling_afmoe.py of transformers.

import { NORMS, withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder, readLayerTypes } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { sharedExpertNames, sigmoidRouting, withExperts } from "./deepseek.ts"
import { scaledEmbedding } from "./gemma.ts"

export function readAfmoe(given: Fields): ModelConfig {
  if (given.flag("attention_bias", false))
    throw given.wrong("attention_bias", "is true; only false is known of this architecture")
  const score = given.text("score_func", "sigmoid")
  if (score !== "sigmoid") throw given.wrong("score_func", `is "${score}"; known: sigmoid`)
  const { num_experts, num_shared_experts, num_dense_layers, route_scale, route_norm } = given.json
  const fields = given.with({
    n_routed_experts: num_experts ?? 64,
    n_shared_experts: num_shared_experts ?? 2,
    first_k_dense_replace: num_dense_layers ?? 1,
    routed_scaling_factor: route_scale,
    norm_topk_prob: route_norm,
  })
  const config = readDecoder(fields, { absent: { headDim: 128, epsilon: 1e-5 } })
  const every = fields.count("global_attn_every_n_layers", 4)
  const types = readLayerTypes(fields, config.shapes.layers, every)
  const window = fields.count("sliding_window", 1024)
  const blocks = withBlocks(config, (block, i) => {
    const slides = types[i] === "sliding_attention"
    return {
      ...withAttention(block, {
        window: slides ? window : undefined,
        rotation: slides ? block.attention.rotation : undefined,
        norms: { ...block.norm, over: "every head", place: "before" },
        gated: "columns",
      }),
      norms: NORMS.both,
    }
  })
  const mixed = withExperts(fields, blocks, { dense: 1, routing: sigmoidRouting })
  return fields.flag("mup_enabled", false) ? scaledEmbedding(mixed) : mixed
}

export const afmoeNaming: Naming = withParts(llamaNaming, {
  ...sharedExpertNames,
  "self_attn.output_norm": "post_attention_layernorm",
  post_attention_layernorm: "pre_mlp_layernorm",
  "mlp.output_norm": "post_mlp_layernorm",
  "mlp.gate": "mlp.router.gate",
  "mlp.gate.e_score_correction_bias": "mlp.expert_bias",
})
