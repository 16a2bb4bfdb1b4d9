// Muse Glimmer's text model: norms before and behind, those in front counting one more than is stored and all four of them so, an
// epsilon of its own behind; norms without weights of the embedding and of each query and key head; what heads give is gated; windows
// in three of four layers, which are turned, counted from the last, which sees everything and is not. Source: modeling_muse_glimmer.py
// of transformers.

import { NORMS, withAttention, withBlocks } from "../block.ts"
import { type LayerType, type ModelConfig, readDecoder, readLayerTypes } from "../config.ts"
import type { Fields } from "../fields.ts"
import { type Naming, unitParts, withParts } from "../weights/names.ts"
import { capOf, gemma2Naming, windowOf, withLogitCap } from "./gemma.ts"

const THETAS = "layer_rope_theta"

export function readMuseGlimmer(fields: Fields): ModelConfig {
  if (fields.flag("attention_bias", false))
    throw fields.wrong("attention_bias", "is true; only false is known of this architecture")
  const config = readDecoder(fields, {
    absent: { headDim: 128, epsilon: 1e-5 },
    activation: { field: "hidden_activation" },
  })
  const { layers, headDim } = config.shapes
  const behind = fields.positive("post_norm_eps", 1e-8)
  const scale = fields.positive("qk_scale_factor", 3.87) * headDim ** -0.5
  const window = fields.count("sliding_window", 2048)
  const types = readTypes(fields, layers)
  const isTurned = readTurned(fields, layers)
  const blocks = withBlocks(config, (block, i) => ({
    ...withAttention(block, {
      scale,
      window: windowOf(types, i, window),
      rotation: isTurned[i] ? block.attention.rotation : undefined,
      norms: { ...block.norm, over: "every head", place: "before" },
      gated: "columns",
    }),
    norms: { ...NORMS.both, behind },
  }))
  const multiplied = {
    ...blocks.head,
    factor: fields.positive("output_multiplier", 1 / Math.sqrt(26)),
  }
  const embedding = { ...blocks.embedding, norm: blocks.norm! }
  const cap = capOf(fields, "final_logit_softcapping", 20)
  return withLogitCap({ ...blocks, embedding, head: multiplied }, cap)
}

/** Every fourth from the last sees everything, where they are not listed. */
function readTypes(fields: Fields, layers: number): LayerType[] {
  if (fields.has("layer_types")) return readLayerTypes(fields, layers, 1)
  return Array.from({ length: layers }, (_, i) =>
    (layers - 1 - i) % 4 === 0 ? "full_attention" : "sliding_attention",
  )
}

/** A theta for each layer, 0 of those that are not turned. What turns the others is one theta for all. */
function readTurned(fields: Fields, layers: number): boolean[] {
  if (!fields.has(THETAS))
    return Array.from({ length: layers }, (_, i) => (layers - 1 - i) % 4 !== 0)
  const thetas = fields.numbers(THETAS)
  if (thetas.length !== layers)
    throw fields.wrong(THETAS, `is about ${thetas.length} layers of ${layers}`)
  const common = (fields.object("rope_parameters") ?? fields).positive("rope_theta", 10000)
  const other = thetas.find((theta) => theta !== 0 && theta !== common)
  if (other !== undefined)
    throw fields.wrong(THETAS, `holds ${other}; known: 0, and rope_theta, which is ${common}`)
  return thetas.map((theta) => theta !== 0)
}

/** The last norm's weight is meant as it is. */
export const museGlimmerNaming: Naming = withParts(gemma2Naming, {
  ...unitParts("embed_norm", "self_attn.q_norm", "self_attn.k_norm"),
  norm: "norm",
})
