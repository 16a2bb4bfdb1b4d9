// Hunyuan: llama with a norm on each query and key head after it is turned. Its mixtures have experts in every layer, beside one that
// all tokens go to. Sources: modeling_hunyuan_v1_dense.py and modeling_hunyuan_v1_moe.py of transformers.

import { withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { commonCount, readRouting } from "./experts.ts"

export function readHunyuan(fields: Fields): ModelConfig {
  const bias = fields.flag("attention_bias", false)
  return withBlocks(readDecoder(fields, { absent: { epsilon: 1e-5 } }), (block) =>
    withAttention(block, {
      bias: { qkv: bias, o: bias },
      norms: { ...block.norm, over: "every head", place: "after" },
    }),
  )
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

export const hunyuanMoeNaming: Naming = withParts(hunyuanNaming, {
  "mlp.gate": "mlp.gate.wg",
  "mlp.shared_expert.gate_proj": "mlp.shared_mlp.gate_proj",
  "mlp.shared_expert.up_proj": "mlp.shared_mlp.up_proj",
  "mlp.shared_expert.down_proj": "mlp.shared_mlp.down_proj",
})
