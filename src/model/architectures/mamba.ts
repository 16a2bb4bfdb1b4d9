// Models of selective state spaces. Mamba 1 and Falcon Mamba: every layer is one, whose columns have steps of their own, and nothing
// else; the latter has norms without weights between. Mamba 2: the same with heads. Jamba: Mamba 1's, with norms between, an MLP or
// experts behind each, and a few layers of attention, in which nothing is turned. Sources: modeling_mamba.py, modeling_falcon_mamba.py,
// modeling_mamba2.py and modeling_jamba.py of transformers.

import { type Scan, type Selective, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import {
  expertNames,
  joinedRows,
  llamaNaming,
  type Naming,
  unitParts,
  withParts,
} from "../weights/names.ts"
import { readRouting } from "./experts.ts"
import { readGroups, refuseStates, selectiveParts } from "./granite.ts"

export const readMamba = (fields: Fields) => readScans(fields)
export const readFalconMamba = (fields: Fields) =>
  readScans(fields, { epsilon: fields.positive("mixer_rms_eps", 1e-6) })

function readScans(fields: Fields, normed?: Scan["normed"]): ModelConfig {
  refuseStates(fields, "use_bias")
  const columns = readColumns(fields)
  const scan: Scan = {
    columns,
    stateDim: fields.count("state_size", 16),
    rank: readRank(fields, "time_step_rank"),
    taps: fields.count("conv_kernel", 4),
    bias: fields.flag("use_conv_bias", true),
    ...(normed && { normed }),
  }
  const config = readStacked(fields, columns, { tied: true })
  return withBlocks(config, (block) => ({ ...block, scan }))
}

export function readMamba2(fields: Fields): ModelConfig {
  refuseStates(fields, "use_bias")
  const columns = readColumns(fields)
  const heads = fields.count("num_heads", 128)
  const headDim = fields.count("head_dim", 64)
  if (heads * headDim !== columns)
    throw fields.wrong("num_heads", `is ${heads}, of ${headDim} columns each, not ${columns}`)
  const selective: Selective = {
    groups: readGroups(fields, "n_groups", heads, 8),
    ...{ heads, headDim },
    stateDim: fields.count("state_size", 128),
    taps: fields.count("conv_kernel", 4),
    bias: fields.flag("use_conv_bias", true),
  }
  const config = readStacked(fields, columns, { tied: false })
  return withBlocks(config, (block) => ({ ...block, selective }))
}

/** As much as one is asked for: nothing in these models knows where a token stands. */
const CONTEXT = 1 << 20

/** Layers of nothing but states; of attention, which there is none of, what is said is that it has one head. */
function readStacked(fields: Fields, columns: number, absent: { tied: boolean }): ModelConfig {
  if (!fields.flag("rms_norm", true))
    throw fields.wrong("rms_norm", "is false; known: layers behind an RMS norm")
  const own = fields
    .without("head_dim")
    .over({ num_attention_heads: 1, num_key_value_heads: 1, intermediate_size: columns })
  const config = readDecoder(own, {
    epsilon: "layer_norm_epsilon",
    absent: { epsilon: 1e-5, context: CONTEXT, ...absent },
    rotation: "none",
  })
  refuseActivation(fields)
  return withBlocks(config, (block) => ({ ...block, only: "attention" }))
}

function readColumns(fields: Fields): number {
  const columns = fields.count("expand", 2) * fields.count("hidden_size")
  const said = fields.count("intermediate_size", columns)
  if (said === columns) return columns
  throw fields.wrong("intermediate_size", `is ${said}, but expand makes ${columns} columns`)
}

function readRank(fields: Fields, name: string): number {
  const isAuto = !fields.has(name) || fields.json[name] === "auto"
  return isAuto ? Math.ceil(fields.count("hidden_size") / 16) : fields.count(name)
}

/** It is also that of what is convolved, and of what gates what is read. */
function refuseActivation(fields: Fields): void {
  const activation = fields.text("hidden_act", "silu")
  if (activation !== "silu" && activation !== "swish")
    throw fields.wrong("hidden_act", `is "${activation}"; known: silu`)
}

export function readJamba(fields: Fields): ModelConfig {
  refuseStates(fields, "mamba_proj_bias")
  refuseActivation(fields)
  if (!fields.flag("mamba_inner_layernorms", true))
    throw fields.wrong(
      "mamba_inner_layernorms",
      "is false; known: norms of steps, keys and queries",
    )
  if (fields.has("sliding_window"))
    throw fields.wrong("sliding_window", "is there; known: attention that sees everything")
  const config = readDecoder(fields, {
    absent: { kvHeads: 8, context: 262144 },
    rotation: "none",
  })
  const { hidden, layers } = config.shapes
  const scan: Scan = {
    columns: fields.count("mamba_expand", 2) * hidden,
    stateDim: fields.count("mamba_d_state", 16),
    rank: readRank(fields, "mamba_dt_rank"),
    taps: fields.count("mamba_d_conv", 4),
    bias: fields.flag("mamba_conv_bias", true),
    normed: { epsilon: config.norm!.epsilon },
  }
  const attends = readKinds(fields, layers)
  const hasExperts = readMixtures(fields, layers)
  const experts = hasExperts.includes(true) ? readJambaExperts(fields) : undefined
  return withBlocks(config, (block, layer) => ({
    ...block,
    ...(!attends[layer] && { scan }),
    ...(hasExperts[layer] && { experts: experts! }),
  }))
}

/** Which layers have attention: those that a list names, or one in each period. */
function readKinds(fields: Fields, layers: number): boolean[] {
  const name = "layers_block_type"
  if (!fields.has(name)) {
    const { period, offset } = readPeriod(fields, "attn_layer", { period: 8, offset: 4 })
    if (offset >= layers)
      throw fields.wrong(
        "attn_layer_offset",
        `is ${offset}: none of ${layers} layers has attention`,
      )
    return Array.from({ length: layers }, (_, layer) => layer % period === offset)
  }
  const kinds = fields.texts(name)
  if (kinds.length !== layers) throw fields.wrong(name, `names ${kinds.length} layers of ${layers}`)
  const unknown = kinds.find((kind) => kind !== "attention" && kind !== "mamba")
  if (unknown !== undefined) throw fields.wrong(name, `holds "${unknown}"; known: attention, mamba`)
  if (!kinds.includes("attention"))
    throw fields.wrong(name, "names no layer of attention; known: models that have one")
  return kinds.map((kind) => kind === "attention")
}

/** Which layers have experts: those that a list gives several, or one in each period. */
function readMixtures(fields: Fields, layers: number): boolean[] {
  const name = "layers_num_experts"
  const count = fields.count("num_experts", 16)
  if (!fields.has(name)) {
    const { period, offset } = readPeriod(fields, "expert_layer", { period: 2, offset: 1 })
    return Array.from({ length: layers }, (_, layer) => count > 1 && layer % period === offset)
  }
  const counts = fields.counts(name)
  if (counts.length === layers && counts.every((own) => own === 1 || own === count))
    return counts.map((own) => own > 1)
  throw fields.wrong(name, `is not a list of ${layers}, each 1 or num_experts`)
}

function readPeriod(fields: Fields, name: string, absent: Record<"period" | "offset", number>) {
  const period = fields.count(`${name}_period`, absent.period)
  const offset = fields.count(`${name}_offset`, absent.offset, 0)
  if (offset < period) return { period, offset }
  throw fields.wrong(`${name}_offset`, `is ${offset}, which is not below ${name}_period`)
}

const readJambaExperts = (fields: Fields) => ({
  ...readRouting(
    fields.with({
      num_experts: fields.count("num_experts", 16),
      num_experts_per_tok: fields.count("num_experts_per_tok", 2),
    }),
    { count: "num_experts", active: "num_experts_per_tok" },
    { normalized: false },
  ),
  chosenByBias: false,
  shared: undefined,
})

const backbone: Naming = {
  roots: [{ root: "backbone.", head: "" }],
  layers: "layers.",
  parts: { embed_tokens: "embeddings", norm: "norm_f", input_layernorm: "norm" },
}

export function mambaNaming({ blocks: [block] }: ModelConfig): Naming {
  const scan = block!.scan!
  const norms = ["steps", "k", "q"].map((name) => `mamba.${name}_norm`)
  return withParts(backbone, {
    ...scanParts(scan, "mixer."),
    ...(scan.normed && unitParts(...norms)),
  })
}

export const mamba2Naming = ({ blocks: [block] }: ModelConfig): Naming =>
  withParts(backbone, selectiveParts(block!.selective!, "mixer."))

export function jambaNaming({ blocks }: ModelConfig): Naming {
  const scan = blocks.find((block) => block.scan)?.scan
  const mlps = ["gate", "up", "down"].map((name) => [
    `mlp.${name}_proj`,
    `feed_forward.${name}_proj`,
  ])
  return withParts(llamaNaming, {
    norm: "final_layernorm",
    post_attention_layernorm: "pre_ff_layernorm",
    ...Object.fromEntries(mlps),
    "mlp.gate": "feed_forward.router",
    ...expertNames({
      gate: "feed_forward.experts.*.gate_proj",
      up: "feed_forward.experts.*.up_proj",
      down: "feed_forward.experts.*.down_proj",
    }),
    ...(scan && {
      ...scanParts(scan, "mamba."),
      "mamba.steps_norm": "mamba.dt_layernorm",
      "mamba.k_norm": "mamba.b_layernorm",
      "mamba.q_norm": "mamba.c_layernorm",
    }),
  })
}

/** @param stem what stands before the names of a scan's tensors */
function scanParts({ columns, stateDim, taps }: Scan, stem: string): Naming["parts"] {
  return {
    ...scanProjections(columns, `${stem}in_proj`),
    "mamba.x_proj": `${stem}x_proj`,
    "mamba.steps_proj": `${stem}dt_proj`,
    "mamba.conv": { name: `${stem}conv1d`, taps },
    "mamba.conv.bias": `${stem}conv1d.bias`,
    "mamba.rates": { name: `${stem}A_log`, bare: true, shape: [columns, stateDim], raised: true },
    "mamba.skip": { name: `${stem}D`, bare: true },
    "mamba.out_proj": `${stem}out_proj`,
  }
}

/** Values and gates, in one tensor. */
export function scanProjections(columns: number, name: string): Naming["parts"] {
  const { v, z } = joinedRows({ v: columns, z: columns })
  return { "mamba.v_proj": { name, rows: v }, "mamba.z_proj": { name, rows: z } }
}
