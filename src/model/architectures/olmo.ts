// OLMo 1: LayerNorms without weights, in some models what attention reads is cut off. OLMo 2 and 3: norms behind attention and MLP
// instead of before, and one norm over all query heads together, one over all key heads. OLMo 3 has windows in three of four layers, and
// stretches the others alone. OLMoE, which is older, has norms before and experts in every layer; FlexOlmo has them behind OLMo 2's
// norms. Sources: modeling_olmo.py, modeling_olmo2.py, modeling_olmo3.py, modeling_olmoe.py and modeling_flex_olmo.py of transformers.

import { NORMS, withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder, readLayerTypes, withWindows } from "../config.ts"
import type { Fields } from "../fields.ts"
import { readRotation } from "../rotation.ts"
import { llamaNaming, type Naming, unitParts, withParts } from "../weights/names.ts"
import { readRouting } from "./experts.ts"
import { withBiases } from "./llama.ts"

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
