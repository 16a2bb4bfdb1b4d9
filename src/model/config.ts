// What a decoder model's configuration says, in our own words: the same whether it was read from a config.json or from an
// mlc-chat-config.json, whose fields mlc-config.ts renames to the former's. What would change the mathematics and is not
// known is refused: ignoring it gives wrong text.

import type { Activation } from "../compiler/graph/elementwise.ts"
import type { Shapes } from "../runtime/manifest.ts"
import type { Rotation } from "../runtime/rotation.ts"
import {
  type Block,
  type CrossHead,
  NORMS,
  type NormKind,
  withAttention,
  withBlocks,
} from "./block.ts"
import type { Fields } from "./fields.ts"
import { readPacking } from "./packed/packing.ts"
import { type RotationOptions, readRotation } from "./rotation.ts"
import type { Streams } from "./streams.ts"

export interface ModelConfig {
  shapes: Shapes
  blocks: readonly Block[] // a layer each
  /** Heads of cross-attention whose queries are handed out behind the last hidden row; absent: none are. */
  aligned?: readonly CrossHead[]
  /** Layers that attend to images alone: without any they leave what they read, and what is stored of them is not read. */
  seeing?: ReadonlySet<number>
  embedding: {
    /** Its rows have so many columns, of which a matrix with a bias makes a row of the layers'. Only known of models that write nothing. */
    narrow?: number
    /** What a token's row is multiplied with. */
    factor: number
    /** A row of an image may stand in a token's place. */
    sees?: true
    /** Behind each of these layers, counted from 0, as many more of its columns are added. */
    stacked?: readonly number[]
    /**
     * Learned positions are added to it; undefined: none are. `skipped`: as many before the first are counted by `max_position_embeddings`.
     * The first `heard` positions are a recording's, which have none, and the table begins behind them.
     */
    positions: { skipped: number; heard?: number } | undefined
    /** Of the sum. */
    norm?: NormKind
    /** No row of types is added to it, in an architecture that has one otherwise. */
    untyped?: true
    /** The second half of the vocabulary is the first, as its tokens are embedded in the second of two texts. */
    isPaired?: true
    /** Its table has so many rows, of which those behind the vocabulary are not read. */
    stored?: number
  }
  /**
   * Layers that are passed several times, and remember each pass by itself. A pass reads the last norm of what was left, and of what
   * the layers before have left.
   */
  loop?: { from: number; to: number; times: number }
  /**
   * Its layers are two stacks, of as many each: a fast one, then a slow one, which stand for a row each, the slow one's the embedding
   * at first. So often the fast one is passed so many times, and reads the sum of both rows, then the slow one once, as well.
   */
  cycles?: { slow: number; fast: number }
  /** Several rows of a token go through the layers. */
  streams?: Streams
  /** Each layer is given so many columns of each token's own, from a second table. */
  layerInputs?: {
    width: number
    epsilon: number
    /** Or there is no such table: they are made of the embedding alone. */
    projected?: true
    /** Where a row of an image stands, they are those of this token. */
    instead?: number
  }
  /** Of a model that embeds: what is pooled goes through a matrix of its own, which has so many rows. */
  pooledTo?: number
  /** The one behind the last layer; undefined: there is none. */
  norm: NormKind | undefined
  head: {
    /** It is the embedding table. */
    tied: boolean
    bias: boolean
    /** What logits are multiplied with. */
    factor: number
    /** Each is multiplied with a learned number of its token, too, which is stored so many times smaller. */
    weighed?: number
    /** Logits are bent below it. */
    cap: number | undefined
  }
  /** First positions that stay visible whatever the window. */
  sinks: number
  /** It writes no text of its own: tokens are named for rows of a recording. */
  acoustic?: Acoustic
}

/** What names tokens for rows of a recording (architectures/parakeet.ts). */
export interface Acoustic {
  /** The token that says nothing. */
  blank: number
  /** Of a transducer: an LSTM reads what has been said. Absent: rows are judged by themselves (CTC). */
  network?: {
    layers: number
    width: number
    /** How many rows a token may go on; none: each stays at its row until nothing is said. */
    durations: readonly number[]
    /** Tokens of one row. */
    most: number
  }
}

/** How an architecture's configuration differs from llama's. */
export interface Differences {
  /** Names of fields where they have others. */
  names?: Partial<
    Record<"hidden" | "layers" | "heads" | "kvHeads" | "context" | "intermediate", string>
  >
  /** What holds where a field is absent. */
  absent?: Partial<Record<keyof Shapes | "epsilon", number>> & { tied?: boolean }
  /** One KV head, whatever the configuration says. */
  oneKvHead?: boolean
  norm?: { kind: "layer"; bias: boolean }
  /** The field with the norms' epsilon. */
  epsilon?: string
  /** The field with the activation, and what holds where it is absent; `tanh`: either gelu means the tanh form. */
  activation?: { field?: string; otherwise?: string; tanh?: true } | undefined
  rotation?: Partial<RotationOptions> | "none"
  /** Fields that a layer may have of its own. */
  ofLayers?: readonly string[]
}

export const MAX_HEAD = 1 << 16 // a list is made of its pairs before any tensor can contradict it
export const MAX_LAYERS = 1 << 14 // a block is made of each before any tensor can contradict it

/** How often layers are passed. Each pass of each becomes part of the graph, which no tensor contradicts. */
export function readPasses(
  fields: Fields,
  name: string,
  otherwise: number,
  layers: number,
): number {
  return fields.count(name, otherwise, 1, Math.max(1, Math.floor(MAX_LAYERS / layers)))
}

/** A configuration whose layers are llama's, except for the differences given. */
export function readDecoder(fields: Fields, differences: Differences = {}): ModelConfig {
  readPacking(fields) // refuses what is not known
  const shapes = readShapes(fields, differences)
  const { absent = {}, ofLayers = [] } = differences
  refuseOwnFields(fields, shapes.layers, ofLayers)
  const norm: NormKind = {
    ...(differences.norm ?? { kind: "rms", bias: false }),
    epsilon: fields.positive(differences.epsilon ?? "rms_norm_eps", absent.epsilon ?? 1e-6),
  }
  const block = plainBlock(fields, shapes, norm, differences)
  return {
    shapes,
    blocks: Array.from({ length: shapes.layers }, () => block),
    embedding: { factor: 1, positions: undefined },
    norm,
    head: {
      tied: fields.flag("tie_word_embeddings", absent.tied ?? false),
      bias: false,
      factor: 1,
      cap: undefined,
    },
    sinks: fields.count("attention_sink_size", 0, 0),
  }
}

const OWN = "per_layer_config"

/** Of each layer that has some, by its number, the fields of its own: as transformers 5 writes them, with zeros before the number. */
export function readOwnFields(fields: Fields): Map<number, Fields> | undefined {
  const layers = fields.object(OWN)
  if (!layers) return undefined
  return new Map(Object.keys(layers.json).map((key) => [Number(key), layers.object(key)!]))
}

function refuseOwnFields(fields: Fields, layers: number, known: readonly string[]): void {
  for (const [layer, own] of readOwnFields(fields) ?? []) {
    if (!Number.isInteger(layer) || layer < 0 || layer >= layers)
      throw fields.wrong(OWN, `is about layer ${layer} of ${layers}`)
    const other = Object.keys(own.json).find((name) => !known.includes(name))
    if (other !== undefined)
      throw own.wrong(other, "is that layer's alone, which is not known of this architecture")
  }
}

/** The window of all layers, if it is one. */
export function commonWindow({ blocks }: Pick<ModelConfig, "blocks">): number | undefined {
  const windows = new Set(blocks.map(({ attention }) => attention.window))
  const [only] = windows
  return windows.size === 1 ? only : undefined
}

/** How far back any layer looks; undefined: some see everything. */
export function widestWindow({ blocks }: Pick<ModelConfig, "blocks">): number | undefined {
  const widest = Math.max(
    ...blocks.map(({ attention: { window = Number.POSITIVE_INFINITY } }) => window),
  )
  return Number.isFinite(widest) ? widest : undefined
}

/** A matrix of one column would be a vector. */
const MIN_COLUMNS = 2
/** Lists are made of rows before any tensor can contradict their length. */
export const MAX_COLUMNS = 1 << 20

function readShapes(fields: Fields, { names = {}, absent = {}, oneKvHead }: Differences): Shapes {
  const name = (what: keyof typeof names, usual: string) => names[what] ?? usual
  const hidden = fields.count(name("hidden", "hidden_size"), undefined, MIN_COLUMNS, MAX_COLUMNS)
  const headsField = name("heads", "num_attention_heads")
  const kvField = name("kvHeads", "num_key_value_heads")
  const heads = fields.count(headsField, absent.heads)
  const kvHeads = oneKvHead ? 1 : fields.count(kvField, absent.kvHeads ?? heads)
  if (heads % kvHeads !== 0)
    throw fields.wrong(kvField, `is ${kvHeads}, which does not divide ${heads} heads`)
  if (!fields.has("head_dim") && absent.headDim === undefined && hidden % heads !== 0)
    throw fields.wrong(headsField, `is ${heads}, which does not divide ${hidden} columns`)
  return {
    vocabulary: fields.count("vocab_size", absent.vocabulary),
    hidden,
    layers: fields.count(name("layers", "num_hidden_layers"), undefined, 1, MAX_LAYERS),
    heads,
    kvHeads,
    headDim: fields.count("head_dim", absent.headDim ?? hidden / heads, 1, MAX_HEAD),
    intermediate: fields.count(
      name("intermediate", "intermediate_size"),
      absent.intermediate,
      MIN_COLUMNS,
    ),
    context: fields.count(name("context", "max_position_embeddings"), absent.context),
  }
}

function plainBlock(
  fields: Fields,
  shapes: Shapes,
  norm: NormKind,
  { activation = {}, rotation = {} }: Differences,
): Block {
  const { heads, kvHeads, headDim, context, intermediate } = shapes
  const turn =
    rotation === "none" ? undefined : readRotation(fields, { headDim, context, ...rotation })
  return {
    norm,
    norms: NORMS.before,
    parallel: false,
    residual: 1,
    attention: {
      heads,
      kvHeads,
      headDim,
      scale: 1 / Math.sqrt(headDim),
      cap: undefined,
      window: undefined,
      rotation: turn && { query: turn, key: turn },
      norms: undefined,
      bias: { qkv: false, o: false },
    },
    mlp: {
      gated: true,
      activation: readActivation(fields, activation),
      intermediate,
      bias: false,
    },
  }
}

/** Under the names that configurations give them. */
const activationNames: Readonly<Record<string, Activation>> = {
  silu: "silu",
  swish: "silu",
  gelu: "gelu",
  gelu_new: "gelu_tanh",
  gelu_pytorch_tanh: "gelu_tanh",
  quick_gelu: "quick_gelu",
  relu2: "relu2",
}

export function readActivation(
  fields: Fields,
  { field = "hidden_act", otherwise = "silu", tanh }: NonNullable<Differences["activation"]>,
): Activation {
  const name = fields.text(field, otherwise)
  if (Object.hasOwn(activationNames, name)) {
    const activation = activationNames[name]!
    return tanh && activation === "gelu" ? "gelu_tanh" : activation
  }
  throw fields.wrong(field, `is "${name}"; known: ${Object.keys(activationNames).join(", ")}`)
}

/** Newer files say of each layer what it sees; where other fields decide, that must be the same. */
export function checkLayerTypes(fields: Fields, { blocks }: ModelConfig): void {
  if (!fields.has("layer_types")) return
  const types = fields.texts("layer_types")
  if (types.length < blocks.length)
    throw fields.wrong("layer_types", `names ${types.length} layers of ${blocks.length}`)
  const wrong = blocks.findIndex(({ attention }, i) => types[i] !== typeOf(attention.window))
  if (wrong >= 0)
    throw fields.wrong(
      "layer_types",
      `says ${types[wrong]} of layer ${wrong}, which the other fields do not`,
    )
}

const typeOf = (window: number | undefined): LayerType =>
  window === undefined ? "full_attention" : "sliding_attention"

export type LayerType = "full_attention" | "sliding_attention"

/**
 * What each layer sees: as `layer_types` lists it, else everything in one of `pattern` layers, the last of them or the first, and a
 * window in the others.
 */
export function readLayerTypes(
  fields: Fields,
  layers: number,
  pattern: number,
  full: "first" | "last" = "last",
): LayerType[] {
  const ahead = full === "last" ? 1 : 0
  if (!fields.has("layer_types"))
    return Array.from({ length: layers }, (_, i) =>
      (i + ahead) % pattern === 0 ? "full_attention" : "sliding_attention",
    )
  const types = fields.texts("layer_types")
  if (types.length !== layers)
    throw fields.wrong("layer_types", `names ${types.length} layers of ${layers}`)
  const unknown = types.find((type) => type !== "full_attention" && type !== "sliding_attention")
  if (unknown !== undefined)
    throw fields.wrong(
      "layer_types",
      `holds "${unknown}"; known: full_attention, sliding_attention`,
    )
  return types as LayerType[]
}

/** The layers that have a window, with it, and turned in a way of their own if that is given. */
export function withWindows(
  config: ModelConfig,
  types: readonly string[],
  window: number,
  rotation?: Rotation,
): ModelConfig {
  const turned = rotation && { rotation: { query: rotation, key: rotation } }
  return withBlocks(config, (block, i) =>
    types[i] === "sliding_attention" ? withAttention(block, { window, ...turned }) : block,
  )
}

/** The model, each of whose tokens sees those after it, too. */
export function seeingBothWays(config: ModelConfig): ModelConfig {
  return withBlocks(config, (block) => withAttention(block, { bidirectional: true }))
}

export const seesBothWays = ({ blocks }: ModelConfig) =>
  blocks.some(({ attention }) => attention.bidirectional)

/**
 * As `is_causal` says, which transformers (masking_utils.py) and vLLM read in any decoder's configuration: where it is false, each token
 * sees those after it, too. How far a window then goes they do not agree on.
 */
export function readDirection(fields: Fields, config: ModelConfig): ModelConfig {
  if (fields.flag("is_causal", true) || seesBothWays(config)) return config
  if (config.blocks.every(attendsToAll)) return seeingBothWays(config)
  throw fields.wrong(
    "is_causal",
    "is false, which is known of layers that attend to everything, without windows, states or latent attention",
  )
}

function attendsToAll({ attention: { window, latent }, ...block }: Block): boolean {
  const { isPlain, convolution, delta, selective, scan } = block
  const others = [isPlain, convolution, delta, selective, scan]
  return [window, latent, ...others].every((part) => part === undefined)
}

/**
 * A sliding window, for architectures that switch it on and off, in the layers that `layer_types` lists.
 * @param usual in which ones where they are not listed; absent: from `max_window_layers` on, as qwen has it
 */
export function readOptionalWindow(
  fields: Fields,
  config: ModelConfig,
  usual?: (layer: number) => boolean,
): ModelConfig {
  if (!fields.flag("use_sliding_window", false) || !fields.has("sliding_window")) return config
  const window = fields.count("sliding_window")
  const first = fields.count("max_window_layers", 28, 0)
  const types = fields.has("layer_types")
    ? readLayerTypes(fields, config.shapes.layers, 1)
    : undefined
  const slides = types
    ? (layer: number) => types[layer] === "sliding_attention"
    : (usual ?? ((layer: number) => layer >= first))
  return withBlocks(config, (block, i) => (slides(i) ? withAttention(block, { window }) : block))
}
