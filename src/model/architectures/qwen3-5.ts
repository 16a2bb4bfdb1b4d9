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
  nested,
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
      gated: true,
    })
    return types[i] === "linear_attention" ? { ...own, delta } : own
  })
}

export function readQwen35Moe(fields: Fields): ModelConfig {
  const intermediate = fields.count("shared_expert_intermediate_size", 512)
  const shared = { intermediate, gated: true }
  return withExperts(fields, readQwen35(fields), { shared, normalized: true })
}

function readDelta(fields: Fields): Delta {
  const delta = {
    keyHeads: fields.count("linear_num_key_heads", 16),
    valueHeads: fields.count("linear_num_value_heads", 32),
    keyDim: fields.count("linear_key_head_dim", 128),
    valueDim: fields.count("linear_value_head_dim", 128),
    taps: fields.count("linear_conv_kernel_dim", 4),
  }
  const { keyHeads, valueHeads } = delta
  if (valueHeads % keyHeads !== 0)
    throw fields.wrong(
      "linear_num_key_heads",
      `is ${keyHeads}, which does not divide ${valueHeads} value heads`,
    )
  return delta
}

function readTypes(fields: Fields, layers: number): string[] {
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
  const parts = (delta: Delta): Naming["parts"] => {
    const keys = delta.keyHeads * delta.keyDim
    const rows = joinedRows({ q: keys, k: keys, v: delta.valueHeads * delta.valueDim })
    const joined = (of: keyof typeof rows) => ({ name: "linear_attn.in_proj_qkv", rows: rows[of] })
    return {
      "linear_attn.q_proj": joined("q"),
      "linear_attn.k_proj": joined("k"),
      "linear_attn.v_proj": joined("v"),
      "linear_attn.z_proj": "linear_attn.in_proj_z",
      "linear_attn.a_proj": "linear_attn.in_proj_a",
      "linear_attn.b_proj": "linear_attn.in_proj_b",
    }
  }
  return namingOf(config, parts)
}

export function qwen35MoeNaming(config: ModelConfig): Naming {
  const { mlp, experts } = config.blocks[0]!
  const sizes = { ...mlp, count: experts!.count, hidden: config.shapes.hidden }
  const names = { gateUp: "mlp.experts.gate_up_proj", down: "mlp.experts.down_proj" }
  return withParts(qwen35Naming(config), stackedExperts(sizes, names, { bare: true }))
}

/** Of each key head its queries, its keys, the values and the gates of its value heads; and shares before decays. */
export function qwen3NextNaming(config: ModelConfig): Naming {
  const parts = ({ keyHeads, valueHeads, keyDim, valueDim }: Delta): Naming["parts"] => {
    const heads = valueHeads / keyHeads
    const values = heads * valueDim
    const part = <Size extends string>(name: string, sizes: Record<Size, number>, of: Size) => {
      const { of: every, ...rows } = joinedRows(sizes)[of]
      return { name, rows: { ...rows, of: keyHeads * every } }
    }
    const given = (of: "q" | "k" | "v" | "z") =>
      part("linear_attn.in_proj_qkvz", { q: keyDim, k: keyDim, v: values, z: values }, of)
    const remembering = (of: "a" | "b") =>
      part("linear_attn.in_proj_ba", { b: heads, a: heads }, of)
    return {
      "linear_attn.q_proj": given("q"),
      "linear_attn.k_proj": given("k"),
      "linear_attn.v_proj": given("v"),
      "linear_attn.z_proj": given("z"),
      "linear_attn.a_proj": remembering("a"),
      "linear_attn.b_proj": remembering("b"),
    }
  }
  return namingOf(config, parts)
}

function namingOf(
  { shapes: { heads, headDim }, blocks }: ModelConfig,
  projections: (delta: Delta) => Naming["parts"],
): Naming {
  const delta = blocks.find((block) => block.delta)?.delta
  const plusOne = (name: string) => ({ name, plus: 1 })
  const queries = { of: 2 * heads * headDim, run: headDim, every: 2 * headDim }
  return nested(
    withParts(llamaNaming, {
      norm: plusOne("norm"),
      input_layernorm: plusOne("input_layernorm"),
      post_attention_layernorm: plusOne("post_attention_layernorm"),
      "self_attn.q_norm": plusOne("self_attn.q_norm"),
      "self_attn.k_norm": plusOne("self_attn.k_norm"),
      "self_attn.q_proj": { name: "self_attn.q_proj", rows: { ...queries, from: 0 } },
      "self_attn.gate_proj": { name: "self_attn.q_proj", rows: { ...queries, from: headDim } },
      "linear_attn.decay": { name: "linear_attn.A_log", bare: true },
      "linear_attn.decay_bias": { name: "linear_attn.dt_bias", bare: true },
      ...(delta && {
        "linear_attn.conv": { name: "linear_attn.conv1d", taps: delta.taps },
        ...projections(delta),
      }),
    }),
  )
}
