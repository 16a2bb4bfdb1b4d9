// StepFun's Step 3.5 Flash, and the text model of Step 3.7: norms on each query and key head, which weigh with 1 + weight as all norms
// do; layers with a window, which have heads of their own number and are turned whole, and such as see everything, which are turned in
// part and alone stretched; what heads give times the sigmoid of a gate each; experts chosen by a sigmoid and a bias, beside a shared
// one. In some layers gates that were activated, and what they are multiplied with, are cut off. Sources: modeling_step3p7.py of
// transformers; step3p5.py of vLLM. Configurations that transformers wrote have other names for the same, and lists that count layers
// which guess ahead, too, are read up to those.

import { type Experts, withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder, readLayerTypes, readOwnFields } from "../config.ts"
import type { Fields } from "../fields.ts"
import { readRotation } from "../rotation.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { readMlpTypes, readRouting } from "./experts.ts"

const [SLIDING, FULL] = ["sliding_attention", "full_attention"] as const

export function readStep(given: Fields): ModelConfig {
  const named = given.alsoCalled(OTHER_NAMES).alsoCalled({ n_routed_experts: "num_local_experts" })
  const fields = cutToLayers(named)
  refuseOthers(fields)
  const config = readDecoder(fields, {
    absent: { kvHeads: 8, headDim: 128, epsilon: 1e-5 },
    rotation: "none",
    ofLayers: [HEADS],
  })
  const { layers, headDim } = config.shapes
  const types = fields.has("layer_types") ? readLayerTypes(fields, layers, 1) : []
  const window = types.includes(SLIDING) ? fields.count("sliding_window") : undefined
  const scale = fields.positive("query_pre_attn_scalar", headDim) ** -0.5
  const headsOf = readHeads(fields, config, types)
  const gated = fields.flag("use_head_wise_attn_gate", true) ? ({ gated: "heads" } as const) : {}
  const hasExperts = readExpertLayers(fields, layers)
  const [experts, intermediate] = [readExperts(fields), fields.count("moe_intermediate_size", 1280)]
  const [limits, sharedLimits] = ["swiglu_limits", "swiglu_limits_shared"].map((name) =>
    readLimits(fields, name, layers),
  ) as [Limits, Limits]
  return withBlocks(config, (block, i) => {
    const turn = readTurn(fields, config, types[i] ?? FULL, i)
    const attended = withAttention(block, {
      ...headsOf(i),
      ...gated,
      scale,
      window: types[i] === SLIDING ? window : undefined,
      norms: { ...block.norm, over: "every head", place: "before" },
      rotation: { query: turn, key: turn },
    })
    const own = withMlp(attended, sharedLimits[i] ? { limit: sharedLimits[i] } : {})
    if (!hasExperts(i)) return own
    const limited = limits[i] ? { ...experts, limit: limits[i] } : experts
    return { ...withMlp(own, { intermediate }), experts: limited }
  })
}

/** Published names beside those of transformers, of which either may be there. */
const OTHER_NAMES = {
  num_key_value_heads: "num_attention_groups",
  n_routed_experts: "moe_num_experts",
  num_experts_per_tok: "moe_top_k",
  max_position_embeddings: "max_seq_len",
}

const OF_LAYERS = [
  "layer_types",
  "mlp_layer_types",
  "rope_theta",
  "partial_rotary_factors",
  "swiglu_limits",
  "swiglu_limits_shared",
] as const

/** Layers that guess ahead are listed behind the model's own. */
function cutToLayers(fields: Fields): Fields {
  const layers = fields.count("num_hidden_layers")
  const all = layers + fields.count("num_nextn_predict_layers", 0, 0)
  const lists = OF_LAYERS.flatMap((name) => {
    const list: unknown = fields.json[name]
    return Array.isArray(list) && list.length === all ? [[name, list.slice(0, layers)]] : []
  })
  return fields.over(Object.fromEntries(lists))
}

function refuseOthers(fields: Fields): void {
  for (const [name, known] of [
    ["attention_bias", false],
    ["mlp_bias", false],
    ["use_bidirectional_attention", false],
    ["use_moe", true],
    ["zero_centered", true],
  ] as const)
    if (fields.flag(name, known) !== known)
      throw fields.wrong(name, `is ${!known}; only ${known} is known of this architecture`)
  for (const [name, known] of [
    ["att_impl_type", "GQA"],
    ["moe_router_activation", "sigmoid"],
  ] as const)
    if (fields.text(name, known) !== known)
      throw fields.wrong(name, `is "${fields.text(name)}"; only "${known}" is known`)
  for (const [name, known] of [
    ["moe_every_n_layer", 1],
    ["moe_layer_offset", 0],
  ] as const)
    if (fields.count(name, known, 0) !== known)
      throw fields.wrong(name, `is ${fields.count(name, known, 0)}; only ${known} is known`)
  const turned: unknown = fields.json.use_rope_layers
  if (Array.isArray(turned) && turned.some((isTurned) => !isTurned))
    throw fields.wrong("use_rope_layers", "leaves layers out; known: layers that are all turned")
}

const HEADS = "num_attention_heads"
const OTHERS = "attention_other_setting"

/** How many heads a layer has, of queries and of keys: those with a window may have others. */
function readHeads(
  fields: Fields,
  { shapes: { heads, kvHeads, headDim } }: ModelConfig,
  types: readonly string[],
) {
  const others = fields.object(OTHERS)
  const kind = others?.text("attention_type", SLIDING)
  if (others && kind !== SLIDING)
    throw others.wrong("attention_type", `is "${kind}"; only "${SLIDING}" is known`)
  for (const name of ["head_dim", "true_head_dim"])
    if (others && others.count(name, headDim) !== headDim)
      throw others.wrong(name, `is ${others.count(name)}; known: the other layers' ${headDim}`)
  const sliding = others ?? fields.with({ [HEADS]: heads })
  const name = others ? HEADS : "num_sliding_attention_heads"
  const own = {
    heads: sliding.count(name, heads),
    kvHeads: others?.count("num_attention_groups", kvHeads) ?? kvHeads,
  }
  if (own.heads % own.kvHeads !== 0)
    throw sliding.wrong(name, `is ${own.heads}, which ${own.kvHeads} heads of keys do not divide`)
  const headsOf = (layer: number) => (types[layer] === SLIDING ? own : { heads, kvHeads })
  for (const [layer, said] of readOwnFields(fields) ?? [])
    if (said.count(HEADS, headsOf(layer).heads) !== headsOf(layer).heads)
      throw said.wrong(HEADS, `is ${said.count(HEADS)}, where ${name} says ${headsOf(layer).heads}`)
  return headsOf
}

/** By what is said of its kind, or of the layer: stretching is meant for kinds that are listed, which are those that see everything. */
function readTurn(
  fields: Fields,
  { shapes: { headDim, context } }: ModelConfig,
  kind: string,
  layer: number,
) {
  const options = { headDim, context, part: 1 }
  if (fields.has("rope_parameters")) return readRotation(fields, { ...options, layers: kind })
  const factors = "partial_rotary_factors"
  const own = fields.over({
    rope_theta: ofLayer(fields, "rope_theta", layer),
    ...(fields.has(factors) && { partial_rotary_factor: ofLayer(fields, factors, layer) }),
  })
  const stretched = fields.has("yarn_only_types") ? fields.texts("yarn_only_types") : [FULL]
  return readRotation(own, { ...options, scaled: stretched.includes(kind) })
}

/** One number of all layers, or one of a list. */
function ofLayer(fields: Fields, name: string, layer: number): unknown {
  if (!Array.isArray(fields.json[name])) return fields.json[name]
  const list = fields.positives(name)
  if (layer < list.length) return list[layer]
  throw fields.wrong(name, `has ${list.length} numbers, and none for layer ${layer}`)
}

/** By kinds, by a list of their numbers, or else all but the first three. */
function readExpertLayers(fields: Fields, layers: number): (layer: number) => boolean {
  const types = readMlpTypes(fields, layers)
  if (types) return (layer) => types[layer] === "sparse"
  const name = "moe_layers_enum"
  if (!fields.has(name)) return (layer) => layer >= 3
  const said: unknown = fields.json[name]
  const listed = (Array.isArray(said) ? said : fields.text(name).split(",")).map(Number)
  if (listed.some((layer) => !Number.isInteger(layer) || layer < 0))
    throw fields.wrong(name, "is not a list of layers, by their numbers")
  return (layer) => listed.includes(layer)
}

function readExperts(fields: Fields): Experts {
  const names = { count: "n_routed_experts", active: "num_experts_per_tok" }
  return {
    ...readRouting(fields.with({ n_routed_experts: 288, num_experts_per_tok: 8 }), names, {
      score: "sigmoid",
      normalized: fields.flag("norm_expert_weight", true),
      factor: fields.positive("moe_router_scaling_factor", 1),
    }),
    chosenByBias: fields.flag("use_moe_router_bias", true),
    shared: { intermediate: fields.count("share_expert_dim", 1280), gated: false },
  }
}

type Limits = readonly (number | undefined)[]

/** SiLU is nowhere below -0.28: what is cut off above it alone is what is cut off on either side. */
const LEAST_LIMIT = 0.3

/** Of each layer; 0 or null says that there is none. */
function readLimits(fields: Fields, name: string, layers: number): Limits {
  if (!fields.has(name)) return []
  const said: unknown = fields.json[name]
  if (!Array.isArray(said) || said.length !== layers)
    throw fields.wrong(name, `is not a list of ${layers}, a limit for each layer`)
  const limits = fields.over({ [name]: said.map((limit: unknown) => limit ?? 0) }).numbers(name)
  const small = limits.find((limit) => limit > 0 && limit < LEAST_LIMIT)
  if (small !== undefined)
    throw fields.wrong(name, `holds ${small}; known: 0, and limits from ${LEAST_LIMIT} on`)
  return limits.map((limit) => limit || undefined)
}

const plusOne = (name: string) => ({ name, plus: 1 })

export function stepNaming({ shapes: { hidden }, blocks }: ModelConfig): Naming {
  const block = blocks.find(({ experts }) => experts)
  const sizes = { count: block?.experts?.count ?? 1, intermediate: block?.mlp.intermediate ?? 1 }
  const stack = (name: string, run: number) => ({
    name,
    stacked: sizes.count,
    rows: { of: sizes.count * run, from: 0, run, every: run },
  })
  return withParts(llamaNaming, {
    norm: plusOne("norm"),
    input_layernorm: plusOne("input_layernorm"),
    post_attention_layernorm: plusOne("post_attention_layernorm"),
    "self_attn.q_norm": plusOne("self_attn.q_norm"),
    "self_attn.k_norm": plusOne("self_attn.k_norm"),
    "self_attn.gate_proj": "self_attn.g_proj",
    "mlp.gate": "moe.gate",
    "mlp.gate.e_score_correction_bias": "moe.router_bias",
    "mlp.experts.*.gate_proj": stack("moe.gate_proj", sizes.intermediate),
    "mlp.experts.*.up_proj": stack("moe.up_proj", sizes.intermediate),
    "mlp.experts.*.down_proj": stack("moe.down_proj", hidden),
    "mlp.shared_expert.gate_proj": "share_expert.gate_proj",
    "mlp.shared_expert.up_proj": "share_expert.up_proj",
    "mlp.shared_expert.down_proj": "share_expert.down_proj",
  })
}
