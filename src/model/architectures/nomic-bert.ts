// Nomic's BERT, which reads a text both ways: heads that are turned instead of learned positions, a gated MLP, no biases but the
// norms'. As it was first published its fields have GPT-2's names, and others that transformers' own do not have; newer saves
// have BERT's. Source: modeling_hf_nomic_bert.py beside nomic-ai/nomic-embed-text-v1.5.

import { NORMS, withBlocks } from "../block.ts"
import { type Differences, type ModelConfig, readDecoder, seeingBothWays } from "../config.ts"
import type { Fields } from "../fields.ts"
import { joinedRows, type Naming } from "../weights/names.ts"

/** What would change the mathematics, and the one value that is known. */
const known = {
  activation_function: "swiglu",
  prenorm: false,
  causal: false,
  parallel_block: false,
  use_rms_norm: false,
  qkv_proj_bias: false,
  mlp_fc1_bias: false,
  mlp_fc2_bias: false,
  rotary_emb_interleaved: false,
  rotary_emb_fraction: 1,
} as const

const older: Differences = {
  names: {
    hidden: "n_embd",
    layers: "n_layer",
    heads: "n_head",
    context: "n_positions",
    intermediate: "n_inner",
  },
  epsilon: "layer_norm_epsilon",
  rotation: { theta: 1000, thetaField: "rotary_emb_base" },
}
const newer: Differences = { epsilon: "layer_norm_eps", rotation: { theta: 1000 } }

export function readNomicBert(fields: Fields): ModelConfig {
  for (const [name, value] of Object.entries(known))
    if (fields.has(name) && fields.json[name] !== value)
      throw fields.wrong(name, `is ${JSON.stringify(fields.json[name])}; only ${value} is known`)
  if (fields.has("rotary_scaling_factor"))
    throw fields.wrong("rotary_scaling_factor", "is given; only null is known")
  const config = readDecoder(fields, {
    ...(fields.has("n_embd") ? older : newer),
    norm: { kind: "layer", bias: true },
  })
  const blocks = withBlocks(config, (block) => ({ ...block, norms: NORMS.sums }))
  const embedding = { ...config.embedding, norm: config.norm! }
  return seeingBothWays({ ...blocks, embedding, norm: undefined })
}

export function nomicBertNaming({ shapes: { hidden } }: ModelConfig): Naming {
  const { q, k, v } = joinedRows({ q: hidden, k: hidden, v: hidden })
  return {
    roots: [{ root: "", head: "" }],
    layers: "encoder.layers.",
    parts: {
      embed_tokens: {
        name: "embeddings.word_embeddings",
        plusRow: { tensor: "embeddings.token_type_embeddings", row: 0 },
      },
      embed_norm: "emb_ln",
      "self_attn.q_proj": { name: "attn.Wqkv", rows: q },
      "self_attn.k_proj": { name: "attn.Wqkv", rows: k },
      "self_attn.v_proj": { name: "attn.Wqkv", rows: v },
      "self_attn.o_proj": "attn.out_proj",
      "attention.sum_norm": "norm1",
      "mlp.gate_proj": "mlp.fc12",
      "mlp.up_proj": "mlp.fc11",
      "mlp.down_proj": "mlp.fc2",
      "mlp.sum_norm": "norm2",
    },
  }
}
