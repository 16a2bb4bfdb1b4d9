// Poolside's Laguna: norms on each query and key head; layers of as many heads as are listed, some with a window, turned by what is
// said of their kind; what heads give times the softplus of a gate; experts chosen by a sigmoid and a bias, beside a shared one.
// Source: modeling_laguna.py of transformers.

import { type Experts, withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder, readLayerTypes, withWindows } from "../config.ts"
import type { Fields } from "../fields.ts"
import { readRotation } from "../rotation.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { readMlpTypes, readRouting } from "./experts.ts"
import { withNorms } from "./qwen.ts"

/** Where a configuration does not say how heads are turned. */
const rope_parameters = {
  full_attention: { rope_type: "default", rope_theta: 5e5, partial_rotary_factor: 0.5 },
  sliding_attention: { rope_type: "default", rope_theta: 1e4, partial_rotary_factor: 1 },
}

export function readLaguna(given: Fields): ModelConfig {
  const fields = given.with({ rope_parameters })
  const config = readDecoder(fields, {
    absent: { kvHeads: 8, headDim: 128 },
    rotation: { layers: "full_attention", part: 1 },
  })
  const { layers, headDim, context } = config.shapes
  const types = fields.has("layer_types") ? readLayerTypes(fields, layers, 1) : []
  const local = readRotation(fields, { headDim, context, layers: "sliding_attention", part: 1 })
  const windows = withWindows(config, types, fields.count("sliding_window", 512), local)
  const heads = readHeads(fields, config)
  const mlps = readMlpTypes(fields, layers)
  const [experts, intermediate] = [readExperts(fields), fields.count("moe_intermediate_size", 512)]
  return withBlocks(withNorms(fields, windows), (block, i) => {
    const own = withAttention(block, {
      heads: heads?.[i] ?? block.attention.heads,
      gated: readGates(fields),
      gate: "softplus",
    })
    const isDense = mlps ? mlps[i] === "dense" : i === 0
    return isDense ? own : { ...withMlp(own, { intermediate }), experts }
  })
}

/** `true` says what "per-head" does. What is said of each layer besides must be the same. */
function readGates(fields: Fields): "heads" | "columns" {
  const { gating = true } = fields.json
  if (gating !== true && gating !== "per-head" && gating !== "per-element")
    throw fields.wrong("gating", `is ${JSON.stringify(gating)}; known: per-head, per-element`)
  const kind = gating === "per-element" ? "per-element" : "per-head"
  const types = fields.has("gating_types") ? fields.texts("gating_types") : []
  const other = types.find((type) => type.replace("_", "-") !== kind)
  if (other !== undefined)
    throw fields.wrong("gating_types", `holds "${other}", and gating says ${kind}`)
  return kind === "per-head" ? "heads" : "columns"
}

function readHeads(fields: Fields, { shapes }: ModelConfig): number[] | undefined {
  const name = "num_attention_heads_per_layer"
  if (!fields.has(name)) return undefined
  const { layers, kvHeads } = shapes
  const heads = fields.counts(name, layers)
  if (heads.length !== layers)
    throw fields.wrong(name, `is about ${heads.length} layers of ${layers}`)
  const wrong = heads.find((count) => count === 0 || count % kvHeads !== 0)
  if (wrong === undefined) return heads
  throw fields.wrong(name, `holds ${wrong}, which ${kvHeads} heads of keys do not divide`)
}

function readExperts(fields: Fields): Experts {
  if (fields.flag("moe_apply_router_weight_on_input", false))
    throw fields.wrong("moe_apply_router_weight_on_input", "is true; only false is known")
  const cap = fields.has("moe_router_logit_softcapping")
    ? fields.number("moe_router_logit_softcapping")
    : 0
  const names = { count: "num_experts", active: "num_experts_per_tok" }
  return {
    ...readRouting(fields, names, {
      score: "sigmoid",
      factor: fields.positive("moe_routed_scaling_factor", 1),
    }),
    chosenByBias: true,
    ...(cap > 0 ? { cap } : {}),
    shared: { intermediate: fields.count("shared_expert_intermediate_size", 512), gated: false },
  }
}

const BIAS = "mlp.gate.e_score_correction_bias"

export const lagunaNaming: Naming = {
  ...withParts(llamaNaming, {
    "self_attn.gate_proj": "self_attn.g_proj",
    [BIAS]: "mlp.experts.e_score_correction_bias",
  }),
  mlx: { "mlp.gate": "mlp.gate.proj", [BIAS]: BIAS },
}
