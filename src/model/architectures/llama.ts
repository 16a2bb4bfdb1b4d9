// Llama 1 to 3.x and everything that is written as one: TinyLlama, SmolLM2, Vicuna, Yi, the embedded model.
// Source: modeling_llama.py of transformers; `attention_bias` there biases the output projection too.

import type { Graph } from "../../compiler/graph/graph.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { decoder } from "../layers.ts"

export function readLlama(fields: Fields): ModelConfig {
  return {
    ...readDecoder(fields),
    attentionBias: fields.flag("attention_bias", false),
    mlpBias: fields.flag("mlp_bias", false),
  }
}

export function llama(config: ModelConfig): Graph {
  const { attentionBias } = config
  return decoder({
    architecture: "llama",
    config,
    biased: { qkv: attentionBias, o: attentionBias },
    headNorms: false,
  })
}
