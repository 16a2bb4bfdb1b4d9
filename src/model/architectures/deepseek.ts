// DeepSeek V2 and V3, and GLM-4.7 Flash, which has V3's layers: latent attention, whose heads all read one row for each
// position. A position's row is `kv_lora_rank` numbers, from which every head makes its keys and values, and one key of
// `qk_rope_head_dim` columns for all of them, which alone is turned, neighbours with each other. Sources: modeling_deepseek_v2.py,
// modeling_deepseek_v3.py and modeling_glm4_moe_lite.py of transformers; "DeepSeek-V2" (arXiv 2405.04434), 2.1.

import { log } from "../../runtime/elementary.ts"
import { type Latent, withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"

export const readDeepseek2 = (fields: Fields) => readLatent(fields, 1536)
export const readDeepseek3 = (fields: Fields) => readLatent(fields, 1536)
export const readGlm4Lite = (fields: Fields) => readLatent(fields, 768)

const EPSILON = 1e-6 // of the small norms, whatever the configuration says of the others

function readLatent(fields: Fields, queryRank: number): ModelConfig {
  for (const [name, known] of [
    ["attention_bias", false],
    ["rope_interleave", true],
  ] as const)
    if (fields.flag(name, known) !== known)
      throw fields.wrong(name, `is ${!known}; only ${known} is known of this architecture`)
  const latent: Latent = {
    rank: fields.count("kv_lora_rank"),
    queryRank: queryRankOf(fields, queryRank),
    straight: fields.count("qk_nope_head_dim"),
    turned: fields.count("qk_rope_head_dim"),
    value: fields.count("v_head_dim"),
    epsilon: EPSILON,
  }
  const { straight, turned } = latent
  const config = readDecoder(fields, {
    absent: { headDim: straight + turned },
    rotation: { headDim: turned },
  })
  refuseExperts(fields, config)
  const scale = (straight + turned) ** -0.5 * stretchedBy(fields) ** 2
  return withBlocks(config, (block) => withAttention(block, { scale, latent }))
}

/** null says that there is none. */
function queryRankOf(fields: Fields, usual: number): number | undefined {
  if (fields.json.q_lora_rank === null) return undefined
  return fields.count("q_lora_rank", usual)
}

/** Queries and keys grow by as much where yarn stretches their turns, which those that are not turned do as well. */
function stretchedBy(fields: Fields): number {
  const scaling = fields.object("rope_parameters") ?? fields.object("rope_scaling")
  if (!scaling?.has("mscale_all_dim")) return 1
  const factor = scaling.positive("factor", 1)
  return factor > 1 ? 0.1 * scaling.number("mscale_all_dim") * log(factor) + 1 : 1
}

function refuseExperts(fields: Fields, { shapes: { layers } }: ModelConfig): void {
  if (!fields.has("n_routed_experts") || fields.count("first_k_dense_replace", 0, 0) >= layers)
    return
  throw fields.wrong(
    "n_routed_experts",
    `is ${fields.count("n_routed_experts")}, and experts are not known of this architecture`,
  )
}

export function deepseekNaming({ shapes: { heads }, blocks }: ModelConfig): Naming {
  const { rank, queryRank, straight, turned, value } = blocks[0]!.attention.latent!
  const remembered = rank + turned
  const each = straight + value
  const ups = { of: heads * each, every: each }
  return withParts(llamaNaming, {
    "self_attn.q_b_proj": {
      name: queryRank === undefined ? "self_attn.q_proj" : "self_attn.q_b_proj",
      neighbours: { headDim: straight + turned, turned, last: true },
    },
    "self_attn.kv_a_proj": {
      name: "self_attn.kv_a_proj_with_mqa",
      rows: { of: remembered, from: 0, run: rank, every: remembered },
    },
    "self_attn.k_turned_proj": {
      name: "self_attn.kv_a_proj_with_mqa",
      rows: { of: remembered, from: rank, run: turned, every: remembered },
      neighbours: { headDim: turned, turned },
    },
    "self_attn.k_up_proj": {
      name: "self_attn.kv_b_proj",
      rows: { ...ups, from: 0, run: straight },
      turnedRuns: { width: rank },
    },
    "self_attn.v_up_proj": {
      name: "self_attn.kv_b_proj",
      rows: { ...ups, from: straight, run: value },
    },
  })
}
