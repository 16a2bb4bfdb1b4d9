// gpt-oss: experts whose gates are limited and whose matrices have biases, windows in every other layer, and in every softmax of a
// head a learned score of what is not there. Source: modeling_gpt_oss.py of transformers. Folders keep the matrices of all
// experts in one tensor, in floats of 4 bits; a gate's row stands before its up row. Copies in larger floats, as fine-tunes are
// saved, keep them turned around.

import { withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder, readLayerTypes } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, stackedExperts, withParts } from "../weights/names.ts"
import { readRouting } from "./experts.ts"

/** Where a configuration says nothing of how heads are turned. */
const rope_scaling = {
  rope_type: "yarn",
  factor: 32,
  original_max_position_embeddings: 4096,
  beta_fast: 32,
  beta_slow: 1,
  truncate: false,
}

const ALPHA = 1.702 // of the sigmoid in the gates

export function readGptOss(fields: Fields): ModelConfig {
  const alpha = fields.positive("swiglu_alpha", ALPHA)
  if (alpha !== ALPHA) throw fields.wrong("swiglu_alpha", `is ${alpha}; only ${ALPHA} is known`)
  const config = readDecoder(fields.with({ rope_scaling }), {
    absent: { headDim: 64, epsilon: 1e-5 },
    rotation: { theta: 150000 },
  })
  const bias = fields.flag("attention_bias", true)
  const window = fields.count("sliding_window", 128)
  const types = readLayerTypes(fields, config.shapes.layers, 2)
  const names = { count: "num_local_experts", active: "num_experts_per_tok" }
  const experts = {
    ...readRouting(fields, names),
    chosenByBias: false,
    shared: undefined,
    biased: true,
    limit: fields.positive("swiglu_limit", 7),
  } as const
  return withBlocks(config, (block, i) => {
    const attended = withAttention(block, {
      bias: { qkv: bias, o: bias },
      window: types[i] === "sliding_attention" ? window : undefined,
      sinkLogits: true,
    })
    return { ...withMlp(attended, { activation: "quick_gelu" }), experts }
  })
}

export function gptOssNaming({ shapes, blocks: [block] }: ModelConfig): Naming {
  const names = { gateUp: "mlp.experts.gate_up_proj", down: "mlp.experts.down_proj" }
  const kept = (how: { transposed?: true }) =>
    stackedExperts({ count: block!.experts!.count, ...shapes }, names, {
      alternate: true,
      bare: true,
      ...how,
    })
  return {
    ...withParts(llamaNaming, {
      "self_attn.sinks": { name: "self_attn.sinks", bare: true },
      "mlp.gate": "mlp.router",
      ...kept({}),
    }),
    instead: [{ stored: `0.${names.gateUp}`, parts: kept({ transposed: true }) }],
  }
}
