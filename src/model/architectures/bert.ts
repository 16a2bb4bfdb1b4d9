// BERT and those made like it, which read a text both ways and write none: learned positions, LayerNorms of the sums, an ungated MLP,
// biases everywhere. A token's type is a row that is added to the table of tokens: that of the first, and in a model that ranks
// pairs the table stands there once more with the second's. Positions of RoBERTa, CamemBERT and XLM-RoBERTa begin behind the number
// of the padding token; ELECTRA's table may be narrower than its layers. DistilBERT and MPNet have no types, and the latter biases of
// scores. Sources: modeling_bert.py, modeling_xlm_roberta.py, modeling_electra.py, modeling_distilbert.py and modeling_mpnet.py of
// transformers.

import { withAttention, withBlocks, withMlp } from "../block.ts"
import { type Differences, type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { ranks } from "../ranking.ts"
import type { NamedPart, Naming } from "../weights/names.ts"
import { asEncoder } from "./encoder.ts"
import { jinaBertNaming, jinaXlmNaming, readJinaBert, readJinaXlm } from "./jina.ts"

/** And Jina's of the second generation, which are called so, too. */
export const readBert = (fields: Fields) =>
  positionsOf(fields) === "alibi" ? readJinaBert(fields) : readTyped(fields, 0)

/** And Jina's of the third, which are XLM-RoBERTas by name. */
export const readRoberta = (fields: Fields) =>
  positionsOf(fields) === "rotary"
    ? readJinaXlm(fields)
    : readTyped(fields, fields.count("pad_token_id", 1, 0) + 1)

const positionsOf = (fields: Fields) => fields.text("position_embedding_type", "absolute")

export function readElectra(fields: Fields): ModelConfig {
  const config = readTyped(fields, 0)
  const { hidden } = config.shapes
  const narrow = fields.count("embedding_size", 128)
  if (narrow === hidden) return config
  if (narrow > hidden)
    throw fields.wrong("embedding_size", `is ${narrow}, and hidden_size only ${hidden}`)
  return { ...config, embedding: { ...config.embedding, narrow } }
}

export function readDistilBert(fields: Fields): ModelConfig {
  return readEncoder(fields, 0, {
    names: { hidden: "dim", layers: "n_layers", heads: "n_heads", intermediate: "hidden_dim" },
    activation: { field: "activation", otherwise: "gelu" },
  })
}

/** MPNet's, without types: positions begin at 2, and scores have biases by distance. */
export function readMpnet(fields: Fields): ModelConfig {
  const buckets = fields.count("relative_attention_num_buckets", BUCKETS)
  if (buckets !== BUCKETS)
    throw fields.wrong("relative_attention_num_buckets", `is ${buckets}; only ${BUCKETS} are known`)
  const config = readEncoder(fields, 2, {
    epsilon: "layer_norm_eps",
    activation: { otherwise: "gelu" },
  })
  const biases = { positions: config.shapes.context }
  return withBlocks(config, (block) => withAttention(block, { biases }))
}

const BUCKETS = 32

/** With rows of types. @param skipped rows of the table of positions before the first */
function readTyped(fields: Fields, skipped: number): ModelConfig {
  if (fields.flag("is_decoder", false))
    throw fields.wrong("is_decoder", "is true; only encoders are known of this architecture")
  const positions = positionsOf(fields)
  if (positions !== "absolute")
    throw fields.wrong("position_embedding_type", `is "${positions}"; known: absolute`)
  const config = readEncoder(fields, skipped, {
    epsilon: "layer_norm_eps",
    activation: { otherwise: "gelu" },
  })
  return ranks(fields) && fields.count("type_vocab_size", 2) > 1 ? withPairs(config) : config
}

/** The table once more, with the second type's row. */
export function withPairs({ shapes, embedding, ...config }: ModelConfig): ModelConfig {
  return {
    ...config,
    shapes: { ...shapes, vocabulary: 2 * shapes.vocabulary },
    embedding: { ...embedding, isPaired: true },
  }
}

/** @param skipped rows of the table of positions before the first */
export function readEncoder(
  fields: Fields,
  skipped: number,
  differences: Differences,
): ModelConfig {
  const config = readDecoder(fields, {
    absent: { epsilon: 1e-12 },
    norm: { kind: "layer", bias: true },
    rotation: "none",
    ...differences,
  })
  const context = config.shapes.context - skipped
  if (context < 1)
    throw fields.wrong("max_position_embeddings", `leaves no position behind the first ${skipped}`)
  const encoder = asEncoder(config, (block) =>
    withMlp(withAttention(block, { bias: { qkv: true, o: true } }), { gated: false, bias: true }),
  )
  return {
    ...encoder,
    shapes: { ...config.shapes, context },
    embedding: { ...encoder.embedding, positions: { skipped } },
  }
}

export function bertNaming(config: ModelConfig): Naming {
  const { biases, rotation } = config.blocks[0]!.attention
  if (biases) return jinaBertNaming(config)
  return rotation ? jinaXlmNaming(config) : plainNaming(config)
}

export function plainNaming(config: ModelConfig): Naming {
  const wordsOfType = (row: number): NamedPart => ({
    name: "embeddings.word_embeddings",
    ...(!config.embedding.untyped && {
      plusRow: { tensor: "embeddings.token_type_embeddings", row },
    }),
  })
  return {
    roots: ["", "bert.", "roberta.", "electra."].map((root) => ({ root, head: "" })),
    layers: "encoder.layer.",
    parts: {
      ...embeddingParts(config),
      embed_tokens: wordsOfType(0),
      embed_paired: wordsOfType(1),
      embed_projection: "embeddings_project",
      "self_attn.q_proj": "attention.self.query",
      "self_attn.k_proj": "attention.self.key",
      "self_attn.v_proj": "attention.self.value",
      "self_attn.o_proj": "attention.output.dense",
      "attention.sum_norm": "attention.output.LayerNorm",
      "mlp.up_proj": "intermediate.dense",
      "mlp.down_proj": "output.dense",
      "mlp.sum_norm": "output.LayerNorm",
    },
  }
}

export function mpnetNaming(config: ModelConfig): Naming {
  const { heads, context: positions } = config.shapes
  const { parts, ...naming } = plainNaming(config)
  return {
    ...naming,
    roots: ["", "mpnet."].map((root) => ({ root, head: "" })),
    parts: {
      ...parts,
      ...embeddingParts(config),
      attention_biases: {
        name: "encoder.relative_attention_bias",
        biases: { positions, heads, buckets: BUCKETS },
      },
      "self_attn.q_proj": "attention.attn.q",
      "self_attn.k_proj": "attention.attn.k",
      "self_attn.v_proj": "attention.attn.v",
      "self_attn.o_proj": "attention.attn.o",
      "attention.sum_norm": "attention.LayerNorm",
    },
  }
}

export function distilBertNaming(config: ModelConfig): Naming {
  return {
    roots: ["", "distilbert."].map((root) => ({ root, head: "" })),
    layers: "transformer.layer.",
    parts: {
      ...embeddingParts(config),
      "self_attn.q_proj": "attention.q_lin",
      "self_attn.k_proj": "attention.k_lin",
      "self_attn.v_proj": "attention.v_lin",
      "self_attn.o_proj": "attention.out_lin",
      "attention.sum_norm": "sa_layer_norm",
      "mlp.up_proj": "ffn.lin1",
      "mlp.down_proj": "ffn.lin2",
      "mlp.sum_norm": "output_layer_norm",
    },
  }
}

function embeddingParts({ shapes: { context }, embedding: { positions } }: ModelConfig) {
  const from = positions?.skipped ?? 0
  const of = from + context
  return {
    embed_tokens: "embeddings.word_embeddings",
    embed_positions: {
      name: "embeddings.position_embeddings",
      rows: { of, from, run: context, every: of },
    },
    embed_norm: "embeddings.LayerNorm",
  } satisfies Naming["parts"]
}
