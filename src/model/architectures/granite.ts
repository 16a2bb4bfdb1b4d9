// Granite 3: llama whose embedding, residual additions, scores and logits are multiplied with constants of the
// configuration. Source: modeling_granite.py of transformers; logits are divided by theirs, scores have theirs in place of
// 1 / sqrt(head_dim). Its mixtures (modeling_granitemoe.py) keep the matrices of all experts in one tensor. Granite 4
// (modeling_granitemoehybrid.py): selective state spaces in most layers or in none, an MLP in each, beside experts or alone.

import { NORMS, type Selective, withAttention, withBlocks, withMlp } from "../block.ts"
import {
  type Differences,
  type ModelConfig,
  readDecoder,
  readLayerTypes,
  withWindows,
} from "../config.ts"
import type { Fields } from "../fields.ts"
import { readRotation } from "../rotation.ts"
import {
  joinedRows,
  llamaNaming,
  type Naming,
  stackedExperts,
  withParts,
} from "../weights/names.ts"
import { readRouting } from "./experts.ts"
import { withBiases } from "./llama.ts"

export function readGranite(fields: Fields, differences?: Differences): ModelConfig {
  const config = withBiases(fields, readDecoder(fields, differences))
  const scale = fields.positive("attention_multiplier", 1)
  const residual = fields.positive("residual_multiplier", 1)
  return {
    ...withBlocks(config, (block) => ({ ...withAttention(block, { scale }), residual })),
    embedding: { ...config.embedding, factor: fields.positive("embedding_multiplier", 1) },
    head: { ...config.head, factor: 1 / fields.positive("logits_scaling", 1) },
  }
}

/** Granite Swash: windows in three of four layers, a learned score of what is not there, and each layer turned by a theta of its own. */
export function readGraniteSwa(fields: Fields, config = readGranite(fields)): ModelConfig {
  const { layers, headDim, context } = config.shapes
  const types = readLayerTypes(fields, layers, 4, "first")
  const windows = withWindows(config, types, fields.count("sliding_window", 128))
  const thetas = readThetas(fields, layers)
  return withBlocks(windows, (block, i) => {
    const own = withAttention(block, { sinkLogits: true })
    if (!thetas) return own
    const layerTheta = thetas[i]!
    const turn = layerTheta > 0 ? readRotation(fields, { headDim, context, layerTheta }) : undefined
    return withAttention(own, { rotation: turn && { query: turn, key: turn } })
  })
}

/** 0 is of a layer that is not turned. */
function readThetas(fields: Fields, layers: number): number[] | undefined {
  const name = "layer_rope_theta"
  if (!fields.has(name)) return undefined
  const thetas = fields.numbers(name)
  if (thetas.length === layers) return thetas
  throw fields.wrong(name, `is about ${thetas.length} layers of ${layers}`)
}

export const readGraniteMoeSwa = (fields: Fields) =>
  readGraniteSwa(fields, readGraniteMoeShared(fields))

const sinks: Naming["parts"] = { "self_attn.sinks": { name: "self_attn.sinks", bare: true } }

export const graniteSwaNaming: Naming = withParts(llamaNaming, sinks)

/** Experts lie otherwise than in Granite's other mixtures. */
export function graniteMoeSwaNaming(config: ModelConfig): Naming {
  const { count } = config.blocks[0]!.experts!
  return withParts(graniteHybridNaming(config), {
    ...sinks,
    "mlp.gate": "block_sparse_moe.router",
    ...stackedExperts(
      { count, ...config.shapes },
      {
        gateUp: "block_sparse_moe.experts.gate_up_proj",
        down: "block_sparse_moe.experts.down_proj",
      },
      { bare: true },
    ),
  })
}

export function readGraniteMoe(fields: Fields): ModelConfig {
  const experts = { ...readExperts(fields), shared: undefined }
  return withBlocks(readGranite(fields), (block) => ({ ...block, experts }))
}

/** The same beside an MLP that all tokens go to. */
export function readGraniteMoeShared(fields: Fields): ModelConfig {
  const intermediate = fields.count("shared_intermediate_size", 0, 0)
  if (intermediate === 0) return readGraniteMoe(fields)
  const experts = { ...readExperts(fields), shared: { intermediate, gated: false } }
  return withBlocks(readGranite(fields), (block) => ({ ...block, experts }))
}

/** HyperCLOVA X SEED: norms behind, too, and logits multiplied, not divided. */
export function readHyperclovax(fields: Fields): ModelConfig {
  const config = readGranite(fields)
  const scale = fields.positive("attention_multiplier", config.shapes.headDim ** -0.5)
  const norms = fields.flag("use_post_norm", true) ? NORMS.both : NORMS.before
  return {
    ...withBlocks(config, (block) => ({ ...withAttention(block, { scale }), norms })),
    head: { ...config.head, factor: fields.positive("logits_scaling", 1) },
  }
}

export const hyperclovaxNaming: Naming = withParts(llamaNaming, {
  "self_attn.output_norm": "post_norm1",
  "mlp.output_norm": "post_norm2",
})

function readExperts(fields: Fields) {
  const names = { count: "num_local_experts", active: "num_experts_per_tok" }
  return { ...readRouting(fields, names), chosenByBias: false }
}

export function readGraniteHybrid(fields: Fields): ModelConfig {
  const turning = fields.text("position_embedding_type", "nope")
  if (turning !== "nope" && turning !== "rope")
    throw fields.wrong("position_embedding_type", `is "${turning}"; known: nope, rope`)
  const config = readGranite(fields, turning === "nope" ? { rotation: "none" } : {})
  const intermediate = fields.count("shared_intermediate_size", 1024)
  const hasExperts = fields.count("num_local_experts", 8, 0) > 0
  const experts = hasExperts && {
    ...readExperts(fields),
    shared: { intermediate, gated: false },
  }
  const types = readTypes(fields, config.shapes.layers)
  const selective = types.includes("mamba") ? readSelective(fields, config) : undefined
  const shapes = hasExperts ? config.shapes : { ...config.shapes, intermediate }
  return withBlocks({ ...config, shapes }, (block, i) => {
    const own = experts ? { ...block, experts } : withMlp(block, { intermediate })
    return selective && types[i] === "mamba" ? { ...own, selective } : own
  })
}

/** Bamba: states in all layers but those that `attn_layer_indices` lists, half of whose heads is turned, and an MLP in each. */
export function readBamba(fields: Fields): ModelConfig {
  const config = withBiases(
    fields,
    readDecoder(fields, { absent: { kvHeads: 8, epsilon: 1e-5 }, rotation: { part: 0.5 } }),
  )
  const name = "attn_layer_indices"
  const attending = fields.has(name) ? fields.counts(name) : []
  if (!attending.some((layer) => layer < config.shapes.layers))
    throw fields.wrong(name, "names no layer of attention; known: models that have one")
  const selective = readSelective(fields, config)
  return withBlocks(config, (block, i) => (attending.includes(i) ? block : { ...block, selective }))
}

export function bambaNaming({ blocks }: ModelConfig): Naming {
  const { selective } = blocks.find((block) => block.selective) ?? {}
  return withParts(llamaNaming, {
    norm: "final_layernorm",
    post_attention_layernorm: "pre_ff_layernorm",
    "mlp.gate_proj": "feed_forward.gate_proj",
    "mlp.up_proj": "feed_forward.up_proj",
    "mlp.down_proj": "feed_forward.down_proj",
    ...(selective && selectiveParts(selective, "mamba.")),
  })
}

/** Older and newer names of what layers are. */
const layerTypes: Readonly<Record<string, "mamba" | "attention">> = {
  mamba: "mamba",
  linear_attention: "mamba",
  attention: "attention",
  full_attention: "attention",
}

function readTypes(fields: Fields, layers: number): ("mamba" | "attention")[] {
  const field = fields.has("layers_block_type") ? "layers_block_type" : "layer_types"
  const names = fields.texts(field)
  if (names.length !== layers)
    throw fields.wrong(field, `names ${names.length} layers of ${layers}`)
  const types = names.map((name) => {
    if (Object.hasOwn(layerTypes, name)) return layerTypes[name]!
    throw fields.wrong(field, `holds "${name}"; known: ${Object.keys(layerTypes).join(", ")}`)
  })
  if (!types.includes("attention"))
    throw fields.wrong(field, "names no layer of attention; known: models that have one")
  return types
}

function readSelective(fields: Fields, { shapes: { hidden } }: ModelConfig): Selective {
  refuseStates(fields, "mamba_proj_bias")
  return readStates(fields, fields.count("mamba_expand", 2) * hidden)
}

/** @param width of what all heads read together */
export function readStates(fields: Fields, width: number): Selective {
  const heads = fields.count("mamba_n_heads", 128)
  if (width % heads !== 0)
    throw fields.wrong("mamba_n_heads", `is ${heads}, which does not divide ${width} columns`)
  const isAuto = !fields.has("mamba_d_head") || fields.json.mamba_d_head === "auto"
  const headDim = isAuto ? width / heads : fields.count("mamba_d_head")
  if (headDim * heads !== width)
    throw fields.wrong("mamba_d_head", `is ${headDim}, but ${heads} heads have ${width} columns`)
  return {
    groups: readGroups(fields, "mamba_n_groups", heads, 1),
    heads,
    headDim,
    stateDim: fields.count("mamba_d_state", 256),
    taps: fields.count("mamba_d_conv", 4),
    bias: fields.flag("mamba_conv_bias", true),
  }
}

/** From nothing to infinity, as transformers 5 writes it, and as what is read of Python's way becomes (folder.ts). */
const UNLIMITED = '[0,{"__float__":"Infinity"}]'

/** Refuses what is not known of selective state spaces: biases of their projections, by the fields named, and bounds on their steps. */
export function refuseStates(fields: Fields, ...biases: readonly string[]): void {
  const biased = biases.find((name) => fields.flag(name, false))
  if (biased) throw fields.wrong(biased, "is true; known: projections without a bias")
  const { time_step_limit: limit } = fields.json
  if (fields.has("time_step_limit") && JSON.stringify(limit) !== UNLIMITED)
    throw fields.wrong("time_step_limit", `is ${JSON.stringify(limit)}; known: ${UNLIMITED}`)
}

/** Of heads, which share keys and queries. */
export function readGroups(fields: Fields, name: string, heads: number, otherwise: number): number {
  const groups = fields.count(name, otherwise)
  if (heads % groups === 0) return groups
  throw fields.wrong(name, `is ${groups}, which does not divide ${heads} heads`)
}

export function graniteMoeNaming({ shapes, blocks: [block] }: ModelConfig): Naming {
  const { count } = block!.experts!
  return withParts(llamaNaming, {
    "mlp.gate": "block_sparse_moe.router.layer",
    ...stackedExperts(
      { count, ...shapes },
      { gateUp: "block_sparse_moe.input_linear", down: "block_sparse_moe.output_linear" },
    ),
  })
}

/** Granite's mixtures beside a shared expert, too. */
export function graniteHybridNaming(config: ModelConfig): Naming {
  const { mlp, experts } = config.blocks[0]!
  if (experts && !experts.shared) return graniteMoeNaming(config)
  const selective = config.blocks.find((block) => block.selective)?.selective
  const width = experts ? experts.shared!.intermediate : mlp.intermediate
  const { gate, up } = joinedRows({ gate: width, up: width })
  const own = experts ? "mlp.shared_expert" : "mlp"
  return withParts(experts ? graniteMoeNaming(config) : llamaNaming, {
    [`${own}.gate_proj`]: { name: "shared_mlp.input_linear", rows: gate },
    [`${own}.up_proj`]: { name: "shared_mlp.input_linear", rows: up },
    [`${own}.down_proj`]: "shared_mlp.output_linear",
    ...(selective && selectiveParts(selective, "mamba.")),
  })
}

/** All that is projected, in one tensor: gates, values, keys, queries and decays. */
export function selectiveProjections(
  { groups, heads, stateDim, headDim }: Selective,
  name: string,
): Naming["parts"] {
  const [keys, values] = [groups * stateDim, heads * headDim]
  const rows = joinedRows({ z: values, v: values, k: keys, q: keys, a: heads })
  return Object.fromEntries(
    Object.entries(rows).map(([part, rows]) => [`mamba.${part}_proj`, { name, rows }]),
  )
}

/** @param stem what stands before the names of a state space's tensors */
export function selectiveParts(selective: Selective, stem: string): Naming["parts"] {
  return {
    ...selectiveProjections(selective, `${stem}in_proj`),
    "mamba.conv": { name: `${stem}conv1d`, taps: selective.taps },
    "mamba.conv.bias": `${stem}conv1d.bias`,
    "mamba.decay": { name: `${stem}A_log`, bare: true },
    "mamba.decay_bias": { name: `${stem}dt_bias`, bare: true },
    "mamba.skip": { name: `${stem}D`, bare: true },
    "mamba.norm": `${stem}norm`,
    "mamba.out_proj": `${stem}out_proj`,
  }
}
