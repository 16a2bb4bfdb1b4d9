// Nemotron 4 and Minitron: LayerNorms times 1 + weight, an ungated MLP with the square of relu, half of each head turned.
// Source: modeling_nemotron.py of transformers.

import { withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"

export function readNemotron(fields: Fields): ModelConfig {
  const config = readDecoder(fields, {
    epsilon: "norm_eps",
    absent: { epsilon: 1e-5 },
    norm: { kind: "layer", bias: true },
    activation: { otherwise: "relu2" },
    rotation: { part: 0.5 },
  })
  const attention = fields.flag("attention_bias", false)
  const mlp = fields.flag("mlp_bias", false)
  return withBlocks(config, (block) =>
    withMlp(withAttention(block, { bias: { qkv: attention, o: attention } }), {
      gated: false,
      bias: mlp,
    }),
  )
}

const plusOne = (name: string) => ({ name, plus: 1 })

export const nemotronNaming: Naming = withParts(llamaNaming, {
  norm: plusOne("norm"),
  input_layernorm: plusOne("input_layernorm"),
  post_attention_layernorm: plusOne("post_attention_layernorm"),
})
