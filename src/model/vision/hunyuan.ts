// What HunyuanOCR sees with: SigLIP that takes images of any proportions. Its positions are bilinear, edge on edge, between 128 x 128 that
// were learned, so many that patches name the four around them. A norm, two convolutions, a matrix and a norm make a row of a square of
// patches. What ends a line goes through the last two, too, and what stands before the first and behind the last through the norm.
//
// The text model turns a row by its position, its column, its line and the number of its image, and so what ends lines. Half of each of
// a head's four parts turns with the other half, as its makers had it, and vLLM, mlx-vlm and llama.cpp have it; transformers 5.24
// lays these parts over the whole head, so that both elements of a pair turn by other coordinates.
//
// Source: configuration_hunyuan_vl.py and modeling_hunyuan_vl.py of transformers.

import { type Axis, POSITION } from "../../runtime/rotation.ts"
import type { ModelConfig } from "../config.ts"
import type { Fields } from "../fields.ts"
import { textFields } from "../seeing.ts"
import type { Naming } from "../weights/names.ts"
import { MAX_JOINED, MAX_PATCH } from "./qwen.ts"
import { oneSide } from "./sides.ts"
import type { TowerConfig } from "./tower.ts"

export const HUNYUAN = "hunyuan_vl"

/** What its `vision_config` may be; as it was published it does not say so. */
export const HUNYUAN_TOWERS = ["hunyuan_vl_vision"] as const

const ABSENT = {
  hidden_size: 1152,
  intermediate_size: 4304,
  num_hidden_layers: 27,
  num_attention_heads: 16,
  patch_size: 16,
  max_image_size: 2048,
  spatial_merge_size: 2,
  temporal_patch_size: 1,
  hidden_act: "gelu",
  rms_norm_eps: 1e-5,
  interpolate_mode: "bilinear",
}

/** `vision_config` in the words of SigLIP's. */
export function hunyuanVision(given: Fields): Fields {
  const vision = given.with(ABSENT)
  const { patch, places } = patchesIn(vision)
  return vision
    .without("num_key_value_heads") // which nobody reads
    .without("head_dim")
    .over({ image_size: patch * places, layer_norm_eps: vision.positive("rms_norm_eps") })
}

/** What of a tower decides how images are cut into patches, too. */
export interface HunyuanPatches {
  patch: number
  /** Patches a side that become one row. */
  joined: number
  /** Of the square of places that positions are learned for. */
  places: number
}

/** @returns nothing where the tower is not known */
export function readHunyuanPatches(fields: Fields): HunyuanPatches | undefined {
  const given = fields.object("vision_config")
  if (!given || fields.text("model_type") !== HUNYUAN) return undefined
  const name = given.text("model_type", "") || HUNYUAN_TOWERS[0]
  return HUNYUAN_TOWERS.some((tower) => tower === name) ? patchesIn(given.with(ABSENT)) : undefined
}

function patchesIn(vision: Fields): HunyuanPatches {
  const mode = vision.text("interpolate_mode")
  if (mode !== "bilinear") throw vision.wrong("interpolate_mode", `is "${mode}"; known: bilinear`)
  const frames = vision.count("temporal_patch_size")
  if (frames !== 1) throw vision.wrong("temporal_patch_size", `is ${frames}; known: 1`)
  const patch = oneSide(vision, "patch_size", { most: MAX_PATCH })
  const joined = vision.count("spatial_merge_size", undefined, 1, MAX_JOINED)
  const places = Math.floor(vision.count("max_image_size", undefined, patch) / patch)
  if (places > MAX_PLACES)
    throw vision.wrong(
      "max_image_size",
      `makes ${places} places a side; at most ${MAX_PLACES} are known`,
    )
  return { patch, joined, places }
}

const MAX_PLACES = 256

/** Which of the text model's pairs turn by which coordinate: three parts, or four with the position first. */
export function hunyuanAxes(fields: Fields, { blocks }: ModelConfig): readonly Axis[] {
  const text = textFields(fields)
  const scaling = text.object("rope_parameters") ?? text.object("rope_scaling") ?? text
  const name = ["mrope_section", "xdrope_section"].find((each) => scaling.has(each))
  if (!name) throw scaling.wrong("xdrope_section", "is not there, and neither is mrope_section")
  const sections = scaling.counts(name)
  const pairs = blocks[0]!.attention.rotation?.query.frequencies.length ?? 0
  const sum = sections.reduce((all, each) => all + each, 0)
  if (sections.length < 3 || sections.length > 4 || sum !== pairs)
    throw scaling.wrong(name, `is [${sections.join(", ")}], not three or four parts of ${pairs}`)
  const order = ([POSITION, WIDTH, HEIGHT, TIME] as const).slice(-sections.length)
  return order.flatMap((axis, part) => Array<Axis>(sections[part]!).fill(axis))
}

const [TIME, HEIGHT, WIDTH] = [0, 1, 2] as const

/** As they were published. @param eye its width and the square of its places */
export function hunyuanParts(
  { width, side }: Pick<TowerConfig, "width" | "side">,
  joined: number,
): Naming["parts"] {
  const places = side * side
  const rows = { of: places + 1, from: 1, run: places, every: places + 1 } // the first is nobody's
  return {
    "positions.weight": { name: "embeddings.position_embedding.weight", rows },
    input_layernorm: "input_layernorm",
    "self_attn.o_proj": "self_attn.o_proj",
    post_attention_layernorm: "post_attention_layernorm",
    "mlp.up_proj": "mlp.dense_h_to_4h",
    "mlp.down_proj": "mlp.dense_4h_to_h",
    merging_norm: "before_rms",
    linear_1: "proj.0",
    "linear_1.weight": {
      name: "proj.0.weight",
      shape: [2 * width, width, joined, joined],
      turnedColumns: joined * joined,
    },
    linear_2: "proj.2",
    "linear_2.weight": { name: "proj.2.weight", shape: [4 * width, 2 * width, 1, 1] },
    linear_3: "mlp",
    last_norm: "after_rms",
    "newline.weight": { name: "image_newline" },
    "opening.weight": { name: "image_begin" },
    "closing.weight": { name: "image_end" },
  }
}
