// Nemotron-Labs Dory: rows of length 1 (nGPT, arXiv 2410.01131), as every norm makes them, the heads' as well. A layer adds nothing: the
// row goes towards what attention, then the MLP, has given, in each column by a learned share. Queries, gates, and what the MLP projects
// are multiplied with a learned number for each column, logits for each token. Some layers in the middle are passed several times, and
// remember each pass by itself. Published files count attention and MLP as layers of their own. Source: modeling_dory.py of transformers.

import { NORMS, type NormKind, withAttention, withBlocks, withMlp } from "../block.ts"
import {
  type LayerType,
  type ModelConfig,
  readDecoder,
  readLayerTypes,
  readPasses,
} from "../config.ts"
import type { Fields } from "../fields.ts"
import { type RotationOptions, readRotation } from "../rotation.ts"
import { llamaNaming, type NamedPart, type Naming, withParts } from "../weights/names.ts"
import { windowOf } from "./gemma.ts"

const EPSILON = 1e-6 // of squared lengths

/** Of a row of so many columns whose length becomes 1: a norm by the mean of squares, times 1 / sqrt(columns). */
const unitNorm = (columns: number): NormKind => ({
  kind: "rms",
  bias: false,
  epsilon: EPSILON / columns,
})

const THETAS: Readonly<Record<LayerType, number>> = {
  sliding_attention: 1e4,
  full_attention: 1e7,
}

export function readDory(given: Fields): ModelConfig {
  for (const name of ["attention_bias", "mlp_bias"])
    if (given.flag(name, false))
      throw given.wrong(name, "is true; only false is known of this architecture")
  const cache = given.text("recurrent_kv_cache_mode", "per_loop")
  if (cache !== "per_loop")
    throw given.wrong(
      "recurrent_kv_cache_mode",
      `is "${cache}", which makes replies hang on how a prompt is cut; known: per_loop`,
    )
  const fields = joinedLayers(given)
  const plain = readDecoder(fields, { absent: { headDim: 256 }, rotation: "none" })
  const { layers, hidden, headDim, intermediate, context } = plain.shapes
  const types = readLayerTypes(fields, layers, 4)
  const window = fields.count("sliding_window", 1024)
  const range = fields.positive("initializer_range", 0.0177)
  const turns = new Map(
    types.map((type) => [type, turnOf(fields, { headDim, context, layers: type })]),
  )
  const blocks = withBlocks({ ...plain, norm: unitNorm(hidden) }, (block, i) => {
    const turn = turns.get(types[i]!)!
    const { heads } = block.attention
    const own = withAttention(block, {
      window: windowOf(types, i, window),
      rotation: { query: turn, key: turn },
      norms: { ...unitNorm(headDim), over: "every head", place: "before" },
      gated: "columns",
      normed: unitNorm(heads * headDim),
      weighed: { query: headDim ** 0.5 / range, gate: hidden ** 0.25 / range },
    })
    return {
      ...withMlp(own, { normed: unitNorm(intermediate), weighed: hidden ** 0.5 }),
      norm: unitNorm(hidden),
      norms: NORMS.both,
      interpolated: fields.positive("ngpt_alpha_init", 0.05) / range,
    }
  })
  return { ...blocks, loop: readLoop(fields, layers), head: { ...blocks.head, weighed: 1 / range } }
}

/** Without a configuration's own way each kind of layers has its theta. */
function turnOf(fields: Fields, options: RotationOptions & { layers: LayerType }) {
  return readRotation(fields, { ...options, theta: THETAS[options.layers] })
}

const COUNTS = ["n_input_layers", "n_recurrent_layers", "n_output_layers"]

/** Attention and the MLP behind it as one layer, where the configuration counts them as two. A compiled folder's counts its layers so. */
function joinedLayers(fields: Fields): Fields {
  const name = "layer_types"
  const types = fields.has(name) ? fields.texts(name) : []
  if (!types.includes("mlp")) return fields
  const layers = types.length / 2
  if (types.some((type, i) => (type === "mlp") !== (i % 2 === 1)) || !Number.isInteger(layers))
    throw fields.wrong(name, "holds mlp, but not behind each layer of attention")
  const all = fields.count("num_hidden_layers")
  if (all !== layers && all !== types.length)
    throw fields.wrong(name, `names ${types.length} layers of ${all}`)
  const halves = COUNTS.filter((count) => fields.has(count)).map((count) => {
    const both = fields.count(count, undefined, 0)
    if (both % 2 === 0) return [count, both / 2]
    throw fields.wrong(count, `is ${both}, not a multiple of 2, though layer_types holds mlp`)
  })
  const attention = types.filter((type) => type !== "mlp")
  return fields.over({
    ...Object.fromEntries(halves),
    num_hidden_layers: layers,
    [name]: attention,
  })
}

function readLoop(fields: Fields, layers: number): NonNullable<ModelConfig["loop"]> {
  const before = fields.count("n_input_layers", 8, 0)
  const behind = fields.count("n_output_layers", 8, 0)
  const between = fields.count("n_recurrent_layers", layers - before - behind, 0)
  if (between < 1 || before + between + behind !== layers)
    throw fields.wrong(
      "n_recurrent_layers",
      `is ${between}, which ${before} layers before and ${behind} behind do not make ${layers}`,
    )
  const times = readPasses(fields, "n_recurrent_loops", 2, between)
  return { from: before, to: before + between, times }
}

/** transformers writes a layer as one; published files have attention and MLP as two. */
export function doryNaming(config: ModelConfig): Naming {
  const { hidden, headDim, heads, intermediate } = config.shapes
  const { attention, mlp, interpolated } = config.blocks[0]!
  const lengths = {
    norm: hidden,
    input_layernorm: hidden,
    "self_attn.output_norm": hidden,
    post_attention_layernorm: hidden,
    "mlp.output_norm": hidden,
    "self_attn.q_norm": headDim,
    "self_attn.k_norm": headDim,
    "self_attn.sub_norm": heads * headDim,
    "mlp.sub_norm": intermediate,
  }
  const units = Object.entries(lengths).map(([name, columns]) => [
    name,
    { name, constant: columns ** -0.5 },
  ])
  const learned = (name: string, times: number, how?: "absolute" | "squared") => ({
    ...{ name, bare: true as const, times },
    ...(how && { [how]: true as const }),
  })
  const ofLayers: Record<string, NamedPart> = {
    ...projections("self_attn", ["q", "k", "v", "o"]),
    ...projections("mlp", ["gate", "up", "down"]),
    "self_attn.gate_proj": { name: "self_attn.g_proj" },
    "self_attn.q_factors": learned("self_attn.sqk", attention.weighed!.query, "squared"),
    "self_attn.gate_factors": learned("self_attn.s_gate", attention.weighed!.gate, "squared"),
    "mlp.gate_factors": learned("mlp.suv_gate", mlp.weighed!),
    "mlp.up_factors": learned("mlp.suv_up", mlp.weighed!),
    "attention.share": learned("lambda_1", interpolated!, "absolute"),
    "mlp.share": learned("lambda_2", interpolated!, "absolute"),
  }
  const whole = {
    embed_tokens: "embeddings",
    "lm_head.factors": learned("lm_head.logit_scale", config.head.weighed!),
    ...Object.fromEntries(units),
  }
  return {
    ...withParts(llamaNaming, { ...whole, ...ofLayers }),
    roots: [{ root: "backbone.", head: "" }],
    instead: [{ stored: "0.mixer.q_proj.weight", parts: inTwo(ofLayers) }],
  }
}

const projections = (part: string, names: readonly string[]): Record<string, NamedPart> =>
  Object.fromEntries(
    names.map((name) => [`${part}.${name}_proj`, { name: `${part}.${name}_proj` }]),
  )

const ALPHAS: Readonly<Record<string, string>> = { lambda_1: "attn_alpha", lambda_2: "mlp_alpha" }

/** Attention's tensors in layers of even numbers, the MLP's in those behind them. */
function inTwo(parts: Readonly<Record<string, NamedPart>>): Naming["parts"] {
  return Object.fromEntries(
    Object.entries(parts).map(([part, { name, ...how }]) => [
      part,
      {
        ...how,
        name: ALPHAS[name] ?? name.replace(/^(self_attn|mlp)\./, "mixer."),
        ofTwo: part.startsWith("mlp.") ? "second" : "first",
      },
    ]),
  )
}
