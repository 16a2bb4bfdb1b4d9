// How a model that sees wants its images prepared: from preprocessor_config.json, or from what transformers 5 writes in its
// place, `image_processor` in processor_config.json, which comes first where both are there. What is absent has the default of
// the processor's class. What would change the pixels and is not known is refused: the model would see something else.
//
// Sources: image_processing_*.py and processing_*.py of transformers. What a processor's class hands to its image processor holds
// whatever that one's file says: InternVL's and Aya Vision's are always cut into tiles, Gemma 3's never panned over.

import type { Cutting, Filter, ImageProcessing, Size } from "../../images/image.ts"
import { mostRows } from "../../images/patches.ts"
import { Fields } from "../fields.ts"
import { type Folder, isObject, type Json } from "../folder.ts"
import { type Fitting, fittingFamily, plain, type Tokens } from "./fitting.ts"
import { GEMMA4_ROWS } from "./gemma4.ts"
import { MAX_ROWS } from "./qwen.ts"

/** What the files of a folder say of images. */
interface Sources {
  config: Fields
  vision: Fields
  /** The image processor's. */
  image: Fields
  /** The processor's, which has words for images. */
  processor: Fields
  tokens: Tokens
}

interface Family {
  /** Classes of image processors that do it, the first where none is named. */
  processors: readonly [ProcessorName, ...ProcessorName[]]
  /** The tower where `vision_config` does not say which. */
  tower: string
  /** `vision_feature_select_strategy` holds, and is "default" where nothing is said: the first row does not come out. */
  selects?: true
  /** Patches a side that become one row. */
  joined(sources: Sources): number
  words(sources: Sources): Pick<ImageProcessing, "mark" | "soft" | "wording">
}

type ProcessorName = keyof typeof processors

const CLIP = {
  mean: [0.48145466, 0.4578275, 0.40821073],
  std: [0.26862954, 0.26130258, 0.27577711],
}
const HALVES = { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] }

interface ImageProcessor {
  filter: Filter
  normal: { mean: readonly number[]; std: readonly number[] }
  /** Bytes are rescaled and no more; what the tower does to them then is done here. */
  isRescaled?: true
  /** The field that says how large a tile is. */
  field: "size" | "max_image_size" | "max_soft_tokens"
  /** @param step of tiles that fit, in pixels */
  cutting(image: Fields, step: number): Cuts
  /** Which `do_` fields may be true beside those of all: what they do is known, or nothing. */
  flags: readonly string[]
}

interface Cuts {
  tile: Size
  cutting: Cutting
}

const CROPPED = { field: "size", cutting: cropped, flags: ["do_center_crop"] } as const
const SPLIT = {
  field: "max_image_size",
  cutting: splitUp,
  flags: ["do_image_splitting", "do_pad"], // the latter fills up batches
} as const

const FRAMED = { field: "size", cutting: fittedFrames, flags: [] } as const

const processors = {
  CLIPImageProcessor: { filter: "bicubic", normal: CLIP, ...CROPPED },
  LlavaImageProcessor: { filter: "bicubic", normal: CLIP, ...CROPPED },
  SiglipImageProcessor: {
    filter: "bicubic",
    normal: HALVES,
    field: "size",
    cutting: stretched,
    flags: [],
  },
  DeepseekVLImageProcessor: {
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
    cutting: stretched,
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
  Qwen2VLImageProcessor: {
    filter: "bicubic",
    normal: CLIP,
    field: "size",
    cutting: fitted,
    flags: [],
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
  Cohere2VisionImageProcessor: {
    filter: "bicubic",
    normal: CLIP,
    field: "size",
    cutting: (image) =>
      image.flag("crop_to_patches", true) ? inGrid(image, "scale", 512) : stretched(image, 512),
    flags: [],
  },
} as const satisfies Record<string, ImageProcessor>

const idefics: Family = {
  processors: ["Idefics3ImageProcessor", "SmolVLMImageProcessor"],
  tower: "idefics3_vision",
  joined: ({ config }) => config.count("scale_factor", 2),
  words({ tokens }) {
    const soft = tokens("image_token", "<image>")
    const around = tokens("fake_image_token", "<fake_token_around_image>")
    const only = around + tokens("global_image_token", "<global-img>")
    const part = `${around}<row_{row}_col_{column}>`
    const wording = { ...plain, closing: around, only, part, whole: `\n${only}`, behindRow: "\n" }
    return { mark: soft, soft, wording }
  },
}

const llava: Family = {
  processors: ["CLIPImageProcessor", "LlavaImageProcessor", "SiglipImageProcessor"],
  tower: "clip_vision_model",
  selects: true,
  joined: () => 1,
  words({ processor, tokens }) {
    const soft = tokens("image_token", processor.text("image_token", "<image>"))
    return { mark: soft, soft, wording: plain }
  },
}

const families: Readonly<Record<string, Family>> = {
  llava,
  vipllava: llava,
  idefics3: idefics,
  smolvlm: {
    ...idefics,
    processors: ["SmolVLMImageProcessor", "Idefics3ImageProcessor"],
    tower: "smolvlm_vision",
  },
  internvl: {
    processors: ["GotOcr2ImageProcessor"],
    tower: "internvl_vision",
    selects: true,
    joined: ({ config }) =>
      whole(config, "downsample_ratio", 1 / config.positive("downsample_ratio", 0.5)),
    words({ tokens }) {
      const soft = tokens("context_image_token", "<IMG_CONTEXT>")
      const opening = tokens("start_image_token", "<img>")
      const closing = tokens("end_image_token", "</img>")
      return { mark: soft, soft, wording: { ...plain, opening, closing } }
    },
  },
  gemma3: {
    processors: ["Gemma3ImageProcessor"],
    tower: "siglip_vision_model",
    joined: ({ config, vision }) => {
      const side = Math.floor(edge(vision, "image_size", 224) / edge(vision, "patch_size", 16))
      const rows = config.count("mm_tokens_per_image", 256)
      return whole(config, "mm_tokens_per_image", side / Math.sqrt(rows))
    },
    words({ tokens }) {
      const mark = tokens("boi_token", "<start_of_image>")
      const soft = tokens("image_token", "<image_soft_token>")
      const closing = `${tokens("eoi_token", "<end_of_image>")}\n\n`
      return { mark, soft, wording: { ...plain, opening: `\n\n${mark}`, closing } }
    },
  },
  aya_vision: {
    processors: ["GotOcr2ImageProcessor"],
    tower: "siglip_vision_model",
    joined: ({ config }) => config.count("downsample_factor", 2),
    words({ processor }) {
      const mark = processor.text("image_token", "<image>")
      const soft = processor.text("img_patch_token", "<|IMG_PATCH|>")
      const whole = processor.text("tile_global_token", "TILE_GLOBAL")
      const part = `${processor.text("tile_token", "TILE")}_{number}`
      const opening = processor.text("start_of_img_token", "<|START_OF_IMG|>")
      const closing = processor.text("end_of_img_token", "<|END_OF_IMG|>")
      return { mark, soft, wording: { ...plain, opening, closing, only: whole, part, whole } }
    },
  },
  deepseek_vl: {
    processors: ["DeepseekVLImageProcessor"],
    tower: "siglip_vision_model",
    joined: () => 1,
    words({ tokens }) {
      const soft = tokens("image_token", "<image_placeholder>")
      return { mark: soft, soft, wording: plain }
    },
  },
  cohere2_vision: {
    processors: ["Cohere2VisionImageProcessor"],
    tower: "siglip_vision_model",
    joined: ({ config }) => config.count("downsample_factor", 2),
    words({ tokens }) {
      const soft = tokens("image_token", "<|IMG_PATCH|>")
      const opening = tokens("boi_token", "<|START_OF_IMG|>")
      const closing = tokens("eoi_token", "<|END_OF_IMG|>")
      const behindTile = tokens("img_line_break_token", "<|IMG_LINE_BREAK|>")
      return { mark: soft, soft, wording: { ...plain, opening, closing, behindTile } }
    },
  },
}

interface Tower {
  hasClassRow: boolean
  /** Edges of image and patch in pixels, where nothing is said. */
  image: number
  patch: number
}

/** By their `model_type`. */
const towers: Readonly<Record<string, Tower>> = {
  clip_vision_model: { hasClassRow: true, image: 224, patch: 32 },
  siglip_vision_model: { hasClassRow: false, image: 224, patch: 16 },
  idefics3: { hasClassRow: false, image: 224, patch: 32 }, // as Idefics 3 and SmolVLM were published
  smolvlm: { hasClassRow: false, image: 224, patch: 32 },
  idefics3_vision: { hasClassRow: false, image: 224, patch: 32 },
  smolvlm_vision: { hasClassRow: false, image: 224, patch: 32 },
  internvl_vision: { hasClassRow: true, image: 448, patch: 14 },
}

const IMAGE = "preprocessor_config.json"
const PROCESSOR = "processor_config.json"
const TOKENIZER = "tokenizer_config.json"

/** What is read beside the configuration, as far as it is there. */
export const processingFiles = [IMAGE, PROCESSOR, TOKENIZER]

/**
 * @param config of the whole model, what is around `text_config`
 * @returns undefined where family or tower are not known, or the folder says nothing of images
 * @throws `model_broken`, which names file and field, where images are prepared in a way that is not known
 */
export async function readProcessing(
  config: Fields,
  folder: Folder,
): Promise<ImageProcessing | undefined> {
  const processor = await read(folder, PROCESSOR)
  const image = processor?.object("image_processor") ?? (await read(folder, IMAGE))
  if (!image) return undefined
  const tokens = namedTokens((await folder.jsonIfThere(TOKENIZER)) ?? {})
  const texts = { processor: processor ?? fieldsOf(folder, PROCESSOR, {}), tokens }
  return processingBy(config, image, texts)
}

/** The same, by what was read. @param image the image processor's fields */
export function processingBy(
  config: Fields,
  image: Fields,
  texts: Pick<Sources, "processor" | "tokens">,
): ImageProcessing | undefined {
  const fitting = fittingFamily(config)
  if (fitting) return fittingOf(fitting, image, texts.tokens)
  const family = own(families, config.text("model_type"))
  const vision = config.object("vision_config")
  const tower = family && vision && own(towers, vision.text("model_type", family.tower))
  return tower && processingOf(family, tower, { config, vision, image, ...texts })
}

/** As large as its image. */
function fittingOf(family: Fitting, image: Fields, tokens: Tokens): ImageProcessing {
  const { patches, repeated } = family
  const { patch, joined } = patches
  const chosen: ImageProcessor = processors[processorOf(image, family)]
  refuseUnknown(image, chosen)
  for (const [name, { is, otherwise }] of Object.entries(repeated)) {
    const told = image.count(name, otherwise)
    if (told !== is) throw image.wrong(name, `is ${told}, but the tower's is ${is}`)
  }
  const { tile, cutting } = chosen.cutting(image, patch * joined)
  const processing = {
    cutting,
    ...pixelsOf(image, chosen),
    tile,
    ...patches,
    hasClassRow: false,
    skipped: 0,
    ...family.words(tokens),
  }
  const rows = mostRows(processing) / joined ** 2
  if (family.lines && rows * joined > family.lines)
    throw image.wrong(
      chosen.field,
      `makes images of up to ${rows * joined} patches a side; the tower has places for ${family.lines}`,
    )
  if (rows > MAX_ROWS)
    throw image.wrong(
      "min_pixels",
      `makes an image of ${Math.ceil(rows)} rows; at most ${MAX_ROWS} are known`,
    )
  return processing
}

/** What becomes of pixels, wherever they are. */
function pixelsOf(image: Fields, { filter, normal, isRescaled }: ImageProcessor) {
  const common = {
    filter: filterOf(image, filter),
    rescale: image.positive("rescale_factor", 1 / 255),
  }
  if (isRescaled) {
    const [mean, std] = [normal.mean, normal.std] as [Colours, Colours]
    return { ...common, isRescaledFirst: true as const, mean, std }
  }
  return {
    ...common,
    mean: triple(image, "image_mean", normal.mean),
    std: triple(image, "image_std", normal.std),
  }
}

/** What a table has by a name that a file says. */
function own<Value>(table: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined
}

async function read(folder: Folder, file: string): Promise<Fields | undefined> {
  const json = await folder.jsonIfThere(file)
  return json && fieldsOf(folder, file, json)
}

function fieldsOf(folder: Folder, file: string, json: Json): Fields {
  return new Fields(json, (what) => folder.broken(file, what))
}

/** Where transformers 4 and 5 write tokens of a model's own: at the top, or among the special ones, as texts or as objects. */
function namedTokens(json: Json): Tokens {
  const { extra_special_tokens: extra, model_specific_special_tokens: specific } = json
  const places = [json, extra, specific].filter(isObject)
  return (name, otherwise) => {
    for (const place of places) {
      const value = isObject(place[name]) ? place[name].content : place[name]
      if (typeof value === "string" && value !== "") return value
    }
    return otherwise
  }
}

function processingOf(family: Family, tower: Tower, sources: Sources): ImageProcessing {
  const { config, vision, image, processor } = sources
  const chosen: ImageProcessor = processors[processorOf(image, family)]
  refuseUnknown(image, chosen)
  const { tile, cutting } = chosen.cutting(image, 0)
  const { hasClassRow, ...absent } = tower
  const seen = edge(vision, "image_size", absent.image)
  const patch = edge(vision, "patch_size", absent.patch)
  if (tile.width !== seen || tile.height !== seen)
    throw image.wrong(
      chosen.field,
      `makes tiles of ${tile.width} x ${tile.height} pixels, but the tower sees ${seen} x ${seen}`,
    )
  const joined = family.joined(sources)
  const side = Math.floor(seen / patch)
  const skipped = skippedOf(config, family)
  const left = side * side + Number(hasClassRow) - skipped
  const isWhole = joined === 1 || skipped === Number(hasClassRow)
  if (side === 0 || side % joined !== 0 || !isWhole)
    throw vision.wrong(
      "patch_size",
      `makes ${side} patches a side, which cannot be joined by ${joined}`,
    )
  checkCount(processor, left / joined ** 2)
  return {
    cutting,
    ...pixelsOf(image, chosen),
    tile,
    patch,
    joined,
    hasClassRow,
    skipped,
    ...family.words(sources),
  }
}

/** Names end in Fast where transformers 4 wrote them, in Pil where 5 was asked for that one. */
function processorOf(
  image: Fields,
  { processors: known }: Pick<Family, "processors">,
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

function refuseUnknown(image: Fields, { flags, isRescaled }: ImageProcessor): void {
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

/** The first row is the class row, where there is one; where there is none, it is left out all the same. */
function skippedOf(config: Fields, { selects }: Family): number {
  if (!selects) return 0
  const name = "vision_feature_select_strategy"
  const strategy = config.text(name, "default")
  if (strategy === "full" || strategy === "default") return Number(strategy === "default")
  throw config.wrong(name, `is "${strategy}"; known: default, full`)
}

/** The processor's own count would put another number of soft tokens into the prompt. */
function checkCount(processor: Fields, rows: number): void {
  for (const name of ["image_seq_len", "image_seq_length", "num_image_tokens"]) {
    const count = processor.count(name, rows)
    if (count !== rows)
      throw processor.wrong(name, `is ${count}, but ${rows} rows of a tile come out of the tower`)
  }
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

/** A number for each of red, green and blue. */
type Colours = [number, number, number]

function triple(image: Fields, name: string, otherwise: readonly number[]): Colours {
  const values = image.has(name) ? image.numbers(name) : otherwise
  const [red, green, blue] = values
  if (values.length !== 3 || (name === "image_std" && values.includes(0)))
    throw image.wrong(name, "is not three numbers, none of which may be 0 in image_std")
  return [red!, green!, blue!]
}

/** One number, or the same for both sides. */
function edge(vision: Fields, name: string, otherwise: number): number {
  if (!Array.isArray(vision.json[name])) return pixels(vision, name, otherwise)
  const [height, width, ...others] = vision.counts(name)
  if (height && height <= MAX_EDGE && height === width && others.length === 0) return height
  throw vision.wrong(name, "is not one number, or the same for both sides")
}

/** A size as an object says it: height and width, or undefined where it says something else. */
function bothSides(size: Fields): Size | undefined {
  if (!size.has("height") && !size.has("width")) return undefined
  return { width: pixels(size, "width"), height: pixels(size, "height") }
}

/** `size` or `crop_size`, which older files write as one number. */
function sizeOf(image: Fields, name: string, otherwise: Json): Fields {
  const value = image.json[name]
  if (typeof value !== "number") return image.with({ [name]: otherwise }).object(name)!
  const of = name === "crop_size" ? { height: value, width: value } : { shortest_edge: value }
  return image.over({ [name]: of }).object(name)!
}

function cropped(image: Fields): Cuts {
  const size = sizeOf(image, "size", { shortest_edge: 224 })
  const crop = bothSides(sizeOf(image, "crop_size", { height: 224, width: 224 }))
  const isCropped = image.flag("do_center_crop", true)
  const tile = bothSides(size)
  const shortest = tile ? Math.min(tile.width, tile.height) : pixels(size, "shortest_edge")
  if (!isCropped && tile) return { tile, cutting: { kind: "stretch" } }
  if (!crop || !isCropped)
    throw image.wrong("do_center_crop", "is false, so that tiles are not all of one size")
  if (crop.width > shortest || crop.height > shortest)
    throw image.wrong("crop_size", "is larger than size")
  if (!tile) return { tile: crop, cutting: { kind: "crop", shortest } }
  if (crop.width < tile.width || crop.height < tile.height)
    throw image.wrong("crop_size", "is smaller than size, which has height and width")
  return { tile, cutting: { kind: "stretch" } }
}

function stretched(image: Fields, otherwise = 224): Cuts {
  const tile = bothSides(sizeOf(image, "size", { height: otherwise, width: otherwise }))
  if (!tile) throw image.wrong("size", "has no height and width")
  return { tile, cutting: { kind: "stretch" } }
}

/** The longer edge as long as a tile's; around the image a colour, which is the mean where nothing else is said. */
function padded(image: Fields): Cuts {
  const { tile } = stretched(image, 384)
  if (tile.width !== tile.height) throw image.wrong("size", "has another height than width")
  if (!image.flag("do_pad", true))
    throw image.wrong("do_pad", "is false, so that tiles are not all of one size")
  const least = image.count("min_size", 14, 1, tile.width)
  const colour = triple(image, "image_mean", CLIP.mean).map((mean) => Math.trunc(mean * 255))
  return { tile, cutting: { kind: "pad", least, colour: colour as Colours } }
}

function splitUp(image: Fields): Cuts {
  const longest = pixels(sizeOf(image, "size", { longest_edge: 4 * 364 }), "longest_edge")
  const edge = pixels(sizeOf(image, "max_image_size", { longest_edge: 364 }), "longest_edge")
  const isSplit = image.flag("do_image_splitting", true)
  return { tile: { width: edge, height: edge }, cutting: { kind: "split", longest, isSplit } }
}

/** Areas in pixels are called edges, or by their older names, which hold. No image becomes more rows than MAX_ROWS. */
function fitted(image: Fields, step: number): Cuts {
  const size = image.object("size")
  const areaOf = (name: string, edge: string, otherwise: number) => {
    const where = image.has(name) || !size ? image : size
    return where.count(where.has(name) ? name : edge, otherwise)
  }
  const least = areaOf("min_pixels", "shortest_edge", 56 * 56)
  const most = areaOf("max_pixels", "longest_edge", 28 * 28 * MAX_ROWS)
  if (least > most) throw image.wrong("min_pixels", `is ${least}, more than max_pixels, ${most}`)
  const tile = { width: step, height: step }
  return { tile, cutting: { kind: "fit", least, most: Math.min(most, MAX_ROWS * step * step) } }
}

/** GLM's: areas of both frames of a patch. */
function fittedFrames(image: Fields, step: number): Cuts {
  const size = image
    .with({ size: { shortest_edge: 112 * 112, longest_edge: 28 * 28 * 15000 } })
    .object("size")!
  const [least, most] = [size.count("shortest_edge") / 2, size.count("longest_edge") / 2]
  if (least > most)
    throw size.wrong("shortest_edge", `is ${2 * least}, more than longest_edge, ${2 * most}`)
  const tile = { width: step, height: step }
  const cutting = { kind: "fit", least, most: Math.min(most, MAX_ROWS * step * step) } as const
  return { tile, cutting: { ...cutting, grows: true } }
}

/** As large as a number of rows allows. */
function filling(image: Fields, step: number): Cuts {
  const name = "max_soft_tokens"
  const rows = image.count(name, 280)
  if (!GEMMA4_ROWS.includes(rows))
    throw image.wrong(name, `is ${rows}; known: ${GEMMA4_ROWS.join(", ")}`)
  const tile = { width: step, height: step }
  return { tile, cutting: { kind: "fill", most: rows * step * step } }
}

const MAX_TILES = 64

function inGrid(image: Fields, choice: "ratio" | "scale", otherwise: number): Cuts {
  const { tile } = stretched(image, otherwise)
  const least = image.count("min_patches", 1)
  const most = image.count("max_patches", 12, least, MAX_TILES)
  return { tile, cutting: { kind: "grid", choice, least, most } }
}

/** Of an edge: no tower sees more, and what comes of an image must fit into memory. */
const MAX_EDGE = 4096

function pixels(size: Fields, name: string, otherwise?: number): number {
  return size.count(name, otherwise, 1, MAX_EDGE)
}

function whole(config: Fields, name: string, joined: number): number {
  if (Number.isInteger(joined) && joined > 0) return joined
  throw config.wrong(name, "does not join whole squares of patches")
}
