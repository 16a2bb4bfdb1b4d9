// Hunyuan: llama with a norm on each query and key head after it is turned. Its mixtures have experts in every layer, beside one that
// all tokens go to. Of version 3 heads have their norms before they are turned, and experts are DeepSeek V3's. Sources:
// modeling_hunyuan_v1_dense.py, modeling_hunyuan_v1_moe.py, modeling_hunyuan_vl.py and modeling_hy_v3.py of transformers.

import { withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { sigmoidRouting, withExperts } from "./deepseek.ts"
import { commonCount, readRouting } from "./experts.ts"
import { withNorms } from "./qwen.ts"

export function readHunyuan(fields: Fields): ModelConfig {
  const bias = fields.flag("attention_bias", false)
  return withBlocks(readDecoder(fields, { absent: { epsilon: 1e-5 } }), (block) =>
    withAttention(block, {
      bias: { qkv: bias, o: bias },
      norms: { ...block.norm, over: "every head", place: "after" },
    }),
  )
}

/** What reads in HunyuanOCR, whose fields have other names besides. */
export function readHunyuanVl(given: Fields): ModelConfig {
  const fields = given.has("head_dim")
    ? given
    : given.over({ head_dim: given.json.attention_head_dim })
  if (!fields.flag("use_qk_norm", true))
    throw fields.wrong("use_qk_norm", "is false; only true is known of this architecture")
  const experts = fields.count("num_experts", 1)
  if (experts !== 1) throw fields.wrong("num_experts", `is ${experts}; known: 1`)
  return readHunyuan(fields)
}

export const hunyuanNaming: Naming = withParts(llamaNaming, {
  "self_attn.q_norm": "self_attn.query_layernorm",
  "self_attn.k_norm": "self_attn.key_layernorm",
})

export function readHunyuanMoe(fields: Fields): ModelConfig {
  for (const [name, known] of [
    ["use_qk_norm", true],
    ["use_cla", false],
  ] as const)
    if (fields.flag(name, known) !== known)
      throw fields.wrong(name, `is ${!known}; only ${known} is known of this architecture`)
  const config = readHunyuan(fields)
  const { intermediate } = config.shapes
  const width = commonCount(fields, "moe_intermediate_size", intermediate)
  const beside = commonCount(fields, "num_shared_expert", 1)
  const experts = {
    ...readRouting(fields, { count: "num_experts", active: "moe_topk" }),
    chosenByBias: false,
    shared: { intermediate: beside * intermediate, gated: false },
  }
  return withBlocks(config, (block) => ({ ...withMlp(block, { intermediate: width }), experts }))
}

const sharedMlpNames = {
  "mlp.shared_expert.gate_proj": "mlp.shared_mlp.gate_proj",
  "mlp.shared_expert.up_proj": "mlp.shared_mlp.up_proj",
  "mlp.shared_expert.down_proj": "mlp.shared_mlp.down_proj",
}

export const hunyuanMoeNaming: Naming = withParts(hunyuanNaming, {
  ...sharedMlpNames,
  "mlp.gate": "mlp.gate.wg",
})

/** Hy 3. */
export function readHunyuan3(given: Fields): ModelConfig {
  const { num_experts, num_shared_experts, router_scaling_factor } = given.json
  const fields = given.with({
    n_routed_experts: num_experts ?? 192,
    n_shared_experts: num_shared_experts ?? 1,
    routed_scaling_factor: router_scaling_factor ?? 2.826,
  })
  if (fields.flag("mlp_bias", false))
    throw fields.wrong("mlp_bias", "is true; only false is known of this architecture")
  const config = readDecoder(fields, {
    absent: { headDim: 128, epsilon: 1e-5 },
    rotation: { theta: 11158840 },
  })
  return withExperts(fields, withNorms(fields, config), { dense: 1, routing: sigmoidRouting })
}

export const hunyuan3Naming: Naming = withParts(llamaNaming, {
  ...sharedMlpNames,
  "mlp.gate": "mlp.router.gate",
  "mlp.gate.e_score_correction_bias": "mlp.expert_bias",
})
