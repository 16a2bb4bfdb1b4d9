// How a model that sees wants its images prepared: from preprocessor_config.json, or from what transformers 5 writes in its
// place, `image_processor` in processor_config.json, which comes first where both are there. What is absent has the default of
// the processor's class. What would change the pixels and is not known is refused: the model would see something else.
//
// Sources: image_processing_*.py and processing_*.py of transformers. What a processor's class hands to its image processor holds
// whatever that one's file says: InternVL's and Aya Vision's are always cut into tiles, Gemma 3's never panned over.

import type { ImageProcessing } from "../../images/image.ts"
import { mostRows } from "../../images/patches.ts"
import { Fields } from "../fields.ts"
import { type Folder, isObject, type Json } from "../folder.ts"
import { boundOfRows, MAX_EDGE, type Pinpoints, readGrids } from "./cutting.ts"
import { type Fitting, fittingFamily, plain, type Tokens } from "./fitting.ts"
import { GRANITE_DOCLING, graniteDoclingScale } from "./granite-docling.ts"
import { GRANITE4, graniteWindow, JOINED } from "./granite4.ts"
import { kimiImage, kimiKernel, kimiPlaces } from "./kimi.ts"
import {
  canvasMarks,
  MINICPM,
  MINICPM_SOFT,
  mergedOf,
  miniCpmImage,
  miniCpmQueries,
  miniCpmWords,
  publishedWords,
} from "./minicpm.ts"
import { MLLAMA_TOWER } from "./mllama.ts"
import { PALIGEMMA, PALIGEMMA_SOFT } from "./paligemma.ts"
import {
  type ImageProcessor,
  NEXT,
  normalising,
  ONEVISION,
  type ProcessorName,
  processorOf,
  processors,
  refuseUnknown,
} from "./processors.ts"
import { oneSide, squareSide } from "./sides.ts"
import { MAX_PATCHES } from "./tower.ts"

/** What the files of a folder say of images. */
interface Sources {
  config: Fields
  vision: Fields
  /** The image processor's. */
  image: Fields
  /** The processor's, which has words for images. */
  processor: Fields
  tokens: Tokens
  /** Patches of an image at the most, where that is said for all images. */
  most?: number | undefined
}

interface Family {
  /** With that tower it is another family. */
  instead?: Readonly<Record<string, Family>>
  /** Classes of image processors that do it, the first where none is named. */
  processors: readonly [ProcessorName, ...ProcessorName[]]
  /** The tower where `vision_config` does not say which. */
  tower: string
  /** Towers are otherwise here. */
  towers?: Readonly<Record<string, Tower>>
  /** Tiles are as the image processor's own file says. */
  isLoose?: true
  /** So many rows ask behind the patches. */
  queries?(sources: Sources): number
  /** Patches a side that become one row between layers, if any do. */
  inner?(sources: Sources): number | undefined
  /** Patches a side of a window, of which is asked. */
  window?(sources: Sources): number
  /** The tower is told where rows of a tile lie that come out of it. */
  isLined?: true
  /** What `vision_feature_select_strategy` is where nothing is said. It holds: in "default" the first row does not come out. */
  selects?: "default" | "full"
  /** Images lie in grids that the configuration lists, too, or else in these. */
  grids?: Pinpoints
  /** So many tiles may have all their rows in a prompt. */
  most?(sources: Sources): number
  /** Patches a side that become one row. */
  joined(sources: Sources): number
  words(
    sources: Sources,
  ): Pick<ImageProcessing, "mark" | "soft" | "wording" | "isInFront" | "canvas">
}

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

const pixtral: Family = {
  processors: ["PixtralImageProcessor"],
  tower: "pixtral",
  joined: ({ config }) =>
    config.text("model_type") === "llava"
      ? 1
      : config.count("spatial_merge_size", 2, 1, MAX_JOINED),
  words({ processor }) {
    const soft = processor.text("image_token", "[IMG]")
    const betweenLines = processor.text("image_break_token", "[IMG_BREAK]")
    const closing = processor.text("image_end_token", "[IMG_END]")
    return { mark: soft, soft, wording: { ...plain, betweenLines, closing } }
  },
}

const MAX_JOINED = 1 << 5

const llava: Family = {
  instead: { pixtral },
  processors: ["CLIPImageProcessor", "LlavaImageProcessor", "SiglipImageProcessor"],
  tower: "clip_vision_model",
  selects: "default",
  joined: () => 1,
  words({ processor, tokens }) {
    const soft = tokens("image_token", processor.text("image_token", "<image>"))
    return { mark: soft, soft, wording: plain }
  },
}

const kimi: Family = {
  processors: ["Kimi_K25ImageProcessor"],
  tower: "kimi_k25_vision",
  joined: ({ vision }) => kimiKernel(vision),
  words({ tokens }) {
    const soft = tokens("image_token", "<|media_pad|>")
    return { mark: soft, soft, wording: plain }
  },
}

const minicpm46: Family = {
  processors: ["MiniCPMV4_6ImageProcessor"],
  tower: "minicpmv4_6_vision",
  inner: ({ config, image }) => mergedOf(config, image).inner,
  joined: ({ config, image }) => mergedOf(config, image).all,
  words({ image, processor, tokens }) {
    if (!image.flag("slice_mode", true))
      throw image.wrong("slice_mode", "is false; only images in slices are known")
    const soft = tokens("image_token", "<|image_pad|>")
    const isCounted = processor.flag("use_image_id", image.flag("use_image_id", true))
    const wording = miniCpmWords(
      (what) => [
        tokens(`${what}_start_token`, `<${what}>`),
        tokens(`${what}_end_token`, `</${what}>`),
      ],
      isCounted,
    )
    return { mark: soft, soft, wording: { ...plain, ...wording } }
  },
}

const internVl: Family = {
  processors: ["GotOcr2ImageProcessor"],
  tower: "internvl_vision",
  selects: "default",
  joined: ({ config }) =>
    whole(config, "downsample_ratio", 1 / config.positive("downsample_ratio", 0.5)),
  words({ tokens }) {
    const soft = tokens("context_image_token", "<IMG_CONTEXT>")
    const opening = tokens("start_image_token", "<img>")
    const closing = tokens("end_image_token", "</img>")
    return { mark: soft, soft, wording: { ...plain, opening, closing } }
  },
}

const slicing: Tower = {
  hasClassRow: false,
  fits: true,
  nearest: (vision) =>
    Math.floor(
      oneSide(vision, "image_size", { otherwise: 980, most: 1 << 14 }) /
        oneSide(vision, "patch_size", { otherwise: 14, most: 1 << 14 }),
    ),
  image: 980,
  patch: 14,
}

const families: Readonly<Record<string, Family>> = {
  llava,
  lfm2_vl: {
    processors: ["Lfm2VlImageProcessor"],
    tower: "siglip2_vision_model",
    joined: ({ config }) => config.count("downsample_factor", 2, 1, MAX_JOINED),
    words({ processor, tokens }) {
      const soft = tokens("image_token", "<image>")
      if (!processor.flag("use_image_special_tokens", true))
        return { mark: soft, soft, wording: plain }
      const opening = tokens("image_start_token", "<|image_start|>")
      const closing = tokens("image_end_token", "<|image_end|>")
      const whole = tokens("image_thumbnail_token", "<|img_thumbnail|>")
      const part = "<|img_row_{row}_col_{column}|>"
      return { mark: soft, soft, wording: { ...plain, opening, closing, part, whole } }
    },
  },
  lighton_ocr: {
    ...pixtral,
    isLoose: true,
    words({ tokens }) {
      const soft = tokens("image_token", "<|image_pad|>")
      return { mark: soft, soft, wording: plain }
    },
  },
  kimi_k25: kimi,
  kimi_vl: { ...kimi, processors: ["KimiVLImageProcessor"], tower: "moonvit" },
  [GRANITE4]: {
    ...llava,
    instead: {},
    processors: ["LlavaNextImageProcessor"],
    tower: "siglip_vision_model",
    grids: NEXT,
    joined: () => JOINED,
    window: ({ config, processor }) => {
      const [name, rate] = ["downsample_rate", config.text("downsample_rate")]
      const told = processor.text(name, rate)
      if (told !== rate) throw processor.wrong(name, `is "${told}", but the model's is "${rate}"`)
      return graniteWindow(config)
    },
  },
  [GRANITE_DOCLING]: {
    processors: ["GraniteDoclingImageProcessor"],
    tower: "granite_docling_vision",
    isLined: true,
    joined: ({ config }) => graniteDoclingScale(config),
    words({ tokens }) {
      const soft = tokens("image_token", "<image>")
      const around = "<fake_token_around_image>"
      const part = `${around}<row_{row}_col_{column}>`
      const wording = {
        only: `${around}<row_1_col_1>`,
        behindOnly: "\n",
        part,
        behindRow: "\n",
        whole: `\n${around}<global-img>`,
        behindWhole: around,
      }
      return { mark: soft, soft, wording: { ...plain, ...wording } }
    },
  },
  [MINICPM]: {
    processors: ["MiniCPMVImageProcessor"],
    tower: "siglip",
    towers: { siglip: slicing, siglip_vision_model: slicing },
    queries: ({ config }) => miniCpmQueries(config),
    joined: () => 1,
    words: ({ image }) => ({
      mark: "(<image>./</image>)",
      soft: MINICPM_SOFT,
      wording: { ...plain, ...publishedWords(image) },
    }),
  },
  minicpm_ocr: {
    ...minicpm46,
    processors: ["MiniCPMOcrImageProcessor"],
    tower: "minicpm_ocr_vision",
  },
  minicpmv4_6: minicpm46,
  minicpmv4_7: {
    ...minicpm46,
    tower: "minicpmv4_7_vision",
    words: (sources) => ({
      ...minicpm46.words(sources),
      canvas: { marks: canvasMarks(sources.config) },
    }),
  },
  llava_next: { ...llava, instead: {}, processors: ["LlavaNextImageProcessor"], grids: NEXT },
  llava_onevision: {
    ...llava,
    instead: {},
    processors: ["LlavaOnevisionImageProcessor"],
    tower: "siglip_vision_model",
    selects: "full",
    grids: ONEVISION,
    most: mostTiles,
  },
  mistral3: pixtral,
  vipllava: llava,
  idefics3: idefics,
  smolvlm: {
    ...idefics,
    processors: ["SmolVLMImageProcessor", "Idefics3ImageProcessor"],
    tower: "smolvlm_vision",
  },
  internvl: internVl,
  qianfan_ocr: {
    ...internVl,
    tower: "qianfan_ocr_vision",
    words(sources) {
      const mark = sources.processor.text("image_placeholder_token", "<image>")
      return { ...internVl.words(sources), mark }
    },
  },
  gemma3: {
    processors: ["Gemma3ImageProcessor"],
    tower: "siglip_vision_model",
    joined: ({ config, vision }) => {
      const side = Math.floor(
        oneSide(vision, "image_size", { otherwise: 224, most: MAX_EDGE }) /
          oneSide(vision, "patch_size", { otherwise: 16, most: MAX_EDGE }),
      )
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
  [PALIGEMMA]: {
    processors: ["SiglipImageProcessor"],
    tower: "siglip_vision_model",
    joined: () => 1,
    words: ({ tokens }) => ({
      mark: PALIGEMMA_SOFT,
      soft: tokens("image_token", PALIGEMMA_SOFT),
      wording: plain,
    }),
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
  llama4: {
    processors: ["Llama4ImageProcessor"],
    tower: "llama4_vision_model",
    selects: "default",
    joined: ({ vision }) =>
      whole(vision, "pixel_shuffle_ratio", 1 / vision.positive("pixel_shuffle_ratio", 0.5)),
    words: () => ({
      mark: "<|image|>",
      soft: "<|patch|>",
      wording: {
        ...plain,
        opening: "<|image_start|>",
        closing: "<|image_end|>",
        only: "<|image|>",
        whole: "<|image|>",
        betweenTiles: "<|tile_x_separator|>",
        behindRow: "<|tile_y_separator|>",
      },
    }),
  },
  mllama: {
    processors: ["MllamaImageProcessor"],
    tower: MLLAMA_TOWER,
    joined: () => 1,
    words({ tokens }) {
      const mark = tokens("image_token", "<|image|>")
      return { mark, soft: mark, wording: plain, isInFront: true }
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
  janus: {
    processors: ["JanusImageProcessor"],
    tower: "janus_vision_model",
    joined: () => 1,
    words({ processor, tokens }) {
      if (processor.flag("use_default_system_prompt", false))
        throw processor.wrong(
          "use_default_system_prompt",
          "is true; the template's words alone are known",
        )
      const soft = tokens("image_token", "<image_placeholder>")
      const opening = tokens("boi_token", "<begin_of_image>")
      const closing = tokens("eoi_token", "<end_of_image>")
      return { mark: soft, soft, wording: { ...plain, opening, closing } }
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

/** `vision_aspect_ratio`, as the configuration and the processor say it. */
function mostTiles({ config, processor }: Sources): number {
  const name = "vision_aspect_ratio"
  const said = config.text(name, ANYRES_9)
  const [, most] = /^anyres_max_([1-9]\d?)$/.exec(said) ?? []
  if (most === undefined) throw config.wrong(name, `is "${said}"; known: ${ANYRES_9} and others so`)
  const other = processor.text(name, said)
  if (other !== said) throw processor.wrong(name, `is "${other}", but the model's is "${said}"`)
  return Number(most)
}

const ANYRES_9 = "anyres_max_9"

interface Tower {
  hasClassRow: boolean
  isTurned?: true
  /** Tiles are as large as their images. */
  fits?: true
  /** The square that positions are learned for, and how these are spread over an image's. */
  nearest?(vision: Fields): number
  learned?: { places(vision: Fields): number; spread: NonNullable<ImageProcessing["spread"]> }
  /** Edges of image and patch in pixels, where nothing is said. */
  image: number
  patch: number
}

const moonVit: Tower = {
  hasClassRow: false,
  fits: true,
  learned: { places: kimiPlaces, spread: "cubic" },
  image: 896,
  patch: 14,
}

/** By their `model_type`. */
const towers: Readonly<Record<string, Tower>> = {
  clip_vision_model: { hasClassRow: true, image: 224, patch: 32 },
  siglip_vision_model: { hasClassRow: false, image: 224, patch: 16 },
  janus_vision_model: { hasClassRow: false, image: 384, patch: 16 },
  idefics3: { hasClassRow: false, image: 224, patch: 32 }, // as Idefics 3 and SmolVLM were published
  smolvlm: { hasClassRow: false, image: 224, patch: 32 },
  granite_docling_vision: { hasClassRow: false, image: 512, patch: 16 },
  minicpm_ocr_vision: { ...slicing, image: 224, patch: 16 },
  minicpmv4_6_vision: { ...slicing, image: 224, patch: 16 },
  minicpmv4_7_vision: { ...slicing, image: 224, patch: 16 },
  idefics3_vision: { hasClassRow: false, image: 224, patch: 32 },
  smolvlm_vision: { hasClassRow: false, image: 224, patch: 32 },
  siglip2_vision_model: {
    hasClassRow: false,
    fits: true,
    learned: { places: (vision) => squareSide(vision, "num_patches", 256), spread: "area" },
    image: 256,
    patch: 16,
  },
  kimi_k25_vision: moonVit,
  moonvit: moonVit,
  pixtral: { hasClassRow: false, fits: true, image: 1024, patch: 16 },
  internvl_vision: { hasClassRow: true, image: 448, patch: 14 },
  qianfan_ocr_vision: { hasClassRow: true, image: 448, patch: 14 },
  llama4_vision_model: { hasClassRow: true, isTurned: true, image: 448, patch: 14 },
  [MLLAMA_TOWER]: { hasClassRow: true, image: 448, patch: 14 },
}

export const IMAGE = "preprocessor_config.json"
const PROCESSOR = "processor_config.json"
const TOKENIZER = "tokenizer_config.json"

/** What is read beside the configuration, as far as it is there. */
export const processingFiles = [IMAGE, PROCESSOR, TOKENIZER]

/**
 * @param config of the whole model, what is around `text_config`
 * @param told the image processor's fields, where no file of its own says them
 * @param most patches of an image, where that is said for all images
 * @returns undefined where family or tower are not known, or the folder says nothing of images
 * @throws `model_broken`, which names file and field, where images are prepared in a way that is not known
 */
export async function readProcessing(
  config: Fields,
  folder: Folder,
  told?: Fields,
  most?: number,
): Promise<ImageProcessing | undefined> {
  const processor = await read(folder, PROCESSOR)
  const given = processor?.object("image_processor") ?? (await read(folder, IMAGE)) ?? told
  if (!given) return undefined
  const image = miniCpmImage(kimiImage(given))
  const tokens = namedTokens((await folder.jsonIfThere(TOKENIZER)) ?? {})
  const texts = { processor: processor ?? fieldsOf(folder, PROCESSOR, {}), tokens, most }
  return processingBy(config, image, texts)
}

/** The same, by what was read. @param image the image processor's fields */
export function processingBy(
  config: Fields,
  image: Fields,
  texts: Pick<Sources, "processor" | "tokens" | "most">,
): ImageProcessing | undefined {
  const fitting = fittingFamily(config)
  if (fitting) return fittingOf(fitting, image, texts)
  const usual = own(families, config.text("model_type"))
  const vision = config.object("vision_config")
  if (!usual || !vision) return undefined
  const name = vision.text("model_type", "") || usual.tower
  const family = own(usual.instead ?? {}, name) ?? usual
  const tower = own(family.towers ?? towers, name)
  return tower && processingOf(family, tower, { config, vision, image, ...texts })
}

/** As large as its image. */
function fittingOf(
  family: Fitting,
  image: Fields,
  { tokens, processor, most }: Pick<Sources, "processor" | "tokens" | "most">,
): ImageProcessing {
  const { patches, repeated } = family
  const { patch, joined } = patches
  const chosen: ImageProcessor = processors[processorOf(image, family)]
  refuseUnknown(image, chosen)
  for (const [name, { is, otherwise }] of Object.entries(repeated)) {
    const told = image.count(name, otherwise)
    if (told !== is) throw image.wrong(name, `is ${told}, but the tower's is ${is}`)
  }
  const { tile, cutting } = chosen.cutting(image, { patch, joined, most })
  const processing = {
    cutting,
    ...normalising(image, chosen),
    tile,
    ...patches,
    hasClassRow: false,
    skipped: 0,
    ...family.words(tokens, processor),
  }
  const rows = mostRows(processing) / joined ** 2
  if (family.lines && rows * joined > family.lines)
    throw image.wrong(
      chosen.field,
      `makes images of up to ${rows * joined} patches a side; the tower has places for ${family.lines}`,
    )
  const bound = boundOfRows({ joined, most })
  if (rows > bound)
    throw image.wrong(
      image.has("min_pixels") ? "min_pixels" : chosen.field,
      `makes an image of ${Math.ceil(rows)} rows; at most ${bound} are ${known(most)}`,
    )
  return processing
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
  const { config, vision, image } = sources
  const chosen: ImageProcessor = processors[processorOf(image, family)]
  refuseUnknown(image, chosen)
  const { hasClassRow, isTurned, learned } = tower
  const queries = family.queries?.(sources)
  const inner = family.inner?.(sources)
  const window = family.window?.(sources)
  const patch = oneSide(vision, "patch_size", { otherwise: tower.patch, most: MAX_EDGE })
  const joined = family.joined(sources)
  const grain = {
    patch,
    joined,
    most: sources.most,
    ...(family.isLoose && { isLoose: true as const }),
  }
  const { tile, cutting } = chosen.cutting(image, grain)
  const most = family.most?.(sources)
  const processing = {
    tile,
    cutting: cutting.kind === "anyres" && most ? { ...cutting, most } : cutting,
    ...normalising(image, chosen),
    patch,
    joined,
    hasClassRow,
    ...(isTurned && { isTurned }),
    skipped: skippedOf(config, family),
    ...(learned && { places: learned.places(vision), spread: learned.spread }),
    ...(tower.nearest && { nearest: tower.nearest(vision) }),
    ...(queries && { queries }),
    ...(inner && { inner }),
    ...(window && { window }),
    ...(family.isLined && { isLined: family.isLined }),
    ...family.words(sources),
  }
  if (queries) checkQueries(image, queries)
  if (tower.fits) checkPatches(processing, sources)
  else
    checkTile(
      processing,
      oneSide(vision, "image_size", { otherwise: tower.image, most: MAX_EDGE }),
      chosen,
      sources,
    )
  if (family.grids) checkGrids(processing, family.grids, sources)
  if (cutting.kind === "together") checkTogether(cutting.most, processing, sources)
  return processing
}

/** Of a tower that sees images of one size: these, in whole squares of patches. */
function checkTile(
  { tile, patch, joined, hasClassRow, skipped }: ImageProcessing,
  seen: number,
  { field }: ImageProcessor,
  { vision, image, processor }: Sources,
): void {
  if (tile.width !== seen || tile.height !== seen)
    throw image.wrong(
      field,
      `makes tiles of ${tile.width} x ${tile.height} pixels, but the tower sees ${seen} x ${seen}`,
    )
  const side = Math.floor(seen / patch)
  const left = side * side + Number(hasClassRow) - skipped
  const isWhole = joined === 1 || skipped === Number(hasClassRow)
  if (side === 0 || side % joined !== 0 || !isWhole)
    throw vision.wrong(
      "patch_size",
      `makes ${side} patches a side, which cannot be joined by ${joined}`,
    )
  for (const each of [processor, image]) checkCount(each, left / joined ** 2)
  checkRepeated(processor, { patch_size: patch, pixel_shuffle_ratio: 1 / joined })
}

/** Rows of tiles are put together in the grid that the model's own configuration chooses, and are whole squares. */
function checkGrids(
  { tile, cutting, hasClassRow, skipped }: ImageProcessing,
  otherwise: Pinpoints,
  { config, image }: Sources,
): void {
  const own = readGrids(config, tile, otherwise)
  if (cutting.kind === "anyres" && JSON.stringify(own) !== JSON.stringify(cutting.grids))
    throw image.wrong("image_grid_pinpoints", "has other sizes than the model's configuration")
  if (skipped !== Number(hasClassRow))
    throw config.wrong(
      "vision_feature_select_strategy",
      `leaves ${skipped} rows of a tile out, whose tower puts ${Number(hasClassRow)} before its patches`,
    )
}

/** Tiles that are read together are as many as the tower has places for, and hold whole patches. */
function checkTogether(most: number, { tile, patch }: ImageProcessing, { vision, image }: Sources) {
  const known = vision.count("max_num_tiles", 4)
  if (most !== known)
    throw image.wrong("max_image_tiles", `is ${most}, but the tower reads ${known} tiles`)
  if (tile.width % patch !== 0)
    throw vision.wrong("patch_size", `is ${patch}, which does not divide tiles of ${tile.width}`)
}

/** As many as the image processor puts soft tokens into the prompt. */
function checkQueries(image: Fields, queries: number): void {
  const name = "image_feature_size"
  const told = image.count(name, queries)
  if (told !== queries) throw image.wrong(name, `is ${told}, but the tower has ${queries} queries`)
}

/** Of a tower that fits images. The processor's own numbers would put another number of soft tokens into the prompt. */
function checkPatches(processing: ImageProcessing, { image, processor, most }: Sources): void {
  const { patch, joined } = processing
  const bound = most ?? MAX_PATCHES
  if (mostRows(processing) > bound)
    throw image.wrong(
      "tile_size",
      `or max_image_tokens make ${mostRows(processing)} patches; at most ${bound} are ${known(most)}`,
    )
  checkRepeated(processor, { patch_size: patch, spatial_merge_size: joined })
}

/** As a sentence has it. */
const known = (most: number | undefined) => (most === undefined ? "known" : "allowed")

/** What the processor's file says of the tower, too. */
function checkRepeated(processor: Fields, repeated: Readonly<Record<string, number>>): void {
  for (const [name, is] of Object.entries(repeated)) {
    const told = processor.positive(name, is)
    if (told !== is) throw processor.wrong(name, `is ${told}, but the tower's is ${is}`)
  }
}

/** The first row is the class row, where there is one; where there is none, it is left out all the same. */
function skippedOf(config: Fields, { selects }: Family): number {
  if (!selects) return 0
  const name = "vision_feature_select_strategy"
  const strategy = config.text(name, selects)
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

function whole(config: Fields, name: string, joined: number): number {
  if (Number.isInteger(joined) && joined > 0) return joined
  throw config.wrong(name, "does not join whole squares of patches")
}
