// OLMo 1: LayerNorms without weights, in some models what attention reads is cut off. OLMo 2 and 3: norms behind attention and MLP
// instead of before, and one norm over all query heads together, one over all key heads. OLMo 3 has windows in three of four layers, and
// stretches the others alone. OLMo Hybrid has the gated delta rule behind norms in three of four layers. OLMoE, which is older, has
// norms before and experts in every layer; FlexOlmo has them behind OLMo 2's norms. Sources: modeling_olmo.py, modeling_olmo2.py,
// modeling_olmo3.py, modeling_olmo_hybrid.py, modeling_olmoe.py and modeling_flex_olmo.py of transformers.

import { type Delta, NORMS, withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder, readLayerTypes, withWindows } from "../config.ts"
import type { Fields } from "../fields.ts"
import { readRotation } from "../rotation.ts"
import { llamaNaming, type Naming, unitParts, withParts } from "../weights/names.ts"
import { readRouting } from "./experts.ts"
import { withBiases } from "./llama.ts"
import { readDelta, readTypes } from "./qwen3-5.ts"

export function readOlmo(fields: Fields): ModelConfig {
  const config = readDecoder(fields.without("rms_norm_eps"), {
    norm: { kind: "layer", bias: false },
    absent: { epsilon: 1e-5 },
  })
  return withClip(fields, withBiases(fields, config))
}

function withClip(fields: Fields, config: ModelConfig): ModelConfig {
  if (!fields.has("clip_qkv")) return config
  const clip = fields.positive("clip_qkv")
  return withBlocks(config, (block) => withAttention(block, { clip }))
}

export function readOlmo2(fields: Fields): ModelConfig {
  return withNormsBehind(fields, readDecoder(fields, { absent: { epsilon: 1e-5 } }))
}

export function readOlmo3(fields: Fields): ModelConfig {
  const theta = 5e5
  const config = withNormsBehind(
    fields,
    readDecoder(fields, {
      absent: { epsilon: 1e-5 },
      rotation: { theta, layers: "full_attention" },
    }),
  )
  const { layers, headDim, context } = config.shapes
  const types = readLayerTypes(fields, layers, 4)
  const window = fields.count("sliding_window", 4096)
  const scaled = fields.object("rope_parameters")?.has("sliding_attention") ?? false
  const plain = readRotation(fields, {
    headDim,
    context,
    theta,
    layers: "sliding_attention",
    scaled,
  })
  return withWindows(config, types, window, plain)
}

/** A theta that is null says that no head is turned. */
export function readOlmoHybrid(fields: Fields): ModelConfig {
  const isTurned = fields.object("rope_parameters")?.has("rope_theta") ?? true
  const config = withNormsBehind(fields, readDecoder(fields, isTurned ? {} : { rotation: "none" }))
  const { hidden, layers, heads } = config.shapes
  const keyHeads = fields.count("linear_num_key_heads", heads)
  const keyDim = fields.count("linear_key_head_dim", Math.floor((0.75 * hidden) / keyHeads))
  const usual = {
    linear_num_key_heads: keyHeads,
    linear_num_value_heads: heads,
    linear_key_head_dim: keyDim,
    linear_value_head_dim: 2 * keyDim,
  }
  const turnsOver = fields.flag("linear_allow_neg_eigval", true)
  const delta: Delta = {
    ...readDelta(fields.with(usual)),
    tapsApart: true,
    epsilon: 1e-5,
    ...(turnsOver && { most: 2 }),
  }
  const types = readTypes(fields, layers)
  return withBlocks(config, (block, i) =>
    types[i] === "linear_attention" ? { ...block, norms: NORMS.before, delta } : block,
  )
}

export function readOlmoe(fields: Fields): ModelConfig {
  const config = withHeadNorms(fields, readDecoder(fields, { absent: { epsilon: 1e-5 } }))
  return withExperts(fields, withClip(fields, config))
}

export function readFlexOlmo(fields: Fields): ModelConfig {
  const usual = { num_experts: 7, num_experts_per_tok: 5 }
  const config = readDecoder(fields, { absent: { epsilon: 1e-6 }, rotation: { theta: 5e5 } })
  return withExperts(fields.with(usual), withNormsBehind(fields, config))
}

function withExperts(fields: Fields, config: ModelConfig): ModelConfig {
  const names = { count: "num_experts", active: "num_experts_per_tok" }
  const normalized = fields.flag("norm_topk_prob", false)
  const experts = {
    ...readRouting(fields, names, { normalized }),
    ...{ chosenByBias: false, shared: undefined },
  }
  return withBlocks(config, (block) => ({ ...block, experts }))
}

function withNormsBehind(fields: Fields, config: ModelConfig): ModelConfig {
  return withBlocks(withHeadNorms(fields, config), (block) => ({ ...block, norms: NORMS.after }))
}

function withHeadNorms(fields: Fields, config: ModelConfig): ModelConfig {
  const bias = fields.flag("attention_bias", false)
  return withBlocks(config, (block) =>
    withAttention(block, {
      bias: { qkv: bias, o: bias },
      norms: { ...block.norm, over: "all heads", place: "before" },
    }),
  )
}

export const unitNorms = unitParts("input_layernorm", "post_attention_layernorm", "norm")

export const olmoNaming: Naming = withParts(llamaNaming, unitNorms)

/** Also EXAONE 4's. */
export const normsBehind: Naming = withParts(llamaNaming, {
  "self_attn.output_norm": "post_attention_layernorm",
  "mlp.output_norm": "post_feedforward_layernorm",
})

export function olmoHybridNaming({ blocks }: ModelConfig): Naming {
  const taps = blocks.find(({ delta }) => delta)?.delta?.taps ?? 1
  const filters = Object.fromEntries(
    ["q", "k", "v"].map((part) => [
      `linear_attn.${part}_conv`,
      { name: `linear_attn.${part}_conv1d`, taps },
    ]),
  )
  return withParts(normsBehind, {
    input_layernorm: "attention_layer_norm",
    post_attention_layernorm: "feedforward_layer_norm",
    ...filters,
    "linear_attn.z_proj": "linear_attn.g_proj",
    "linear_attn.decay": { name: "linear_attn.A_log", bare: true },
    "linear_attn.decay_bias": { name: "linear_attn.dt_bias", bare: true },
    "linear_attn.norm": "linear_attn.o_norm",
    "linear_attn.out_proj": "linear_attn.o_proj",
  })
}
