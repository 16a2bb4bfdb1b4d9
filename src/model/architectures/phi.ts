// Phi-3, 3.5 and 4: llama with queries, keys and values in one tensor, gate and up in another. Phi 1 to 2: attention and an
// ungated MLP side by side behind one LayerNorm, biases everywhere. Both may turn a part of each head only.
// Sources: modeling_phi3.py and modeling_phi.py of transformers.

import { NORMS, withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { joinedRows, llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { withWindow } from "./mistral.ts"

export function readPhi3(fields: Fields): ModelConfig {
  return withWindow(fields, readDecoder(fields, { rotation: { part: 1 } }))
}

export function phi3Naming({ shapes }: ModelConfig): Naming {
  const { heads, kvHeads, headDim, intermediate } = shapes
  const kv = kvHeads * headDim
  const { q, k, v } = joinedRows({ q: heads * headDim, k: kv, v: kv })
  const { gate, up } = joinedRows({ gate: intermediate, up: intermediate })
  const qkv = "self_attn.qkv_proj"
  return withParts(llamaNaming, {
    "self_attn.q_proj": { name: qkv, rows: q },
    "self_attn.k_proj": { name: qkv, rows: k },
    "self_attn.v_proj": { name: qkv, rows: v },
    "mlp.gate_proj": { name: "mlp.gate_up_proj", rows: gate },
    "mlp.up_proj": { name: "mlp.gate_up_proj", rows: up },
  })
}

export function readPhi(fields: Fields): ModelConfig {
  if (fields.flag("qk_layernorm", false))
    throw fields.wrong("qk_layernorm", "is true, which is not known of this architecture")
  const config = readDecoder(fields, {
    epsilon: "layer_norm_eps",
    absent: { epsilon: 1e-5 },
    norm: { kind: "layer", bias: true },
    activation: { otherwise: "gelu_new" },
    rotation: { part: 0.5 },
  })
  return {
    ...withBlocks(config, (block) => ({
      ...withMlp(withAttention(block, { bias: { qkv: true, o: true } }), {
        gated: false,
        bias: true,
      }),
      norms: NORMS.shared,
      parallel: true,
    })),
    head: { ...config.head, bias: true },
  }
}

export const phiNaming: Naming = withParts(llamaNaming, {
  norm: "final_layernorm",
  "self_attn.o_proj": "self_attn.dense",
  "mlp.up_proj": "mlp.fc1",
  "mlp.down_proj": "mlp.fc2",
})
