// How an image processor's fields say that images become tiles: which it stretches, crops or splits, and how large they are.
//
// Sources: image_processing_*.py of transformers.

import { longestSlice } from "../../images/cut.ts"
import type { Cutting, Dense, Size, Tiles } from "../../images/image.ts"
import type { Fields } from "../fields.ts"
import type { Json } from "../folder.ts"
import { CLIP, type Colours, triple } from "./colours.ts"
import { GEMMA4_ROWS } from "./gemma4.ts"
import { MAX_ROWS } from "./qwen.ts"
import { oneSide } from "./sides.ts"
import { MAX_LINES, MAX_PATCHES } from "./tower.ts"

/** Of tiles that fit images, whose sides are whole numbers of it. */
export interface Grain {
  /** A patch's edge in pixels, and so many of them to each side become one row. */
  patch: number
  joined: number
  /** These sides are multiples of what the image processor's own file says, and what is over at the edges does not come out. */
  isLoose?: true
  /** Patches of an image at the most, where that is said for all images; absent: MAX_PATCHES, or as many as become MAX_ROWS rows. */
  most?: number | undefined
}

/** Rows of the prompt that an image becomes at the most. */
export const boundOfRows = ({ joined, most }: Pick<Grain, "joined" | "most">) =>
  most === undefined ? MAX_ROWS : Math.floor(most / joined ** 2)

export interface Cuts {
  tile: Size
  cutting: Cutting
}

/** A size as an object says it: height and width, or undefined where it says something else. */
function bothSides(size: Fields): Size | undefined {
  if (!size.has("height") && !size.has("width")) return undefined
  return { width: pixels(size, "width"), height: pixels(size, "height") }
}

/** `size`, or `crop_size` and others that are squares, which may be one number. */
function sizeOf(image: Fields, name: string, otherwise: Json): Fields {
  const value = image.json[name]
  if (typeof value !== "number") return image.with({ [name]: otherwise }).object(name)!
  const of = name === "size" ? { shortest_edge: value } : { height: value, width: value }
  return image.over({ [name]: of }).object(name)!
}

export function cropped(image: Fields): Cuts {
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

export function stretched(image: Fields, otherwise = 224): Cuts {
  const tile = bothSides(sizeOf(image, "size", { height: otherwise, width: otherwise }))
  if (!tile) throw image.wrong("size", "has no height and width")
  return { tile, cutting: { kind: "stretch" } }
}

/** The longer edge as long as a tile's; around the image a colour, which is the mean where nothing else is said. */
export function padded(image: Fields): Cuts {
  const { tile } = stretched(image, 384)
  if (tile.width !== tile.height) throw image.wrong("size", "has another height than width")
  if (!image.flag("do_pad", true))
    throw image.wrong("do_pad", "is false, so that tiles are not all of one size")
  const least = image.count("min_size", 14, 1, tile.width)
  const colour = triple(image, "image_mean", CLIP.mean).map((mean) => Math.trunc(mean * 255))
  return { tile, cutting: { kind: "pad", least, colour: colour as Colours } }
}

/** In grids of so many square tiles, which are read together. */
export function together(image: Fields): Cuts {
  const { tile } = stretched(image)
  if (tile.width !== tile.height) throw image.wrong("size", "has another height than width")
  for (const name of ["do_pad", "do_resize"])
    if (!image.flag(name, true)) throw image.wrong(name, "is false, which is not known")
  const most = image.count("max_image_tiles", 4, 1, MAX_TOGETHER)
  return { tile, cutting: { kind: "together", most, edge: tile.width } }
}

/** Tiles that are read together. */
export const MAX_TOGETHER = 16

export function splitUp(image: Fields): Cuts {
  const longest = pixels(sizeOf(image, "size", { longest_edge: 4 * 364 }), "longest_edge")
  const edge = pixels(sizeOf(image, "max_image_size", { longest_edge: 364 }), "longest_edge")
  const isSplit = image.flag("do_image_splitting", true)
  return { tile: { width: edge, height: edge }, cutting: { kind: "split", longest, isSplit } }
}

/** Areas in pixels are called edges, or by their older names, which hold. No image becomes more rows than MAX_ROWS, unless more are allowed. */
export function fitted(image: Fields, grain: Grain): Cuts {
  return fittedTo(image, grain, { least: 56 * 56, most: 28 * 28 * MAX_ROWS })
}

/** As PaddleOCR-VL. */
export function fittedGrown(image: Fields, grain: Grain): Cuts {
  const { tile, cutting } = fittedTo(image, grain, { least: 384 ** 2, most: 1536 ** 2 })
  return { tile, cutting: { ...cutting, grows: "height first" } }
}

/** As HunyuanOCR. */
export function fittedLarge(image: Fields, grain: Grain): Cuts {
  return fittedTo(image, grain, { least: 512 ** 2, most: 2048 ** 2 })
}

/** @param area where none is said */
function fittedTo(
  image: Fields,
  grain: Grain,
  area: Record<"least" | "most", number>,
): Cuts & { cutting: { kind: "fit" } } {
  const step = grain.patch * grain.joined
  const size = image.object("size")
  const areaOf = (name: string, edge: string, otherwise: number) => {
    const where = image.has(name) || !size ? image : size
    return where.count(where.has(name) ? name : edge, otherwise)
  }
  const least = areaOf("min_pixels", "shortest_edge", area.least)
  const most = areaOf("max_pixels", "longest_edge", area.most)
  if (least > most) throw image.wrong("min_pixels", `is ${least}, more than max_pixels, ${most}`)
  const tile = { width: step, height: step }
  const bound = boundOfRows(grain) * step * step
  return { tile, cutting: { kind: "fit", least, most: Math.min(most, bound) } }
}

/** GLM's: areas of both frames of a patch. */
export function fittedFrames(image: Fields, grain: Grain): Cuts {
  const step = grain.patch * grain.joined
  const size = image
    .with({ size: { shortest_edge: 112 * 112, longest_edge: 28 * 28 * 15000 } })
    .object("size")!
  const [least, most] = [size.count("shortest_edge") / 2, size.count("longest_edge") / 2]
  if (least > most)
    throw size.wrong("shortest_edge", `is ${2 * least}, more than longest_edge, ${2 * most}`)
  const tile = { width: step, height: step }
  const bound = boundOfRows(grain) * step * step
  return { tile, cutting: { kind: "fit", least, most: Math.min(most, bound), grows: "at once" } }
}

/** As Pixtral: no edge is longer than the longest. No image becomes more patches than MAX_PATCHES, unless more are allowed. */
export function within(image: Fields, grain: Grain): Cuts {
  const { patch, joined, isLoose, most: patches = MAX_PATCHES } = grain
  const least = patch * joined
  const step = isLoose ? ownStep(image, least) : least
  const size = sizeOf(image, "size", { longest_edge: 1024 })
  const square = size.has("longest_edge") ? undefined : bothSides(size)
  if (square && square.width !== square.height)
    throw image.wrong("size", "has another height than width; only one longest edge is known")
  const longest = square?.width ?? size.count("longest_edge", undefined, 1, MAX_LONGEST)
  const tile = { width: step, height: step }
  const most = patches * patch * patch
  return { tile, cutting: { kind: "within", longest, least, most } }
}

/** A `patch_size` of height and width, or one number. */
function ownStep(image: Fields, most: number): number {
  const name = "patch_size"
  const { height, width } = bothSides(sizeOf(image, name, square(16))) ?? {}
  if (height !== undefined && height === width && height <= most) return height
  throw image.wrong(name, `is no square of 1 to ${most} pixels, which become one token`)
}

/** As Kimi, which counts patches, also of a side. No image becomes more of them than MAX_PATCHES, unless more are allowed. */
export function shrunk(image: Fields, { patch, joined, most: bound = MAX_PATCHES }: Grain): Cuts {
  const step = patch * joined
  const size = image.with({ size: { max_height: 512, max_width: 512 } }).object("size")!
  checkGrain(image, { patch_size: [patch, 14], merge_size: [joined, 2] })
  const side = size.count("max_height", undefined, 1, MAX_LONGEST)
  if (size.count("max_width") !== side)
    throw size.wrong("max_width", `is ${size.count("max_width")}, but max_height is ${side}`)
  const patches = Math.min(image.count("max_patches", 16384), bound)
  const tile = { width: step, height: step }
  const most = bound * patch ** 2
  const area = patches * patch ** 2
  return { tile, cutting: { kind: "shrink", area, longest: side * patch, most } }
}

/** As Kimi VL, which counts all patches, and whose tower refuses more than 511 a side. No image becomes more than MAX_PATCHES, unless more are allowed. */
export function shrunkTogether(image: Fields, { patch, joined, most = MAX_PATCHES }: Grain): Cuts {
  const step = patch * joined
  checkGrain(image, { patch_size: [patch, 14] })
  if (oneSide(image, "merge_kernel_size", { otherwise: 2, most: MAX_TILES }) !== joined)
    throw image.wrong("merge_kernel_size", `is not ${joined}, which is the tower's`)
  if (!image.flag("pad_input", false))
    throw image.wrong(
      "pad_input",
      "is false, or not there; cutting off what lacks of whole tokens is not known",
    )
  const area = Math.min(image.count("in_token_limit", 4096), most) * patch ** 2
  const longest = Math.floor(511 / joined) * step
  const tile = { width: step, height: step }
  return { tile, cutting: { kind: "shrink", area, longest, most: most * patch ** 2 } }
}

/** As Gemma 4: as large as a number of rows allows. */
export function filling(image: Fields, { patch, joined }: Grain): Cuts {
  const step = patch * joined
  const name = "max_soft_tokens"
  const rows = image.count(name, 280)
  if (!GEMMA4_ROWS.includes(rows))
    throw image.wrong(name, `is ${rows}; known: ${GEMMA4_ROWS.join(", ")}`)
  const tile = { width: step, height: step }
  return { tile, cutting: { kind: "fill", most: rows * step * step } }
}

/** As Muse Glimmer. No image becomes more rows than MAX_ROWS, unless more are allowed. */
export function inProportion(image: Fields, grain: Grain): Cuts {
  const step = grain.patch * grain.joined
  const most = Math.min(image.count("max_image_tokens", 4096), boundOfRows(grain))
  const tile = { width: step, height: step }
  return { tile, cutting: { kind: "proportion", most: most * step * step } }
}

/**
 * As LLaVA 1.6. @param tile its edge where none is said
 * @param crop whether it is cut out, where nothing is said
 */
export function anyRes(
  image: Fields,
  { tile: usual, crop, pinpoints }: { tile: number; crop: boolean; pinpoints: Pinpoints },
): Cuts {
  const size = sizeOf(image, "size", { shortest_edge: usual })
  const tile = bothSides(size) ?? square(pixels(size, "shortest_edge"))
  const isCropped = image.flag("do_center_crop", crop)
  const cropped = isCropped || image.has("crop_size")
  const cut = cropped ? bothSides(sizeOf(image, "crop_size", square(usual))) : tile
  if (cut?.width !== tile.width || cut.height !== tile.height)
    throw image.wrong("crop_size", "is another than size, of which tiles are")
  return { tile, cutting: { kind: "anyres", grids: readGrids(image, tile, pinpoints) } }
}

/** Heights and widths in pixels. */
export type Pinpoints = readonly (readonly [number, number])[]

const MAX_GRIDS = 256

/** As many tiles to each side as make the sizes that are listed. */
export function readGrids(fields: Fields, tile: Size, otherwise: Pinpoints): Size[] {
  const name = "image_grid_pinpoints"
  const given: unknown = fields.json[name] ?? otherwise
  if (!Array.isArray(given) || given.length === 0 || given.length > MAX_GRIDS)
    throw fields.wrong(name, `is no list of 1 to ${MAX_GRIDS} sizes`)
  return given.map((size: unknown) => {
    const sides: readonly unknown[] = Array.isArray(size) ? size : []
    const [height, width] = [Number(sides[0]) / tile.height, Number(sides[1]) / tile.width]
    const isWhole = Number.isInteger(height) && Number.isInteger(width) && width > 0 && height > 0
    if (sides.length === 2 && isWhole && width * height <= MAX_TILES) return { width, height }
    throw fields.wrong(
      name,
      `holds ${JSON.stringify(size)}, which is no height and width of 1 to ${MAX_TILES} whole tiles`,
    )
  })
}

const square = (side: number) => ({ height: side, width: side })

/** As LFM2-VL, in whose prompts an image has so many tokens. */
export function tiled(image: Fields, { patch, joined }: Grain): Cuts {
  const step = patch * joined
  checkGrain(image, { encoder_patch_size: [patch, 16], downsample_factor: [joined, 2] })
  if (!image.flag("use_thumbnail", true))
    throw image.wrong("use_thumbnail", "is false, which is not known")
  const most = image.count("max_image_tokens", 256, 1, MAX_ROWS)
  const least = image.count("min_image_tokens", 64, 1, most)
  const tiles = tilesOf(image, step, most)
  const tile = { width: step, height: step }
  const area = { least: least * step * step, most: most * step * step }
  return { tile, cutting: { kind: "fit", ...area, ...(tiles && { tiles }) } }
}

/** @param fields that repeat what is of the tower: what that is, and what holds where they are not there */
function checkGrain(image: Fields, fields: Readonly<Record<string, readonly [number, number]>>) {
  for (const [name, [is, usual]] of Object.entries(fields)) {
    const told = image.count(name, usual)
    if (told !== is) throw image.wrong(name, `is ${told}, but the tower's is ${is}`)
  }
}

function tilesOf(image: Fields, step: number, most: number): Tiles | undefined {
  const count = image.count("max_tiles", 10, 1, MAX_TILES)
  const fewest = image.count("min_tiles", 2, 1, count)
  if (!image.flag("do_image_splitting", true) || count === 1) return undefined
  if (fewest === 1)
    throw image.wrong("min_tiles", "is 1; known: none but one that fits its image, or 2 and more")
  const edge = image.count("tile_size", 512, step, MAX_EDGE)
  if (edge % step !== 0) throw image.wrong("tile_size", `is ${edge}, no multiple of ${step} pixels`)
  const above = most * step * step * image.positive("max_pixels_tolerance", 2)
  return { above, least: fewest, most: count, edge }
}

const MAX_LONGEST = 65_535 // of any image

/** As MiniCPM-OCR, which may leave small images as large as they are. */
export function slicedOrKept(image: Fields, grain: Grain): Cuts {
  const name = "small_image_upsize"
  const grows = image.text(name, "always")
  if (grows !== "always" && grows !== "never")
    throw image.wrong(name, `is "${grows}"; known: always, never`)
  const { tile, cutting } = sliced(image, grain)
  return { tile, cutting: { ...cutting, ...(grows === "never" && { keeps: true }) } }
}

/** As MiniCPM-V. */
export function sliced(
  image: Fields,
  { patch, joined }: Grain,
): Cuts & { cutting: { kind: "slices" } } {
  const step = patch * joined
  checkGrain(image, { patch_size: [patch, 14] })
  const edge = image.count("scale_resolution", 448, step, MAX_EDGE)
  const most = image.count("max_slice_nums", 9, 1, MAX_TILES)
  const lines = longestSlice(edge, step) / patch
  if (lines > MAX_LINES)
    throw image.wrong(
      "scale_resolution",
      `is ${edge}, which makes slices of up to ${Math.ceil(lines)} patches a side; at most ${MAX_LINES} are known`,
    )
  const tile = { width: step, height: step }
  return { tile, cutting: { kind: "slices", edge, most } }
}

const MAX_TILES = 64

export function inGrid(image: Fields, choice: "ratio" | "scale", otherwise: number): Cuts {
  const { tile } = stretched(image, otherwise)
  const least = image.count("min_patches", 1)
  const most = image.count("max_patches", 12, least, MAX_TILES)
  return { tile, cutting: { kind: "grid", choice, least, most } }
}

/** As Granite Docling. Each side of a grid has as many tiles as there are tokens for. */
export function inPages(image: Fields): Cuts {
  const { tile } = stretched(image, 512)
  if (image.flag("fine_route", false))
    throw image.wrong("fine_route", "is true; only images with fewer tokens are known")
  if (!image.flag("crop_to_patches", true)) return { tile, cutting: { kind: "stretch" } }
  const least = image.count("min_patches", 1)
  const most = image.count("max_patches", 32, least, MAX_TILES)
  const dense = most > 1 ? denseIn(image) : undefined
  return {
    tile,
    cutting: { kind: "grid", choice: "ratio", least, most, side: 16, ...(dense && { dense }) },
  }
}

function denseIn(image: Fields): Dense | undefined {
  const most = image.count("dense_max_patches", 0, 0, MAX_TILES)
  const above0 = (name: string) => (image.json[name] === 0 ? undefined : image.positive(name, 0))
  const [scale, above, upTo] = ["dense_max_scale", "dense_min_aspect", "dense_max_aspect"].map(
    (name) => (image.has(name) ? above0(name) : undefined),
  )
  if (most === 0 || (scale === undefined && above === undefined)) return undefined
  return { most, ...(scale && { scale }), ...(above && { above }), ...(upTo && { upTo }) }
}

/** As Llama 4. */
export function onCanvas(image: Fields): Cuts {
  const { tile } = stretched(image, 336)
  if (tile.width !== tile.height) throw image.wrong("size", "has another height than width")
  const most = image.count("max_patches", 16, 1, MAX_TILES)
  return {
    tile,
    cutting: { kind: "canvas", most, grows: image.flag("resize_to_max_canvas", false) },
  }
}

/** Of an edge: no tower sees more, and what comes of an image must fit into memory. */
export const MAX_EDGE = 4096

function pixels(size: Fields, name: string, otherwise?: number): number {
  return size.count(name, otherwise, 1, MAX_EDGE)
}
