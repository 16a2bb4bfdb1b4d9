// GLM-4.5, 4.6 and 4.7: DeepSeek V3's experts behind attention of the usual kind, half of whose heads is turned, by halves, and
// whose queries and keys have norms in some; dots.llm1 and Sarvam 30B, where these always have norms and are turned whole; and Solar
// Open, where they never have. Sources: modeling_glm4_moe.py, modeling_dots1.py, modeling_solar_open.py and the configuration of
// sarvam_moe in transformers.

import { withAttention, withBlocks } from "../block.ts"
import { checkLayerTypes, type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { RotationOptions } from "../rotation.ts"
import { joinedRows, llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { sharedExpertNames, sigmoidRouting, withExperts } from "./deepseek.ts"
import { withNorms } from "./qwen.ts"

export const readGlm4Moe = (fields: Fields) =>
  read(fields, { dense: 1, normed: fields.flag("use_qk_norm", false), rotation: { part: 0.5 } })

/** Its fields have other names, and some are left out that DeepSeek's have. */
export function readSarvamMoe(given: Fields): ModelConfig {
  const { num_experts, num_shared_experts, use_qkv_bias } = given.json
  const fields = given.with({
    n_routed_experts: num_experts,
    n_shared_experts: num_shared_experts,
    attention_bias: use_qkv_bias,
    routed_scaling_factor: 2.5,
  })
  const normed = fields.flag("use_qk_norm", true)
  return read(fields, { dense: 1, normed, rotation: { part: 1, theta: 8e6 } })
}

/** It has experts in all layers, and does not say how wide an MLP would be. */
export function readSolarOpen(given: Fields): ModelConfig {
  const { moe_intermediate_size: intermediate_size } = given.json
  const fields = given.with({ intermediate_size, head_dim: 128, n_shared_experts: 1 })
  const all = fields.without("first_k_dense_replace")
  return read(all, { dense: 0, normed: false, rotation: { part: 1, theta: 1e6 } })
}

/** @param dense how many of the first layers have no experts where a configuration does not say */
function read(
  fields: Fields,
  how: { dense: number; normed: boolean; rotation: Partial<RotationOptions> },
): ModelConfig {
  const { dense, normed, rotation } = how
  const bias = { qkv: fields.flag("attention_bias", false), o: false }
  const config = withBlocks(readDecoder(fields, { rotation }), (block) =>
    withAttention(block, {
      bias,
      norms: normed ? { ...block.norm, over: "every head", place: "before" } : undefined,
    }),
  )
  return withExperts(fields, config, { dense, routing: sigmoidRouting })
}

export function readDots1(fields: Fields): ModelConfig {
  const config = withNorms(fields, readDecoder(fields))
  checkLayerTypes(fields, config)
  const own = fields.with({ norm_topk_prob: false })
  return withExperts(own, config, { dense: 0, routing: sigmoidRouting })
}

/** dots.llm1's and Solar Open's, too. */
export const glm4MoeNaming: Naming = withParts(llamaNaming, sharedExpertNames)

/** Queries, keys and values in one. */
export function sarvamMoeNaming({ shapes: { heads, kvHeads, headDim } }: ModelConfig): Naming {
  const rows = joinedRows({ q: heads * headDim, k: kvHeads * headDim, v: kvHeads * headDim })
  const projection = (name: keyof typeof rows) => ({
    name: "attention.query_key_value",
    rows: rows[name],
  })
  return withParts(glm4MoeNaming, {
    embed_tokens: "word_embeddings",
    "self_attn.q_proj": projection("q"),
    "self_attn.k_proj": projection("k"),
    "self_attn.v_proj": projection("v"),
    "self_attn.o_proj": "attention.dense",
    "self_attn.q_norm": "attention.query_layernorm",
    "self_attn.k_norm": "attention.key_layernorm",
    "mlp.gate.e_score_correction_bias": "mlp.gate.expert_bias",
  })
}
