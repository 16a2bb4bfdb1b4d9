// SmolLM3: llama, some of whose layers are not turned: those that have a 0 in `no_rope_layers`, or every fourth. Where windows are
// switched on, these have them.
// Source: modeling_smollm3.py of transformers.

import { withAttention, withBlocks } from "../block.ts"
import { checkLayerTypes, type ModelConfig, readDecoder, readOptionalWindow } from "../config.ts"
import type { Fields } from "../fields.ts"
import { withBiases } from "./llama.ts"

export function readSmollm3(fields: Fields): ModelConfig {
  const plain = readDecoder(fields, { absent: { tied: true }, rotation: { theta: 2e6 } })
  const turned = readTurned(fields, plain.shapes.layers)
  const config = readOptionalWindow(fields, withBiases(fields, plain), (layer) => !turned[layer])
  checkLayerTypes(fields, config)
  return withBlocks(config, (block, i) =>
    turned[i] ? block : withAttention(block, { rotation: undefined }),
  )
}

function readTurned(fields: Fields, layers: number): boolean[] {
  if (fields.has("no_rope_layers")) {
    const list = fields.counts("no_rope_layers", layers)
    if (list.length === layers) return list.map((flag) => flag !== 0)
    throw fields.wrong("no_rope_layers", `names ${list.length} layers of ${layers}`)
  }
  const interval = fields.count("no_rope_layer_interval", 4)
  return Array.from({ length: layers }, (_, i) => (i + 1) % interval !== 0)
}
