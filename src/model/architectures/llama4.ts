// Llama 4: layers that turn neighbours of a head and see chunked windows, and every fourth that turns nothing, sees everything and
// has queries that grow with their position. A token goes to one expert, which reads the row times its weight, beside a shared one.
// Sources: modeling_llama4.py and configuration_llama4.py of transformers.

import { growing } from "../../runtime/rotation.ts"
import { type Experts, type SelfAttention, withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { type Naming, stackedExperts, unitParts, withParts } from "../weights/names.ts"
import { readRouting } from "./experts.ts"
import { neighboursNaming } from "./glm4.ts"

export function readLlama4(fields: Fields): ModelConfig {
  const config = readDecoder(fields, {
    names: { intermediate: "intermediate_size_mlp" },
    absent: { vocabulary: 202048, context: 131072, kvHeads: 8, headDim: 128, epsilon: 1e-5 },
    rotation: { theta: 5e5 },
  })
  const { layers } = config.shapes
  const turns = readTurns(fields, layers)
  const chunks = readChunks(fields, turns)
  const mixtures = readMixtures(fields, layers)
  const intermediate = fields.count("intermediate_size", 8192)
  const experts = mixtures.length > 0 ? readExperts(fields, intermediate) : undefined
  const bias = fields.flag("attention_bias", false)
  return withBlocks(config, (block, i) => {
    const own = withAttention(block, {
      bias: { qkv: bias, o: bias },
      ...(turns[i] ? turned(fields, config) : unturned(fields, config)),
      ...chunks[i],
    })
    return mixtures.includes(i) ? { ...withMlp(own, { intermediate }), experts: experts! } : own
  })
}

/** Whether each layer turns its heads: `no_rope_layers` has 1 for those that do. */
function readTurns(fields: Fields, layers: number): boolean[] {
  const name = "no_rope_layers"
  const interval = fields.count("no_rope_layer_interval", 4)
  const all = Array.from({ length: layers }, (_, i) => i)
  const listed = fields.has(name) ? fields.counts(name, layers) : []
  if (listed.length === 0) return all.map((i) => (i + 1) % interval !== 0) // as transformers reads an empty one
  if (listed.length !== layers)
    throw fields.wrong(name, `is about ${listed.length} layers of ${layers}`)
  return listed.map((turns) => turns === 1)
}

function readChunks(fields: Fields, turns: readonly boolean[]): Partial<SelfAttention>[] {
  const [name, chunked, full] = ["layer_types", "chunked_attention", "full_attention"]
  const types = fields.has(name)
    ? fields.texts(name)
    : turns.map((isTurned) => (isTurned ? chunked : full))
  const known = types.every((type) => type === chunked || type === full)
  if (types.length !== turns.length || !known)
    throw fields.wrong(name, `is not a list of ${turns.length}, each ${chunked} or ${full}`)
  if (fields.json.attention_chunk_size === null && !fields.has(name)) return types.map(() => ({}))
  const window = fields.count("attention_chunk_size", 8192)
  return types.map((type) => (type === chunked ? { window, chunked: true } : {}))
}

/** What comes of a turn is brought to one length head by head. */
function turned(fields: Fields, { norm }: ModelConfig): Partial<SelfAttention> {
  if (!fields.flag("use_qk_norm", true)) return {}
  return { norms: { ...norm!, over: "every head", place: "after" } }
}

/** Queries alone grow, as if they were turned by nothing. */
function unturned(fields: Fields, { shapes: { headDim } }: ModelConfig): Partial<SelfAttention> {
  const tuning = fields.json.attn_temperature_tuning ?? true // a number of layers once, which no code has read
  if (tuning === false || tuning === 0) return { rotation: undefined }
  const query = growing(headDim, {
    beta: fields.positive("attn_scale", 0.1),
    original: fields.positive("floor_scale", 8192),
    ahead: 1,
  })
  return { rotation: { query, key: undefined } }
}

/** The layers that have experts: those that `moe_layers` lists, or every so many, the first one less than that. */
function readMixtures(fields: Fields, layers: number): number[] {
  if (fields.has("moe_layers")) return fields.counts("moe_layers", layers)
  const step = fields.count("interleave_moe_layer_step", 1, 0)
  const all = Array.from({ length: layers }, (_, i) => i)
  return step === 0 ? [] : all.filter((i) => (i + 1) % step === 0)
}

function readExperts(fields: Fields, intermediate: number): Experts {
  const names = { count: "num_local_experts", active: "num_experts_per_tok" }
  const usual = { num_local_experts: 16, num_experts_per_tok: 1 }
  const routing = { score: "sigmoid", normalized: false } as const
  const routed = readRouting(fields.with(usual), names, routing)
  if (routed.routing.active !== 1)
    throw fields.wrong(names.active, `is ${routed.routing.active}; known: 1`)
  return {
    ...routed,
    chosenByBias: false,
    weighed: "input",
    shared: { intermediate, gated: false },
  }
}

/** Heads are brought to one length, and a row's weights are added up. */
export const unitWeights = unitParts("self_attn.q_norm", "self_attn.k_norm", "mlp.weighed")

export function llama4Naming(config: ModelConfig): Naming {
  const { shapes, blocks } = config
  const { experts, mlp } = blocks.find((block) => block.experts) ?? blocks[0]!
  const sizes = {
    count: experts?.count ?? 1,
    intermediate: mlp.intermediate,
    hidden: shapes.hidden,
  }
  const own = ["gate_proj", "up_proj", "down_proj"].flatMap((name) =>
    ["", "shared_expert."].map((of) => [`mlp.${of}${name}`, `feed_forward.${of}${name}`] as const),
  )
  return withParts(neighboursNaming(config), {
    ...Object.fromEntries(own),
    "mlp.gate": "feed_forward.router",
    ...unitWeights,
    ...stackedExperts(
      sizes,
      { gateUp: "feed_forward.experts.gate_up_proj", down: "feed_forward.experts.down_proj" },
      { bare: true, transposed: true },
    ),
  })
}
