// Mistral 7B and what was made like it: llama whose layers may see only a window of positions, all of them or, as in Ministral 8B,
// those that are listed. Ministral 3: no window but yarn, and queries that grow with their position. Sources:
// modeling_mistral.py, modeling_ministral.py and modeling_ministral3.py of transformers, whose AutoConfig takes a mistral with
// `layer_types` for a ministral; a window of w positions is a token and the w - 1 before it.

import { withAttention, withBlocks } from "../block.ts"
import {
  checkLayerTypes,
  type ModelConfig,
  readDecoder,
  readLayerTypes,
  withWindows,
} from "../config.ts"
import type { Fields } from "../fields.ts"

export function readMistral(fields: Fields): ModelConfig {
  const config = withListedWindows(fields, readDecoder(fields))
  checkLayerTypes(fields, config)
  return config
}

function withListedWindows(fields: Fields, config: ModelConfig): ModelConfig {
  if (!fields.has("sliding_window") || !fields.has("layer_types")) return withWindow(fields, config)
  const window = fields.count("sliding_window")
  return withWindows(config, readLayerTypes(fields, config.shapes.layers, 1), window)
}

/** A window in every layer, where `sliding_window` is a number: from version 0.2 on Mistral's models say null. */
export function withWindow(fields: Fields, config: ModelConfig): ModelConfig {
  if (!fields.has("sliding_window")) return config
  const window = fields.count("sliding_window")
  return withBlocks(config, (block) => withAttention(block, { window }))
}

export const readMinistral3 = (fields: Fields) =>
  withGrowth(fields, withWindow(fields, readDecoder(fields)))

/** Queries grow with their position where `llama_4_scaling_beta` says so. */
export function withGrowth(fields: Fields, config: ModelConfig): ModelConfig {
  const scaling = fields.object("rope_parameters")
  if (!scaling?.has("llama_4_scaling_beta")) return config
  const growth = {
    beta: scaling.positive("llama_4_scaling_beta"),
    original: scaling.count("original_max_position_embeddings"),
    ahead: 0,
  }
  return withBlocks(config, (block) => {
    const { rotation } = block.attention
    return withAttention(block, {
      rotation: rotation && { ...rotation, query: { ...rotation.query, growth } },
    })
  })
}
