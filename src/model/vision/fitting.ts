// Models whose tiles are as large as their images: what of a tower decides how images are cut into patches, what an image processor's
// file repeats of it, and what stands in a prompt for an image.

import type { ImageProcessing, Wording } from "../../images/image.ts"
import type { Fields } from "../fields.ts"
import { type Gemma4Patches, readGemma4Patches } from "./gemma4.ts"
import { type Glm4vPatches, readGlm4vPatches } from "./glm4v.ts"
import { type HunyuanPatches, readHunyuanPatches } from "./hunyuan.ts"
import { readLfm3Patches } from "./lfm3.ts"
import { type MuseGlimmerPatches, readMuseGlimmerPatches } from "./muse-glimmer.ts"
import { type PaddleOcrPatches, readPaddleOcrPatches } from "./paddleocr.ts"
import type { ProcessorName } from "./processors.ts"
import { type QwenPatches, readQwenPatches } from "./qwen.ts"

/** The text of a named token of the tokenizer. */
export type Tokens = (name: string, otherwise: string) => string

export const plain: Wording = {
  opening: "",
  closing: "",
  only: "",
  part: "",
  whole: "",
  betweenLines: "",
  betweenTiles: "",
  behindTile: "",
  behindRow: "",
}

/** Of models whose tiles are as large as their images. */
export interface Fitting {
  /** Classes of image processors that do it, the first where none is named. */
  processors: readonly [ProcessorName, ...ProcessorName[]]
  patches: Pick<
    ImageProcessing,
    "patch" | "joined" | "window" | "isNear" | "places" | "spread" | "isNamed"
  >
  /** Heights and widths, in patches, that the tower has a row for; absent: all. */
  lines?: number
  /** Fields of the image processor that repeat what the tower's configuration says: what that is, and what holds where they are not there. */
  repeated: Readonly<Record<string, { is: number; otherwise: number }>>
  words(
    tokens: Tokens,
    processor: Fields,
  ): Pick<ImageProcessing, "isFramed" | "isPlaced" | "mark" | "soft" | "wording">
}

/** @returns nothing where tiles are of one size, or the tower is not known */
export function fittingFamily(config: Fields): Fitting | undefined {
  const qwen = readQwenPatches(config)
  if (qwen) return asQwen(qwen)
  const lfm3 = readLfm3Patches(config)
  if (lfm3) return asQwen(lfm3)
  const paddleOcr = readPaddleOcrPatches(config)
  if (paddleOcr) return asPaddleOcr(paddleOcr)
  const hunyuan = readHunyuanPatches(config)
  if (hunyuan) return asHunyuan(hunyuan)
  const museGlimmer = readMuseGlimmerPatches(config)
  if (museGlimmer) return asMuseGlimmer(museGlimmer)
  const gemma4 = readGemma4Patches(config)
  if (gemma4) return asGemma4(gemma4)
  const glm4v = readGlm4vPatches(config)
  return glm4v && asGlm4v(glm4v)
}

const asQwen = ({ soft: usual = "<|image_pad|>", isPlain, ...patches }: QwenPatches): Fitting => ({
  processors: ["Qwen2VLImageProcessor", "Qwen3VLImageProcessor", "CohereCompassImageProcessor"],
  patches,
  repeated: {
    patch_size: { is: patches.patch, otherwise: 14 },
    merge_size: { is: patches.joined, otherwise: 2 },
    temporal_patch_size: { is: 2, otherwise: 2 },
  },
  words(tokens) {
    const soft = tokens("image_token", usual)
    return { ...(!isPlain && { isPlaced: true }), mark: soft, soft, wording: plain }
  },
})

const asGlm4v = (patches: Glm4vPatches): Fitting => ({
  ...asQwen(patches),
  processors: ["Glm4vImageProcessor", "Glm46VImageProcessor"],
  patches: { ...patches, ...(patches.places && { spread: "cubic" }) },
  words(tokens) {
    const soft = tokens("image_token", "<|image|>")
    return { isPlaced: true, mark: soft, soft, wording: plain }
  },
})

const asPaddleOcr = (patches: PaddleOcrPatches): Fitting => ({
  processors: ["PaddleOCRVLImageProcessor"],
  patches: { ...patches, spread: "linear" },
  repeated: {
    patch_size: { is: patches.patch, otherwise: 14 },
    merge_size: { is: patches.joined, otherwise: 2 },
    temporal_patch_size: { is: 1, otherwise: 1 },
  },
  words(tokens) {
    const soft = tokens("image_token", "<|IMAGE_PLACEHOLDER|>")
    return { isPlaced: true, mark: soft, soft, wording: plain }
  },
})

const asHunyuan = (patches: HunyuanPatches): Fitting => ({
  processors: ["HunYuanVLImageProcessor"],
  patches: { ...patches, spread: "linear", isNamed: true },
  repeated: {
    patch_size: { is: patches.patch, otherwise: 16 },
    merge_size: { is: patches.joined, otherwise: 2 },
    temporal_patch_size: { is: 1, otherwise: 1 },
  },
  words(tokens, processor) {
    if (!processor.flag("cat_extra_token", true))
      throw processor.wrong(
        "cat_extra_token",
        "is false, so that what frames an image has no tokens",
      )
    const soft = tokens("image_token", "<｜hy_place▁holder▁no▁102｜>")
    return { isFramed: true, isPlaced: true, mark: soft, soft, wording: plain }
  },
})

const asMuseGlimmer = ({ patch, joined, places, frames }: MuseGlimmerPatches): Fitting => ({
  processors: ["MuseGlimmerImageProcessor"],
  patches: { patch, joined, places, window: places, spread: "within" },
  repeated: {
    patch_size: { is: patch, otherwise: 14 },
    merge_size: { is: joined, otherwise: 2 },
    temporal_patch_size: { is: frames, otherwise: 2 },
  },
  words() {
    const soft = "<|patch|>"
    const [opening, closing] = ["<|image_start|>", "<|image_end|>"]
    return { mark: soft, soft, wording: { ...plain, opening, closing } }
  },
})

const asGemma4 = ({ patch, joined, lines }: Gemma4Patches): Fitting => ({
  processors: ["Gemma4ImageProcessor"],
  patches: { patch, joined },
  lines,
  repeated: {
    patch_size: { is: patch, otherwise: 16 },
    pooling_kernel_size: { is: joined, otherwise: 3 },
  },
  words(tokens) {
    const soft = tokens("image_token", "<|image|>")
    const opening = tokens("boi_token", "<|image>")
    const closing = tokens("eoi_token", "<image|>")
    return { mark: soft, soft, wording: { ...plain, opening, closing } }
  },
})
