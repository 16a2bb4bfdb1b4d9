// Qwen2 and Qwen2.5: llama with biases on queries, keys and values, always, and never on the output projection. Qwen3, the
// dense models: a norm on each query and key head before it is turned, and heads wider than hidden / heads;
// `attention_bias`, mostly false, biases all four projections. Configurations write a sliding window that most of them do
// not use. Their mixtures have experts in the place of the MLP, but in layers that are named; Qwen2's has beside them one that
// all tokens go to, under a gate of its own. Those that see have the same text models, Qwen3-VL's mixtures with stacked experts. Sources:
// modeling_qwen2.py, modeling_qwen3.py and those of _moe and _vl, and modeling_mellum.py in transformers.

import { type Experts, withAttention, withBlocks, withMlp } from "../block.ts"
import {
  checkLayerTypes,
  type ModelConfig,
  readDecoder,
  readLayerTypes,
  readOptionalWindow,
  withWindows,
} from "../config.ts"
import type { Fields } from "../fields.ts"
import { readRotation } from "../rotation.ts"
import { llamaNaming, type Naming, stackedExperts } from "../weights/names.ts"
import { readMlpTypes, readRouting } from "./experts.ts"

export function readQwen2(fields: Fields): ModelConfig {
  const config = readOptionalWindow(fields, readDecoder(fields))
  checkLayerTypes(fields, config)
  return withBlocks(config, (block) => withAttention(block, { bias: { qkv: true, o: false } }))
}

export function readQwen3(fields: Fields): ModelConfig {
  const config = readOptionalWindow(fields, readDecoder(fields))
  checkLayerTypes(fields, config)
  return withNorms(fields, config)
}

/** On each query and key head, and biases where `attention_bias` says so. */
export function withNorms(fields: Fields, config: ModelConfig): ModelConfig {
  const bias = fields.flag("attention_bias", false)
  return withBlocks(config, (block) =>
    withAttention(block, {
      bias: { qkv: bias, o: bias },
      norms: { ...block.norm, over: "every head", place: "before" },
    }),
  )
}

export function readQwen2Moe(fields: Fields): ModelConfig {
  refuseWindow(fields)
  const intermediate = fields.count("shared_expert_intermediate_size")
  const bias = { qkv: fields.flag("qkv_bias", true), o: false }
  const config = withBlocks(readQwen2(fields), (block) => withAttention(block, { bias }))
  return withExperts(fields, config, { shared: { intermediate, gated: true } })
}

export function readQwen3Moe(fields: Fields): ModelConfig {
  refuseWindow(fields)
  return withExperts(fields, readQwen3(fields))
}

/** JetBrains' Mellum 2: windows in layers that are listed, which are turned otherwise. */
export function readMellum(given: Fields): ModelConfig {
  const fields = given.with({ rope_parameters: MELLUM_TURNS })
  const config = withNorms(fields, readDecoder(fields, { rotation: { layers: "full_attention" } }))
  const { layers, headDim, context } = config.shapes
  const types = fields.has("layer_types") ? readLayerTypes(fields, layers, 1) : []
  const local = readRotation(fields, { headDim, context, layers: "sliding_attention" })
  const windows = withWindows(config, types, fields.count("sliding_window", 1024), local)
  return withExperts(fields, windows, { normalized: true })
}

/** Where a configuration does not say how heads are turned. */
const MELLUM_TURNS = {
  full_attention: { rope_type: "default", rope_theta: 5e5 },
  sliding_attention: { rope_type: "default", rope_theta: 1e4 },
}

/** Which layers of a mixture have one is read in two ways, and published configurations switch it off. */
function refuseWindow(fields: Fields): void {
  if (fields.flag("use_sliding_window", false) && fields.has("sliding_window"))
    throw fields.wrong("use_sliding_window", "is true; known: mixtures that see everything")
}

/**
 * Experts in every `decoder_sparse_step`-th layer that is not in `mlp_only_layers`, nor dense by `mlp_layer_types`.
 * @param normalized whether their weights are, where the configuration says nothing
 */
export function withExperts(
  fields: Fields,
  config: ModelConfig,
  { shared, normalized: absent = false }: { shared?: Experts["shared"]; normalized?: boolean } = {},
): ModelConfig {
  const normalized = fields.flag("norm_topk_prob", absent)
  const count = fields.has("num_local_experts") ? "num_local_experts" : "num_experts" // the former by transformers 5
  const names = { count, active: "num_experts_per_tok" }
  const experts = { ...readRouting(fields, names, { normalized }), chosenByBias: false, shared }
  const intermediate = fields.count("moe_intermediate_size")
  const step = fields.count("decoder_sparse_step", 1)
  const dense = fields.has("mlp_only_layers")
    ? fields.counts("mlp_only_layers", config.shapes.layers)
    : []
  const types = readMlpTypes(fields, config.shapes.layers)
  return withBlocks(config, (block, layer) =>
    dense.includes(layer) || (layer + 1) % step !== 0 || types?.[layer] === "dense"
      ? block
      : { ...withMlp(block, { intermediate }), experts },
  )
}

/** Experts are kept one by one; of those that see stacked, turned around unless transformers 5 has saved them. */
export function qwen3MoeNaming({ shapes: { hidden }, blocks }: ModelConfig): Naming {
  const first = blocks.findIndex(({ experts }) => experts)
  if (first < 0) return llamaNaming
  const { experts, mlp } = blocks[first]!
  const names = { gateUp: "mlp.experts.gate_up_proj", down: "mlp.experts.down_proj" }
  const sizes = { count: experts!.count, intermediate: mlp.intermediate, hidden }
  const stored = `${first}.${names.gateUp}`
  const shape = [sizes.count, 2 * sizes.intermediate, hidden]
  const kept = (how: { transposed?: true }) => stackedExperts(sizes, names, { bare: true, ...how })
  return {
    ...llamaNaming,
    instead: [
      { stored, shape, parts: kept({}) },
      { stored, parts: kept({ transposed: true }) },
    ],
  }
}
