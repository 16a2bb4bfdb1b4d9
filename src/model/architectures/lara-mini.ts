// Lara 4 Mini: the gated delta rule in most layers, attention as Qwen 3 has it in the others, some of which have a window and are
// turned while the rest see everything and are not; in every layer Qwen 3's experts beside one that all tokens go to. What the delta
// rule is given lies in one tensor. Source: modeling_lara_mini.py of transformers.

import { withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { joinedRows, type Naming, withParts } from "../weights/names.ts"
import { qwen3MoeNaming, withExperts, withNorms } from "./qwen.ts"
import { readDelta } from "./qwen3-5.ts"

/** Kinds of layers in their order, again and again, where a configuration does not list them. */
const PATTERN = [
  "linear_attention",
  "sliding_attention",
  "linear_attention",
  "full_attention",
  "sliding_attention",
]

export function readLaraMini(given: Fields): ModelConfig {
  const fields = given.with({ linear_num_key_heads: 8, linear_num_value_heads: 16 })
  const config = readDecoder(fields, {
    names: { intermediate: "moe_intermediate_size" },
    absent: { headDim: 128, tied: true, intermediate: 512 },
  })
  const types = readTypes(fields, config.shapes.layers)
  const delta = types.includes("linear_attention") ? readDelta(fields) : undefined
  const window = fields.count("sliding_window", 512)
  const blocks = withBlocks(withNorms(fields, config), (block, i) => {
    if (types[i] === "linear_attention") return { ...block, delta: delta! }
    return types[i] === "sliding_attention"
      ? withAttention(block, { window })
      : withAttention(block, { rotation: undefined })
  })
  const intermediate = fields.count("shared_expert_intermediate_size", 512)
  const usual = fields.with({
    num_experts: 128,
    num_experts_per_tok: 4,
    moe_intermediate_size: 512,
  })
  return withExperts(usual, blocks, { shared: { intermediate, gated: false }, normalized: true })
}

function readTypes(fields: Fields, layers: number): string[] {
  const name = "layer_types"
  if (!fields.has(name)) return Array.from({ length: layers }, (_, i) => PATTERN[i % 5]!)
  const types = fields.texts(name)
  if (types.length !== layers) throw fields.wrong(name, `names ${types.length} layers of ${layers}`)
  const unknown = types.find((type) => !PATTERN.includes(type))
  if (unknown !== undefined)
    throw fields.wrong(
      name,
      `holds "${unknown}"; known: full_attention, linear_attention, sliding_attention`,
    )
  if (types.every((type) => type === "linear_attention"))
    throw fields.wrong(name, "names no layer of attention; known: models that have one")
  return types
}

export function laraMiniNaming(config: ModelConfig): Naming {
  const delta = config.blocks.find((block) => block.delta)?.delta
  const naming = qwen3MoeNaming(config)
  if (!delta) return naming
  const { keyHeads, valueHeads, keyDim, valueDim, taps } = delta
  const [keys, values] = [keyHeads * keyDim, valueHeads * valueDim]
  const sizes = { q: keys, k: keys, v: values, z: values, b: valueHeads, a: valueHeads }
  const joined = Object.entries(joinedRows(sizes)).map(([part, rows]) => [
    `linear_attn.${part}_proj`,
    { name: "linear_attn.in_proj", rows },
  ])
  return withParts(naming, {
    ...Object.fromEntries(joined),
    "linear_attn.decay": { name: "linear_attn.A_log", bare: true },
    "linear_attn.decay_bias": { name: "linear_attn.dt_bias", bare: true },
    "linear_attn.conv": { name: "linear_attn.conv1d", taps },
    "linear_attn.norm": "linear_attn.out_norm",
  })
}
