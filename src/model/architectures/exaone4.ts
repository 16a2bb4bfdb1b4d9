// EXAONE 4: norms behind, a norm on each query and key head. The 32B has windows in three of four layers, and does not turn
// the others; the 1.2B has no windows and turns them all. Sources: modeling_exaone4.py and modeling_exaone_moe.py of transformers.

import { NORMS, withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder, readLayerTypes } from "../config.ts"
import type { Fields } from "../fields.ts"
import { type Naming, withParts } from "../weights/names.ts"
import { sigmoidRouting, withExperts } from "./deepseek.ts"
import { glm4MoeNaming } from "./glm4-moe.ts"

/** K-EXAONE: norms before, and DeepSeek V3's experts. */
export function readExaoneMoe(fields: Fields): ModelConfig {
  const absent = { num_experts: 64, num_shared_experts: 1, routed_scaling_factor: 2.5 }
  const own = fields.with({ sliding_window: 4096, ...absent })
  const config = withBlocks(readExaone4(own), (block) => ({ ...block, norms: NORMS.before }))
  const { num_experts: n_routed_experts, num_shared_experts: n_shared_experts } = own.json
  const named = own.with({ n_routed_experts, n_shared_experts })
  return withExperts(named, config, { dense: 1, routing: sigmoidRouting })
}

export const exaoneMoeNaming: Naming = withParts(glm4MoeNaming, {
  "mlp.gate.e_score_correction_bias": "mlp.e_score_correction_bias",
})

export function readExaone4(fields: Fields): ModelConfig {
  const config = readDecoder(fields, { absent: { epsilon: 1e-5 } })
  const window = fields.has("sliding_window") ? fields.count("sliding_window") : undefined
  const types = readLayerTypes(fields, config.shapes.layers, patternOf(fields))
  return withBlocks(config, (block, i) => {
    const slides = window !== undefined && types[i] === "sliding_attention"
    const turned = slides || window === undefined
    return {
      ...withAttention(block, {
        window: slides ? window : undefined,
        rotation: turned ? block.attention.rotation : undefined,
        norms: { ...block.norm, over: "every head", place: "before" },
      }),
      norms: NORMS.after,
    }
  })
}

/** Older folders spell it in letters, "LLLG"; `layer_types` is there, too. Without windows transformers 5 writes 0. */
function patternOf(fields: Fields): number {
  const { sliding_window_pattern: pattern } = fields.json
  const isMeant = typeof pattern !== "string" && fields.has("sliding_window")
  return isMeant ? fields.count("sliding_window_pattern", 4) : 4
}
