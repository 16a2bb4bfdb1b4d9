// Qwen2 and Qwen2.5: llama with biases on queries, keys and values, always, and never on the output projection.
// Source: modeling_qwen2.py of transformers. Configurations write a sliding window that most of them do not use.

import type { Graph } from "../../compiler/graph/graph.ts"
import { type ModelConfig, readDecoder, readOptionalWindow } from "../config.ts"
import type { Fields } from "../fields.ts"
import { decoder } from "../layers.ts"

export function readQwen2(fields: Fields): ModelConfig {
  return readOptionalWindow(fields, { ...readDecoder(fields), attentionBias: true })
}

export function qwen2(config: ModelConfig): Graph {
  return decoder({
    architecture: "qwen2",
    config,
    biased: { qkv: true, o: false },
    headNorms: false,
  })
}
