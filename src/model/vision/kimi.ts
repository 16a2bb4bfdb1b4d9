// What configurations of Kimi VL and of Kimi K2.5 and 2.6 say of MoonViT and of images, under the names of transformers or those that
// were published.
//
// Sources: configuration_kimi_k25.py of transformers; KimiK25VisionProcessor of PaddleFormers for the published names of images; of Kimi VL
// modeling_kimi_vl.py and image_processing_kimi_vl.py, as they were published with it.

import type { Fields } from "../fields.ts"
import { oneSide } from "./sides.ts"

const ABSENT = {
  hidden_size: 1152,
  intermediate_size: 4304,
  num_hidden_layers: 27,
  num_attention_heads: 16,
  patch_size: 14,
  hidden_act: "gelu_pytorch_tanh",
  pos_emb_height: 64,
  pos_emb_width: 64,
  merge_kernel_size: [2, 2],
}

/** What was published of them is one and the same. */
const KNOWN = {
  merge_type: "sd2_tpool",
  mm_projector_type: "patchmerger",
  pos_emb_type: "divided_fixed",
  projector_hidden_act: "gelu",
}

/** `vision_config` in the words of transformers. */
export function kimiVision(given: Fields): Fields {
  for (const [name, known] of Object.entries(KNOWN)) {
    const is = given.text(name, known)
    if (is !== known) throw given.wrong(name, `is "${is}"; known: ${known}`)
  }
  const renamed = Object.entries(given.json).map(([name, value]) => [
    name.replace(/^(vt|init)_/, ""),
    value,
  ])
  return given.with(Object.fromEntries(renamed)).with(ABSENT)
}

const PUBLISHED = "media_proc_cfg"

/** The image processor's fields in the words of transformers; those of frames, which videos have, are not looked at. */
export function kimiImage(image: Fields): Fields {
  const given = image.object(PUBLISHED)
  if (!given) return image
  if (given.has("fixed_output_tokens"))
    throw given.wrong("fixed_output_tokens", "is said; only images of their own sizes are known")
  const side = given.count("patch_limit_on_one_side", 512)
  return given.over({
    image_processor_type: "Kimi_K25ImageProcessor",
    merge_size: given.count("merge_kernel_size", 2),
    max_patches: given.count("in_patch_limit", 16384),
    size: { max_height: side, max_width: side },
  })
}

/** Patches a side that become one row. */
export const kimiKernel = (vision: Fields): number =>
  oneSide(kimiVision(vision), "merge_kernel_size", { most: 1 << 5 })

/** Of the square of places that positions are learned for. */
export function kimiPlaces(given: Fields): number {
  const vision = kimiVision(given)
  const [height, width] = ["pos_emb_height", "pos_emb_width"].map((name) =>
    vision.count(name, undefined, 1, 1 << 8),
  )
  if (height === width) return width!
  throw vision.wrong("pos_emb_height", `is ${height}, but pos_emb_width is ${width}`)
}
