// What LFM3-VL sees with: a tower for images of any proportions, cut as Qwen's. In most of its layers patches are mixed with those beside, above and
// below them, by a convolution that gates let through as LFM's do (plane.ts); in the others all see each other, and heads turn by height and
// width. Each patch is normed before squares of them become rows. The text model counts its tokens one by one.
//
// Source: configuration_lfm3_vl.py and modeling_lfm3_vl.py of transformers.

import { lfm2Parts } from "../architectures/lfm2.ts"
import { NORMS, withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readActivation, readDecoder, seeingBothWays } from "../config.ts"
import type { Fields } from "../fields.ts"
import { FINDING, planeParts, SIDE } from "../plane.ts"
import { FRAMES, MAX_JOINED, MAX_PATCH, MAX_ROWS, type QwenPatches } from "./qwen.ts"
import { oneSide } from "./sides.ts"
import type { TowerConfig } from "./tower.ts"
import { turnedBySides } from "./turns.ts"

export const LFM3 = "lfm3_vl"

/** What its `vision_config` may be. */
const TOWER = "lfm3_vl_vision"

const ABSENT = {
  hidden_size: 1024,
  intermediate_size: 2560,
  in_channels: 3,
  patch_size: 16,
  spatial_merge_size: 2,
  temporal_patch_size: 2,
  num_hidden_layers: 14,
  num_attention_heads: 16,
  num_key_value_heads: 8,
  conv_kernel_size: SIDE,
  norm_eps: 1e-5,
}

function visionOf(fields: Fields): Fields | undefined {
  const given = fields.object("vision_config")
  if (!given || fields.text("model_type") !== LFM3) return undefined
  return given.text("model_type", TOWER) === TOWER ? given.with(ABSENT) : undefined
}

/** @returns nothing where the tower is not known */
export function readLfm3Patches(fields: Fields): (QwenPatches & { isNear: true }) | undefined {
  const vision = visionOf(fields)
  if (!vision) return undefined
  for (const [name, known] of [
    ["in_channels", 3],
    ["temporal_patch_size", FRAMES],
    ["conv_kernel_size", SIDE],
  ] as const) {
    const is = oneSide(vision, name, { most: MAX_PATCH })
    if (is !== known) throw vision.wrong(name, `is ${is}; known: ${known}`)
  }
  return {
    patch: oneSide(vision, "patch_size", { most: MAX_PATCH }),
    joined: vision.count("spatial_merge_size", undefined, 1, MAX_JOINED),
    isPlain: true,
    isNear: true,
  }
}

/** @param text the model inside */
export function readLfm3Tower(fields: Fields, text: ModelConfig): TowerConfig | undefined {
  const vision = visionOf(fields)
  const patches = readLfm3Patches(fields)
  if (!vision || !patches) return undefined
  const { patch, joined } = patches
  const { hidden, vocabulary } = text.shapes
  const layers = vision.over({ hidden_act: "silu", vocab_size: 1, max_position_embeddings: 1 })
  const config = readDecoder(layers, { epsilon: "norm_eps", rotation: "none" })
  const width = config.shapes.hidden
  if (width < FINDING)
    throw vision.wrong("hidden_size", `is ${width}; patches find each other by ${FINDING} columns`)
  const norm = config.norm!
  const norms = { ...norm, over: "every head", place: "before" } as const
  const isMixed = mixing(vision, config.shapes.layers)
  const turned = turnedBySides(vision, config, { order: "height first", theta: 1e6 })
  const { blocks } = withBlocks(seeingBothWays(turned), (block, layer) => ({
    ...withAttention(block, { norms }),
    ...(isMixed[layer] && { convolution: { taps: SIDE } }),
    norms: NORMS.before,
  }))
  return {
    architecture: TOWER,
    patch,
    side: 0,
    fits: { rows: MAX_ROWS * joined * joined, frames: FRAMES },
    hasClass: false,
    patchBias: false,
    width,
    blocks,
    firstNorm: norm,
    lastNorm: undefined,
    layersRead: undefined,
    merge: { side: joined, by: "columns", norm: { kind: "layer", bias: true, epsilon: 1e-6 } },
    projector: {
      norm: undefined,
      inner: {
        columns: fields.count("projector_hidden_size", 4096),
        activation: readActivation(fields, { field: "projector_hidden_act", otherwise: "gelu" }),
        gated: false,
      },
      bias: fields.flag("projector_bias", true),
      factor: 1,
      width: hidden,
    },
    softToken: fields.count("image_token_id", 125_030, 0, vocabulary - 1),
    naming: {
      roots: ["model.", ""].map((root) => ({
        root: `${root}vision_tower.`,
        head: `${root}multi_modal_projector.`,
      })),
      layers: "layers.",
      parts: {
        embed_tokens: "patchifier", // by which the tower is found
        patch_embedding: "patchifier",
        embed_norm: "embedding_norm",
        ...lfm2Parts,
        merging_norm: "layer_norm",
        ...planeParts("conv.spatial_conv", width),
      },
    },
  }
}

/** Which layers mix neighbours: where they are not listed the first two and every other one behind them. */
function mixing(vision: Fields, layers: number): boolean[] {
  const name = "layer_types"
  if (!vision.has(name)) return Array.from({ length: layers }, (_, i) => i < 2 || i % 2 === 1)
  const types = vision.texts(name)
  if (types.length !== layers)
    throw vision.wrong(name, `is about ${types.length} layers of ${layers}`)
  if (!types.includes("full_attention"))
    throw vision.wrong(name, "names no layer of full_attention")
  const other = types.find((type) => type !== "conv" && type !== "full_attention")
  if (other !== undefined) throw vision.wrong(name, `holds "${other}"; known: conv, full_attention`)
  return types.map((type) => type === "conv")
}
