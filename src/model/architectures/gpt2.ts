// GPT-2: learned positions instead of turned heads, LayerNorms, an ungated MLP with tanh-gelu, biases everywhere; matrices
// are stored [in, out], queries, keys and values in one. StarCoder and SantaCoder are the same with one head of keys and matrices
// as they are. Sources: modeling_gpt2.py and modeling_gpt_bigcode.py of transformers.

import { withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { joinedRows, type Naming } from "../weights/names.ts"

export const readGpt2 = (fields: Fields) => readAlike(fields, "gelu_new", false)

export const readBigCode = (fields: Fields) =>
  readAlike(fields, "gelu_pytorch_tanh", fields.flag("multi_query", true))

function readAlike(fields: Fields, activation: string, oneKvHead: boolean): ModelConfig {
  for (const name of ["scale_attn_by_inverse_layer_idx", "add_cross_attention"])
    if (fields.flag(name, false))
      throw fields.wrong(name, "is true, which is not known of this architecture")
  if (!fields.flag("scale_attn_weights", true))
    throw fields.wrong("scale_attn_weights", "is false, which is not known of this architecture")
  const config = readDecoder(fields, {
    names: {
      hidden: "n_embd",
      layers: "n_layer",
      heads: "n_head",
      context: "n_positions",
      intermediate: "n_inner",
    },
    absent: { tied: true, epsilon: 1e-5, intermediate: 4 * fields.count("n_embd") },
    epsilon: "layer_norm_epsilon",
    norm: { kind: "layer", bias: true },
    activation: { field: "activation_function", otherwise: activation },
    rotation: "none",
    oneKvHead,
  })
  return {
    ...withBlocks(config, (block) =>
      withMlp(withAttention(block, { bias: { qkv: true, o: true } }), { gated: false, bias: true }),
    ),
    embedding: { factor: 1, positions: { skipped: 0 } },
  }
}

const embeddings = {
  embed_tokens: "wte",
  embed_positions: "wpe",
  norm: "ln_f",
  input_layernorm: "ln_1",
  post_attention_layernorm: "ln_2",
}

const naming = (parts: Naming["parts"]): Naming => ({
  roots: [
    { root: "transformer.", head: "" },
    { root: "", head: "" },
  ],
  layers: "h.",
  parts: { ...embeddings, ...parts },
})

export function gpt2Naming({ shapes: { hidden } }: ModelConfig): Naming {
  const { q, k, v } = joinedRows({ q: hidden, k: hidden, v: hidden })
  const turned = (name: string) => ({ name, transposed: true as const })
  return naming({
    "self_attn.q_proj": { ...turned("attn.c_attn"), rows: q },
    "self_attn.k_proj": { ...turned("attn.c_attn"), rows: k },
    "self_attn.v_proj": { ...turned("attn.c_attn"), rows: v },
    "self_attn.o_proj": turned("attn.c_proj"),
    "mlp.up_proj": turned("mlp.c_fc"),
    "mlp.down_proj": turned("mlp.c_proj"),
  })
}

/** With a head of keys for each of queries, the three of a head lie side by side. */
export function bigCodeNaming({ shapes: { hidden, kvHeads, headDim } }: ModelConfig): Naming {
  const each =
    kvHeads === 1 ? { q: hidden, k: headDim, v: headDim } : { q: headDim, k: headDim, v: headDim }
  const joined = joinedRows(each)
  const part = (name: keyof typeof joined) => ({
    name: "attn.c_attn",
    rows: { ...joined[name], of: hidden + 2 * kvHeads * headDim },
  })
  return naming({
    "self_attn.q_proj": part("q"),
    "self_attn.k_proj": part("k"),
    "self_attn.v_proj": part("v"),
    "self_attn.o_proj": "attn.c_proj",
    "mlp.up_proj": "mlp.c_fc",
    "mlp.down_proj": "mlp.c_proj",
  })
}
