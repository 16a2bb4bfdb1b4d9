// ERNIE 4.5: llama that turns neighbours with each other, with biases everywhere where `use_bias` says so. Its mixtures choose experts
// by their shares and a bias that does not weigh, beside shared ones. Sources: modeling_ernie4_5.py and modeling_ernie4_5_moe.py
// of transformers.

import { withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { type Naming, withParts } from "../weights/names.ts"
import { sharedExpertNames } from "./deepseek.ts"
import { readRouting } from "./experts.ts"
import { neighboursNaming } from "./glm4.ts"

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

/** What reads in PaddleOCR-VL. */
export const readPaddleOcr = (fields: Fields) =>
  readErnie(fields.with({ head_dim: 128, num_key_value_heads: 2 }))

export function readErnieMoe(fields: Fields): ModelConfig {
  if (fields.flag("use_bias", false))
    throw fields.wrong("use_bias", "is true; known: mixtures without biases")
  const config = readErnie(fields)
  const { layers } = config.shapes
  const names = { count: "moe_num_experts", active: "moe_k" }
  const intermediate = fields.count("moe_intermediate_size", 1536)
  const beside = fields.count("moe_num_shared_experts", 2, 0)
  const experts = {
    ...readRouting(fields, names),
    chosenByBias: true,
    shared: beside > 0 ? { intermediate: beside * intermediate, gated: false } : undefined,
  }
  const every = fields.count("moe_layer_interval", 1)
  const first = fields.count("moe_layer_start_index", 1, 0)
  const last =
    fields.json.moe_layer_end_index === -1
      ? layers - 1
      : fields.count("moe_layer_end_index", layers - 1, 0)
  return withBlocks(config, (block, layer) =>
    (layer + 1) % every === 0 && layer >= first && layer <= last
      ? { ...withMlp(block, { intermediate }), experts }
      : block,
  )
}

export function ernieMoeNaming(config: ModelConfig): Naming {
  // What guesses ahead.
  const layersBehind = { first: config.shapes.layers, layers: "mtp_block." }
  return withParts(
    { ...neighboursNaming(config), layersBehind },
    {
      ...sharedExpertNames,
      // A stack of one.
      "mlp.gate.e_score_correction_bias": {
        name: "mlp.moe_statics.e_score_correction_bias",
        stacked: 1,
      },
    },
  )
}
