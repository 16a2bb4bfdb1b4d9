// Aleph Alpha's Kolibri 1: attention as EXAONE 4 has it, between norms as GLM-4 has them, and in every layer experts beside one that all
// tokens go to. Logits and a bias decide which of them a token goes to; they weigh what the sigmoids of logits are. Source:
// modeling_kolibri1.py of transformers.

import { NORMS, withBlocks } from "../block.ts"
import type { ModelConfig } from "../config.ts"
import type { Fields } from "../fields.ts"
import { type Naming, withParts } from "../weights/names.ts"
import { sharedExpertNames } from "./deepseek.ts"
import { readExaone4 } from "./exaone4.ts"
import { qwen3MoeNaming, withExperts } from "./qwen.ts"

export function readKolibri1(given: Fields): ModelConfig {
  const { sliding_window = 513, moe_intermediate_size = 512 } = given.json
  const fields = given.with({
    ...{ sliding_window, sliding_window_pattern: 5, head_dim: 128, rms_norm_eps: 1e-6 },
    ...{ moe_intermediate_size, intermediate_size: moe_intermediate_size },
    ...{ num_experts: 384, num_experts_per_tok: 6 },
  })
  const config = withBlocks(readExaone4(fields), (block) => ({ ...block, norms: NORMS.both }))
  const intermediate = fields.count("shared_expert_intermediate_size", 512)
  const mixed = withExperts(fields, config, { shared: { intermediate, gated: false } })
  return withBlocks(mixed, ({ experts, ...block }) => {
    const routing = { ...experts!.routing, score: "sigmoid", biased: "logits" } as const
    return { ...block, experts: { ...experts!, routing, chosenByBias: true } }
  })
}

export const kolibri1Naming = (config: ModelConfig): Naming =>
  withParts(qwen3MoeNaming(config), {
    ...sharedExpertNames,
    "self_attn.output_norm": "post_attn_norm",
    "mlp.output_norm": "post_ffn_norm",
    "mlp.gate.e_score_correction_bias": "moe.router.expert_bias",
  })
