// What `vision_config` says of a tower by itself: its layers, its patches and where their positions come from, and what its tensors
// are called. What stands behind it the family decides (families.ts). Of a known one, what would change the mathematics is read or
// refused.
//
// Sources: configuration_*.py and modeling_*.py of transformers (siglip, clip, hunyuan_vl, idefics3, internvl, janus, paddleocr_vl, pixtral, siglip2,
// smolvlm).

import { NORMS, type NormKind, withAttention, withBlocks, withMlp } from "../block.ts"
import { readDecoder, seeingBothWays } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Json } from "../folder.ts"
import { joinedRows, type NamedPart, type Naming, type Part } from "../weights/names.ts"
import { GRANITE_DOCLING_EYE } from "./granite-docling.ts"
import { hunyuanVision } from "./hunyuan.ts"
import { kimiPlaces, kimiVision } from "./kimi.ts"
import { museGlimmerFits, museGlimmerParts, museGlimmerVision, seesAll } from "./muse-glimmer.ts"
import { PADDLEOCR_EYE } from "./paddleocr.ts"
import { oneSide, squareSide } from "./sides.ts"
import { MAX_PATCHES, placesParts, type TowerConfig } from "./tower.ts"
import { turnedBySides } from "./turns.ts"

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
const JANUS = {
  ...SIGLIP,
  hidden_size: 1024,
  num_hidden_layers: 24,
  num_attention_heads: 16,
  image_size: 384,
  hidden_act: "gelu",
}
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
  granite_docling_vision: (vision: Fields) => siglip(vision, { ...SIGLIP, ...GRANITE_DOCLING_EYE }),
  hunyuan_vl_vision: hunyuan,
  idefics3: idefics3,
  idefics3_vision: idefics3,
  internvl_vision: internVl,
  janus_vision_model: janus,
  kimi_k25_vision: moonVit,
  llama4_vision_model: llama4,
  minicpm_ocr_vision: slicing,
  minicpmv4_6_vision: slicing,
  minicpmv4_7_vision: slicing,
  moonvit: moonVit,
  muse_glimmer_vision: museGlimmer,
  paddleocr_vl: paddleOcr,
  paddleocr_vl_vision: paddleOcr,
  pixtral,
  qianfan_ocr_vision: qianfan,
  siglip: (vision: Fields) => siglip(vision, SIGLIP), // as MiniCPM-V calls it
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

/** SigLIP, whose MLPs are told of by how many times as wide they are. */
function janus(given: Fields): Eye {
  const vision = given.with(JANUS)
  if (vision.flag("use_qk_norm", false))
    throw vision.wrong("use_qk_norm", "is true, which is not known of this tower")
  const wider = vision.positive("mlp_ratio", 4)
  const width = Math.trunc(vision.count("hidden_size") * wider)
  const eye = siglip(vision.over({ intermediate_size: width }), JANUS)
  const qkv = vision.flag("attention_bias", true)
  const { blocks } = withBlocks(eye, (block) => withAttention(block, { bias: { qkv, o: true } }))
  const parts = { ...eye.names.parts, "self_attn.o_proj": "self_attn.projection_layer" }
  return { ...eye, blocks, names: { ...eye.names, parts } }
}

/** SigLIP 2 that takes images of any proportions (NaFlex). A patch's colours lie pixel by pixel. */
function siglip2(vision: Fields): Eye {
  const eye = siglip(vision.with(SIGLIP), SIGLIP)
  const side = squareSide(vision, "num_patches", 256)
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

/** SigLIP that takes images of any proportions, without a norm behind it. */
function hunyuan(given: Fields): Eye {
  const eye = siglip(hunyuanVision(given), SIGLIP)
  const fits = {
    rows: MAX_PATCHES,
    frames: 1,
    interpolated: "before the norm",
    named: true,
  } as const
  return { ...eye, lastNorm: undefined, fits, names: { ...eye.names, layers: "layers." } }
}

/** SigLIP that takes slices of any proportions: a patch has the nearest of its places. */
function slicing(vision: Fields): Eye {
  const fits = { rows: MAX_PATCHES, frames: 1, nearest: true } as const
  return { ...siglip(vision, SIGLIP), fits }
}

/** SigLIP that takes images of any proportions, with positions that are turned besides. */
function paddleOcr(given: Fields): Eye {
  const vision = given.with(PADDLEOCR_EYE)
  const eye = siglip(vision, PADDLEOCR_EYE)
  const places = eye.side ** 2
  const positions = placesParts("embeddings.position_embedding.weight", places, eye.width)
  return {
    ...turnedBySides(vision, eye, { order: "height first" }),
    fits: { rows: MAX_PATCHES, frames: 1, interpolated: "before the norm" },
    names: { ...eye.names, parts: { ...eye.names.parts, ...positions } },
  }
}

/** MiniCPM-V's, behind whose patches rows ask that nobody sees. */
export function asked(vision: Fields): Eye {
  return withBlocks(slicing(vision), (block) => {
    const { bidirectional: _, ...attention } = block.attention
    return { ...block, attention: { ...attention, mutual: true } }
  })
}

function clip(vision: Fields): Eye {
  const eye = readEye(vision.with(CLIP), { kind: "layer", bias: true })
  const { width, lastNorm } = eye
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
        ...classParts(eye, {
          table: { name: "embeddings.position_embedding.weight" },
          ofClass: { tensor: "embeddings.class_embedding", shape: [width] },
        }),
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
        ...classParts(eye, {
          table: { name: "embeddings.position_embeddings", shape: [1, side * side + 1, width] },
          ofClass: { tensor: "embeddings.cls_token", shape: [1, 1, width] },
          bias: { tensor: `${pixels}.bias`, shape: [width] },
        }),
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

/** InternViT by the names of before transformers had it, with biases where nothing is said. */
function qianfan(vision: Fields): Eye {
  const eye = internVl(vision.with({ attention_bias: true }))
  const { width, side } = eye
  const rows = joinedRows({ q: width, k: width, v: width })
  const pixels = "embeddings.patch_embedding"
  return {
    ...eye,
    names: {
      layers: "encoder.layers.",
      parts: {
        ...eye.names.parts,
        embed_tokens: pixels, // by which the tower is found
        "patch_embedding.weight": filters(`${pixels}.weight`, eye),
        ...classParts(eye, {
          table: { name: "embeddings.position_embedding", shape: [1, side * side + 1, width] },
          ofClass: { tensor: "embeddings.class_embedding", shape: [1, 1, width] },
          bias: { tensor: `${pixels}.bias`, shape: [width] },
        }),
        input_layernorm: "norm1",
        "self_attn.q_proj": { name: "attn.qkv", rows: rows.q },
        "self_attn.k_proj": { name: "attn.qkv", rows: rows.k },
        "self_attn.v_proj": { name: "attn.qkv", rows: rows.v },
        "self_attn.o_proj": "attn.proj",
        "attention.layer_scale.weight": "ls1",
        post_attention_layernorm: "norm2",
        "mlp.layer_scale.weight": "ls2",
      },
    },
  }
}

const LLAMA4 = {
  hidden_size: 768,
  intermediate_size: 5632,
  num_hidden_layers: 34,
  num_attention_heads: 16,
  image_size: 448,
  patch_size: 14,
  hidden_act: "gelu",
}

/** Llama 4's: positions are learned, and heads turn by them besides. What it says of its norms' epsilon nobody reads. */
function llama4(vision: Fields): Eye {
  const fields = vision.with(LLAMA4).over({ layer_norm_eps: 1e-5 })
  const activation = fields.text("hidden_act")
  if (activation !== "gelu") throw fields.wrong("hidden_act", `is "${activation}"; known: gelu`)
  const eye = readEye(fields, { kind: "layer", bias: true })
  const { width, patch, lastNorm } = eye
  const { headDim } = eye.blocks[0]!.attention
  const neighbours = { headDim, turned: headDim }
  return {
    ...turnedBySides(fields, eye, { order: "width first" }),
    hasClass: true,
    patchBias: false,
    firstNorm: lastNorm,
    names: {
      layers: "model.layers.",
      parts: {
        ...siglipParts,
        embed_tokens: "patch_embedding.linear", // by which the tower is found
        "patch_embedding.weight": {
          name: "patch_embedding.linear.weight",
          shape: [width, 3 * patch * patch],
        },
        ...classParts(eye, {
          table: { name: "positional_embedding_vlm" },
          ofClass: { tensor: "class_embedding", shape: [width] },
          isBehind: true,
        }),
        embed_norm: "layernorm_pre",
        norm: "layernorm_post",
        input_layernorm: "input_layernorm",
        "self_attn.q_proj": { name: "self_attn.q_proj", neighbours },
        "self_attn.k_proj": { name: "self_attn.k_proj", neighbours },
        "self_attn.o_proj": "self_attn.o_proj",
        post_attention_layernorm: "post_attention_layernorm",
      },
    },
  }
}

/** An image is one frame, and the first has no position in time. Neighbours of a head turn with each other. */
function moonVit(given: Fields): Eye {
  const vision = kimiVision(given)
  const side = kimiPlaces(given)
  const patch = oneSide(vision, "patch_size", { most: MAX_PIXELS / side })
  const fields = vision.over({ layer_norm_eps: 1e-5, image_size: patch * side })
  const eye = readEye(fields, { kind: "layer", bias: true })
  const { width } = eye
  const { headDim } = eye.blocks[0]!.attention
  const rows = joinedRows({ q: width, k: width, v: width })
  const neighbours = { headDim, turned: headDim }
  const table = placesParts("patch_embed.pos_emb.weight", side * side, width)["positions.weight"]
  return {
    ...turnedBySides(fields, eye, { order: "width and height by turns" }),
    fits: { rows: MAX_PATCHES, frames: 1, interpolated: "before the norm" },
    hasClass: false,
    patchBias: true,
    firstNorm: undefined,
    names: {
      layers: "encoder.blocks.",
      parts: {
        embed_tokens: "patch_embed.proj", // by which the tower is found
        patch_embedding: "patch_embed.proj",
        "patch_embedding.weight": filters("patch_embed.proj.weight", eye),
        "positions.weight": { ...(table as NamedPart), shape: [side, side, width] },
        norm: "encoder.final_layernorm",
        input_layernorm: "norm0",
        "self_attn.q_proj": { name: "wqkv", rows: rows.q, neighbours },
        "self_attn.k_proj": { name: "wqkv", rows: rows.k, neighbours },
        "self_attn.v_proj": { name: "wqkv", rows: rows.v },
        "self_attn.o_proj": "wo",
        post_attention_layernorm: "norm1",
        "mlp.up_proj": "mlp.fc0",
        "mlp.down_proj": "mlp.fc1",
      },
    },
  }
}

/** Most layers see windows. An image is the same frame as often as a patch has frames, whose colours lie behind one another. */
function museGlimmer(given: Fields): Eye {
  const vision = museGlimmerVision(given)
  const eye = readEye(vision.without("layer_types").without("head_dim"), {
    kind: "layer",
    bias: true,
  })
  const turned = turnedBySides(vision, eye, { order: "width first", kinds: ["axial"] })
  const all = seesAll(vision, eye.blocks.length)
  const { blocks } = withBlocks(turned, (block, layer) => {
    const { bidirectional: _, ...attention } = block.attention
    return all[layer] ? block : { ...block, attention: { ...attention, mutual: true } }
  })
  return {
    ...eye,
    blocks,
    fits: museGlimmerFits(vision),
    hasClass: false,
    patchBias: false,
    firstNorm: eye.lastNorm,
    names: { layers: "layers.", parts: museGlimmerParts(eye) },
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
    ...turnedBySides(fields, eye, { order: "alternate frequencies" }),
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
  const [patch, tile] = ["patch_size", "image_size"].map((name) =>
    oneSide(fields, name, { most: MAX_PIXELS }),
  ) as [number, number]
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

const MAX_PIXELS = 1 << 14 // squares of it are exact

/** The filters of a convolution whose steps are as wide as they are: a matrix with a patch's colours in each row. */
export function filters(
  name: string,
  { width, patch }: Pick<TowerConfig, "width" | "patch">,
): Part {
  return { name, shape: [width, 3, patch, patch] }
}

/** The class's position lies before those of patches, or behind them; its own row is added, and to patches what their bias is. */
export function classParts(
  { side }: Pick<TowerConfig, "side">,
  { table, ofClass, bias, isBehind = false }: ClassParts,
): Naming["parts"] {
  const patches = side * side
  const rows = (from: number, run: number) => ({ of: patches + 1, from, run, every: patches + 1 })
  return {
    "class_position.weight": {
      ...table,
      rows: rows(isBehind ? patches : 0, 1),
      plusRow: { row: 0, ...ofClass },
    },
    "patch_positions.weight": {
      ...table,
      rows: rows(isBehind ? 0 : 1, patches),
      ...(bias && { plusRow: { row: 0, ...bias } }),
    },
  }
}

type Row = Omit<NonNullable<NamedPart["plusRow"]>, "row">

interface ClassParts {
  table: NamedPart
  ofClass: Row
  bias?: Row | undefined
  isBehind?: boolean
}
