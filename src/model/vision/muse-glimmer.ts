// What Muse Glimmer sees with: a tower for images of any proportions, whose heads turn by width and height. In most layers patches see a window of
// the image, as many to each side as positions are learned for. These are interpolated, edge on edge, and what lies beyond is nothing. Squares
// of patches become rows column by column of all their patches, and the text model norms these as it does those of its tokens.
//
// A patch of transformers has the position of the one that is at the same number in an image as wide as this is high: only in squares is that where it
// lies. vLLM, llama.cpp and others have it where it lies, and so it is here.
//
// Source: configuration_muse_glimmer.py and modeling_muse_glimmer.py of transformers.

import type { Fields } from "../fields.ts"
import type { Naming } from "../weights/names.ts"
import { MAX_JOINED, MAX_PATCH, MAX_ROWS } from "./qwen.ts"
import { oneSide } from "./sides.ts"
import { placesParts, type TowerConfig } from "./tower.ts"

export const MUSE_GLIMMER = "muse_glimmer"

/** What its `vision_config` may be. */
export const MUSE_GLIMMER_TOWERS = ["muse_glimmer_vision"] as const

const ABSENT = {
  hidden_size: 1536,
  intermediate_size: 8960,
  num_hidden_layers: 50,
  num_attention_heads: 16,
  patch_size: 14,
  pos_emb_height: 32,
  pos_emb_width: 32,
  patch_temporal: 2,
  merge_size: 2,
  hidden_act: "gelu",
  layer_norm_eps: 1e-5,
}

/** `vision_config`, and in its words how large an image is that has a patch for each place. */
export function museGlimmerVision(given: Fields): Fields {
  const vision = given.with(ABSENT)
  const { patch, places } = patchesIn(vision)
  return vision.over({ image_size: patch * places })
}

/** What of a tower decides how images are cut into patches, too. */
export interface MuseGlimmerPatches {
  patch: number
  /** Patches a side that become one row. */
  joined: number
  /** Of the square of places that positions are learned for, and of a window. */
  places: number
  /** That a patch is of: files of llama.cpp have these as one. */
  frames: number
}

/** @returns nothing where the tower is not known */
export function readMuseGlimmerPatches(fields: Fields): MuseGlimmerPatches | undefined {
  const given = fields.object("vision_config")
  if (!given || fields.text("model_type") !== MUSE_GLIMMER) return undefined
  const name = given.text("model_type", "") || MUSE_GLIMMER_TOWERS[0]
  return MUSE_GLIMMER_TOWERS.some((tower) => tower === name)
    ? patchesIn(given.with(ABSENT))
    : undefined
}

function patchesIn(vision: Fields): MuseGlimmerPatches {
  const patch = oneSide(vision, "patch_size", { most: MAX_PATCH })
  const joined = oneSide(vision, "merge_size", { most: MAX_JOINED })
  const frames = vision.count("patch_temporal", undefined, 1, MAX_FRAMES)
  const [places, width] = ["pos_emb_height", "pos_emb_width"].map((name) =>
    vision.count(name, undefined, 1, MAX_PLACES),
  ) as [number, number]
  if (places !== width)
    throw vision.wrong("pos_emb_height", `is ${places}, but pos_emb_width is ${width}`)
  if (places % joined !== 0)
    throw vision.wrong(
      "pos_emb_height",
      `is ${places}, so that windows cut the squares of ${joined} patches a side that become one row`,
    )
  return { patch, joined, places, frames }
}

const MAX_PLACES = 128
const MAX_FRAMES = 16

export function museGlimmerFits(vision: Fields): NonNullable<TowerConfig["fits"]> {
  const { joined, frames } = patchesIn(vision)
  return {
    rows: MAX_ROWS * joined * joined,
    frames,
    ...(frames > 1 && { framesFirst: true }),
    interpolated: "before the norm",
  }
}

/** Which layers see all of an image: every fourth and the last, where they are not listed. */
export function seesAll(vision: Fields, layers: number): boolean[] {
  const name = "layer_types"
  if (!vision.has(name))
    return Array.from({ length: layers }, (_, i) => (i + 1) % 4 === 0 || i === layers - 1)
  const types = vision.texts(name)
  if (types.length !== layers)
    throw vision.wrong(name, `is about ${types.length} layers of ${layers}`)
  const other = types.find((type) => type !== "full_attention" && type !== "window_attention")
  if (other !== undefined)
    throw vision.wrong(name, `holds "${other}"; known: full_attention, window_attention`)
  return types.map((type) => type === "full_attention")
}

/** @param eye its width and the square of its places */
export const museGlimmerParts = ({
  width,
  side,
}: Pick<TowerConfig, "width" | "side">): Naming["parts"] => ({
  embed_tokens: "patch_embedder.patch_embedding", // by which the tower is found
  patch_embedding: "patch_embedder.patch_embedding",
  ...placesParts("patch_embedder.position_embedding_table.weight", side * side, width),
  embed_norm: "ln_pre",
  norm: "ln_post",
  input_layernorm: "norm1",
  "self_attn.q_proj": "attn.q_proj",
  "self_attn.k_proj": "attn.k_proj",
  "self_attn.v_proj": "attn.v_proj",
  "self_attn.o_proj": "attn.proj",
  post_attention_layernorm: "norm2",
  "mlp.up_proj": "mlp.fc1",
  "mlp.down_proj": "mlp.fc2",
})

/** Of a row's columns those of its patches take turns. @param name of its first matrix */
export const museGlimmerShuffle = (joined: number, name: string): Naming["parts"] => ({
  "linear_1.weight": { name: `${name}.weight`, turnedColumns: joined * joined },
})
