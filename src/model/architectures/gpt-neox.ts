// GPT-NeoX and Pythia: LayerNorms, an ungated MLP, biases everywhere, a quarter of each head turned, attention and MLP side
// by side behind norms of their own; queries, keys and values lie in one tensor, head by head.
// Source: modeling_gpt_neox.py of transformers.

import { withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Naming } from "../weights/names.ts"

export function readGptNeox(fields: Fields): ModelConfig {
  const config = readDecoder(fields, {
    epsilon: "layer_norm_eps",
    absent: { epsilon: 1e-5 },
    norm: { kind: "layer", bias: true },
    activation: { otherwise: "gelu" },
    rotation: {
      // Newer files have it under the name that all others have.
      ...(!fields.object("rope_parameters")?.has("rope_theta") && {
        thetaField: "rotary_emb_base",
      }),
      part: fields.positive("rotary_pct", 0.25),
    },
  })
  const bias = fields.flag("attention_bias", true)
  const parallel = fields.flag("use_parallel_residual", true)
  return withBlocks(config, (block) => ({
    ...withMlp(withAttention(block, { bias: { qkv: bias, o: bias } }), {
      gated: false,
      bias: true,
    }),
    parallel,
  }))
}

export function gptNeoxNaming({ shapes: { heads, headDim } }: ModelConfig): Naming {
  const name = "attention.query_key_value"
  const rows = (part: number) => ({
    of: 3 * heads * headDim,
    from: part * headDim,
    run: headDim,
    every: 3 * headDim,
  })
  return {
    roots: [{ root: "gpt_neox.", head: "" }],
    layers: "layers.",
    parts: {
      embed_tokens: "embed_in",
      norm: "final_layer_norm",
      lm_head: "embed_out",
      "self_attn.q_proj": { name, rows: rows(0) },
      "self_attn.k_proj": { name, rows: rows(1) },
      "self_attn.v_proj": { name, rows: rows(2) },
      "self_attn.o_proj": "attention.dense",
      "mlp.up_proj": "mlp.dense_h_to_4h",
      "mlp.down_proj": "mlp.dense_4h_to_h",
    },
  }
}
