// Kimi Linear: Kimi Delta Attention, which is the gated delta rule with a decay for each column of a key, in three layers of four, and
// latent attention without any turn in the fourth; experts as DeepSeek V3's behind the first layer. Both kinds of layers call what they
// have `self_attn`, so one name means another tensor in each. A configuration is written in the publisher's words or in transformers'.
// Sources: modeling_kimi_linear.py and configuration_kimi_linear.py of transformers, and what conversion_mapping.py there renames;
// "Kimi Linear" (arXiv 2510.26692).

import { type Delta, withBlocks } from "../block.ts"
import type { ModelConfig } from "../config.ts"
import type { Fields } from "../fields.ts"
import { expertNames, type Naming, withParts } from "../weights/names.ts"
import { latentNaming, readLatent, sigmoidRouting } from "./deepseek.ts"
import { readTypes } from "./qwen3-5.ts"

export function readKimiLinear(given: Fields): ModelConfig {
  const { json } = given
  if (!given.flag("mla_use_nope", true))
    throw given.wrong("mla_use_nope", "is false; known: latent attention that nothing turns")
  const fields = given.without("head_dim").with({
    rms_norm_eps: 1e-5,
    max_position_embeddings: json.model_max_length,
    n_routed_experts: json.num_experts ?? json.num_local_experts,
    num_experts_per_tok: json.num_experts_per_token,
    n_shared_experts: json.num_shared_experts,
    scoring_func: json.moe_router_activation_func,
    norm_topk_prob: json.moe_renormalize,
    n_group: json.num_expert_group,
    topk_group: 1,
  })
  const config = readLatent(fields, {
    queryRank: undefined,
    dense: 1,
    routing: sigmoidRouting,
    turns: "nothing",
  })
  const delta = readColumnDelta(fields)
  const { layers } = config.shapes
  const types = readTypes(fields.with({ layer_types: listedTypes(fields, layers) }), layers)
  return withBlocks(config, (block, i) =>
    types[i] === "linear_attention" ? { ...block, delta } : block,
  )
}

const OWN = "linear_attn_config"

function readColumnDelta(given: Fields): Delta {
  const own = given.object(OWN)?.json ?? {}
  const fields = given.with({
    linear_num_heads: own.num_heads,
    linear_head_dim: own.head_dim,
    linear_conv_kernel_dim: own.short_conv_kernel_size,
  })
  const heads = fields.count("linear_num_heads", 32)
  const headDim = fields.count("linear_head_dim", 128)
  return {
    keyHeads: heads,
    valueHeads: heads,
    keyDim: headDim,
    valueDim: headDim,
    taps: fields.count("linear_conv_kernel_dim", 4),
    tapsApart: true,
    byColumn: { rank: headDim },
  }
}

/** The publisher lists the layers of either kind, counted from 1. Undefined: `layer_types` says it. */
function listedTypes(fields: Fields, layers: number): string[] | undefined {
  if (fields.has("layer_types")) return undefined
  const own = fields.object(OWN)
  if (!own) throw fields.wrong(OWN, "is not there, and layer_types is not either")
  const [full, linear] = ["full_attn_layers", "kda_layers"].map((name) => own.counts(name, layers))
  const all = Array.from({ length: layers }, (_, layer) => layer + 1)
  const isOne = (layer: number) => full!.includes(layer) !== linear!.includes(layer)
  if (full!.length + linear!.length !== layers || !all.every(isOne))
    throw own.wrong("kda_layers", `and full_attn_layers do not name each of ${layers} layers once`)
  return all.map((layer) => (full!.includes(layer) ? "full_attention" : "linear_attention"))
}

export function kimiLinearNaming(config: ModelConfig): Naming {
  const delta = config.blocks.find((block) => block.delta)?.delta
  const mlps = ["gate", "up", "down"].map((name) => [
    `mlp.shared_expert.${name}_proj`,
    `block_sparse_moe.shared_experts.${name}_proj`,
  ])
  return withParts(latentNaming(config, { halves: true }), {
    ...(delta && columnParts(delta)),
    "mlp.gate": "block_sparse_moe.gate",
    ...Object.fromEntries(mlps),
    ...expertNames({
      gate: "block_sparse_moe.experts.*.w1",
      up: "block_sparse_moe.experts.*.w3",
      down: "block_sparse_moe.experts.*.w2",
    }),
  })
}

function columnParts({ taps, keyDim, valueHeads }: Delta): Naming["parts"] {
  const ofQkv = ["q", "k", "v"].flatMap((part) => [
    [`linear_attn.${part}_proj`, `self_attn.${part}_proj`],
    [`linear_attn.${part}_conv`, { name: `self_attn.${part}_conv1d`, taps }],
  ])
  return {
    ...Object.fromEntries(ofQkv),
    "linear_attn.b_proj": "self_attn.b_proj",
    "linear_attn.f_a_proj": "self_attn.f_a_proj",
    "linear_attn.f_b_proj": "self_attn.f_b_proj",
    "linear_attn.z_a_proj": "self_attn.g_a_proj",
    "linear_attn.z_b_proj": "self_attn.g_b_proj",
    "linear_attn.decay_bias": { name: "self_attn.dt_bias", bare: true },
    "linear_attn.rates": {
      name: "self_attn.A_log",
      bare: true,
      shape: [1, 1, valueHeads, 1],
      repeated: keyDim,
      raised: true,
    },
    "linear_attn.norm": "self_attn.o_norm",
    "linear_attn.out_proj": "self_attn.o_proj",
  }
}
