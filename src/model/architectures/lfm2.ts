// LFM2: attention in a few layers, and in the others short convolutions of what a row's gate lets through. Its mixtures have
// experts in the place of the MLP behind the first layers. LFM3 has norms behind, too, windows in some layers of attention, turned
// otherwise, and a gate for each head. Sources: modeling_lfm2.py, modeling_lfm2_moe.py, modeling_lfm3.py and their configurations in
// transformers; folders keep each expert's matrices as w1, w3 and w2.

import { NORMS, withAttention, withBlocks, withMlp } from "../block.ts"
import {
  type Differences,
  MAX_LAYERS,
  type ModelConfig,
  readDecoder,
  withWindows,
} from "../config.ts"
import type { Fields } from "../fields.ts"
import { readRotation } from "../rotation.ts"
import { expertNames, llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { readRouting } from "./experts.ts"

export function readLfm2(fields: Fields): ModelConfig {
  const config = readLayers(
    fields,
    fields.has("block_ff_dim") ? "block_ff_dim" : "intermediate_size",
  )
  const intermediate = widthOf(fields, config.shapes.intermediate)
  const blocks = withBlocks(config, (block) => withMlp(block, { intermediate }))
  return { ...blocks, shapes: { ...config.shapes, intermediate } }
}

export function readLfm2Moe(fields: Fields): ModelConfig {
  const dense = fields.count("num_dense_layers", 2, 0)
  const intermediate = fields.count("moe_intermediate_size")
  const names = { count: "num_experts", active: "num_experts_per_tok" }
  const routing = {
    score: "sigmoid",
    normalized: fields.flag("norm_topk_prob", true),
    factor: fields.positive("routed_scaling_factor", 1),
  } as const
  const chosenByBias = fields.flag("use_expert_bias", true)
  const experts = { ...readRouting(fields, names, routing), chosenByBias, shared: undefined }
  return withBlocks(readLayers(fields, "intermediate_size"), (block, layer) =>
    layer < dense ? block : { ...withMlp(block, { intermediate }), experts },
  )
}

/** Where a configuration of LFM3 does not say how heads are turned. */
const rope_parameters = {
  sliding_attention: { rope_type: "default", rope_theta: 1e4 },
  full_attention: { rope_type: "proportional", rope_theta: 1e6, partial_rotary_factor: 0.5 },
}

export function readLfm3(given: Fields): ModelConfig {
  const usual = { rope_parameters, head_dim: 128, conv_L_cache: 7 }
  const fields = given.with({ ...usual, layer_types: usualTypes(given) })
  if (fields.flag("attention_bias", false))
    throw fields.wrong("attention_bias", "is true; only false is known of this architecture")
  const rotation = { layers: "full_attention", part: 1 }
  const config = readLayers(fields, "intermediate_size", { rotation }, LFM3_TYPES)
  const { headDim, context, layers } = config.shapes
  const local = readRotation(fields, { headDim, context, layers: "sliding_attention" })
  const window = fields.count("sliding_window", 256)
  const types = readTypes(fields, layers, LFM3_TYPES)
  const gated = fields.flag("use_attention_gate", true)
  const sandwiched = fields.flag("use_sandwich_norm", true)
  return withBlocks(withWindows(config, types, window, local), (block) => ({
    ...(gated ? withAttention(block, { gated: "heads" }) : block),
    norms: sandwiched ? NORMS.both : NORMS.before,
  }))
}

const LFM3_TYPES = ["full_attention", "sliding_attention", "conv"]

/** Of four layers the first has a window, but for the very first, and the third sees everything. */
function usualTypes(fields: Fields): string[] {
  const layers = fields.count("num_hidden_layers", undefined, 1, MAX_LAYERS)
  return Array.from({ length: layers }, (_, i) => {
    if (i % 4 === 2) return "full_attention"
    return i % 4 === 0 && i > 0 ? "sliding_attention" : "conv"
  })
}

/** @param width what says how wide their MLPs are */
function readLayers(
  fields: Fields,
  width: string,
  differences: Differences = { rotation: { theta: 1e6 } },
  known = ["full_attention", "conv"],
): ModelConfig {
  if (fields.flag("conv_bias", false))
    throw fields.wrong("conv_bias", "is true; known: convolutions without a bias")
  const config = readDecoder(fields, {
    names: { intermediate: width },
    absent: { epsilon: 1e-5, tied: fields.flag("tie_embedding", true) },
    epsilon: "norm_eps",
    ...differences,
  })
  const { epsilon } = config.norm!
  const taps = fields.count("conv_L_cache", 3)
  const types = readTypes(fields, config.shapes.layers, known)
  const norms = { kind: "rms", bias: false, epsilon, over: "every head", place: "before" } as const
  return withBlocks(config, (block, i) => {
    const own = withAttention(block, { norms })
    return types[i] === "conv" ? { ...own, convolution: { taps } } : own
  })
}

const MOST_COLUMNS = 2 ** 30

/** Two thirds of what is given, and more to a round number, unless the folder says that it is meant as it is. */
function widthOf(fields: Fields, given: number): number {
  if (!fields.flag("block_auto_adjust_ff_dim", true)) return given
  const factor = fields.positive("block_ffn_dim_multiplier", 1)
  const multiple = fields.count("block_multiple_of", 256)
  const width = Math.floor(factor * Math.floor((2 * given) / 3))
  if (width > 0 && width <= MOST_COLUMNS) return Math.ceil(width / multiple) * multiple
  throw fields.wrong("block_ffn_dim_multiplier", `is ${factor}, which makes ${width} columns`)
}

function readTypes(fields: Fields, layers: number, known: readonly string[]): string[] {
  if (!fields.has("layer_types")) {
    const all = Array.from({ length: layers }, (_, i) => i)
    const listed = fields.has("full_attn_idxs") ? fields.counts("full_attn_idxs", layers) : all
    return all.map((i) => (listed.includes(i) ? "full_attention" : "conv"))
  }
  const types = fields.texts("layer_types")
  if (types.length !== layers)
    throw fields.wrong("layer_types", `names ${types.length} layers of ${layers}`)
  const unknown = types.find((type) => !known.includes(type))
  if (unknown !== undefined)
    throw fields.wrong("layer_types", `holds "${unknown}"; known: ${known.join(", ")}`)
  return types
}

/** What layers are made of, in the tower of LFM3-VL as well. */
export const lfm2Parts = {
  input_layernorm: "operator_norm",
  post_attention_layernorm: "ffn_norm",
  "self_attn.q_norm": "self_attn.q_layernorm",
  "self_attn.k_norm": "self_attn.k_layernorm",
  "self_attn.o_proj": "self_attn.out_proj",
  "mlp.gate_proj": "feed_forward.w1",
  "mlp.up_proj": "feed_forward.w3",
  "mlp.down_proj": "feed_forward.w2",
} as const

export function lfm2Naming({ blocks }: ModelConfig): Naming {
  const taps = blocks.find(({ convolution }) => convolution)?.convolution?.taps
  return withParts(llamaNaming, {
    norm: "embedding_norm",
    ...lfm2Parts,
    "mlp.gate": "feed_forward.gate",
    "mlp.gate.e_score_correction_bias": "feed_forward.expert_bias",
    ...expertNames({
      gate: "feed_forward.experts.*.w1",
      up: "feed_forward.experts.*.w3",
      down: "feed_forward.experts.*.w2",
    }),
    ...(taps === undefined ? {} : { "conv.conv": { name: "conv.conv", taps } }),
  })
}

export const lfm3Naming = (config: ModelConfig): Naming =>
  withParts(lfm2Naming(config), {
    "self_attn.output_norm": "post_operator_norm",
    "mlp.output_norm": "post_ffn_norm",
    "self_attn.q_norm": "self_attn.q_norm",
    "self_attn.k_norm": "self_attn.k_norm",
    "self_attn.o_proj": "self_attn.o_proj",
  })
