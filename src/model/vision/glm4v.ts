// The tower of GLM-4.1V, 4.5V and 4.6V. It takes images of any proportions, as Qwen 2.5 VL's does, and all of its layers see the whole
// image. Patches have a norm before their learned positions, which are interpolated bicubically. A square of patches becomes a row by a
// convolution, behind which are a matrix, a norm and a gated MLP. Layers are as wide inside as the text model's rows are. The text model
// turns its tokens by time, height and width.
//
// That of GLM-OCR has no learned positions and no norm before them, but norms of queries and keys and biases, and says itself how wide layers are
// inside; its last MLP is three times as wide as its rows.
//
// Source: configuration_*.py and modeling_*.py of transformers (glm4v, glm4v_moe, glm46v, glm_ocr).

import { NORMS, withAttention, withBlocks, withMlp } from "../block.ts"
import {
  MAX_LAYERS,
  type ModelConfig,
  readActivation,
  readDecoder,
  seeingBothWays,
} from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Naming } from "../weights/names.ts"
import { axesOf, FRAMES, MAX_JOINED, MAX_PATCH, MAX_ROWS, partsOf, QWEN_TURNING } from "./qwen.ts"
import { oneSide, placesASide } from "./sides.ts"
import { placesParts, type TowerConfig } from "./tower.ts"
import { turnedBySides } from "./turns.ts"

/** By the `model_type` of the whole, the token that stands for rows of an image. */
const softTokens: Readonly<Record<string, number>> = {
  glm4v: 151343,
  glm4v_moe: 151363,
  glm46v: 151343,
  glm_ocr: 59280,
}

/** What its `vision_config` may be. */
const TOWERS = ["glm4v_vision", "glm4v", "glm4v_moe_vision", "glm4v_moe"]
const OCR = "glm_ocr"
const OCR_TOWERS = ["glm_ocr_vision", OCR]

/** Where `vision_config` says nothing. */
const ABSENT = {
  depth: 24,
  hidden_size: 1536,
  hidden_act: "silu",
  num_heads: 12,
  in_channels: 3,
  image_size: 336,
  patch_size: 14,
  spatial_merge_size: 2,
  temporal_patch_size: 2,
  out_hidden_size: 4096,
  intermediate_size: 13696,
  rms_norm_eps: 1e-5,
}

const OCR_ABSENT = {
  ...ABSENT,
  hidden_size: 1024,
  attention_bias: true,
  num_heads: 16,
  out_hidden_size: 1536,
  intermediate_size: 4096,
}

export const isGlm4v = (type: string) => Object.hasOwn(softTokens, type)

/** What of a tower decides how images are cut into patches, too. */
export interface Glm4vPatches {
  patch: number
  /** Patches a side that become one row. */
  joined: number
  /** Of the square of places that positions are learned for; absent: none are. */
  places?: number
}

interface Told {
  vision: Fields
  name: string
  isOcr: boolean
}

function visionOf(fields: Fields): Told | undefined {
  const given = fields.object("vision_config")
  const type = fields.text("model_type")
  if (!given || !isGlm4v(type)) return undefined
  const isOcr = type === OCR
  const towers = isOcr ? OCR_TOWERS : TOWERS
  const name = given.text("model_type", towers[0])
  const vision = given.with(isOcr ? OCR_ABSENT : ABSENT)
  return towers.includes(name) ? { vision, name, isOcr } : undefined
}

/** @returns nothing where the tower is not known */
export function readGlm4vPatches(fields: Fields): Glm4vPatches | undefined {
  const found = visionOf(fields)
  if (!found) return undefined
  const { vision, isOcr } = found
  const patch = oneSide(vision, "patch_size", { most: MAX_PATCH })
  const frames = oneSide(vision, "temporal_patch_size", { most: MAX_PATCH })
  if (frames !== FRAMES) throw vision.wrong("temporal_patch_size", `is ${frames}; known: ${FRAMES}`)
  const colours = vision.count("in_channels")
  if (colours !== 3) throw vision.wrong("in_channels", `is ${colours}; images have 3 colours`)
  const joined = vision.count("spatial_merge_size", undefined, 1, MAX_JOINED)
  return { patch, joined, ...(!isOcr && { places: placesASide(vision, patch) }) }
}

/**
 * @param text the model inside
 * @returns nothing where the tower is not known
 */
export function readGlm4vTower(fields: Fields, text: ModelConfig): TowerConfig | undefined {
  const [found, patches] = [visionOf(fields), readGlm4vPatches(fields)]
  if (!found || !patches) return undefined
  const { vision, name, isOcr } = found
  const { patch, joined, places } = patches
  const { hidden, vocabulary } = text.shapes
  const out = vision.count("out_hidden_size")
  if (out !== hidden)
    throw vision.wrong("out_hidden_size", `is ${out}, and rows of the text model have ${hidden}`)
  const own = vision.over({
    intermediate_size: isOcr ? vision.count("intermediate_size") : out,
    num_hidden_layers: vision.count("depth", undefined, 1, MAX_LAYERS),
    num_attention_heads: vision.count("num_heads"),
    vocab_size: 1,
    max_position_embeddings: 1,
  })
  const config = readDecoder(own, { rotation: "none" })
  const isBiased = vision.flag("attention_bias", false)
  const norms = { ...config.norm!, over: "every head", place: "before" } as const
  const { blocks } = seeingBothWays(
    withBlocks(turnedBySides(vision, config, QWEN_TURNING), (block) => ({
      ...withMlp(
        withAttention(block, {
          bias: { qkv: isBiased, o: isBiased && isOcr },
          ...(isOcr && { norms }),
        }),
        { bias: isBiased && isOcr },
      ),
      norms: NORMS.before,
    })),
  )
  const width = config.shapes.hidden
  return {
    architecture: name,
    patch,
    side: places ?? 0,
    fits: {
      rows: MAX_ROWS * joined * joined,
      frames: FRAMES,
      ...(places && { interpolated: "behind the norm" }),
    },
    hasClass: false,
    patchBias: true,
    width,
    blocks,
    firstNorm: isOcr ? undefined : config.norm,
    lastNorm: config.norm,
    layersRead: undefined,
    merge: { side: joined, by: "columns" },
    projector: {
      norm: undefined,
      inner: undefined,
      gatedMlp: {
        columns: isOcr ? 3 * out : vision.count("intermediate_size"),
        activation: readActivation(vision, {}),
      },
      ...{ bias: true, factor: 1, width: hidden },
    },
    softToken: fields.count(
      "image_token_id",
      softTokens[fields.text("model_type")],
      0,
      vocabulary - 1,
    ),
    axes: axesOf(fields, { sections: [8, 12, 12], interleaved: false }, text),
    naming: namingOf(width, hidden, patches),
  }
}

function namingOf(width: number, hidden: number, { patch, joined, places }: Glm4vPatches): Naming {
  return {
    roots: ["model.visual.", "visual."].map((root) => ({ root, head: root })),
    layers: "blocks.",
    parts: {
      ...partsOf(width, patch),
      ...(places && placesParts("embeddings.position_embedding.weight", places * places, width)),
      "self_attn.q_norm": "attn.q_norm",
      "self_attn.k_norm": "attn.k_norm",
      embed_norm: "post_conv_layernorm",
      norm: "post_layernorm",
      "linear_1.weight": {
        name: "downsample.weight",
        shape: [hidden, width, joined, joined],
        turnedColumns: joined * joined,
      },
      "linear_1.bias": "downsample.bias",
      linear_2: "merger.proj",
      mlp_norm: "merger.post_projection_norm",
      gate_proj: "merger.gate_proj",
      up_proj: "merger.up_proj",
      down_proj: "merger.down_proj",
    },
  }
}
