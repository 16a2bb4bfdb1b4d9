// Alibaba's GTE and Snowflake's Arctic Embed M 2, which read a text both ways: heads that are turned, gated MLPs of which the matrix that
// projects back alone has a bias, LayerNorms of the sums. As they were first published they are called "new", and some stretch their
// turns. Sources: modeling_gte.py of transformers; modeling.py of Alibaba-NLP/new-impl, which lies beside their weights.

import { withAttention, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { joinedRows, type Naming } from "../weights/names.ts"
import { asEncoder } from "./encoder.ts"

/** What would change the mathematics, and the one value that is known. */
const known = {
  layer_norm_type: "layer_norm",
  logn_attention_scale: false,
  pack_qkv: true,
} as const

/** As transformers has it. */
export const readGte = (fields: Fields) => readTurned(fields, 160000)

/** As first published. */
export const readNew = (fields: Fields) => readTurned(fields, 10000)

/** @param theta where nothing is said */
function readTurned(given: Fields, theta: number): ModelConfig {
  for (const [name, value] of Object.entries(known))
    if (given.has(name) && given.json[name] !== value)
      throw given.wrong(name, `is ${JSON.stringify(given.json[name])}; only ${value} is known`)
  const positions = given.text("position_embedding_type", "rope")
  if (positions !== "rope")
    throw given.wrong("position_embedding_type", `is "${positions}"; known: rope`)
  const types = given.count("type_vocab_size", 1, 0)
  const fields = withTurns(given, theta)
  const config = readDecoder(fields, {
    absent: { epsilon: 1e-12 },
    epsilon: "layer_norm_eps",
    norm: { kind: "layer", bias: true },
    activation: { otherwise: "gelu" },
    rotation: { theta },
  })
  const encoder = asEncoder(config, (block) =>
    withMlp(withAttention(block, { bias: { qkv: true, o: true } }), { bias: "down" }),
  )
  return { ...encoder, embedding: { ...encoder.embedding, ...(types === 0 && { untyped: true }) } }
}

/** Its own "ntk": theta grows by the factor, and what is slower by it in the slowest pair is slower in the others, too. */
function withTurns(fields: Fields, usual: number): Fields {
  const scaling = fields.object("rope_scaling")
  if (scaling?.text("type", "") !== "ntk") return fields
  if (scaling.has("mixed_b")) throw scaling.wrong("mixed_b", "is given; only null is known")
  const factor = scaling.positive("factor")
  const theta = fields.positive("rope_theta", usual) * factor
  const headDim = fields.count("hidden_size") / fields.count("num_attention_heads")
  const slower = { rope_type: "linear", factor: factor ** (2 / headDim) }
  return fields.over({ rope_theta: theta, rope_scaling: slower })
}

export function gteNaming({ shapes: { hidden, intermediate }, embedding }: ModelConfig): Naming {
  const rows = joinedRows({ q: hidden, k: hidden, v: hidden })
  const projection = (name: keyof typeof rows) => ({ name: "attention.qkv_proj", rows: rows[name] })
  const { up, gate } = joinedRows({ up: intermediate, gate: intermediate })
  const typed = { plusRow: { tensor: "embeddings.token_type_embeddings", row: 0 } }
  return {
    roots: ["", "new.", "gte."].map((root) => ({ root, head: "" })),
    layers: "encoder.layer.",
    parts: {
      embed_tokens: { name: "embeddings.word_embeddings", ...(!embedding.untyped && typed) },
      embed_norm: "embeddings.LayerNorm",
      "self_attn.q_proj": projection("q"),
      "self_attn.k_proj": projection("k"),
      "self_attn.v_proj": projection("v"),
      "self_attn.o_proj": "attention.o_proj",
      "attention.sum_norm": "attn_ln",
      "mlp.up_proj": { name: "mlp.up_gate_proj", rows: up },
      "mlp.gate_proj": { name: "mlp.up_gate_proj", rows: gate },
      "mlp.sum_norm": "mlp_ln",
    },
  }
}
