// BitNet b1.58: llama with relu squared, and a norm more before each projection back. Its matrices are ternary (packed/bitnet.ts).
// Source: modeling_bitnet.py of transformers.

import { withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { withBiases } from "./llama.ts"

export function readBitnet(fields: Fields): ModelConfig {
  const config = readDecoder(fields, {
    absent: { epsilon: 1e-5 },
    activation: { otherwise: "relu2" },
    rotation: { theta: 5e5 },
  })
  return withBlocks(withBiases(fields, config), (block) => {
    const normed = block.norm
    return withMlp(withAttention(block, { normed }), { normed })
  })
}

export const bitnetNaming: Naming = withParts(llamaNaming, {
  "self_attn.sub_norm": "self_attn.attn_sub_norm",
  "mlp.sub_norm": "mlp.ffn_sub_norm",
})
