// DeBERTa 2 and 3, encoders whose scores have two parts more (disentangled attention): what a query has for how far its key stands from
// it, and what the key has for that. Near a token each distance counts by itself, further off they share buckets; a row is learned for
// each, which goes through the layer's matrices of queries and of keys, or through matrices of its own. Otherwise layers are BERT's.
// The convolution of v2's XLarge is not known, nor is v1 (`deberta`), which is made otherwise. Source: modeling_deberta_v2.py of
// transformers.

import { type Relative, withAttention, withBlocks } from "../block.ts"
import type { ModelConfig } from "../config.ts"
import type { Fields } from "../fields.ts"
import { ranks } from "../ranking.ts"
import type { NamedPart, Naming } from "../weights/names.ts"
import { plainNaming, readEncoder, withPairs } from "./bert.ts"

export function readDeberta(fields: Fields): ModelConfig {
  refuseOthers(fields)
  const { embedding, ...config } = readEncoder(fields, 0, {
    absent: { epsilon: EPSILON },
    epsilon: "layer_norm_eps",
    activation: { otherwise: "gelu" },
  })
  const relative = readRelative(fields, config.shapes.context)
  const scale = (PARTS * config.shapes.headDim) ** -0.5
  const encoder = withBlocks(config, (block) => withAttention(block, { relative, scale }))
  const types = fields.count("type_vocab_size", 0, 0)
  const positions = fields.flag("position_biased_input", true) ? embedding.positions : undefined
  const words = { ...embedding, positions, ...(types === 0 && { untyped: true as const }) }
  const own = { ...encoder, embedding: words }
  return ranks(fields) && types > 1 ? withPairs(own) : own
}

const EPSILON = 1e-7
/** Of a score: of both tokens, and of either token and the distance. */
const PARTS = 3

function refuseOthers(fields: Fields): void {
  if (!fields.flag("relative_attention", false))
    throw fields.wrong(
      "relative_attention",
      "is false; only models whose scores hang on distances are known",
    )
  const { pos_att_type: kinds } = fields.json
  const listed =
    typeof kinds === "string" ? kinds.toLowerCase().split("|") : fields.texts("pos_att_type")
  const both = new Set(listed.map((kind) => kind.trim()))
  if (both.size !== 2 || !both.has("c2p") || !both.has("p2c"))
    throw fields.wrong("pos_att_type", `is ${JSON.stringify(kinds)}; known: c2p and p2c, both`)
  if (fields.count("conv_kernel_size", 0, 0) > 0)
    throw fields.wrong("conv_kernel_size", "is not 0; known: layers without a convolution")
  const hidden = fields.count("hidden_size")
  const headDim = hidden / fields.count("num_attention_heads")
  const own = { embedding_size: hidden, attention_head_size: headDim, pooler_hidden_size: hidden }
  for (const [name, known] of Object.entries(own))
    if (fields.has(name) && fields.json[name] !== known)
      throw fields.wrong(name, `is ${JSON.stringify(fields.json[name])}; known: ${known}`)
}

/** A table has two numbers for each. */
const MAX_POSITIONS = 2 ** 20

function readRelative(fields: Fields, positions: number): Relative {
  if (positions > MAX_POSITIONS)
    throw fields.wrong("max_position_embeddings", `is ${positions}; ${MAX_POSITIONS} are the most`)
  const most = unlessNegative(fields, "max_relative_positions") ?? positions
  const span = unlessNegative(fields, "position_buckets")
  if (span === 1) throw fields.wrong("position_buckets", "is 1, too few for a half that is shared")
  if (span !== undefined && most - 1 <= Math.floor(span / 2))
    throw fields.wrong("position_buckets", `is ${span}, too many for ${most} distances`)
  const norms = fields.text("norm_rel_ebd", "none").toLowerCase().split("|")
  const norm = norms.map((name) => name.trim()).includes("layer_norm")
  return {
    ...{ positions, span: span ?? most, most },
    ...(span !== undefined && { shared: true }),
    ...(!fields.flag("share_att_key", false) && { apart: true }),
    ...(norm && { epsilon: fields.positive("layer_norm_eps", EPSILON) }),
  }
}

/** -1 stands for nothing. */
const unlessNegative = (fields: Fields, name: string) => {
  const count = fields.count(name, -1, -1)
  return count > 0 ? count : undefined
}

export function debertaNaming(config: ModelConfig): Naming {
  const { heads } = config.shapes
  const { positions, span, most, shared, apart, epsilon } = config.blocks[0]!.attention.relative!
  const { parts, ...naming } = plainNaming(config)
  const self = "attention.self."
  const norm = epsilon === undefined ? undefined : { name: "encoder.LayerNorm", epsilon }
  const through = (matrix: string): NamedPart => ({
    name: `${self}${apart ? "pos_" : ""}${matrix}_proj`,
    through: { table: "encoder.rel_embeddings", rows: 2 * span, heads, norm },
  })
  return {
    ...naming,
    roots: ["", "deberta."].map((root) => ({ root, head: "" })),
    parts: {
      ...parts,
      attention_buckets: {
        name: "attention_buckets",
        biases: { positions, heads: 1, numbers: { span, most, shared: shared ?? false } },
      },
      "self_attn.q_proj": `${self}query_proj`,
      "self_attn.k_proj": `${self}key_proj`,
      "self_attn.v_proj": `${self}value_proj`,
      "self_attn.position_keys": through("key"),
      "self_attn.position_queries": through("query"),
    },
  }
}
