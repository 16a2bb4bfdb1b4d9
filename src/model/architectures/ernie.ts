// ERNIE 4.5, the dense models: llama that turns neighbours with each other, with biases everywhere where `use_bias` says so.
// Source: modeling_ernie4_5.py of transformers.

import { withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"

export function readErnie(fields: Fields): ModelConfig {
  const bias = fields.flag("use_bias", false)
  const config = readDecoder(fields, {
    absent: { tied: true, epsilon: 1e-5 },
    rotation: { theta: 5e5 },
  })
  return withBlocks(config, (block) =>
    withMlp(withAttention(block, { bias: { qkv: bias, o: bias } }), { bias }),
  )
}
