// GPT-Neo: GPT-2's layers with matrices as they are, whose scores are not scaled; layers that see everything and windows take turns, and
// queries, keys and values have no biases. Source: modeling_gpt_neo.py of transformers.

import { withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Naming } from "../weights/names.ts"

export function readGptNeo(fields: Fields): ModelConfig {
  const config = readDecoder(fields, {
    names: { layers: "num_layers", heads: "num_heads" },
    absent: { tied: true, epsilon: 1e-5, intermediate: 4 * fields.count("hidden_size") },
    epsilon: "layer_norm_epsilon",
    norm: { kind: "layer", bias: true },
    activation: { field: "activation_function", otherwise: "gelu_new" },
    rotation: "none",
  })
  const kinds = readKinds(fields, config.shapes.layers)
  const window = fields.count("window_size", 256)
  const bias = { qkv: false, o: true }
  return {
    ...withBlocks(config, (block, layer) => {
      const seen = { window: kinds[layer] === "local" ? window : undefined }
      const attention = withAttention(block, { scale: 1, bias, ...seen })
      return withMlp(attention, { gated: false, bias: true })
    }),
    embedding: { factor: 1, positions: { skipped: 0 } },
  }
}

const KINDS = ["global", "local"]

/** Of each layer, as they are listed, or as pairs of a list and how often that stands there. */
function readKinds(fields: Fields, layers: number): string[] {
  const field = fields.has("attention_layers") ? "attention_layers" : "attention_types"
  const kinds =
    field === "attention_layers" ? fields.texts(field) : repeated(fields.json[field] ?? [])
  if (kinds.length === layers && kinds.every((kind) => KINDS.includes(kind))) return kinds
  throw fields.wrong(field, `does not name ${layers} layers, each ${KINDS.join(" or ")}`)
}

function repeated(pairs: unknown): string[] {
  const isPair = (pair: unknown): pair is [string[], number] =>
    Array.isArray(pair) && Array.isArray(pair[0]) && Number.isInteger(pair[1]) && pair[1] < 1 << 14
  if (!Array.isArray(pairs) || !pairs.every(isPair)) return []
  return pairs.flatMap(([kinds, times]) => Array.from({ length: times }, () => kinds).flat())
}

export const gptNeoNaming: Naming = {
  roots: ["transformer.", ""].map((root) => ({ root, head: "" })),
  layers: "h.",
  parts: {
    embed_tokens: "wte",
    embed_positions: "wpe",
    norm: "ln_f",
    input_layernorm: "ln_1",
    post_attention_layernorm: "ln_2",
    "self_attn.q_proj": "attn.attention.q_proj",
    "self_attn.k_proj": "attn.attention.k_proj",
    "self_attn.v_proj": "attn.attention.v_proj",
    "self_attn.o_proj": "attn.attention.out_proj",
    "mlp.up_proj": "mlp.c_fc",
    "mlp.down_proj": "mlp.c_proj",
  },
}
