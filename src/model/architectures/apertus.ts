// Apertus: norms on each query and key head, and a plain MLP whose activation, xIELU, has two learned numbers in every layer. Sources:
// modeling_apertus.py, modeling_apertus1p5.py and activations.py of transformers; "Deriving Activation Functions Using Integration" (arXiv 2411.13010).

import { withBlocks, withMlp, XIELU_BETA } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, storedTable, withParts } from "../weights/names.ts"
import { withNorms } from "./qwen.ts"

/** Where a configuration does not say how heads are turned. */
const rope_scaling = {
  rope_type: "llama3",
  factor: 8,
  original_max_position_embeddings: 8192,
  low_freq_factor: 1,
  high_freq_factor: 4,
}

export function readApertus(given: Fields): ModelConfig {
  const activation = given.text("hidden_act", "xielu")
  if (activation !== "xielu") throw given.wrong("hidden_act", `is "${activation}"; known: xielu`)
  const turned = given.has("rope_parameters") ? given : given.with({ rope_scaling })
  const config = readDecoder(turned.without("hidden_act"), {
    absent: { epsilon: 1e-5 },
    rotation: { theta: 12e6 },
  })
  return withBlocks(withNorms(given, config), (block) =>
    withMlp(block, { gated: false, xielu: true }),
  )
}

/** Apertus 1.5: the table has more rows than the head, of tokens that stand for what is seen or heard. */
export function readApertus15(fields: Fields): ModelConfig {
  const stored = fields.count("vocab_size")
  const vocab_size = fields.count("output_vocab_size", stored, 1, stored)
  const config = readApertus(fields.over({ vocab_size }))
  if (config.head.tied && vocab_size !== stored)
    throw fields.wrong("output_vocab_size", "is not vocab_size, though the head is the embedding")
  return { ...config, embedding: { ...config.embedding, stored } }
}

const learned = (name: string, how: { plus?: number } = {}) =>
  [
    `mlp.act_fn.${name}`,
    { name: `mlp.act_fn.${name}`, bare: true, softplus: true, ...how },
  ] as const

export const apertusNaming: Naming = withParts(llamaNaming, {
  input_layernorm: "attention_layernorm",
  post_attention_layernorm: "feedforward_layernorm",
  ...Object.fromEntries([learned("alpha_p"), learned("alpha_n", { plus: XIELU_BETA })]),
})

export const apertus15Naming = ({ shapes: { vocabulary }, embedding }: ModelConfig): Naming =>
  withParts(apertusNaming, storedTable({ stored: embedding.stored!, vocabulary }))
