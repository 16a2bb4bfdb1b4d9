// Xiaomi's MiMo V2 Flash: values narrower than keys, and made smaller; layers with a window have twice as many heads of keys, sinks and
// another theta; a third of each head is turned; DeepSeek V3's experts, with no shared one beside them. Sources:
// modeling_mimo_v2_flash.py of transformers, and the names of fields that the model was published with. `sliding_window_size` are the
// positions before a token's own.

import { withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder, readLayerTypes } from "../config.ts"
import type { Fields } from "../fields.ts"
import { readRotation } from "../rotation.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { readMixture } from "./deepseek.ts"
import { readMlpTypes } from "./experts.ts"

const PART = 0.334 // of a head, which is turned
const THETA = { full: 5e6, sliding: 1e4 }
const FACTOR = 707 / 1000 // of values, which is not meant as half the root of 2

export function readMimo(given: Fields): ModelConfig {
  const fields = given.alsoCalled({ rms_norm_eps: "layernorm_epsilon" })
  if (fields.has("n_shared_experts") && fields.count("n_shared_experts", 0, 0) > 0)
    throw fields.wrong("n_shared_experts", "is there; known: experts alone")
  const config = readDecoder(fields, {
    absent: { kvHeads: 4, headDim: 192, epsilon: 1e-5 },
    rotation: { layers: "full_attention", part: PART, theta: THETA.full },
  })
  const { layers, headDim, context, kvHeads } = config.shapes
  const columns = fields.count("v_head_dim", 128, 1, headDim)
  const scale = "attention_value_scale"
  const factor = fields.json[scale] === null ? 1 : fields.positive(scale, FACTOR)
  for (const [name, known] of [
    ["swa_head_dim", headDim],
    ["swa_v_head_dim", columns],
    ["swa_num_attention_heads", config.shapes.heads],
  ] as const)
    if (fields.count(name, known) !== known)
      throw fields.wrong(name, `is ${fields.count(name)}; known: the other layers' ${known}`)
  const local = readRotation(fields, {
    ...{ headDim, context, layers: "sliding_attention", part: PART },
    ...(!fields.has("rope_parameters") && {
      layerTheta: fields.positive("swa_rope_theta", THETA.sliding),
    }),
  })
  const types = readTypes(fields, layers)
  const sliding = {
    kvHeads: fields.count("swa_num_key_value_heads", 2 * kvHeads),
    window: readWindow(fields),
    rotation: { query: local, key: local },
  }
  if (config.shapes.heads % sliding.kvHeads !== 0)
    throw fields.wrong(
      "swa_num_key_value_heads",
      `is ${sliding.kvHeads}, which does not divide ${config.shapes.heads} heads`,
    )
  const bias = { qkv: fields.flag("attention_bias", false), o: false }
  const sinks = {
    full_attention: fields.flag("add_full_attention_sink_bias", false),
    sliding_attention: fields.flag("add_swa_attention_sink_bias", true),
  }
  const hasExperts = readExpertLayers(fields, layers)
  const intermediate = fields.count("moe_intermediate_size", 2048)
  const experts = { ...readMixture(fields), shared: undefined }
  return withBlocks(config, (block, i) => {
    const type = types[i]!
    const own = withAttention(block, {
      ...(type === "sliding_attention" && sliding),
      ...(sinks[type] && { sinkLogits: true }),
      values: { columns, factor },
      bias,
    })
    return hasExperts(i) ? { ...withMlp(own, { intermediate }), experts } : own
  })
}

function readWindow(fields: Fields): number {
  if (fields.has("sliding_window_size")) return fields.count("sliding_window_size") + 1
  return fields.count("sliding_window", 129)
}

/** As they are listed, or as a pattern has it, whose ones have a window; else the first and every sixth see everything. */
function readTypes(fields: Fields, layers: number) {
  const name = "hybrid_layer_pattern"
  if (fields.has("layer_types")) return readLayerTypes(fields, layers, 1)
  const usual = Array.from({ length: layers }, (_, i) => Number(i > 0 && (i + 1) % 6 !== 0))
  const pattern = fields.has(name) ? fields.counts(name, layers) : usual
  if (pattern.length !== layers || pattern.some((each) => each > 1))
    throw fields.wrong(name, `is not a list of ${layers}, each 0 or 1`)
  return pattern.map((each) => (each === 1 ? "sliding_attention" : "full_attention"))
}

/** Likewise; else all but the first. */
function readExpertLayers(fields: Fields, layers: number): (layer: number) => boolean {
  const types = readMlpTypes(fields, layers)
  if (types) return (layer) => types[layer] === "sparse"
  const name = "moe_layer_freq"
  if (!fields.has(name)) return (layer) => layer > 0
  const listed = fields.counts(name, layers)
  if (listed.length !== layers || listed.some((each) => each > 1))
    throw fields.wrong(name, `is not a list of ${layers}, each 0 or 1`)
  return (layer) => listed[layer] === 1
}

export const mimoNaming: Naming = withParts(llamaNaming, {
  "self_attn.sinks": { name: "self_attn.attention_sink_bias", bare: true },
})
