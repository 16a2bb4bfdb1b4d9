// GLM-4 of April 2025, 9B and 32B: norms before and behind, gate and up in one tensor, and half of each head turned,
// neighbours with each other. Source: modeling_glm4.py of transformers.

import { NORMS, withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { joinedRows, llamaNaming, type Naming, type Source, withParts } from "../weights/names.ts"

const PART = 0.5

export function readGlm4(fields: Fields): ModelConfig {
  return withBlocks(readHalf(fields, false), (block) => ({ ...block, norms: NORMS.both }))
}

/** Of 2024, and the ones for small machines. */
export const readGlm = (fields: Fields) => readHalf(fields, true)

function readHalf(fields: Fields, isBiased: boolean): ModelConfig {
  const bias = { qkv: fields.flag("attention_bias", isBiased), o: false }
  const config = readDecoder(fields, { rotation: { part: PART } })
  return withBlocks(config, (block) => withAttention(block, { bias }))
}

export function glm4Naming(config: ModelConfig): Naming {
  const { intermediate } = config.shapes
  const { gate, up } = joinedRows({ gate: intermediate, up: intermediate })
  return withParts(neighboursNaming(config), {
    "self_attn.output_norm": "post_self_attn_layernorm",
    "mlp.output_norm": "post_mlp_layernorm",
    "mlp.gate_proj": { name: "mlp.gate_up_proj", rows: gate },
    "mlp.up_proj": { name: "mlp.gate_up_proj", rows: up },
  })
}

/** llama's names, where neighbours of a head are turned with each other. */
export function neighboursNaming(config: ModelConfig): Naming {
  const neighbours = neighboursOf(config)
  return withParts(llamaNaming, {
    "self_attn.q_proj": { name: "self_attn.q_proj", neighbours },
    "self_attn.k_proj": { name: "self_attn.k_proj", neighbours },
  })
}

/** How the rows of such queries and keys lie. */
export function neighboursOf({ shapes, blocks }: ModelConfig): NonNullable<Source["neighbours"]> {
  const rotation = blocks.find(({ attention }) => attention.rotation)?.attention.rotation
  return { headDim: shapes.headDim, turned: 2 * (rotation?.query.frequencies.length ?? 0) }
}
