// PaddleOCR-VL: SigLIP that takes images of any proportions. Heads turn by height and width; learned positions are interpolated besides, edge on
// edge, so that at the edges the outermost ones hold. Patches are normed once more before squares of them become rows. The text model turns its
// tokens by time, height and width. Source: configuration_paddleocr_vl.py and modeling_paddleocr_vl.py of transformers.

import type { Fields } from "../fields.ts"
import { MAX_JOINED, MAX_PATCH } from "./qwen.ts"
import { oneSide, placesASide } from "./sides.ts"

export const PADDLEOCR = "paddleocr_vl"

/** What its `vision_config` may be; files of before transformers had it call it as the whole. */
export const PADDLEOCR_TOWERS = ["paddleocr_vl_vision", PADDLEOCR] as const

/** Where `vision_config` says nothing. */
export const PADDLEOCR_EYE = {
  hidden_size: 1152,
  intermediate_size: 4304,
  num_hidden_layers: 27,
  num_attention_heads: 16,
  image_size: 384,
  patch_size: 14,
  spatial_merge_size: 2,
  hidden_act: "gelu_pytorch_tanh",
  layer_norm_eps: 1e-6,
}

/** What of a tower decides how images are cut into patches, too. */
export interface PaddleOcrPatches {
  patch: number
  /** Patches a side that become one row. */
  joined: number
  /** Of the square of places that positions are learned for. */
  places: number
}

/** @returns nothing where the tower is not known */
export function readPaddleOcrPatches(fields: Fields): PaddleOcrPatches | undefined {
  const given = fields.object("vision_config")
  if (!given || fields.text("model_type") !== PADDLEOCR) return undefined
  const name = given.text("model_type", PADDLEOCR)
  if (!PADDLEOCR_TOWERS.some((tower) => tower === name)) return undefined
  const vision = given.with(PADDLEOCR_EYE)
  const patch = oneSide(vision, "patch_size", { most: MAX_PATCH })
  const joined = vision.count("spatial_merge_size", undefined, 1, MAX_JOINED)
  return { patch, joined, places: placesASide(vision, patch) }
}
