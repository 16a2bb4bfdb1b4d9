// HRM Text: two stacks of layers, a slow one and a fast one, and a row of each. In a cycle the fast stack is passed several times, reading
// the sum of both rows, then the slow one once; each pass remembers by itself. Norms have no weights, and what heads give is gated.
// Where a configuration says `prefix_lm`, prompts may be read both ways; here they are read one way, as transformers does where it is not
// told which tokens are the prompt's, and llama.cpp always. Source: modeling_hrm_text.py of transformers.

import { withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder, readPasses } from "../config.ts"
import type { Fields } from "../fields.ts"
import {
  joinedRows,
  llamaNaming,
  type Naming,
  type RowRuns,
  unitParts,
  withParts,
} from "../weights/names.ts"

/** What all passes together are called by transformers, which writes how many layers a stack has beside it. */
const LAYERS = "num_layers_per_stack"

export function readHrmText(given: Fields): ModelConfig {
  for (const name of ["attention_bias", "mlp_bias"])
    if (given.flag(name, false))
      throw given.wrong(name, "is true; only false is known of this architecture")
  const layers = given.has(LAYERS) ? given.count(LAYERS) : given.count("num_hidden_layers")
  const heads = given.count("num_attention_heads")
  const fields = given.over({ num_hidden_layers: layers, num_key_value_heads: heads })
  const config = withBlocks(readDecoder(fields, { absent: { headDim: 128 } }), (block) =>
    withAttention(block, { gated: "columns" }),
  )
  const slow = readPasses(fields, "H_cycles", 2, 2 * layers)
  const fast = readPasses(fields, "L_cycles", 3, slow * layers)
  const factor = fields.positive("embedding_scale", 1 / fields.positive("initializer_range", 0.02))
  return {
    ...config,
    blocks: [...config.blocks, ...config.blocks],
    embedding: { ...config.embedding, factor },
    cycles: { slow, fast },
  }
}

export function hrmTextNaming({ shapes }: ModelConfig): Naming {
  const { layers, heads, headDim, intermediate } = shapes
  const each = heads * headDim
  const attention = joinedRows({ gate: each, q: each, k: each, v: each })
  const mlp = joinedRows({ gate: intermediate, up: intermediate })
  const parts = (part: string, name: string, rows: Readonly<Record<string, RowRuns>>) =>
    Object.entries(rows).map(([own, rows]) => [`${part}.${own}_proj`, { name, rows }])
  return {
    ...withParts(llamaNaming, {
      ...hrmTextParts,
      ...Object.fromEntries(parts("self_attn", "attn.gqkv_proj", attention)),
      ...Object.fromEntries(parts("mlp", "mlp.gate_up_proj", mlp)),
      "self_attn.o_proj": "attn.o_proj",
      fast_row: { name: "z_L_init", bare: true },
    }),
    layers: "L_module.layers.",
    layersBehind: { first: layers, layers: "H_module.layers." },
  }
}

/** Norms without weights, and zeros. */
export const hrmTextParts: Naming["parts"] = {
  ...unitParts("norm", "input_layernorm", "post_attention_layernorm"),
  fast_zeros: { name: "fast_zeros", constant: 0 },
}
