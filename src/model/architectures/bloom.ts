// BLOOM and MPT: nothing is turned and no positions are learned, but scores lose for each position between, the more the earlier a head
// (ALiBi); LayerNorms, an ungated MLP. BLOOM has biases everywhere, queries, keys and values joined head by head, and a norm of the
// embedding; MPT has no biases at all. Sources: modeling_bloom.py and modeling_mpt.py of transformers.

import { type Block, withAttention, withBlocks, withMlp } from "../block.ts"
import { type Differences, type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { slopesOf } from "../weights/biases.ts"
import { joinedRows, type Naming, type RowRuns } from "../weights/names.ts"

export function readBloom(fields: Fields): ModelConfig {
  if (fields.flag("apply_residual_connection_post_layernorm", false))
    throw fields.wrong(
      "apply_residual_connection_post_layernorm",
      "is true, which is not known of this architecture",
    )
  const hidden = fields.has("n_embed") ? "n_embed" : "hidden_size" // older files
  const config = readBiased(fields, {
    names: { hidden, layers: "n_layer", heads: "n_head", context: "seq_length" },
    absent: { intermediate: 4 * fields.count(hidden), context: 2048 },
    norm: { kind: "layer", bias: true },
    activation: { otherwise: "gelu_new" },
  })
  const changed = withBlocks(config, (block) => ({
    ...withMlp(withAttention(block, { bias: { qkv: true, o: true } }), { bias: true }),
  }))
  return { ...changed, embedding: { ...config.embedding, norm: config.norm! } }
}

export function readMpt(fields: Fields): ModelConfig {
  const attention = fields.object("attn_config")
  for (const [name, known] of Object.entries(knownOfMpt))
    if (attention?.has(name) && attention.json[name] !== known)
      throw attention.wrong(
        name,
        `is ${JSON.stringify(attention.json[name])}; only ${known} is known`,
      )
  if (!fields.flag("no_bias", true)) throw fields.wrong("no_bias", "is false; only true is known")
  const norm = fields.text("norm_type", LAYER_NORMS[0])
  if (!LAYER_NORMS.includes(norm))
    throw fields.wrong("norm_type", `is "${norm}"; known: ${LAYER_NORMS.join(", ")}`)
  if (fields.has("logit_scale")) throw fields.wrong("logit_scale", "is given; only null is known")
  const width = fields.count("d_model")
  const config = readBiased(fields, {
    names: { hidden: "d_model", layers: "n_layers", heads: "n_heads", context: "max_seq_len" },
    absent: { intermediate: fields.count("expansion_ratio", 4) * width },
    norm: { kind: "layer", bias: false },
    activation: { otherwise: "gelu" },
  })
  const slopes = slopesOf(config.shapes.heads, attention?.count("alibi_bias_max", MOST) ?? MOST)
  const clip = attention?.has("clip_qkv") ? attention.positive("clip_qkv") : undefined
  const scale = attention?.has("softmax_scale") ? attention.positive("softmax_scale") : undefined
  return withBlocks(config, (block) =>
    withAttention(block, {
      biases: { ...block.attention.biases!, slopes },
      ...(clip !== undefined && { clip }),
      ...(scale !== undefined && { scale }),
    }),
  )
}

/** What its makers' program calls the norm that is computed; the first is the same in fewer bits there. */
const LAYER_NORMS: readonly [string, ...string[]] = ["low_precision_layernorm", "layernorm"]

/** What would change the mathematics, and the one value that is known. */
const knownOfMpt = {
  alibi: true,
  attn_type: "multihead_attention",
  prefix_lm: false,
  qk_ln: false,
  rope: false,
} as const

function readBiased(fields: Fields, { absent, ...differences }: Differences): ModelConfig {
  const config = readDecoder(fields, {
    ...differences,
    absent: { tied: true, epsilon: 1e-5, ...absent },
    epsilon: "layer_norm_epsilon",
    rotation: "none",
  })
  const { context: positions, heads } = config.shapes
  const biases = { positions, slopes: slopesOf(heads, MOST) }
  const biased = (block: Block) => withAttention(block, { biases })
  return withBlocks(config, (block) => withMlp(biased(block), { gated: false }))
}

/** The last head's slope is 2 to minus its power, where nothing else is said. */
export const MOST = 8

export function bloomNaming(config: ModelConfig): Naming {
  const { heads, headDim } = config.shapes
  const part = (place: number) =>
    ofHeads({ from: place * headDim, run: headDim, every: 3 * headDim }, 3 * heads * headDim)
  return {
    roots: ["transformer.", ""].map((root) => ({ root, head: "" })),
    layers: "h.",
    parts: {
      embed_tokens: "word_embeddings",
      embed_norm: "word_embeddings_layernorm",
      norm: "ln_f",
      ...slopedBiases(config),
      "self_attn.q_proj": part(0),
      "self_attn.k_proj": part(1),
      "self_attn.v_proj": part(2),
      "self_attn.o_proj": "self_attention.dense",
      "mlp.up_proj": "mlp.dense_h_to_4h",
      "mlp.down_proj": "mlp.dense_4h_to_h",
    },
  }
}

const ofHeads = (rows: Omit<RowRuns, "of">, of: number) => ({
  name: "self_attention.query_key_value",
  rows: { ...rows, of },
})

export function mptNaming(config: ModelConfig): Naming {
  const { hidden } = config.shapes
  const { q, k, v } = joinedRows({ q: hidden, k: hidden, v: hidden })
  return {
    roots: [{ root: "transformer.", head: "" }],
    layers: "blocks.",
    parts: {
      embed_tokens: "wte",
      norm: "norm_f",
      input_layernorm: "norm_1",
      post_attention_layernorm: "norm_2",
      ...slopedBiases(config),
      "self_attn.q_proj": { name: "attn.Wqkv", rows: q },
      "self_attn.k_proj": { name: "attn.Wqkv", rows: k },
      "self_attn.v_proj": { name: "attn.Wqkv", rows: v },
      "self_attn.o_proj": "attn.out_proj",
      "mlp.up_proj": "ffn.up_proj",
      "mlp.down_proj": "ffn.down_proj",
    },
  }
}

/** Which nobody stores. */
export function slopedBiases({ shapes: { heads }, blocks }: ModelConfig): Naming["parts"] {
  const { positions, slopes } = blocks[0]!.attention.biases!
  return {
    attention_biases: { name: "attention_biases", biases: { positions, heads, slopes: slopes! } },
  }
}
