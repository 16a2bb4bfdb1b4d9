// Falcon 7B, 11B and 40B: LayerNorms, an ungated MLP with gelu, attention and MLP side by side, behind one norm or one each;
// queries, keys and values lie in one tensor, group by group. Source: modeling_falcon.py of transformers. What adds a slope
// to scores instead of turning heads (falcon-rw) is refused.

import { NORMS, withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Naming } from "../weights/names.ts"

export function readFalcon(fields: Fields): ModelConfig {
  if (fields.flag("alibi", false))
    throw fields.wrong("alibi", "is true: scores with a slope are not known")
  if (!fields.flag("parallel_attn", true))
    throw fields.wrong("parallel_attn", "is false, which is not known of this architecture")
  const grouped = fields.flag("new_decoder_architecture", false)
  const many = grouped || !fields.flag("multi_query", true)
  const config = readDecoder(fields, {
    names: { kvHeads: "num_kv_heads", intermediate: "ffn_hidden_size" },
    oneKvHead: !many,
    absent: {
      tied: true,
      epsilon: 1e-5,
      intermediate: 4 * fields.count("hidden_size"),
    },
    epsilon: "layer_norm_epsilon",
    norm: { kind: "layer", bias: true },
    activation: { field: "activation", otherwise: "gelu" },
  })
  const bias = fields.flag("bias", false)
  const two = grouped && fields.count("num_ln_in_parallel_attn", 2) === 2
  return withBlocks(config, (block) => ({
    ...withMlp(withAttention(block, { bias: { qkv: bias, o: bias } }), { gated: false, bias }),
    norms: two ? NORMS.before : NORMS.shared,
    parallel: true,
  }))
}

export function falconNaming({ shapes, blocks }: ModelConfig): Naming {
  const { heads, kvHeads, headDim } = shapes
  const name = "self_attention.query_key_value"
  const group = (heads / kvHeads) * headDim // rows of queries that share a key
  const every = group + 2 * headDim
  const rows = (from: number, run: number) => ({ of: kvHeads * every, from, run, every })
  const two = blocks[0]!.norms.beforeMlp
  return {
    roots: [{ root: "transformer.", head: "" }],
    layers: "h.",
    parts: {
      embed_tokens: "word_embeddings",
      norm: "ln_f",
      ...(two ? { input_layernorm: "ln_attn", post_attention_layernorm: "ln_mlp" } : {}),
      "self_attn.q_proj": { name, rows: rows(0, group) },
      "self_attn.k_proj": { name, rows: rows(group, headDim) },
      "self_attn.v_proj": { name, rows: rows(group + headDim, headDim) },
      "self_attn.o_proj": "self_attention.dense",
      "mlp.up_proj": "mlp.dense_h_to_4h",
      "mlp.down_proj": "mlp.dense_4h_to_h",
    },
  }
}
