// Gemma 4: norms before and behind as Gemma 2 has them, but times their weight alone; unscaled scores of normed queries, keys and
// values. Layers that see everything have wider heads, fewer of keys, in some no values but those, and turn a part of each head. In
// some models the last layers read what earlier ones of their kind remember, each layer is given columns of the token's own, or
// experts stand beside the MLP. EmbeddingGemma 2 is one that reads a text both ways, whose layers are given what a matrix makes of the
// embedding; what is pooled goes through a matrix. Sources: modeling_gemma4.py and modeling_embedding_gemma2.py of transformers.

import type { Shapes } from "../../runtime/manifest.ts"
import { NORMS, type SelfAttention, withAttention, withBlocks, withMlp } from "../block.ts"
import {
  type LayerType,
  MAX_HEAD,
  MAX_LAYERS,
  type ModelConfig,
  readDecoder,
  readLayerTypes,
  readOwnFields,
  seeingBothWays,
} from "../config.ts"
import type { Fields } from "../fields.ts"
import { readRotation } from "../rotation.ts"
import { llamaNaming, type Naming, stackedExperts, withParts } from "../weights/names.ts"
import { readRouting } from "./experts.ts"
import { activationOf, capOf, scaledEmbedding, windowOf, withLogitCap } from "./gemma.ts"

/** Where a configuration does not say how heads are turned. */
const rope_parameters = {
  sliding_attention: { rope_type: "default", rope_theta: 1e4 },
  full_attention: { rope_type: "proportional", rope_theta: 1e6, partial_rotary_factor: 0.25 },
}

export function readGemma4(given: Fields): ModelConfig {
  const fields = given.with({ rope_parameters })
  refuseBothWays(fields)
  const config = scaledEmbedding(
    readDecoder(fields, {
      absent: { vocabulary: 262144, context: 131072, headDim: 256, tied: true },
      activation: activationOf(fields),
      rotation: { layers: "sliding_attention" },
      ofLayers: ["head_dim", "num_key_value_heads"],
    }),
  )
  const { layers } = config.shapes
  const types = layerTypes(fields, layers)
  const window = fields.count("sliding_window", 512)
  const full = fullAttention(fields, config, types)
  const own = layers - fields.count("num_kv_shared_layers", 0, 0, layers - 1)
  const isWide = fields.flag("use_double_wide_mlp", false)
  const bias = fields.flag("attention_bias", false)
  const blocks = withBlocks(config, (block, i) => {
    const attended = withAttention(block, {
      ...(types[i] === "full_attention" ? full : {}),
      scale: 1,
      window: windowOf(types, i, window),
      norms: { ...block.norm, over: "every head", place: "before" },
      normsValues: true,
      bias: { qkv: bias, o: bias },
      reads: i < own ? undefined : lastAlike(fields, types, own, i),
    })
    const wide = isWide && i >= own ? { intermediate: 2 * block.mlp.intermediate } : {}
    return { ...withMlp(attended, wide), norms: NORMS.both, scaled: true as const }
  })
  const mixed = fields.flag("enable_moe_block", false) ? withExperts(fields, blocks) : blocks
  const capped = withLogitCap(mixed, capOf(fields, "final_logit_softcapping", undefined))
  const width = fields.count("hidden_size_per_layer_input", 256, 0)
  if (width === 0) return capped
  const { epsilon } = config.norm!
  return { ...capped, layerInputs: { width: checkedInputs(fields, width), epsilon } }
}

const embeddingGemma2 = {
  ...{ vocab_size: 262144, hidden_size: 512, intermediate_size: 2048, num_hidden_layers: 24 },
  ...{ num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 262144 },
  rope_parameters: {
    sliding_attention: { rope_type: "default", rope_theta: 1e4 },
    full_attention: { rope_type: "default", rope_theta: 1e6 },
  },
}

export function readEmbeddingGemma2(given: Fields): ModelConfig {
  const own = given.with(embeddingGemma2)
  const types = layerTypes(own, own.count("num_hidden_layers", undefined, 1, MAX_LAYERS))
  const head_dim = own.count("global_head_dim", 512, 1, MAX_HEAD)
  const num_key_value_heads = own.count("num_global_key_value_heads", 1)
  const full = types.flatMap((type, layer) =>
    type === "full_attention" ? [[`${layer}`, { head_dim, num_key_value_heads }]] : [],
  )
  const fields = own
    .with({ per_layer_config: Object.fromEntries(full) })
    .over({ sliding_window: own.count("sliding_window", 512) + 1 }) // which is a radius here
  const { layerInputs, ...config } = readGemma4(fields.with({ hidden_size_per_layer_input: 512 }))
  return {
    ...seeingBothWays(config),
    ...(layerInputs && { layerInputs: { ...layerInputs, projected: true as const } }),
    pooledTo: fields.count("embedding_dim", 768),
  }
}

/** Pictures may be seen both ways; text may not. */
function refuseBothWays(fields: Fields): void {
  const name = "use_bidirectional_attention"
  if (fields.has(name) && fields.json[name] !== false && fields.json[name] !== "vision")
    throw fields.wrong(name, 'is not "vision", and a token of text sees those before it')
}

/** Every sixth layer sees everything, and the last. */
function layerTypes(fields: Fields, layers: number): readonly LayerType[] {
  const types = readLayerTypes(fields, layers, 6)
  return fields.has("layer_types") ? types : [...types.slice(0, -1), "full_attention"]
}

function fullAttention(
  fields: Fields,
  { shapes }: ModelConfig,
  types: readonly LayerType[],
): Partial<SelfAttention> {
  const alike = fields.flag("attention_k_eq_v", false)
  const { headDim, kvHeads } = ownHeads(fields, shapes, types) ?? globalHeads(fields, shapes, alike)
  const { context } = shapes
  const turn = readRotation(fields, { headDim, context, layers: "full_attention", part: 1 })
  return {
    headDim,
    kvHeads,
    rotation: { query: turn, key: turn },
    ...(alike ? { valuesAreKeys: true } : {}),
  }
}

type Heads = Pick<Shapes, "headDim" | "kvHeads">

function globalHeads(fields: Fields, shapes: Shapes, alike: boolean): Heads {
  const headDim = fields.count("global_head_dim", 512, 1, MAX_HEAD)
  const name = "num_global_key_value_heads"
  const kvHeads = alike ? fields.count(name, shapes.kvHeads) : shapes.kvHeads
  if (shapes.heads % kvHeads === 0) return { headDim, kvHeads }
  throw fields.wrong(name, `is ${kvHeads}, which does not divide ${shapes.heads} heads`)
}

/** The same as transformers 5 saves it, layer by layer: of those that see everything alike, and of no other. */
function ownHeads(fields: Fields, shapes: Shapes, types: readonly LayerType[]): Heads | undefined {
  const own = readOwnFields(fields)
  if (!own) return undefined
  const { heads } = shapes
  const kinds = types.map((type, layer) => {
    const its = own.get(layer)
    const headDim = its?.count("head_dim", shapes.headDim, 1, MAX_HEAD) ?? shapes.headDim
    const kvHeads = its?.count("num_key_value_heads", shapes.kvHeads) ?? shapes.kvHeads
    if (heads % kvHeads !== 0)
      throw its!.wrong("num_key_value_heads", `is ${kvHeads}, which does not divide ${heads} heads`)
    return { type, headDim, kvHeads }
  })
  const full = kinds.find(({ type }) => type === "full_attention") ?? shapes
  const odd = kinds.findIndex(({ type, headDim, kvHeads }) => {
    const wanted = type === "full_attention" ? full : shapes
    return headDim !== wanted.headDim || kvHeads !== wanted.kvHeads
  })
  if (odd < 0) return full
  throw fields.wrong(
    "per_layer_config",
    `gives layer ${odd} heads that others of ${types[odd]} do not have`,
  )
}

/** The last layer before `own` that sees as much as this one. */
export function lastAlike(
  fields: Fields,
  types: readonly LayerType[],
  own: number,
  layer: number,
): number {
  const before = types.slice(0, own).lastIndexOf(types[layer]!)
  if (before >= 0) return before
  throw fields.wrong(
    "num_kv_shared_layers",
    `leaves no layer of ${types[layer]} with keys and values of its own`,
  )
}

function withExperts(fields: Fields, config: ModelConfig): ModelConfig {
  const routed = readRouting(fields, { count: "num_experts", active: "top_k_experts" })
  const intermediate = fields.count("moe_intermediate_size")
  return withBlocks(config, (block) => ({
    ...withMlp(block, { intermediate }),
    experts: { ...routed, chosenByBias: false, shared: undefined, beside: block.mlp },
  }))
}

function checkedInputs(fields: Fields, width: number): number {
  const vocabulary = fields.count("vocab_size", 262144)
  const own = fields.count("vocab_size_per_layer_input", vocabulary)
  if (own === vocabulary) return width
  throw fields.wrong("vocab_size_per_layer_input", `is ${own}, and there are ${vocabulary} tokens`)
}

const bare = (name: string) => ({ name, bare: true }) as const

export function gemma4Naming({ shapes: { hidden }, blocks: [block] }: ModelConfig): Naming {
  const { experts, mlp } = block!
  const stacks = { gateUp: "experts.gate_up_proj", down: "experts.down_proj" }
  const { count = 1 } = experts ?? {}
  return withParts(llamaNaming, {
    "self_attn.output_norm": "post_attention_layernorm",
    post_attention_layernorm: "pre_feedforward_layernorm",
    "mlp.output_norm": "post_feedforward_layernorm",
    "self_attn.v_norm": { name: "self_attn.v_norm", constant: 1 },
    "mlp.gate": "router.proj",
    "router.scale": bare("router.scale"),
    "router.per_expert_scale": bare("router.per_expert_scale"),
    layer_scalar: bare("layer_scalar"),
    ...stackedExperts({ count, intermediate: mlp.intermediate, hidden }, stacks, { bare: true }),
  })
}

export const embeddingGemma2Naming = (config: ModelConfig) =>
  withParts(gemma4Naming(config), {
    per_layer_model_projection: "ple.per_layer_model_projection",
    per_layer_projection_norm: "ple.per_layer_projection_norm",
    per_layer_input_gate: "ple_block.per_layer_input_gate",
    per_layer_projection: "ple_block.per_layer_projection",
    post_per_layer_input_norm: "ple_block.post_per_layer_input_norm",
  })
