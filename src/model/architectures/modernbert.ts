// ModernBERT, which reads a text both ways: LayerNorms before attention and MLP, but the first layer's attention reads the normed
// embedding as it is; a gelu-gated MLP; every third layer sees everything, the others `local_attention` / 2 tokens to either side,
// and each kind turns its heads by a theta of its own. Source: modeling_modernbert.py of transformers.

import { type Block, NORMS, withAttention, withBlocks, withMlp } from "../block.ts"
import {
  type LayerType,
  type ModelConfig,
  readDecoder,
  readLayerTypes,
  seeingBothWays,
} from "../config.ts"
import type { Fields } from "../fields.ts"
import { readRotation } from "../rotation.ts"
import { joinedRows, type Naming } from "../weights/names.ts"

export function readModernBert(fields: Fields): ModelConfig {
  const norm = { kind: "layer", bias: fields.flag("norm_bias", false) } as const
  const config = readDecoder(fields, {
    absent: { epsilon: 1e-5 },
    epsilon: "norm_eps",
    norm,
    activation: { field: "hidden_activation", otherwise: "gelu" },
    rotation: "none",
  })
  const { layers, headDim, context } = config.shapes
  const types = typesOf(fields, layers)
  const rotationOf = (type: LayerType, thetaField: string, theta: number) => {
    const isPerKind = fields.object("rope_parameters")?.has(type)
    const named = isPerKind ? {} : { thetaField, scaled: false }
    const turn = readRotation(fields, { headDim, context, theta, layers: type, ...named })
    return { query: turn, key: turn }
  }
  const kinds = {
    full_attention: {
      rotation: rotationOf("full_attention", "global_rope_theta", 160000),
      window: undefined,
    },
    sliding_attention: {
      rotation: rotationOf("sliding_attention", "local_rope_theta", 10000),
      window: Math.floor(fields.count("local_attention", 128) / 2) + 1,
    },
  }
  const [attends, mlps] = [fields.flag("attention_bias", false), fields.flag("mlp_bias", false)]
  const bias = { qkv: attends, o: attends }
  const blocks = withBlocks(config, (block, i): Block => {
    const attention = withAttention(block, { ...kinds[types[i]!], bias })
    const norms = { ...NORMS.before, beforeAttention: i > 0 }
    return { ...withMlp(attention, { bias: mlps }), norms }
  })
  return seeingBothWays({ ...blocks, embedding: { ...config.embedding, norm: config.norm! } })
}

function typesOf(fields: Fields, layers: number): LayerType[] {
  const every = fields.count("global_attn_every_n_layers", 3)
  if (fields.has("layer_types")) return readLayerTypes(fields, layers, every)
  return Array.from({ length: layers }, (_, i) =>
    i % every === 0 ? "full_attention" : "sliding_attention",
  )
}

export function modernBertNaming({ shapes: { hidden, intermediate } }: ModelConfig): Naming {
  const { q, k, v } = joinedRows({ q: hidden, k: hidden, v: hidden })
  const { gate, up } = joinedRows({ gate: intermediate, up: intermediate })
  return {
    roots: [
      { root: "", head: "" },
      { root: "model.", head: "" },
    ],
    layers: "layers.",
    parts: {
      embed_tokens: "embeddings.tok_embeddings",
      embed_norm: "embeddings.norm",
      norm: "final_norm",
      input_layernorm: "attn_norm",
      post_attention_layernorm: "mlp_norm",
      "self_attn.q_proj": { name: "attn.Wqkv", rows: q },
      "self_attn.k_proj": { name: "attn.Wqkv", rows: k },
      "self_attn.v_proj": { name: "attn.Wqkv", rows: v },
      "self_attn.o_proj": "attn.Wo",
      "mlp.gate_proj": { name: "mlp.Wi", rows: gate },
      "mlp.up_proj": { name: "mlp.Wi", rows: up },
      "mlp.down_proj": "mlp.Wo",
    },
  }
}
