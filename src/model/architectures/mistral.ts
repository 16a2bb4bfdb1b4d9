// Mistral 7B and its kin: llama without biases, where a token sees no further back than a window.
// Source: modeling_mistral.py of transformers; position t sees itself and the window - 1 positions before it.

import type { Graph } from "../../compiler/graph/graph.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { decoder } from "../layers.ts"

export function readMistral(fields: Fields): ModelConfig {
  // From version 0.2 on the models say null: no window.
  const window = fields.has("sliding_window") ? fields.count("sliding_window") : undefined
  return { ...readDecoder(fields), window }
}

export function mistral(config: ModelConfig): Graph {
  return decoder({
    architecture: "mistral",
    config,
    biased: { qkv: false, o: false },
    headNorms: false,
  })
}
