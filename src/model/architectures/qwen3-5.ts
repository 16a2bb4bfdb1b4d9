// Qwen3.5: attention in every fourth layer, whose heads are gated, and in the others the gated delta rule, which remembers a state of
// the sequence. Norms but the delta rule's count one more than is stored. Its mixtures have stacked experts in all layers, beside one
// that all tokens go to; Qwen3-Next's have them one by one, and the projections of the delta rule key head by key head. Sources:
// modeling_qwen3_5.py, modeling_qwen3_5_moe.py, modeling_qwen3_next.py and their configurations in transformers.

import { type Delta, withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import {
  joinedRows,
  llamaNaming,
  type Naming,
  singleExperts,
  stackedExperts,
  withParts,
} from "../weights/names.ts"
import { withExperts } from "./qwen.ts"

export function readQwen35(fields: Fields): ModelConfig {
  if (!fields.flag("attn_output_gate", true))
    throw fields.wrong("attn_output_gate", "is false; known: attention that is gated")
  const intermediate = fields.has("intermediate_size")
    ? "intermediate_size"
    : "moe_intermediate_size"
  const config = readDecoder(fields, {
    names: { intermediate },
    absent: { headDim: 256 },
    rotation: { part: 0.25 },
  })
  const delta = readDelta(fields)
  const types = readTypes(fields, config.shapes.layers)
  const bias = fields.flag("attention_bias", false)
  return withBlocks(config, (block, i) => {
    const own = withAttention(block, {
      bias: { qkv: bias, o: bias },
      norms: { ...block.norm, over: "every head", place: "before" },
      gated: "columns",
    })
    return types[i] === "linear_attention" ? { ...own, delta } : own
  })
}

export function readQwen35Moe(fields: Fields): ModelConfig {
  const intermediate = fields.count("shared_expert_intermediate_size", 512)
  const shared = { intermediate, gated: true }
  return withExperts(fields, readQwen35(fields), { shared, normalized: true })
}

/** Fields that are absent are Qwen 3.5's. */
export function readDelta(fields: Fields): Delta {
  const delta = {
    keyHeads: fields.count("linear_num_key_heads", 16),
    valueHeads: fields.count("linear_num_value_heads", 32),
    keyDim: fields.count("linear_key_head_dim", 128),
    valueDim: fields.count("linear_value_head_dim", 128),
    taps: fields.count("linear_conv_kernel_dim", 4),
    ...(fields.flag("linear_value_heads_tiled", false) && { tiled: true as const }), // of GGUF files
  }
  const { keyHeads, valueHeads } = delta
  if (valueHeads % keyHeads !== 0)
    throw fields.wrong(
      "linear_num_key_heads",
      `is ${keyHeads}, which does not divide ${valueHeads} value heads`,
    )
  return delta
}

/** What each layer has: attention, or the delta rule. */
export function readTypes(fields: Fields, layers: number): string[] {
  if (!fields.has("layer_types")) {
    const interval = fields.count("full_attention_interval", 4)
    return Array.from({ length: layers }, (_, i) =>
      (i + 1) % interval === 0 ? "full_attention" : "linear_attention",
    )
  }
  const types = fields.texts("layer_types")
  if (types.length !== layers)
    throw fields.wrong("layer_types", `names ${types.length} layers of ${layers}`)
  const unknown = types.find((type) => type !== "full_attention" && type !== "linear_attention")
  if (unknown !== undefined)
    throw fields.wrong("layer_types", `holds "${unknown}"; known: full_attention, linear_attention`)
  if (!types.includes("full_attention"))
    throw fields.wrong(
      "layer_types",
      "names no layer of full_attention; known: models that have one",
    )
  return types
}

export function qwen35Naming(config: ModelConfig): Naming {
  return namingOf(config, (delta) => ({
    ...joinedProjections(delta, "linear_attn.in_proj_qkv"),
    "linear_attn.z_proj": "linear_attn.in_proj_z",
    "linear_attn.a_proj": "linear_attn.in_proj_a",
    "linear_attn.b_proj": "linear_attn.in_proj_b",
  }))
}

/** All queries, all keys, all values. */
export function joinedProjections(delta: Delta, name: string): Naming["parts"] {
  const keys = delta.keyHeads * delta.keyDim
  const { q, k, v } = joinedRows({ q: keys, k: keys, v: delta.valueHeads * delta.valueDim })
  return {
    "linear_attn.q_proj": { name, rows: q },
    "linear_attn.k_proj": { name, rows: k },
    "linear_attn.v_proj": { name, rows: v },
  }
}

export function qwen35MoeNaming(config: ModelConfig): Naming {
  const { mlp, experts } = config.blocks[0]!
  const sizes = { ...mlp, count: experts!.count, hidden: config.shapes.hidden }
  const names = { gateUp: "mlp.experts.gate_up_proj", down: "mlp.experts.down_proj" }
  return {
    ...withParts(qwen35Naming(config), stackedExperts(sizes, names, { bare: true })),
    instead: [{ stored: "0.mlp.experts.0.gate_proj.weight", parts: singleExperts }],
  }
}

export function qwen3NextNaming(config: ModelConfig): Naming {
  return namingOf(config, (delta) => ({
    ...projectionsByKeyHead(delta, "linear_attn.in_proj_qkvz"),
    ...sharesByKeyHead(delta, "linear_attn.in_proj_ba"),
  }))
}

/** Of each key head its queries, its keys, the values and the gates of its value heads. */
export function projectionsByKeyHead(delta: Delta, name: string): Naming["parts"] {
  const { keyHeads, valueHeads, keyDim, valueDim } = delta
  const values = (valueHeads / keyHeads) * valueDim
  return byKeyHead(keyHeads, name, { q: keyDim, k: keyDim, v: values, z: values })
}

/** And shares before decays. */
export function sharesByKeyHead({ keyHeads, valueHeads }: Delta, name: string): Naming["parts"] {
  const heads = valueHeads / keyHeads
  return byKeyHead(keyHeads, name, { b: heads, a: heads })
}

function byKeyHead(
  keyHeads: number,
  name: string,
  sizes: Readonly<Record<string, number>>,
): Naming["parts"] {
  return Object.fromEntries(
    Object.entries(joinedRows(sizes)).map(([part, { of, ...rows }]) => [
      `linear_attn.${part}_proj`,
      { name, rows: { ...rows, of: keyHeads * of } },
    ]),
  )
}

/** Of each head its queries before its gates. */
export function gatedQueries(
  { shapes: { heads, headDim } }: ModelConfig,
  name: string,
): Naming["parts"] {
  const rows = { of: 2 * heads * headDim, run: headDim, every: 2 * headDim }
  return {
    "self_attn.q_proj": { name, rows: { ...rows, from: 0 } },
    "self_attn.gate_proj": { name, rows: { ...rows, from: headDim } },
  }
}

function namingOf(config: ModelConfig, projections: (delta: Delta) => Naming["parts"]): Naming {
  const delta = config.blocks.find((block) => block.delta)?.delta
  const plusOne = (name: string) => ({ name, plus: 1 })
  return withParts(llamaNaming, {
    norm: plusOne("norm"),
    input_layernorm: plusOne("input_layernorm"),
    post_attention_layernorm: plusOne("post_attention_layernorm"),
    "self_attn.q_norm": plusOne("self_attn.q_norm"),
    "self_attn.k_norm": plusOne("self_attn.k_norm"),
    pre_fc_norm_embedding: plusOne("pre_fc_norm_embedding"), // of what guesses ahead
    pre_fc_norm_hidden: plusOne("pre_fc_norm_hidden"),
    ...gatedQueries(config, "self_attn.q_proj"),
    "linear_attn.decay": { name: "linear_attn.A_log", bare: true },
    "linear_attn.decay_bias": { name: "linear_attn.dt_bias", bare: true },
    ...(delta && {
      "linear_attn.conv": { name: "linear_attn.conv1d", taps: delta.taps },
      ...projections(delta),
    }),
  })
}
