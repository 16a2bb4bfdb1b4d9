// The image processors that are known, by their classes in transformers: how they cut images, and what they make of pixels. What a file
// says that would change the pixels and is not known is refused.
//
// Sources: image_processing_*.py of transformers.

import type { Filter } from "../../images/image.ts"
import type { Fields } from "../fields.ts"
import { CLIP, type Colours, HALVES, rescaleOf, triple } from "./colours.ts"
import {
  anyRes,
  type Cuts,
  cropped,
  filling,
  fitted,
  fittedFrames,
  fittedGrown,
  fittedLarge,
  type Grain,
  inGrid,
  inPages,
  inProportion,
  onCanvas,
  type Pinpoints,
  padded,
  shrunk,
  shrunkTogether,
  sliced,
  slicedOrKept,
  splitUp,
  stretched,
  tiled,
  together,
  within,
} from "./cutting.ts"

export type ProcessorName = keyof typeof processors

export interface ImageProcessor {
  filter: Filter
  normal: { mean: readonly number[]; std: readonly number[] }
  /** Bytes are rescaled and no more; what the tower does to them then is done here. */
  isRescaled?: true
  /** Whatever its file says of it. */
  hasOwnFilter?: true
  /** Each step is rounded to floats of that kind. */
  steps?: "bf16"
  /** The field that says how large a tile is. */
  field:
    | "size"
    | "max_image_size"
    | "max_image_tokens"
    | "max_soft_tokens"
    | "in_token_limit"
    | "scale_resolution"
  cutting(image: Fields, grain: Grain): Cuts
  /** Which `do_` fields may be true beside those of all: what they do is known, or nothing. */
  flags: readonly string[]
}

const CROPPED = { field: "size", cutting: cropped, flags: ["do_center_crop"] } as const
const SPLIT = {
  field: "max_image_size",
  cutting: splitUp,
  flags: ["do_image_splitting", "do_pad"], // the latter fills up batches
} as const

const SLICED = { field: "scale_resolution", cutting: sliced, flags: [] } as const
const FITTED = { field: "size", cutting: fitted, flags: [] } as const
const GROWN = { field: "size", cutting: fittedGrown, flags: [] } as const
const FRAMED = { field: "size", cutting: fittedFrames, flags: [] } as const

export const NEXT: Pinpoints = [
  [336, 672],
  [672, 336],
  [672, 672],
  [1008, 336],
  [336, 1008],
]

const SIDES = [384, 768, 1152, 1536, 1920, 2304]
export const ONEVISION = SIDES.flatMap((height) => SIDES.map((width) => [height, width] as const))

export const processors = {
  CLIPImageProcessor: { filter: "bicubic", normal: CLIP, ...CROPPED },
  LlavaImageProcessor: { filter: "bicubic", normal: CLIP, ...CROPPED },
  SiglipImageProcessor: {
    filter: "bicubic",
    normal: HALVES,
    field: "size",
    cutting: (image) => stretched(image),
    flags: [],
  },
  DeepseekVLImageProcessor: {
    filter: "bicubic",
    normal: CLIP,
    field: "size",
    cutting: padded,
    flags: ["do_pad"],
  },
  JanusImageProcessor: {
    filter: "bicubic",
    normal: CLIP,
    field: "size",
    cutting: padded,
    flags: ["do_pad"],
  },
  Gemma3ImageProcessor: {
    filter: "bilinear",
    normal: HALVES,
    field: "size",
    cutting: (image) => stretched(image),
    flags: ["do_pan_and_scan"],
  },
  Idefics3ImageProcessor: { filter: "lanczos", normal: HALVES, ...SPLIT },
  SmolVLMImageProcessor: { filter: "lanczos", normal: HALVES, ...SPLIT },
  GotOcr2ImageProcessor: {
    filter: "bicubic",
    normal: CLIP,
    field: "size",
    cutting: (image) => inGrid(image, "ratio", 384),
    flags: [],
  },
  GraniteDoclingImageProcessor: {
    filter: "bicubic",
    normal: CLIP,
    field: "size",
    cutting: inPages,
    flags: [],
  },
  Qwen2VLImageProcessor: { filter: "bicubic", normal: CLIP, ...FITTED },
  Qwen3VLImageProcessor: { filter: "bicubic", normal: HALVES, ...FITTED }, // mlx-vlm's, which it writes of all of Qwen's
  CohereCompassImageProcessor: { filter: "bicubic", normal: CLIP, ...FITTED },
  PixtralImageProcessor: {
    filter: "bicubic",
    normal: CLIP,
    field: "size",
    cutting: within,
    flags: ["do_pad"], // which fills up batches
  },
  Glm4vImageProcessor: { filter: "bicubic", normal: CLIP, ...FRAMED },
  Glm46VImageProcessor: { filter: "bicubic", normal: CLIP, ...FRAMED },
  Gemma4ImageProcessor: {
    filter: "bicubic",
    normal: HALVES,
    isRescaled: true,
    field: "max_soft_tokens",
    cutting: filling,
    flags: [],
  },
  LlavaNextImageProcessor: {
    filter: "bicubic",
    normal: CLIP,
    field: "size",
    cutting: (image) => anyRes(image, { tile: 224, crop: true, pinpoints: NEXT }),
    flags: ["do_center_crop", "do_pad"],
  },
  LlavaOnevisionImageProcessor: {
    filter: "bicubic",
    normal: CLIP,
    field: "size",
    cutting: (image) => anyRes(image, { tile: 384, crop: false, pinpoints: ONEVISION }),
    flags: ["do_center_crop", "do_pad"],
  },
  Llama4ImageProcessor: {
    filter: "bilinear",
    normal: HALVES,
    steps: "bf16",
    field: "size",
    cutting: onCanvas,
    flags: [],
  },
  MllamaImageProcessor: {
    filter: "bilinear",
    normal: HALVES,
    field: "size",
    cutting: together,
    flags: ["do_pad"],
  },
  Kimi_K25ImageProcessor: {
    filter: "bicubic",
    normal: HALVES,
    field: "size",
    cutting: shrunk,
    flags: [],
  },
  KimiVLImageProcessor: {
    filter: "bicubic",
    normal: CLIP,
    field: "in_token_limit",
    cutting: shrunkTogether,
    flags: [],
  },
  MiniCPMVImageProcessor: { filter: "bicubic", normal: HALVES, ...SLICED },
  MiniCPMV4_6ImageProcessor: { filter: "bicubic", normal: HALVES, ...SLICED },
  MiniCPMOcrImageProcessor: { filter: "bicubic", normal: HALVES, ...SLICED, cutting: slicedOrKept },
  MuseGlimmerImageProcessor: {
    filter: "lanczos",
    normal: HALVES,
    field: "max_image_tokens",
    cutting: inProportion,
    flags: [],
  },
  PaddleOCRVLImageProcessor: { filter: "bicubic", normal: CLIP, ...GROWN },
  // Published files name another filter, with which nobody resized.
  HunYuanVLImageProcessor: {
    filter: "bicubic",
    hasOwnFilter: true,
    normal: CLIP,
    field: "size",
    cutting: fittedLarge,
    flags: [],
  },
  Lfm2VlImageProcessor: {
    filter: "bilinear",
    normal: HALVES,
    field: "size",
    cutting: tiled,
    flags: ["do_image_splitting", "do_pad"],
  },
  Cohere2VisionImageProcessor: {
    filter: "bicubic",
    normal: CLIP,
    field: "size",
    cutting: (image) =>
      image.flag("crop_to_patches", true) ? inGrid(image, "scale", 512) : stretched(image, 512),
    flags: [],
  },
} as const satisfies Record<string, ImageProcessor>

/** What becomes of pixels, wherever they are. */
export function normalising(image: Fields, chosen: ImageProcessor) {
  const { filter, hasOwnFilter, normal, isRescaled, steps } = chosen
  const common = {
    filter: hasOwnFilter ? filter : filterOf(image, filter),
    rescale: rescaleOf(image),
  }
  if (isRescaled) {
    const [mean, std] = [normal.mean, normal.std] as [Colours, Colours]
    return { ...common, steps: "f32" as const, mean, std }
  }
  return {
    ...common,
    ...(steps && { steps }),
    mean: triple(image, "image_mean", normal.mean),
    std: triple(image, "image_std", normal.std),
  }
}

/** Names end in Fast where transformers 4 wrote them, in Pil where 5 was asked for that one. */
export function processorOf(
  image: Fields,
  { processors: known }: { processors: readonly [ProcessorName, ...ProcessorName[]] },
): ProcessorName {
  const otherwise = image.text("feature_extractor_type", known[0])
  const name = image
    .text("image_processor_type", otherwise.replace("FeatureExtractor", "ImageProcessor"))
    .replace(/(?:Fast|Pil)$/, "")
  const found = known.find((each) => each === name)
  if (found) return found
  throw image.wrong("image_processor_type", `is "${name}"; known: ${known.join(", ")}`)
}

const NEEDED = ["do_resize", "do_rescale", "do_normalize", "do_convert_rgb"]

export function refuseUnknown(image: Fields, { flags, isRescaled }: ImageProcessor): void {
  const needed = isRescaled ? NEEDED.filter((name) => name !== "do_normalize") : NEEDED
  for (const name of needed)
    if (!image.flag(name, true)) throw image.wrong(name, "is false, which is not known")
  const known = [...needed, ...flags]
  const other = Object.keys(image.json).find(
    (name) => name.startsWith("do_") && image.json[name] === true && !known.includes(name),
  )
  if (other !== undefined)
    throw image.wrong(other, "is true, which changes the pixels and is not known")
}

function filterOf(image: Fields, otherwise: Filter): Filter {
  if (!image.has("resample")) return otherwise
  // Pillow's numbers.
  const filters: Record<number, Filter> = { 1: "lanczos", 2: "bilinear", 3: "bicubic" }
  const number = image.count("resample", undefined, 0)
  const filter = filters[number]
  if (filter) return filter
  throw image.wrong("resample", `is ${number}; known: 1 (Lanczos), 2 (bilinear), 3 (bicubic)`)
}
