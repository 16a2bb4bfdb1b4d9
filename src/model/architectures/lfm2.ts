// LFM2: attention in a few layers, and in the others short convolutions of what a row's gate lets through. Sources:
// modeling_lfm2.py and configuration_lfm2.py of transformers.

import { withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"

export function readLfm2(fields: Fields): ModelConfig {
  if (fields.flag("conv_bias", false))
    throw fields.wrong("conv_bias", "is true; known: convolutions without a bias")
  const config = readDecoder(fields, {
    names: { intermediate: fields.has("block_ff_dim") ? "block_ff_dim" : "intermediate_size" },
    absent: { epsilon: 1e-5, tied: fields.flag("tie_embedding", true) },
    epsilon: "norm_eps",
    rotation: { theta: 1e6 },
  })
  const { epsilon } = config.norm!
  const intermediate = widthOf(fields, config.shapes.intermediate)
  const taps = fields.count("conv_L_cache", 3)
  const types = readTypes(fields, config.shapes.layers)
  const norms = { kind: "rms", bias: false, epsilon, over: "every head", place: "before" } as const
  const blocks = withBlocks(config, (block, i) => {
    const own = { ...withAttention(block, { norms }), mlp: { ...block.mlp, intermediate } }
    return types[i] === "conv" ? { ...own, convolution: { taps } } : own
  })
  return { ...blocks, shapes: { ...config.shapes, intermediate } }
}

/** Two thirds of what is given, and more to a round number, unless the folder says that it is meant as it is. */
function widthOf(fields: Fields, given: number): number {
  if (!fields.flag("block_auto_adjust_ff_dim", true)) return given
  const factor = fields.positive("block_ffn_dim_multiplier", 1)
  const multiple = fields.count("block_multiple_of", 256)
  const width = Math.floor(factor * Math.floor((2 * given) / 3))
  return Math.ceil(width / multiple) * multiple
}

function readTypes(fields: Fields, layers: number): string[] {
  if (!fields.has("layer_types")) {
    const all = Array.from({ length: layers }, (_, i) => i)
    const listed = fields.has("full_attn_idxs") ? fields.counts("full_attn_idxs", layers) : all
    return all.map((i) => (listed.includes(i) ? "full_attention" : "conv"))
  }
  const types = fields.texts("layer_types")
  if (types.length !== layers)
    throw fields.wrong("layer_types", `names ${types.length} layers of ${layers}`)
  const unknown = types.find((type) => type !== "full_attention" && type !== "conv")
  if (unknown !== undefined)
    throw fields.wrong("layer_types", `holds "${unknown}"; known: full_attention, conv`)
  return types
}

export function lfm2Naming({ blocks }: ModelConfig): Naming {
  const taps = blocks.find(({ convolution }) => convolution)?.convolution?.taps
  return withParts(llamaNaming, {
    norm: "embedding_norm",
    input_layernorm: "operator_norm",
    post_attention_layernorm: "ffn_norm",
    "self_attn.q_norm": "self_attn.q_layernorm",
    "self_attn.k_norm": "self_attn.k_layernorm",
    "self_attn.o_proj": "self_attn.out_proj",
    "mlp.gate_proj": "feed_forward.w1",
    "mlp.up_proj": "feed_forward.w3",
    "mlp.down_proj": "feed_forward.w2",
    ...(taps === undefined ? {} : { "conv.conv": { name: "conv.conv", taps } }),
  })
}
