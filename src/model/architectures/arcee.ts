// Arcee's AFM: llama whose MLP has no gate, but the square of relu. Source: modeling_arcee.py of transformers.

import { withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { withBiases } from "./llama.ts"

export function readArcee(fields: Fields): ModelConfig {
  const config = readDecoder(fields, {
    absent: { epsilon: 1e-5 },
    activation: { otherwise: "relu2" },
  })
  return withBlocks(withBiases(fields, config), (block) => withMlp(block, { gated: false }))
}
