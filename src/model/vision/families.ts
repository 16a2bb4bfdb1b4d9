// The towers that are known, and how configurations describe them: `vision_config`, whose `model_type` says which tower it is, and
// beside it what stands between tower and text model, which the family decides. A tower that is not known is none: its model is
// served as the text model inside of it. Of a known one, what would change the mathematics is read or refused.
//
// Sources: configuration_*.py and modeling_*.py of transformers (siglip, clip, aya_vision, cohere2_vision, deepseek_vl, gemma3, idefics3,
// internvl, llava, smolvlm, vipllava).

import { NORMS, type NormKind, withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readActivation, readDecoder, seeingBothWays } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Json } from "../folder.ts"
import type { Naming, Part } from "../weights/names.ts"
import { GEMMA4, readGemma4Tower } from "./gemma4.ts"
import { isGlm4v, readGlm4vTower } from "./glm4v.ts"
import { isQwen, readQwen } from "./qwen.ts"
import type { Merge, Projector, TowerConfig } from "./tower.ts"

/** What `vision_config` says of a tower. */
interface Eye extends Omit<TowerConfig, "architecture" | "softToken" | "naming" | keyof Ending> {
  names: Pick<Naming, "layers" | "parts">
}

/** What stands behind it. */
interface Ending {
  layersRead: TowerConfig["layersRead"]
  merge: Merge
  projector: Omit<Projector, "width">
}

interface Family {
  /** What its `vision_config` may be; the first where it does not say. */
  towers: readonly [TowerName, ...TowerName[]]
  /** @param text the model inside */
  ending(fields: Fields, eye: Eye, text: ModelConfig): Ending
  /** Where it is not said. */
  softToken: number
  mutual?: NonNullable<TowerConfig["mutual"]>
  /** What may stand before the names of tensors: the tower's, and the projector's. */
  roots: Naming["roots"]
  /** What the projector's parts are called, where these have other names. */
  parts: Naming["parts"]
}

type TowerName = keyof typeof towers

/**
 * @param text the model inside
 * @returns nothing where there is no tower, or none that is known
 */
export function readTower(fields: Fields, text: ModelConfig): TowerConfig | undefined {
  const fitting =
    readQwen(fields, text) ?? readGemma4Tower(fields, text) ?? readGlm4vTower(fields, text)
  if (fitting) return fitting
  const type = fields.text("model_type")
  const vision = fields.object("vision_config")
  if (!vision || !Object.hasOwn(families, type)) return undefined
  const family: Family = families[type as keyof typeof families]
  const architecture = vision.text("model_type", family.towers[0])
  const name = family.towers.find((tower) => tower === architecture)
  if (!name) return undefined
  const eye = towers[name](vision)
  const { layersRead, merge, projector } = family.ending(fields, eye, text)
  const { names, ...own } = eye
  return {
    ...own,
    architecture,
    blocks: layersRead ? own.blocks.slice(0, Math.max(...layersRead)) : own.blocks,
    lastNorm: layersRead ? undefined : own.lastNorm,
    layersRead,
    merge,
    projector: { ...projector, width: text.shapes.hidden },
    softToken: softTokenOf(fields, family, text),
    ...(family.mutual && { mutual: family.mutual }),
    naming: {
      roots: family.roots,
      layers: names.layers,
      parts: { ...names.parts, ...family.parts },
    },
  }
}

/** Whether images are read of models of that `model_type`. */
export const readsImages = (type: string) =>
  isQwen(type) || type === GEMMA4 || isGlm4v(type) || Object.hasOwn(families, type)

/** Under either name that configurations have for it. */
function softTokenOf(fields: Fields, { softToken }: Family, { shapes }: ModelConfig): number {
  const name = fields.has("image_token_index") ? "image_token_index" : "image_token_id"
  return fields.count(name, softToken, 0, shapes.vocabulary - 1)
}

const SIGLIP = {
  hidden_size: 768,
  intermediate_size: 3072,
  num_hidden_layers: 12,
  num_attention_heads: 12,
  image_size: 224,
  patch_size: 16,
  hidden_act: "gelu_pytorch_tanh",
  layer_norm_eps: 1e-6,
}
const IDEFICS3 = { ...SIGLIP, hidden_size: 1152, num_attention_heads: 16, patch_size: 32 }
const CLIP = { ...SIGLIP, patch_size: 32, hidden_act: "quick_gelu", layer_norm_eps: 1e-5 }
const INTERNVL = {
  ...SIGLIP,
  hidden_size: 1024,
  intermediate_size: 4096,
  num_hidden_layers: 24,
  num_attention_heads: 16,
  image_size: 448,
  patch_size: 14,
  hidden_act: "gelu",
}

/** By their `model_type`. */
const towers = {
  clip_vision_model: clip,
  idefics3: idefics3,
  idefics3_vision: idefics3,
  internvl_vision: internVl,
  siglip_vision_model: (vision: Fields) => siglip(vision, SIGLIP),
  smolvlm: idefics3,
  smolvlm_vision: idefics3,
} satisfies Record<string, (vision: Fields) => Eye>

const LLAVA = {
  roots: rootsOf(["vision_tower.vision_model.", "vision_tower."], "multi_modal_projector."),
  parts: {},
}

const idefics3Family: Family = {
  towers: ["idefics3_vision", "idefics3", "smolvlm_vision", "smolvlm", "siglip_vision_model"],
  ending(fields, eye) {
    const side = fields.count("scale_factor", 2)
    return {
      layersRead: undefined,
      merge: { side: dividing(fields, "scale_factor", side, eye), by: "columns" },
      projector: { norm: undefined, inner: undefined, bias: false, factor: 1 },
    }
  },
  softToken: 128257,
  roots: rootsOf(["vision_model."], "connector."),
  parts: { linear_1: "modality_projection.proj" },
}

/** By the `model_type` of the whole. */
const families = {
  aya_vision: {
    towers: ["siglip_vision_model"],
    ending: ayaEnding,
    softToken: 255036,
    roots: LLAVA.roots,
    parts: { projector_norm: "layernorm" },
  },
  cohere2_vision: {
    towers: ["siglip_vision_model"],
    ending: (fields, eye) => ({
      layersRead: undefined,
      ...gatedEnding(fields, eye, fields.count("alignment_intermediate_size", 36864)),
    }),
    softToken: 255036,
    ...LLAVA,
  },
  deepseek_vl: {
    towers: ["siglip_vision_model"],
    ending: (_, __, { shapes }) => ({
      layersRead: undefined,
      merge: { side: 1, by: "columns" },
      projector: {
        norm: undefined,
        inner: { columns: shapes.hidden, activation: "gelu", gated: false },
        bias: true,
        factor: 1,
      },
    }),
    softToken: 100015,
    roots: rootsOf(["vision_model."], "aligner."),
    parts: { linear_1: "linear1", linear_2: "linear2" },
  },
  gemma3: {
    towers: ["siglip_vision_model"],
    ending: gemma3Ending,
    softToken: 262144,
    mutual: "everywhere",
    roots: LLAVA.roots,
    parts: {
      projector_norm: { name: "mm_soft_emb_norm", plus: 1 },
      "linear_1.weight": { name: "mm_input_projection_weight", transposed: true },
    },
  },
  idefics3: idefics3Family,
  internvl: {
    towers: ["internvl_vision"],
    ending: internVlEnding,
    softToken: 151667,
    roots: LLAVA.roots,
    parts: { projector_norm: "layer_norm" },
  },
  llava: {
    towers: ["clip_vision_model", "siglip_vision_model"],
    ending: (fields, eye, text) => ({
      layersRead: readLayers(fields, eye, [-2]),
      merge: { side: 1, by: "columns" },
      projector: {
        norm: undefined,
        inner: readInner(fields, text),
        bias: fields.flag("multimodal_projector_bias", true),
        factor: 1,
      },
    }),
    softToken: 32000,
    ...LLAVA,
  },
  smolvlm: idefics3Family,
  vipllava: {
    towers: ["clip_vision_model"],
    ending: vipLlavaEnding,
    softToken: 32000,
    roots: LLAVA.roots,
    parts: { projector_norm: "projector_layernorm" },
  },
} satisfies Record<string, Family>

/** With and without what transformers 5 puts before all of them. */
function rootsOf(parts: readonly string[], projector: string): Naming["roots"] {
  return parts.flatMap((part) =>
    ["model.", ""].map((root) => ({ root: root + part, head: root + projector })),
  )
}

function idefics3(vision: Fields): Eye {
  return siglip(vision, IDEFICS3)
}

function siglip(vision: Fields, absent: Json): Eye {
  const eye = readEye(vision.with(absent), { kind: "layer", bias: true })
  return {
    ...eye,
    hasClass: false,
    patchBias: true,
    firstNorm: undefined,
    names: {
      layers: "encoder.layers.",
      parts: {
        ...siglipParts,
        "patch_embedding.weight": filters("embeddings.patch_embedding.weight", eye),
        positions: "embeddings.position_embedding",
      },
    },
  }
}

const siglipParts: Naming["parts"] = {
  embed_tokens: "embeddings.patch_embedding", // by which the tower is found
  patch_embedding: "embeddings.patch_embedding",
  norm: "post_layernorm",
  input_layernorm: "layer_norm1",
  "self_attn.o_proj": "self_attn.out_proj",
  post_attention_layernorm: "layer_norm2",
  "mlp.up_proj": "mlp.fc1",
  "mlp.down_proj": "mlp.fc2",
}

function clip(vision: Fields): Eye {
  const eye = readEye(vision.with(CLIP), { kind: "layer", bias: true })
  const { width, lastNorm } = eye
  const table = "embeddings.position_embedding.weight"
  return {
    ...eye,
    hasClass: true,
    patchBias: false,
    firstNorm: lastNorm,
    names: {
      layers: "encoder.layers.",
      parts: {
        ...siglipParts,
        "patch_embedding.weight": filters("embeddings.patch_embedding.weight", eye),
        embed_norm: "pre_layrnorm",
        "class_position.weight": {
          name: table,
          rows: placesOf(eye).first,
          plusRow: { tensor: "embeddings.class_embedding", row: 0, shape: [width] },
        },
        "patch_positions.weight": { name: table, rows: placesOf(eye).others },
      },
    },
  }
}

/** InternViT. Its positions and its class are stored as one sequence. */
function internVl(vision: Fields): Eye {
  const fields = vision.with(INTERNVL)
  const kind = fields.text("norm_type", "layer_norm")
  if (kind !== "layer_norm" && kind !== "rms_norm")
    throw fields.wrong("norm_type", `is "${kind}"; known: layer_norm, rms_norm`)
  if (!fields.flag("use_absolute_position_embeddings", true))
    throw fields.wrong(
      "use_absolute_position_embeddings",
      "is false; only learned places are known",
    )
  const eye = readEye(fields, kind === "layer_norm" ? { kind: "layer", bias: true } : undefined)
  const { width, side, lastNorm } = eye
  const qkv = fields.flag("attention_bias", false)
  const norms = fields.flag("use_qk_norm", false)
    ? ({ kind: "rms", bias: false, epsilon: 1e-6, over: "all heads", place: "before" } as const)
    : undefined
  const { blocks } = withBlocks(eye, (block) => ({
    ...withAttention(block, { bias: { qkv, o: true }, norms }),
    layerScale: true,
  }))
  const table = { name: "embeddings.position_embeddings", shape: [1, side * side + 1, width] }
  const pixels = "embeddings.patch_embeddings.projection"
  return {
    ...eye,
    blocks,
    hasClass: true,
    patchBias: true,
    firstNorm: undefined,
    lastNorm: fields.flag("use_mean_pooling", true)
      ? undefined
      : { kind: "layer", bias: true, epsilon: lastNorm!.epsilon },
    names: {
      layers: "encoder.layer.",
      parts: {
        embed_tokens: pixels, // by which the tower is found
        "patch_embedding.weight": filters(`${pixels}.weight`, eye),
        "class_position.weight": {
          ...table,
          rows: placesOf(eye).first,
          plusRow: { tensor: "embeddings.cls_token", row: 0, shape: [1, 1, width] },
        },
        "patch_positions.weight": {
          ...table,
          rows: placesOf(eye).others,
          plusRow: { tensor: `${pixels}.bias`, row: 0, shape: [width] },
        },
        norm: "layernorm",
        input_layernorm: "layernorm_before",
        "self_attn.q_proj": "attention.q_proj",
        "self_attn.k_proj": "attention.k_proj",
        "self_attn.v_proj": "attention.v_proj",
        "self_attn.q_norm": "attention.q_norm",
        "self_attn.k_norm": "attention.k_norm",
        "self_attn.o_proj": "attention.projection_layer",
        "attention.layer_scale.weight": "lambda_1",
        post_attention_layernorm: "layernorm_after",
        "mlp.up_proj": "mlp.fc1",
        "mlp.down_proj": "mlp.fc2",
        "mlp.layer_scale.weight": "lambda_2",
      },
    },
  }
}

type CommonEye = Omit<Eye, "hasClass" | "patchBias" | "firstNorm" | "names">

/** What all towers are: layers of an encoder with biases everywhere. @param norm absent: RMS norms */
function readEye(
  fields: Fields,
  norm: Omit<NormKind & { kind: "layer" }, "epsilon"> | undefined,
): CommonEye {
  const colours = fields.count("num_channels", 3)
  if (colours !== 3) throw fields.wrong("num_channels", `is ${colours}; images have 3 colours`)
  // It has no vocabulary; CLIP's say that of its text model.
  const config = readDecoder(fields.with({ vocab_size: 1, max_position_embeddings: 1 }), {
    epsilon: "layer_norm_eps",
    ...(norm && { norm }),
    rotation: "none",
  })
  const [patch, tile] = [pixelsOf(fields, "patch_size"), pixelsOf(fields, "image_size")]
  if (patch > tile)
    throw fields.wrong("patch_size", `is ${patch}, and the whole image is ${tile} pixels wide`)
  const { blocks } = seeingBothWays(
    withBlocks(config, (block) => ({
      ...withMlp(withAttention(block, { bias: { qkv: true, o: true } }), {
        gated: false,
        bias: true,
      }),
      norms: NORMS.before,
    })),
  )
  return {
    patch,
    side: Math.floor(tile / patch), // what is over at the edges is left out
    width: config.shapes.hidden,
    blocks,
    lastNorm: config.norm,
  }
}

/** Of one side; both are given where they are given as a list. */
function pixelsOf(fields: Fields, name: string): number {
  if (!Array.isArray(fields.json[name])) return fields.count(name, undefined, 1, MAX_PIXELS)
  const [height, width, ...others] = fields.counts(name)
  if (!height || height !== width || others.length > 0 || height > MAX_PIXELS)
    throw fields.wrong(name, `is [${fields.counts(name).join(", ")}]; only squares are known`)
  return height
}

const MAX_PIXELS = 1 << 14 // squares of it are exact

/** The filters of a convolution whose steps are as wide as they are: a matrix with a patch's colours in each row. */
export function filters(
  name: string,
  { width, patch }: Pick<TowerConfig, "width" | "patch">,
): Part {
  return { name, shape: [width, 3, patch, patch] }
}

/** Rows of a table of positions that has one for the class before those of patches. */
export function placesOf({ side }: Pick<TowerConfig, "side">) {
  const of = side * side + 1
  return {
    first: { of, from: 0, run: 1, every: of },
    others: { of, from: 1, run: of - 1, every: of },
  }
}

function internVlEnding(fields: Fields, eye: Eye, text: ModelConfig): Ending {
  checkStrategy(fields, "default")
  const last = fields.json.vision_feature_layer ?? -1
  const side = Math.trunc(1 / fields.positive("downsample_ratio", 0.5))
  return {
    layersRead: last === -1 ? undefined : readLayers(fields, eye, [-1]),
    merge: { side: dividing(fields, "downsample_ratio", side, eye), by: "columns" },
    projector: {
      norm: { kind: "layer", bias: true, epsilon: 1e-5 },
      inner: readInner(fields, text),
      bias: true,
      factor: 1,
    },
  }
}

/**
 * The mean of patches, normed and projected. Gemma's text model multiplies the rows of tokens, and not these; ours multiplies
 * all, so these are divided first.
 */
function gemma3Ending(fields: Fields, eye: Eye, text: ModelConfig): Ending {
  const name = "mm_tokens_per_image"
  const across = Math.sqrt(fields.count(name, 256))
  const side = eye.side / across
  if (!Number.isInteger(across) || !Number.isInteger(side))
    throw fields.wrong(name, `is ${across ** 2}, which are no squares of ${eye.side ** 2} patches`)
  return {
    layersRead: undefined,
    merge: { side, by: "mean" },
    projector: {
      norm: { kind: "rms", bias: false, epsilon: eye.lastNorm!.epsilon },
      inner: undefined,
      bias: false,
      factor: 1 / text.embedding.factor,
    },
  }
}

function ayaEnding(fields: Fields, eye: Eye, { shapes }: ModelConfig): Ending {
  checkStrategy(fields, "full")
  const columns = fields.count("alignment_intermediate_size", shapes.hidden)
  const { merge, projector } = gatedEnding(fields, eye, columns)
  const epsilon = fields.positive("adapter_layer_norm_eps", 1e-6)
  return {
    layersRead: readLayers(fields, eye, [-1]),
    merge,
    projector: { ...projector, norm: { kind: "layer", bias: true, epsilon } },
  }
}

/** @param columns between the matrices */
function gatedEnding(fields: Fields, eye: Eye, columns: number): Omit<Ending, "layersRead"> {
  if (columns % 2 !== 0)
    throw fields.wrong("alignment_intermediate_size", `is ${columns}, of which there are no halves`)
  const name = "downsample_factor"
  return {
    merge: { side: dividing(fields, name, fields.count(name, 2), eye), by: "columns" },
    projector: {
      norm: undefined,
      inner: { columns, activation: "silu", gated: true },
      bias: true,
      factor: 1,
    },
  }
}

/** Rows of five layers, unless others are named. */
function vipLlavaEnding(fields: Fields, eye: Eye, text: ModelConfig): Ending {
  const epsilon = fields.positive("projector_layernorm_eps", 1e-5)
  return {
    layersRead: readLayers(fields, eye, [-2, -5, -8, -11, 6]),
    merge: { side: 1, by: "columns" },
    projector: {
      norm: { kind: "layer", bias: true, epsilon },
      inner: readInner(fields, text),
      bias: true,
      factor: 1,
    },
  }
}

/** As many columns as the text model has. */
function readInner(fields: Fields, { shapes }: ModelConfig): Projector["inner"] {
  const activation = readActivation(fields, { field: "projector_hidden_act", otherwise: "gelu" })
  return { columns: shapes.hidden, activation, gated: false }
}

/** Whether a class's row comes out, or the first patch's: "full" has all rows, "default" leaves the first one out. */
function checkStrategy(fields: Fields, known: string): void {
  const name = "vision_feature_select_strategy"
  const strategy = fields.text(name, known)
  if (strategy !== known) throw fields.wrong(name, `is "${strategy}"; known: ${known}`)
}

/** One layer or several, counted from 1; -1 is the last, whose rows are read without the norm behind it. */
function readLayers(fields: Fields, { blocks }: Eye, otherwise: readonly number[]): number[] {
  const name = "vision_feature_layer"
  const given = fields.json[name] ?? otherwise
  const listed: readonly unknown[] = Array.isArray(given) ? given : [given]
  const count = blocks.length
  if (listed.length === 0) throw fields.wrong(name, "names no layer")
  return listed.map((layer) => {
    if (typeof layer === "number" && Number.isInteger(layer) && layer !== 0)
      if (Math.abs(layer) <= count) return layer > 0 ? layer : count + 1 + layer
    throw fields.wrong(name, `holds ${JSON.stringify(layer)}, which is none of ${count} layers`)
  })
}

function dividing(fields: Fields, name: string, joined: number, { side }: Eye): number {
  if (joined >= 1 && side % joined === 0) return joined
  throw fields.wrong(name, `joins ${joined} patches a side, which does not divide ${side}`)
}
