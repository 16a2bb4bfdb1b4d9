// Command R, R7B and A, and Aya: attention and MLP side by side behind one LayerNorm without bias, neighbours turned with each other,
// logits multiplied with a constant; Command R+ has a LayerNorm of its own for every query and key head. From R7B on there are windows
// in three of four layers, and the fourth is not turned at all. Command A+ has experts in the place of the MLP, behind its first layers.
// North Micro is R7B's layer again. Sources: modeling_cohere.py, modeling_cohere2.py, modeling_cohere2_moe.py and
// modeling_cohere_compass.py of transformers.

import { type Experts, NORMS, withAttention, withBlocks, withMlp } from "../block.ts"
import {
  type Differences,
  type LayerType,
  type ModelConfig,
  readDecoder,
  readLayerTypes,
} from "../config.ts"
import type { Fields } from "../fields.ts"
import { readRotation } from "../rotation.ts"
import { type Naming, withParts } from "../weights/names.ts"
import { sharedExpertNames } from "./deepseek.ts"
import { readMlpTypes, readRouting } from "./experts.ts"
import { neighboursNaming, neighboursOf } from "./glm4.ts"

export function readCohere(fields: Fields): ModelConfig {
  const config = readPlain(fields)
  if (!fields.flag("use_qk_norm", false)) return config
  return withBlocks(config, (block) =>
    withAttention(block, {
      norms: { ...block.norm, over: "each head", inOne: true, place: "before" },
    }),
  )
}

/** A norm's weights are turned with the columns that they are of. */
export function cohereNaming(config: ModelConfig): Naming {
  const { heads, kvHeads } = config.shapes
  const neighbours = neighboursOf(config)
  const normOf = (name: string, stacked: number) => ({ name, stacked, neighbours })
  return withParts(neighboursNaming(config), {
    "self_attn.q_norm": normOf("self_attn.q_norm", heads),
    "self_attn.k_norm": normOf("self_attn.k_norm", kvHeads),
  })
}

const LAYER_NORM: Differences = {
  epsilon: "layer_norm_eps",
  norm: { kind: "layer", bias: false },
}

function readPlain(fields: Fields, norm = LAYER_NORM): ModelConfig {
  const config = readDecoder(fields, { absent: { tied: true, epsilon: 1e-5 }, ...norm })
  const bias = fields.flag("attention_bias", false)
  return {
    ...withBlocks(config, (block) => ({
      ...withAttention(block, { bias: { qkv: bias, o: bias } }),
      norms: NORMS.shared,
      parallel: true,
    })),
    head: { ...config.head, factor: fields.positive("logit_scale", 0.0625) },
  }
}

export function readCohere2(fields: Fields): ModelConfig {
  const config = readPlain(fields)
  const pattern = fields.count("sliding_window_pattern", 4)
  return withSlides(fields, config, readLayerTypes(fields, config.shapes.layers, pattern))
}

/** @param turned those of the layers without a window that are turned all the same */
function withSlides(
  fields: Fields,
  config: ModelConfig,
  types: readonly LayerType[],
  turned: (layer: number) => boolean = () => false,
): ModelConfig {
  const window = fields.count("sliding_window", 4096)
  return withBlocks(config, (block, i) => {
    const slides = types[i] === "sliding_attention"
    return withAttention(block, {
      window: slides ? window : undefined,
      rotation: slides || turned(i) ? block.attention.rotation : undefined,
    })
  })
}

/** North Micro's: kinds of layers are turned in ways of their own, or not at all; halves of a head turn with each other. */
export function readCohereCompass(fields: Fields): ModelConfig {
  const parameters = fields.object("rope_parameters")
  const kinds: readonly LayerType[] = ["full_attention", "sliding_attention"]
  const isApart = kinds.some((kind) => parameters && kind in parameters.json)
  const config = readPlain(fields.with({ logit_scale: 1 }), { ...LAYER_NORM, rotation: "none" })
  const { layers, headDim, context } = config.shapes
  const types = readLayerTypes(fields, layers, 1)
  const window = fields.count("sliding_window", 4096)
  return withBlocks(config, (block, i) => {
    const layers = types[i]!
    const isTurned = !isApart || parameters!.has(layers)
    const turn = isTurned ? readRotation(fields, { headDim, context, layers }) : undefined
    return withAttention(block, {
      window: layers === "sliding_attention" ? window : undefined,
      rotation: turn && { query: turn, key: turn },
    })
  })
}

/** Of the first layers, which have no experts, windows and MLPs are said by themselves. */
export function readCohere2Moe(given: Fields): ModelConfig {
  const fields = given.with({ head_dim: 128 })
  const hasRms = fields.has("rms_norm_eps")
  const config = readPlain(fields, hasRms ? { epsilon: "rms_norm_eps" } : LAYER_NORM)
  const { layers, intermediate } = config.shapes
  const dense = fields.count("first_k_dense_replace", 0, 0, layers)
  const mlps = readMlpTypes(fields, layers)
  const isDense = (layer: number) => (mlps ? mlps[layer] === "dense" : layer < dense)
  const first = fields.count("prefix_dense_sliding_window_pattern", 1)
  const types = fields.has("layer_types")
    ? readLayerTypes(fields, layers, 1)
    : [
        ...readLayerTypes(fields, dense, first),
        ...readLayerTypes(fields, layers - dense, fields.count("sliding_window_pattern", 4)),
      ]
  const slid = withSlides(fields, config, types, (layer) => first === 1 && isDense(layer))
  const experts = readExperts(fields, intermediate)
  const wide = fields.count("prefix_dense_intermediate_size", intermediate)
  const shapes = { ...config.shapes, intermediate: wide }
  return withBlocks({ ...slid, shapes }, (block, layer) => {
    if (isDense(layer)) return withMlp(block, { intermediate: wide })
    const { factor } = experts.routing
    return { ...withMlp(block, { factors: { gate: 1, down: factor } }), experts }
  })
}

/** Shares are of those that were chosen. Where they are averaged, each side of the sum counts half. */
function readExperts(fields: Fields, intermediate: number): Experts {
  const score = fields.text("expert_selection_fn", "softmax")
  if (score !== "softmax" && score !== "sigmoid")
    throw fields.wrong("expert_selection_fn", `is "${score}"; known: softmax, sigmoid`)
  const sum = fields.text("shared_expert_combination_strategy", "average")
  if (sum !== "average" && sum !== "sum")
    throw fields.wrong("shared_expert_combination_strategy", `is "${sum}"; known: average, sum`)
  const beside = fields.count("num_shared_experts", 0, 0)
  const usual = { num_experts: 8, num_experts_per_tok: 2 }
  const names = { count: "num_experts", active: "num_experts_per_tok" }
  return {
    ...readRouting(fields.with(usual), names, {
      score,
      normalized: score === "softmax" || fields.flag("norm_topk_prob", true),
      factor: beside > 0 && sum === "average" ? 0.5 : 1,
    }),
    chosenByBias: false,
    shared: beside > 0 ? { intermediate: beside * intermediate, gated: false } : undefined,
  }
}

export const cohere2MoeNaming = (config: ModelConfig) =>
  withParts(neighboursNaming(config), sharedExpertNames)
