// Nemotron 4 and Minitron: LayerNorms times 1 + weight, an ungated MLP with the square of relu, half of each head turned. Jais 2 is
// the same with plain LayerNorms, biases everywhere and whole heads. Sources: modeling_nemotron.py and modeling_jais2.py of
// transformers.

import { withBlocks, withMlp } from "../block.ts"
import { type Differences, type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { withBiases } from "./llama.ts"

export const readNemotron = (fields: Fields) =>
  read(fields, { epsilon: "norm_eps", rotation: { part: 0.5 } })

export const readJais2 = (fields: Fields) =>
  read(fields.with({ attention_bias: true, mlp_bias: true }), { epsilon: "layer_norm_eps" })

function read(fields: Fields, differences: Differences): ModelConfig {
  const config = readDecoder(fields, {
    absent: { epsilon: 1e-5 },
    norm: { kind: "layer", bias: true },
    activation: { otherwise: "relu2" },
    ...differences,
  })
  return withBlocks(withBiases(fields, config), (block) => withMlp(block, { gated: false }))
}

const plusOne = (name: string) => ({ name, plus: 1 })

export const nemotronNaming: Naming = withParts(llamaNaming, {
  norm: plusOne("norm"),
  input_layernorm: plusOne("input_layernorm"),
  post_attention_layernorm: plusOne("post_attention_layernorm"),
})
