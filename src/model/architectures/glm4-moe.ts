// GLM-4.5, 4.6 and 4.7: DeepSeek V3's experts behind attention of the usual kind, half of whose heads is turned, by halves, and
// whose queries and keys have norms in some; dots.llm1 and Sarvam 30B, where these always have norms and are turned whole; Solar
// Open, where they never have; and Ling and Ring, whose first generation has no norms either and chooses experts by a softmax.
// Sources: modeling_glm4_moe.py, modeling_dots1.py, modeling_solar_open.py and the configuration of sarvam_moe in transformers;
// modeling_bailing_moe.py and modeling_bailing_moe_v2.py, which lie beside Ling's weights.

import { withAttention, withBlocks } from "../block.ts"
import { checkLayerTypes, type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { RotationOptions } from "../rotation.ts"
import { joinedRows, llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { sharedExpertNames, sigmoidRouting, withExperts } from "./deepseek.ts"
import { withNorms } from "./qwen.ts"

export const readGlm4Moe = (fields: Fields) =>
  read(fields, { dense: 1, normed: fields.flag("use_qk_norm", false), rotation: { part: 0.5 } })

export function readSarvamMoe(given: Fields): ModelConfig {
  const fields = withOtherNames(given).with({ routed_scaling_factor: 2.5 })
  const normed = fields.flag("use_qk_norm", true)
  return read(fields, { dense: 1, normed, rotation: { part: 1, theta: 8e6 } })
}

/** Ling's and Sarvam's fields, under DeepSeek's names. */
function withOtherNames(given: Fields): Fields {
  const { num_experts, num_shared_experts, use_qkv_bias } = given.json
  return given.with({
    n_routed_experts: num_experts,
    n_shared_experts: num_shared_experts,
    attention_bias: use_qkv_bias,
  })
}

/** Ling and Ring, of both generations. */
export function readBailingMoe(given: Fields): ModelConfig {
  const fields = withOtherNames(given)
  for (const name of ["use_bias", "norm_head"])
    if (fields.flag(name, false))
      throw fields.wrong(name, "is true, which is not known of this architecture")
  const chosen = fields.flag("moe_router_enable_expert_bias", false) ? "sigmoid" : "softmax"
  const score = fields.text("score_function", chosen)
  if (score !== chosen) {
    const beside = `moe_router_enable_expert_bias being ${chosen === "sigmoid"}`
    throw fields.wrong("score_function", `is "${score}"; known beside ${beside}: "${chosen}"`)
  }
  const each = fields.count("moe_intermediate_size")
  if (fields.count("moe_shared_expert_intermediate_size", each) !== each)
    throw fields.wrong("moe_shared_expert_intermediate_size", `differs from ${each}, an expert's`)
  const normed = fields.flag("use_qk_norm", false)
  const routing = score === "sigmoid" ? sigmoidRouting : normalizedRouting
  return read(fields, { dense: 0, normed, rotation: { part: 1 }, routing })
}

/** A softmax over all experts, of which those chosen count in proportion. */
const normalizedRouting = (fields: Fields) => ({
  normalized: fields.flag("norm_topk_prob", true),
})

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
  how: {
    dense: number
    normed: boolean
    rotation: Partial<RotationOptions>
    routing?: typeof sigmoidRouting
  },
): ModelConfig {
  const { dense, normed, rotation, routing = sigmoidRouting } = how
  const bias = { qkv: fields.flag("attention_bias", false), o: false }
  const config = withBlocks(readDecoder(fields, { rotation }), (block) =>
    withAttention(block, {
      bias,
      norms: normed ? { ...block.norm, over: "every head", place: "before" } : undefined,
    }),
  )
  return withExperts(fields, config, { dense, routing })
}

export function readDots1(fields: Fields): ModelConfig {
  const config = withNorms(fields, readDecoder(fields))
  checkLayerTypes(fields, config)
  const own = fields.with({ norm_topk_prob: false })
  return withExperts(own, config, { dense: 0, routing: sigmoidRouting })
}

/** dots.llm1's and Solar Open's, too. */
export const glm4MoeNaming: Naming = withParts(llamaNaming, sharedExpertNames)

/** Ling's and Sarvam's: queries, keys and values in one. */
export function bailingNaming({ shapes: { heads, kvHeads, headDim } }: ModelConfig): Naming {
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
