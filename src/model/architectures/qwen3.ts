// Qwen3, the dense models: llama with a norm on each query and key head before it is turned, and heads wider than
// hidden / heads. Source: modeling_qwen3.py of transformers; `attention_bias`, mostly false, biases all four projections.

import type { Graph } from "../../compiler/graph/graph.ts"
import { type ModelConfig, readDecoder, readOptionalWindow } from "../config.ts"
import type { Fields } from "../fields.ts"
import { decoder } from "../layers.ts"

export function readQwen3(fields: Fields): ModelConfig {
  const attentionBias = fields.flag("attention_bias", false)
  return readOptionalWindow(fields, { ...readDecoder(fields), attentionBias })
}

export function qwen3(config: ModelConfig): Graph {
  const { attentionBias } = config
  return decoder({
    architecture: "qwen3",
    config,
    biased: { qkv: attentionBias, o: attentionBias },
    headNorms: true,
  })
}
