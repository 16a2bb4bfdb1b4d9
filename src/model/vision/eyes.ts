// What `vision_config` says of a tower by itself: its layers, its patches and where their positions come from, and what its tensors
// are called. What stands behind it the family decides (families.ts). Of a known one, what would change the mathematics is read or
// refused.
//
// Sources: configuration_*.py and modeling_*.py of transformers (siglip, clip, idefics3, internvl, pixtral, siglip2,
// smolvlm).

import { NORMS, type NormKind, withAttention, withBlocks, withMlp } from "../block.ts"
import { readDecoder, seeingBothWays } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Json } from "../folder.ts"
import { readRotation } from "../rotation.ts"
import type { Naming, Part } from "../weights/names.ts"
import { MAX_PATCHES, placesParts, type TowerConfig } from "./tower.ts"

/** What `vision_config` says of a tower. */
export interface Eye
  extends Omit<
    TowerConfig,
    "architecture" | "softToken" | "naming" | "layersRead" | "merge" | "projector"
  > {
  names: Pick<Naming, "layers" | "parts">
}

export type EyeName = keyof typeof eyes

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
export const eyes = {
  clip_vision_model: clip,
  idefics3: idefics3,
  idefics3_vision: idefics3,
  internvl_vision: internVl,
  pixtral,
  siglip2_vision_model: siglip2,
  siglip_vision_model: (vision: Fields) => siglip(vision, SIGLIP),
  smolvlm: idefics3,
  smolvlm_vision: idefics3,
} satisfies Record<string, (vision: Fields) => Eye>

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

/** SigLIP 2 that takes images of any proportions (NaFlex). A patch's colours lie pixel by pixel. */
function siglip2(vision: Fields): Eye {
  const eye = siglip(vision.with(SIGLIP), SIGLIP)
  const side = squareSide(vision)
  const patches = { name: "embeddings.patch_embedding.weight", turnedColumns: 3 }
  const positions = placesParts("embeddings.position_embedding.weight", side * side, eye.width)
  const parts = { "patch_embedding.weight": patches, ...positions }
  return {
    ...eye,
    side,
    fits: { rows: MAX_PATCHES, frames: 1, interpolated: "before the norm" },
    names: { ...eye.names, parts: { ...eye.names.parts, ...parts } },
  }
}

const MAX_PLACES = 1 << 16

/** Of the square of patches that positions are learned for. */
export function squareSide(vision: Fields): number {
  const name = "num_patches"
  const count = vision.count(name, 256, 1, MAX_PLACES)
  if (Number.isInteger(Math.sqrt(count))) return Math.sqrt(count)
  throw vision.wrong(name, `is ${count}, which is no square`)
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

const PIXTRAL = {
  hidden_size: 1024,
  intermediate_size: 4096,
  num_hidden_layers: 24,
  num_attention_heads: 16,
  image_size: 1024,
  patch_size: 16,
  hidden_act: "gelu",
}

/** Pixtral's: patches of images of any proportions, turned by height and width. */
function pixtral(vision: Fields): Eye {
  const fields = vision.with(PIXTRAL).without("head_dim").over({ layer_norm_eps: 1e-5 })
  const eye = readEye(fields, undefined, { gated: true, bias: false })
  return {
    ...eye,
    blocks: turned(fields, eye.blocks),
    side: 0,
    fits: { rows: MAX_PATCHES, frames: 1 },
    hasClass: false,
    patchBias: false,
    firstNorm: eye.lastNorm,
    lastNorm: undefined,
    names: {
      layers: "transformer.layers.",
      parts: {
        embed_tokens: "patch_conv", // by which the tower is found
        "patch_embedding.weight": filters("patch_conv.weight", eye),
        embed_norm: "ln_pre",
        input_layernorm: "attention_norm",
        "self_attn.q_proj": "attention.q_proj",
        "self_attn.k_proj": "attention.k_proj",
        "self_attn.v_proj": "attention.v_proj",
        "self_attn.o_proj": "attention.o_proj",
        post_attention_layernorm: "ffn_norm",
        "mlp.gate_proj": "feed_forward.gate_proj",
        "mlp.up_proj": "feed_forward.up_proj",
        "mlp.down_proj": "feed_forward.down_proj",
      },
    },
  }
}

/** Of a head's pairs those of even numbers turn by height and lie before those of odd ones, which turn by width. */
function turned(vision: Fields, blocks: Eye["blocks"]): Eye["blocks"] {
  const { headDim } = blocks[0]!.attention
  if (headDim % 4 !== 0)
    throw vision.wrong("num_attention_heads", `makes heads of ${headDim} columns, no multiple of 4`)
  const parameters = vision.object("rope_parameters")
  const theta = (parameters ?? vision).positive("rope_theta", 10_000)
  const kind = parameters?.text("rope_type", "axial") ?? "axial"
  if (kind !== "axial" && kind !== "default")
    throw parameters!.wrong("rope_type", `is "${kind}"; known: axial`)
  const plain = vision.without("rope_parameters").without("rope_scaling")
  const { frequencies } = readRotation(plain.over({ rope_theta: theta }), { headDim, context: 1 })
  const of = (odd: number) => frequencies.filter((_, pair) => pair % 2 === odd)
  const [down, across] = [of(0), of(1)]
  const turn = {
    frequencies: [...down, ...across],
    factor: 1,
    axes: [...down.map(() => 1 as const), ...across.map(() => 2 as const)],
  }
  const rotation = { query: turn, key: turn }
  return withBlocks({ blocks }, (block) => withAttention(block, { rotation })).blocks
}

type CommonEye = Omit<Eye, "hasClass" | "patchBias" | "firstNorm" | "names">

/**
 * What all towers are: layers of an encoder.
 * @param norm absent: RMS norms
 * @param mlp what projections of attention have of biases is its, too
 */
function readEye(
  fields: Fields,
  norm: Omit<NormKind & { kind: "layer" }, "epsilon"> | undefined,
  mlp = { gated: false, bias: true },
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
      ...withMlp(withAttention(block, { bias: { qkv: mlp.bias, o: mlp.bias } }), mlp),
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
