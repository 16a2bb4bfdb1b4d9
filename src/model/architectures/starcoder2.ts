// StarCoder2: LayerNorms, an ungated MLP with tanh-gelu, biases everywhere, a window.
// Source: modeling_starcoder2.py of transformers.

import { withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { withWindow } from "./mistral.ts"

export function readStarcoder2(fields: Fields): ModelConfig {
  const bias = fields.flag("use_bias", true)
  const config = readDecoder(fields, {
    epsilon: "norm_epsilon",
    absent: { tied: true, epsilon: 1e-5, kvHeads: 2 },
    norm: { kind: "layer", bias: true },
    activation: { otherwise: "gelu_pytorch_tanh" },
  })
  return withWindow(
    fields,
    withBlocks(config, (block) =>
      withMlp(withAttention(block, { bias: { qkv: bias, o: bias } }), { gated: false, bias }),
    ),
  )
}

export const starcoder2Naming: Naming = withParts(llamaNaming, {
  "mlp.up_proj": "mlp.c_fc",
  "mlp.down_proj": "mlp.c_proj",
})
