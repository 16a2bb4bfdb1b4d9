// DeepSeek V2 and V3, GLM-4.7 Flash and Sarvam 105B, which have V3's layers, Mistral Small 4 and MiniCPM 3: latent attention, whose
// heads all read one row for each position. A position's row is `kv_lora_rank` numbers, from which every head makes its keys and values,
// and one key of `qk_rope_head_dim` columns for all of them, which alone is turned, neighbours with each other. Sources:
// modeling_deepseek_v2.py, modeling_deepseek_v3.py, modeling_glm4_moe_lite.py, modeling_mistral4.py and modeling_minicpm3.py of
// transformers; "DeepSeek-V2" (arXiv 2405.04434), 2.1.

import type { Groups, Routing } from "../../compiler/graph/graph.ts"
import { log } from "../../runtime/elementary.ts"
import { type Latent, withAttention, withBlocks, withMlp } from "../block.ts"
import { type Differences, MAX_COLUMNS, type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, stackedExperts, withParts } from "../weights/names.ts"
import { readMlpTypes, readRouting } from "./experts.ts"
import { withGrowth } from "./mistral.ts"

/** How many of the first layers have no experts where a configuration does not say, and how experts are chosen. */
interface Mixture {
  dense: number
  routing: (fields: Fields) => Partial<Routing>
}

interface Family extends Mixture {
  queryRank: number | undefined // where a configuration does not say
  /** A configuration may call the turned columns a part of the head, which they are; or nothing turns them. */
  turns?: "a part" | "nothing"
}

export const readDeepseek2 = (fields: Fields) =>
  readLatent(fields, { queryRank: 1536, dense: 0, routing: softmaxRouting })
export const readDeepseek3 = (fields: Fields) =>
  readLatent(fields, { queryRank: 1536, dense: 3, routing: sigmoidRouting })
export const readGlm4Lite = (fields: Fields) =>
  readLatent(fields, { queryRank: 768, dense: 1, routing: sigmoidRouting })

/** Its own code calls yarn after DeepSeek, and takes the width of what is remembered for that of a head. */
export function readSarvamMla(given: Fields): ModelConfig {
  const { num_experts, num_shared_experts } = given.json
  const fields = given
    .without("head_dim")
    .with({ n_routed_experts: num_experts, n_shared_experts: num_shared_experts })
  return readLatent(fields, { queryRank: undefined, dense: 1, routing: sigmoidRouting })
}

/** Experts of the softmax over all, and queries that grow with their position. */
export function readMistral4(given: Fields): ModelConfig {
  const usual = { kv_lora_rank: 256, qk_nope_head_dim: 64, qk_rope_head_dim: 64, v_head_dim: 128 }
  const fields = given.with({ ...usual, n_routed_experts: 128, n_shared_experts: 1 })
  const routing = (own: Fields) => ({
    normalized: own.flag("norm_topk_prob", true),
    factor: own.positive("routed_scaling_factor", 1),
    groups: groupsOf(own, "two largest"),
  })
  const config = readLatent(fields, { queryRank: 1024, dense: 0, routing, turns: "a part" })
  const { latent, rotation } = config.blocks[0]!.attention
  const turned = 2 * rotation!.query.frequencies.length
  if (turned !== latent!.turned)
    throw fields.wrong(
      "qk_rope_head_dim",
      `is ${latent!.turned}, and partial_rotary_factor has ${turned} columns turned`,
    )
  return withGrowth(fields, config)
}

/** MiniCPM 3: Granite's multipliers under other names; halves of a head turn with each other. */
export function readMiniCpm3(given: Fields): ModelConfig {
  const fields = given.without("head_dim").with({
    ...{ kv_lora_rank: 256, qk_nope_head_dim: 64, qk_rope_head_dim: 32 },
    v_head_dim: given.count("hidden_size") / given.count("num_attention_heads"),
    ...{ rms_norm_eps: 1e-5, tie_word_embeddings: true },
  })
  const config = readLatent(fields, { queryRank: 768, dense: 0, routing: softmaxRouting })
  const { layers, hidden } = config.shapes
  const orNone = (name: string, otherwise: number, none: number) =>
    fields.json[name] === null ? none : fields.positive(name, otherwise)
  const residual = orNone("scale_depth", 1.4, Math.sqrt(layers)) / Math.sqrt(layers)
  return {
    ...withBlocks(config, (block) => ({ ...block, residual })),
    embedding: { ...config.embedding, factor: fields.positive("scale_emb", 12) },
    head: { ...config.head, factor: orNone("dim_model_base", 256, hidden) / hidden },
  }
}

const EPSILON = 1e-6 // of the small norms, whatever the configuration says of the others

export function readLatent(fields: Fields, family: Family): ModelConfig {
  for (const [name, known] of [
    ["attention_bias", false],
    ["mlp_bias", false],
    ["rope_interleave", true],
  ] as const)
    if (fields.flag(name, known) !== known)
      throw fields.wrong(name, `is ${!known}; only ${known} is known of this architecture`)
  const latent: Latent = {
    rank: fields.count("kv_lora_rank"),
    queryRank: queryRankOf(fields, family.queryRank),
    straight: fields.count("qk_nope_head_dim"),
    turned: fields.count("qk_rope_head_dim"),
    value: fields.count("v_head_dim"),
    epsilon: EPSILON,
  }
  const { straight, turned } = latent
  const config = readDecoder(fields, {
    absent: { headDim: straight + turned },
    rotation: turnOf(family, latent),
  })
  const { rotation } = config.blocks[0]!.attention
  const pairs = rotation?.query.frequencies.length
  if (pairs !== undefined && 2 * pairs !== turned)
    throw fields.wrong(
      "qk_rope_head_dim",
      `is ${turned}, but partial_rotary_factor turns ${2 * pairs} of ${straight + turned} columns`,
    )
  const scale = (straight + turned) ** -0.5 * stretchedBy(fields) ** 2
  return withExperts(
    fields,
    withBlocks(config, (block) => withAttention(block, { scale, latent })),
    family,
  )
}

function turnOf(
  { turns }: Family,
  { straight, turned }: Latent,
): NonNullable<Differences["rotation"]> {
  if (turns === "nothing") return "none"
  const headDim = straight + turned
  return turns === "a part" ? { headDim, part: turned / headDim } : { headDim: turned }
}

/** null says that there is none. */
function queryRankOf(fields: Fields, usual: number | undefined): number | undefined {
  if (fields.has("q_lora_rank")) return fields.count("q_lora_rank", undefined, 1, MAX_COLUMNS)
  return fields.json.q_lora_rank === null ? undefined : usual
}

/** Queries and keys grow by as much where yarn stretches their turns, which those that are not turned do as well. */
function stretchedBy(fields: Fields): number {
  const scaling = fields.object("rope_parameters") ?? fields.object("rope_scaling")
  if (!scaling?.has("mscale_all_dim")) return 1
  const factor = scaling.positive("factor", 1)
  return factor > 1 ? 0.1 * scaling.number("mscale_all_dim") * log(factor) + 1 : 1
}

/** Experts in all layers but the first ones, and beside them one MLP as wide as so many of them. */
export function withExperts(fields: Fields, config: ModelConfig, family: Mixture): ModelConfig {
  if (!fields.has("n_routed_experts")) return config
  const { layers } = config.shapes
  const types = readMlpTypes(fields, layers)
  if (fields.count("moe_layer_freq", 1) !== 1)
    throw fields.wrong("moe_layer_freq", `is ${fields.count("moe_layer_freq")}; only 1 is known`)
  const dense = fields.count("first_k_dense_replace", family.dense, 0)
  const isDense = (layer: number) => (types ? types[layer] === "dense" : layer < dense)
  const intermediate = fields.count("moe_intermediate_size")
  const beside = intermediate * fields.count("n_shared_experts")
  const experts = {
    ...readMixture(fields, family.routing),
    shared: { intermediate: beside, gated: false },
  }
  return withBlocks(config, (block, layer) =>
    isDense(layer) ? block : { ...withMlp(block, { intermediate }), experts },
  )
}

/** How many experts there are, and which of them a token goes to. */
export function readMixture(fields: Fields, routing: Mixture["routing"] = sigmoidRouting) {
  const names = { count: "n_routed_experts", active: "num_experts_per_tok" }
  const routed = readRouting(fields, names, routing(fields))
  checkGroups(fields, routed.count, routed.routing)
  return { ...routed, chosenByBias: routed.routing.score === "sigmoid" }
}

/** Groups count by their best expert, and weights are not normalized, whatever `norm_topk_prob` says. */
function softmaxRouting(fields: Fields): Partial<Routing> {
  const method = known(fields, "topk_method", ["greedy", "group_limited_greedy"])
  known(fields, "scoring_func", ["softmax"])
  return {
    normalized: false,
    factor: fields.positive("routed_scaling_factor", 1),
    groups: method === "greedy" ? undefined : groupsOf(fields, "largest"),
  }
}

export function sigmoidRouting(fields: Fields): Partial<Routing> {
  known(fields, "topk_method", ["noaux_tc"])
  known(fields, "scoring_func", ["sigmoid"])
  return {
    score: "sigmoid",
    normalized: fields.flag("norm_topk_prob", true),
    factor: fields.positive("routed_scaling_factor", 1),
    groups: groupsOf(fields, "two largest"),
  }
}

/** The first of what is known where the field is absent. */
function known(fields: Fields, name: string, values: readonly string[]): string {
  const value = fields.text(name, values[0])
  if (values.includes(value)) return value
  throw fields.wrong(name, `is "${value}"; known: ${values.join(", ")}`)
}

function groupsOf(fields: Fields, rank: Groups["rank"]): Groups | undefined {
  const count = fields.count("n_group", 1)
  return count === 1 ? undefined : { count, open: fields.count("topk_group", 1), rank }
}

/** Groups are equal, and those that are open hold as many experts as a token goes to. */
function checkGroups(fields: Fields, experts: number, { active, groups }: Routing): void {
  if (!groups) return
  const { count, open } = groups
  if (experts % count !== 0)
    throw fields.wrong("n_group", `is ${count}, which does not divide ${experts} experts`)
  if (open > count) throw fields.wrong("topk_group", `is ${open}, but there are ${count} groups`)
  const inOpen = (experts / count) * open
  if (active > inOpen)
    throw fields.wrong("topk_group", `opens ${inOpen} experts, and each token goes to ${active}`)
}

export const sharedExpertNames = {
  "mlp.shared_expert.gate_proj": "mlp.shared_experts.gate_proj",
  "mlp.shared_expert.up_proj": "mlp.shared_experts.up_proj",
  "mlp.shared_expert.down_proj": "mlp.shared_experts.down_proj",
} as const

export const deepseekNaming = (config: ModelConfig) => latentNaming(config, {})

export const miniCpm3Naming = (config: ModelConfig) => latentNaming(config, { halves: true })

/** @param order how the turned columns of a head lie: neighbours turn with each other, or halves */
export function latentNaming(
  { shapes: { heads }, blocks }: ModelConfig,
  order: { halves?: true },
): Naming {
  const { rank, queryRank, straight, turned, value } = blocks[0]!.attention.latent!
  const remembered = rank + turned
  const each = straight + value
  const ups = { of: heads * each, every: each }
  return withParts(llamaNaming, {
    "self_attn.q_b_proj": {
      name: queryRank === undefined ? "self_attn.q_proj" : "self_attn.q_b_proj",
      neighbours: { headDim: straight + turned, turned, last: true, ...order },
    },
    "self_attn.kv_a_proj": {
      name: "self_attn.kv_a_proj_with_mqa",
      rows: { of: remembered, from: 0, run: rank, every: remembered },
    },
    "self_attn.k_turned_proj": {
      name: "self_attn.kv_a_proj_with_mqa",
      rows: { of: remembered, from: rank, run: turned, every: remembered },
      neighbours: { headDim: turned, turned, ...order },
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
    ...sharedExpertNames,
  })
}

/** Experts are stacked. */
export function mistral4Naming(config: ModelConfig): Naming {
  const naming = deepseekNaming(config)
  const block = config.blocks.find(({ experts }) => experts)
  if (!block) return naming
  const sizes = { ...block.mlp, count: block.experts!.count, hidden: config.shapes.hidden }
  const names = { gateUp: "mlp.experts.gate_up_proj", down: "mlp.experts.down_proj" }
  return withParts(naming, stackedExperts(sizes, names, { bare: true }))
}
