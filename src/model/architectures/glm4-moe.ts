// GLM-4.5, 4.6 and 4.7: DeepSeek V3's experts behind attention of the usual kind, half of whose heads is turned, by halves, and
// whose queries and keys have norms in some; and dots.llm1, where these always have norms and are turned whole. Sources:
// modeling_glm4_moe.py and modeling_dots1.py of transformers.

import { withAttention, withBlocks } from "../block.ts"
import { checkLayerTypes, type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { sharedExpertNames, sigmoidRouting, withExperts } from "./deepseek.ts"

const PART = 0.5
const DENSE = 1

export function readGlm4Moe(fields: Fields): ModelConfig {
  const bias = { qkv: fields.flag("attention_bias", false), o: false }
  const normed = fields.flag("use_qk_norm", false)
  const config = withBlocks(readDecoder(fields, { rotation: { part: PART } }), (block) =>
    withAttention(block, {
      bias,
      norms: normed ? { ...block.norm, over: "every head", place: "before" } : undefined,
    }),
  )
  return withExperts(fields, config, { dense: DENSE, routing: sigmoidRouting })
}

export function readDots1(fields: Fields): ModelConfig {
  const bias = fields.flag("attention_bias", false)
  const config = withBlocks(readDecoder(fields), (block) =>
    withAttention(block, {
      bias: { qkv: bias, o: bias },
      norms: { ...block.norm, over: "every head", place: "before" },
    }),
  )
  checkLayerTypes(fields, config)
  const own = fields.with({ norm_topk_prob: false })
  return withExperts(own, config, { dense: 0, routing: sigmoidRouting })
}

/** dots.llm1's, too. */
export const glm4MoeNaming: Naming = withParts(llamaNaming, sharedExpertNames)
