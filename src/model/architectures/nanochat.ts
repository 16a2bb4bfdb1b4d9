// nanochat: norms without weights, of the embedding, too, and on each query and key head behind its turn, which goes the other way
// round; a plain MLP with relu squared; bent logits. Source: modeling_nanochat.py of transformers.

import type { Rotation } from "../../runtime/rotation.ts"
import { withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, unitParts, withParts } from "../weights/names.ts"
import { capOf, withLogitCap } from "./gemma.ts"

export function readNanochat(fields: Fields): ModelConfig {
  const config = readDecoder(fields, { activation: { otherwise: "relu2" } })
  const bias = fields.flag("attention_bias", false)
  const blocks = withBlocks(config, (block) => {
    const turn = backwards(block.attention.rotation!.query)
    const own = withAttention(block, {
      bias: { qkv: bias, o: bias },
      rotation: { query: turn, key: turn },
      norms: { ...block.norm, over: "every head", place: "after" },
    })
    return withMlp(own, { gated: false })
  })
  const normed = { ...blocks, embedding: { ...blocks.embedding, norm: blocks.norm! } }
  return withLogitCap(normed, capOf(fields, "final_logit_softcapping", 15))
}

const backwards = ({ frequencies, ...turn }: Rotation): Rotation => ({
  ...turn,
  frequencies: frequencies.map((frequency) => -frequency),
})

export const nanochatNaming: Naming = withParts(llamaNaming, {
  ...unitParts(
    "embed_norm",
    "input_layernorm",
    "self_attn.q_norm",
    "self_attn.k_norm",
    "post_attention_layernorm",
    "norm",
  ),
  "mlp.up_proj": "mlp.fc1",
  "mlp.down_proj": "mlp.fc2",
})
