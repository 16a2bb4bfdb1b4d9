// Qwen3.5, the dense models: attention in every fourth layer, whose heads are gated, and in the others the gated delta rule, which
// remembers a state of the sequence. Norms but the delta rule's count one more than is stored. Sources: modeling_qwen3_5.py and
// configuration_qwen3_5.py of transformers.

import { type Delta, withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, nested, withParts } from "../weights/names.ts"

export function readQwen35(fields: Fields): ModelConfig {
  if (!fields.flag("attn_output_gate", true))
    throw fields.wrong("attn_output_gate", "is false; known: attention that is gated")
  const config = readDecoder(fields, {
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

export function qwen35Naming({ shapes: { heads, headDim }, blocks }: ModelConfig): Naming {
  const taps = blocks.find(({ delta }) => delta)?.delta?.taps
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
      "linear_attn.qkv_proj": "linear_attn.in_proj_qkv",
      "linear_attn.z_proj": "linear_attn.in_proj_z",
      "linear_attn.a_proj": "linear_attn.in_proj_a",
      "linear_attn.b_proj": "linear_attn.in_proj_b",
      "linear_attn.decay": { name: "linear_attn.A_log", bare: true },
      "linear_attn.decay_bias": { name: "linear_attn.dt_bias", bare: true },
      ...(taps === undefined ? {} : { "linear_attn.conv": { name: "linear_attn.conv1d", taps } }),
    }),
  )
}
