// Towers of Qwen that sees: Qwen 2 VL, 2.5 VL, 3 VL and 3.5, and what 2.5 Omni and 3 Omni see with; North Micro's, which is 3's; and EXAONE 4.5's,
// which is 2.5's with fewer heads of keys, and whose text model counts its tokens one by one. They take images of any proportions, whose patches are turned by height
// and width. A patch is two frames of a video; an image is the same frame twice. In 2.5 most layers see a window of the image. In 3
// positions are learned besides, and what some layers leave goes to the text model as well, which adds it behind its first layers.
// The text model turns its tokens by time, height and width.
//
// Sources: configuration_*.py and modeling_*.py of transformers (qwen2_vl, qwen2_5_vl, qwen2_5_omni, qwen3_vl,
// qwen3_omni_moe, qwen3_5, cohere_compass, exaone4_5).

import type { Axis } from "../../runtime/rotation.ts"
import { type Block, NORMS, type NormKind, withAttention, withBlocks, withMlp } from "../block.ts"
import { MAX_LAYERS, type ModelConfig, readDecoder, seeingBothWays } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Json } from "../folder.ts"
import { THINKING, textFields } from "../seeing.ts"
import { joinedRows, type Naming } from "../weights/names.ts"
import { oneSide, squareSide } from "./sides.ts"
import { placesParts, STACKED, type Stacked, type TowerConfig } from "./tower.ts"
import { turnedBySides } from "./turns.ts"

/** Rows of the prompt that an image becomes at most: those of 1280 x 28 x 28 pixels, which Qwen2VLImageProcessor takes by itself. */
export const MAX_ROWS = 1280

interface Qwen {
  /** What its `vision_config` may be. */
  towers: readonly string[]
  /** Where `vision_config` says nothing. */
  absent: Json
  /** Of the tower's layers, in front of its merger, and of those that lead to the text model's first layers. */
  norm: Pick<NormKind, "kind" | "bias">
  gated: boolean
  patchBias: boolean
  /** Positions are learned, for a square of places. */
  hasPlaces: boolean
  /** The field with how wide its rows are, and how wide an MLP of such rows is. */
  width: string
  intermediate(vision: Fields, width: number): number
  /** The names of its tensors that differ. */
  names: Naming["parts"]
  /** Those of the mergers of layers that lead to the text model's first ones. */
  stacked?: StackedNames
  /** Which of the text model's pairs turn by which coordinate, where it is not said how many of each there are. */
  sections: readonly number[]
  interleaved: boolean
  /** The text model turns tokens by their position alone. */
  isPlain?: true
  softToken: number
  /** Its text, where no tokenizer names it; absent: that of most. */
  soft?: string
}

/** What stands before their numbers, and what a merger's parts are called. */
interface StackedNames {
  list: string
  parts: Readonly<Record<"projector_norm" | "linear_1" | "linear_2", string>>
}

const COMMON = {
  hidden_size: 1152,
  depth: 27,
  num_heads: 16,
  patch_size: 16,
  spatial_merge_size: 2,
  temporal_patch_size: 2,
  in_channels: 3,
  hidden_act: "gelu_pytorch_tanh",
  intermediate_size: 4304,
  num_position_embeddings: 2304,
}

const layerNorm = { kind: "layer", bias: true } as const

const qwen3: Qwen = {
  towers: ["qwen3_vl_vision", "qwen3_vl", "qwen3_vl_moe_vision", "qwen3_vl_moe"],
  absent: { ...COMMON, deepstack_visual_indexes: [8, 16, 24] },
  norm: layerNorm,
  gated: false,
  patchBias: true,
  hasPlaces: true,
  width: "hidden_size",
  intermediate: (vision) => vision.count("intermediate_size"),
  names: {
    norm: "merger.norm",
    "mlp.up_proj": "mlp.linear_fc1",
    "mlp.down_proj": "mlp.linear_fc2",
    linear_1: "linear_fc1",
    linear_2: "linear_fc2",
  },
  sections: [24, 20, 20],
  interleaved: true,
  softToken: 151655,
}

const qwen35: Qwen = {
  ...qwen3,
  towers: ["qwen3_5_vision", "qwen3_5", "qwen3_5_moe_vision", "qwen3_5_moe"],
  absent: { ...COMMON, deepstack_visual_indexes: [] },
  sections: [11, 11, 10],
  softToken: 248056,
}

const OMNI_MERGER = { projector_norm: "ln_q", linear_1: "mlp.0", linear_2: "mlp.2" }

const qwen3Omni: Qwen = {
  ...qwen3,
  towers: ["qwen3_omni_moe_vision_encoder"],
  names: { ...qwen3.names, norm: "merger.ln_q", linear_1: "mlp.0", linear_2: "mlp.2" },
  stacked: { list: "merger_list", parts: OMNI_MERGER },
}

const MERGER = { norm: "merger.ln_q", linear_1: "mlp.0", linear_2: "mlp.2" }

const qwen25: Qwen = {
  towers: ["qwen2_5_vl_vision", "qwen2_5_vl"],
  absent: {
    ...COMMON,
    hidden_size: 3584,
    depth: 32,
    patch_size: 14,
    hidden_act: "silu",
    intermediate_size: 3420,
    window_size: 112,
    fullatt_block_indexes: [7, 15, 23, 31],
  },
  norm: { kind: "rms", bias: false },
  gated: true,
  patchBias: false,
  hasPlaces: false,
  width: "hidden_size",
  intermediate: (vision) => vision.count("intermediate_size"),
  names: MERGER,
  sections: [16, 24, 24],
  interleaved: false,
  softToken: 151655,
}

/** Queries, keys and values lie in matrices of their own. */
const qwen25Omni: Qwen = {
  ...qwen25,
  towers: ["qwen2_5_omni_vision_encoder"],
  names: {
    ...MERGER,
    "self_attn.q_proj": "attn.q",
    "self_attn.k_proj": "attn.k",
    "self_attn.v_proj": "attn.v",
  },
  soft: "<|IMAGE|>",
}

/** By the `model_type` of the whole. */
const families: Readonly<Record<string, Qwen>> = {
  cohere_compass: {
    ...qwen3,
    towers: ["cohere_compass_vision", "cohere_compass"],
    softToken: 255031,
    soft: "<|IMAGE_PAD|>",
  },
  qwen2_vl: {
    towers: ["qwen2_vl_vision", "qwen2_vl"],
    absent: { ...COMMON, embed_dim: 1280, depth: 32, patch_size: 14, hidden_act: "quick_gelu" },
    norm: layerNorm,
    gated: false,
    patchBias: false,
    hasPlaces: false,
    width: "embed_dim",
    intermediate: (vision, width) => Math.trunc(width * vision.positive("mlp_ratio", 4)),
    names: { ...MERGER, "mlp.up_proj": "mlp.fc1", "mlp.down_proj": "mlp.fc2" },
    sections: [16, 24, 24],
    interleaved: false,
    softToken: 151655,
  },
  exaone4_5: {
    ...qwen25,
    towers: ["exaone4_5_vision"],
    absent: { ...qwen25.absent, num_key_value_heads: 8 },
    isPlain: true,
    softToken: 67,
  },
  qwen2_5_vl: qwen25,
  qwen2_5_omni: qwen25Omni,
  qwen2_5_omni_thinker: qwen25Omni,
  qwen3_omni_moe: qwen3Omni,
  qwen3_omni_moe_thinker: qwen3Omni,
  qwen3_vl: qwen3,
  qwen3_vl_moe: qwen3,
  qwen3_5: qwen35,
  qwen3_5_moe: qwen35,
}

/** By the `model_type` of the whole. */
export const isQwen = (type: string) => Object.hasOwn(families, type)

/** What of a tower decides how images are cut into patches, too. */
export interface QwenPatches {
  patch: number
  /** Patches a side that become one row. */
  joined: number
  /** Of a window, in patches a side; absent: there are none. */
  window?: number
  /** Of the square of places that positions are learned for; absent: none are. */
  places?: number
  /** The text of its soft token, where no tokenizer names it; absent: that of most. */
  soft?: string
  /** The text model does not ask where rows lie. */
  isPlain?: true
}

/** @returns nothing where the tower is not known */
export function readQwenPatches(fields: Fields): QwenPatches | undefined {
  const found = familyOf(fields)
  if (!found) return undefined
  const {
    vision,
    family: { soft, isPlain },
  } = found
  const patch = oneSide(vision, "patch_size", { most: MAX_PATCH })
  const joined = vision.count("spatial_merge_size", undefined, 1, MAX_JOINED)
  const frames = oneSide(vision, "temporal_patch_size", { most: MAX_PATCH })
  if (frames !== FRAMES) throw vision.wrong("temporal_patch_size", `is ${frames}; known: ${FRAMES}`)
  const colours = vision.count("in_channels")
  if (colours !== 3) throw vision.wrong("in_channels", `is ${colours}; images have 3 colours`)
  const window = vision.has("window_size") ? windowOf(vision, patch, joined) : undefined
  const places = found.family.hasPlaces ? squareSide(vision, "num_position_embeddings") : undefined
  return {
    patch,
    joined,
    ...(window && { window }),
    ...(places && { places }),
    ...(soft && { soft }),
    ...(isPlain && { isPlain }),
  }
}

/** That a patch is of. */
export const FRAMES = 2
export const MAX_PATCH = 1 << 10
export const MAX_JOINED = 1 << 5

function windowOf(vision: Fields, patch: number, joined: number): number {
  const pixels = vision.count("window_size")
  const window = Math.floor(pixels / joined / patch)
  if (window === 0)
    throw vision.wrong(
      "window_size",
      `is ${pixels}, less than ${joined} patches of ${patch} pixels`,
    )
  return window * joined
}

function familyOf(fields: Fields): { family: Qwen; vision: Fields; name: string } | undefined {
  const type = fields.text("model_type")
  const given = fields.object("vision_config")
  if (!given || !isQwen(type)) return undefined
  const family = families[type]!
  const name = given.text("model_type", family.towers[0])
  return family.towers.includes(name)
    ? { family, vision: given.with(family.absent), name }
    : undefined
}

/**
 * @param text the model inside
 * @returns nothing where the tower is not known
 */
export function readQwen(fields: Fields, text: ModelConfig): TowerConfig | undefined {
  const found = familyOf(fields)
  const patches = readQwenPatches(fields)
  if (!found || !patches) return undefined
  const { family, vision, name } = found
  const { patch, joined, places } = patches
  const { hidden, vocabulary, layers } = text.shapes
  const width = vision.count(family.width)
  const depth = vision.count("depth", undefined, 1, MAX_LAYERS)
  const config = readDecoder(layersAs(vision, family, { width, depth }), {
    epsilon: "layer_norm_eps",
    ...(family.norm.kind === "layer" && { norm: layerNorm }),
    rotation: "none",
  })
  const { blocks } = seeingWindows(
    vision,
    turnedBySides(vision, asQwen(config, family), QWEN_TURNING),
    patches,
  )
  const stacked = stackedLayers(vision, depth)
  if (stacked.length > layers)
    throw vision.wrong("deepstack_visual_indexes", `names ${stacked.length} layers, for ${layers}`)
  const bias = true
  const norm = { ...family.norm, epsilon: EPSILON }
  return {
    architecture: name,
    patch,
    side: places ?? 0,
    fits: {
      rows: MAX_ROWS * joined * joined,
      frames: FRAMES,
      ...(places !== undefined && { interpolated: "before the norm" }),
    },
    hasClass: false,
    patchBias: family.patchBias,
    width,
    blocks,
    firstNorm: undefined,
    lastNorm: norm,
    layersRead: undefined,
    merge: { side: joined, by: "columns" },
    projector: {
      norm: undefined,
      inner: { columns: width * joined * joined, activation: "gelu", gated: false },
      ...{ bias, factor: 1, width: hidden },
    },
    stacked,
    softToken: fields.count(softTokenField(fields), family.softToken, 0, vocabulary - 1),
    ...(!family.isPlain && { axes: axesOf(fields, family, text) }),
    naming: {
      roots: ROOTS.map((root) => ({ root, head: `${root}merger.` })),
      layers: "blocks.",
      parts: {
        ...partsOf(width, patch, kvWidthOf(config)),
        ...(places && placesParts("pos_embed.weight", places * places, width)),
        ...family.names,
        ...stackedParts(stacked.length, family.stacked),
      },
    },
  }
}

/** Under either name that configurations have for it. */
const softTokenField = (fields: Fields) =>
  fields.has("image_token_index") ? "image_token_index" : "image_token_id"

/** As transformers 5 has it, as it was published, as MLX has it, and as a part of what thinks. */
const ROOTS = ["model.visual.", "visual.", "vision_tower.", `${THINKING}visual.`]

/** Of every norm, whatever the configuration says. */
const EPSILON = 1e-6

/** The tower's layers in the words of a decoder's. */
function layersAs(
  vision: Fields,
  family: Qwen,
  { width, depth }: Record<"width" | "depth", number>,
): Fields {
  return vision.over({
    hidden_size: width,
    intermediate_size: family.intermediate(vision, width),
    num_hidden_layers: depth,
    num_attention_heads: vision.count("num_heads"),
    layer_norm_eps: EPSILON,
    vocab_size: 1,
    max_position_embeddings: 1,
  })
}

function asQwen(config: ModelConfig, { gated }: Qwen): ModelConfig {
  return withBlocks(config, (block) => ({
    ...withMlp(withAttention(block, { bias: { qkv: true, o: true } }), { gated, bias: true }),
    norms: NORMS.before,
  }))
}

/** Heads of Qwen's and GLM's. */
export const QWEN_TURNING = { order: "height first", heads: "num_heads" } as const

/** In the layers that are not named, where there are windows. */
function seeingWindows(
  vision: Fields,
  config: ModelConfig,
  { window }: QwenPatches,
): { blocks: readonly Block[] } {
  if (!window) return seeingBothWays(config)
  const all = vision.counts("fullatt_block_indexes", config.blocks.length)
  return withBlocks(config, (block, layer) =>
    withAttention(block, all.includes(layer) ? { bidirectional: true } : { mutual: true }),
  )
}

/** Whose rows go to the text model besides the last ones: in the order of the layers, and not in that of their mergers. */
function stackedLayers(vision: Fields, depth: number): Stacked[] {
  const name = "deepstack_visual_indexes"
  if (!vision.has(name)) return []
  const layers = vision.counts(name, depth)
  const far = layers.find((layer) => layer >= depth)
  if (far !== undefined) throw vision.wrong(name, `names layer ${far} of ${depth}`)
  return layers.map((layer, number) => ({ layer, number })).sort((a, b) => a.layer - b.layer)
}

/** Of the text model's pairs, in sections one behind another, or by turns as long as there are any of height and width. */
export function axesOf(
  fields: Fields,
  { sections: usual, interleaved }: Pick<Qwen, "sections" | "interleaved">,
  { blocks }: ModelConfig,
): readonly Axis[] {
  const text = textFields(fields)
  const scaling = text.object("rope_parameters") ?? text.object("rope_scaling")
  const name = "mrope_section"
  const [sections = usual, ...others] = turningOf(scaling).map((each) =>
    each.has(name) ? each.counts(name) : usual,
  )
  if (others.some((other) => other.some((count, axis) => count !== sections[axis])))
    throw text.wrong(name, "is another of some layers than of others, which is not known")
  const turned = blocks.find(({ attention }) => attention.rotation)?.attention.rotation
  const pairs = turned?.query.frequencies.length ?? 0
  const sum = sections.reduce((all, each) => all + each, 0)
  if (sections.length !== 3 || sum !== pairs)
    throw (scaling ?? text).wrong(name, `is [${sections.join(", ")}], not three parts of ${pairs}`)
  if (!interleaved)
    return ([0, 1, 2] as const).flatMap((axis) => Array<Axis>(sections[axis]!).fill(axis))
  return Array.from({ length: pairs }, (_, pair) => {
    const axis = (pair % 3) as Axis
    return pair < 3 * sections[axis]! ? axis : 0
  })
}

/** What is said of all layers; or of each kind of them that turns. */
function turningOf(scaling: Fields | undefined): Fields[] {
  const kinds = ["full_attention", "sliding_attention"]
  if (!scaling || !kinds.some((kind) => kind in scaling.json)) return scaling ? [scaling] : []
  return kinds.flatMap((kind) => scaling.object(kind) ?? [])
}

/** Each has a merger, all of one kind. */
function stackedParts(count: number, { list, parts } = USUAL_STACKED): Naming["parts"] {
  return Object.fromEntries(
    Array.from({ length: count }, (_, i) => i).flatMap((i) =>
      Object.entries(parts).map(([name, own]) => [
        `${STACKED}.${i}.${name}`,
        `${list}.${i}.${own}`,
      ]),
    ),
  )
}

const USUAL_STACKED: StackedNames = {
  list: STACKED,
  parts: { projector_norm: "norm", linear_1: "linear_fc1", linear_2: "linear_fc2" },
}

/** Columns of keys, and of values. */
const kvWidthOf = ({ shapes: { kvHeads, headDim } }: ModelConfig) => kvHeads * headDim

/** Queries, keys and values lie in one matrix. */
export function partsOf(width: number, patch: number, kvWidth = width): Naming["parts"] {
  const rows = joinedRows({ q: width, k: kvWidth, v: kvWidth })
  const projection = (part: keyof typeof rows) => ({ name: "attn.qkv", rows: rows[part] })
  return {
    embed_tokens: "patch_embed.proj", // by which the tower is found
    patch_embedding: "patch_embed.proj",
    "patch_embedding.weight": {
      name: "patch_embed.proj.weight",
      shape: [width, 3, FRAMES, patch, patch],
    },
    input_layernorm: "norm1",
    "self_attn.q_proj": projection("q"),
    "self_attn.k_proj": projection("k"),
    "self_attn.v_proj": projection("v"),
    "self_attn.o_proj": "attn.proj",
    post_attention_layernorm: "norm2",
  }
}
