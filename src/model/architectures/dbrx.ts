// DBRX: experts in every layer behind LayerNorms without biases; queries, keys and values are cut off. Source: modeling_dbrx.py of
// transformers. Folders keep queries, keys and values in one tensor, and the matrices of all experts one behind the other.

import { withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { flatExperts, joinedRows, type Naming } from "../weights/names.ts"
import { readRouting } from "./experts.ts"

export function readDbrx(given: Fields): ModelConfig {
  const fields = given
    .withThoseOf("attn_config")
    .withThoseOf("ffn_config")
    .with({ kv_n_heads: 1, ffn_hidden_size: 3584, moe_num_experts: 4, moe_top_k: 1 })
  const config = readDecoder(fields.withThoseOf("ffn_act_fn"), {
    names: { ...NAMES, kvHeads: "kv_n_heads", intermediate: "ffn_hidden_size" },
    absent: { epsilon: 1e-5 },
    epsilon: "layer_norm_epsilon",
    norm: { kind: "layer", bias: false },
    activation: { field: "name" },
  })
  const power = "moe_normalize_expert_weights"
  const isNormalized = fields.json[power] !== null
  if (isNormalized && fields.positive(power, 1) !== 1)
    throw fields.wrong(power, `is ${fields.positive(power)}; known: 1 and null`)
  const names = { count: "moe_num_experts", active: "moe_top_k" }
  const experts = {
    ...readRouting(fields, names, { normalized: isNormalized }),
    ...{ chosenByBias: false, shared: undefined },
  }
  const clip = fields.has("clip_qkv") ? { clip: fields.positive("clip_qkv") } : {}
  return withBlocks(config, (block) => ({ ...withAttention(block, clip), experts }))
}

const NAMES = { hidden: "d_model", layers: "n_layers", heads: "n_heads", context: "max_seq_len" }

export function dbrxNaming({ shapes, blocks }: ModelConfig): Naming {
  const { hidden, intermediate, kvHeads, headDim } = shapes
  const rows = joinedRows({ q: hidden, k: kvHeads * headDim, v: kvHeads * headDim })
  const projection = (name: keyof typeof rows) => ({
    name: "norm_attn_norm.attn.Wqkv",
    rows: rows[name],
  })
  const mlp = "ffn.experts.mlp."
  const sizes = { count: blocks[0]!.experts!.count, intermediate, hidden }
  return {
    roots: [{ root: "transformer.", head: "" }],
    layers: "blocks.",
    parts: {
      embed_tokens: "wte",
      norm: "norm_f",
      input_layernorm: "norm_attn_norm.norm_1",
      post_attention_layernorm: "norm_attn_norm.norm_2",
      "self_attn.q_proj": projection("q"),
      "self_attn.k_proj": projection("k"),
      "self_attn.v_proj": projection("v"),
      "self_attn.o_proj": "norm_attn_norm.attn.out_proj",
      "mlp.gate": "ffn.router.layer",
      ...flatExperts(sizes, { gate: `${mlp}w1`, up: `${mlp}v1`, down: `${mlp}w2` }),
    },
  }
}
