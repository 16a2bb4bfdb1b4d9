// BERT and XLM-RoBERTa, which read a text both ways and write none: learned positions, LayerNorms of the sums, an ungated MLP,
// biases everywhere. A token's type is a row that is added to the table of tokens: that of the first, and in a model that ranks
// pairs the table stands there once more with the second's. XLM-RoBERTa's positions begin behind the number of its padding token. Sources: modeling_bert.py and modeling_xlm_roberta.py of transformers.

import { NORMS, withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder, seeingBothWays } from "../config.ts"
import type { Fields } from "../fields.ts"
import { ranks } from "../ranking.ts"
import type { Naming, Part } from "../weights/names.ts"

export function readBert(fields: Fields): ModelConfig {
  return readEncoder(fields, 0)
}

export function readXlmRoberta(fields: Fields): ModelConfig {
  return readEncoder(fields, fields.count("pad_token_id", 1, 0) + 1)
}

/** @param skipped rows of the table of positions before the first */
function readEncoder(fields: Fields, skipped: number): ModelConfig {
  if (fields.flag("is_decoder", false))
    throw fields.wrong("is_decoder", "is true; only encoders are known of this architecture")
  const positions = fields.text("position_embedding_type", "absolute")
  if (positions !== "absolute")
    throw fields.wrong("position_embedding_type", `is "${positions}"; known: absolute`)
  const config = readDecoder(fields, {
    absent: { epsilon: 1e-12 },
    epsilon: "layer_norm_eps",
    norm: { kind: "layer", bias: true },
    activation: { otherwise: "gelu" },
    rotation: "none",
  })
  const context = config.shapes.context - skipped
  if (context < 1)
    throw fields.wrong("max_position_embeddings", `leaves no position behind the first ${skipped}`)
  const isPaired = ranks(fields) && fields.count("type_vocab_size", 2) > 1
  const blocks = withBlocks(config, (block) => ({
    ...withMlp(withAttention(block, { bias: { qkv: true, o: true } }), {
      gated: false,
      bias: true,
    }),
    norms: NORMS.sums,
  }))
  return seeingBothWays({
    ...blocks,
    shapes: {
      ...config.shapes,
      context,
      vocabulary: config.shapes.vocabulary * (isPaired ? 2 : 1),
    },
    embedding: {
      factor: 1,
      positions: { skipped },
      norm: config.norm!,
      ...(isPaired ? { isPaired } : {}),
    },
    norm: undefined,
  })
}

export function bertNaming({ shapes: { context }, embedding: { positions } }: ModelConfig): Naming {
  const from = positions!.skipped
  const of = from + context
  const wordsOfType = (row: number): Part => ({
    name: "embeddings.word_embeddings",
    plusRow: { tensor: "embeddings.token_type_embeddings", row },
  })
  return {
    roots: ["", "bert.", "roberta."].map((root) => ({ root, head: "" })),
    layers: "encoder.layer.",
    parts: {
      embed_tokens: wordsOfType(0),
      embed_paired: wordsOfType(1),
      embed_positions: {
        name: "embeddings.position_embeddings",
        rows: { of, from, run: context, every: of },
      },
      embed_norm: "embeddings.LayerNorm",
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
