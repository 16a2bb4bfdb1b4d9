// A picture becomes tiles as the tower takes them, and the grid in which they lie. What comes out is what the processors of
// transformers make, sizes rounded as Python rounds them: image_processing_idefics3.py (and smolvlm), image_processing_got_ocr2.py (and granite_docling),
// image_processing_cohere2_vision.py, image_processing_deepseek_vl.py, image_processing_qwen2_vl.py, image_processing_pixtral.py,
// image_processing_gemma4.py, image_processing_muse_glimmer.py, image_processing_llava_next.py, image_processing_lfm2_vl.py, image_processing_llama4.py,
// image_processing_kimi_k25.py, image_processing_minicpmv4_6.py (and minicpm_ocr), image_processing_mllama.py, image_processing_paddleocr_vl.py, and for the others image_processing_backends.py.

import type { Cutting, ImageProcessing, Picture, Size, Tiles } from "./image.ts"
import { inSetOrder, type Pair } from "./python-set.ts"
import { resize, type Window } from "./resample.ts"

/** How many tiles lie beside and below each other; one more behind them, where they are several, or before them, holds all of the picture. */
export type Grid = Size

export interface Cut {
  grid: Grid
  tiles: Picture[]
}

/** @returns why there are none, as decode.ts says it, where the picture's proportions are beyond those that are known */
export function cut(picture: Picture, processing: ImageProcessing): Cut | { refusal: string } {
  const { cutting, tile } = processing
  if (cutting.kind === "fit") return fitted(picture, cutting, processing)
  if (cutting.kind === "within") return inside(picture, cutting, processing)
  if (cutting.kind === "fill") return filling(picture, cutting, processing)
  if (cutting.kind === "proportion") return inProportion(picture, cutting, processing)
  if (cutting.kind === "slices") return sliced(picture, cutting, processing)
  if (cutting.kind === "shrink") return shrunk(picture, cutting, processing)
  if (cutting.kind === "split") return split(picture, cutting, processing)
  if (cutting.kind === "anyres") return anyRes(picture, cutting, processing)
  if (cutting.kind === "grid") return inGrid(picture, cutting, processing)
  if (cutting.kind === "canvas") return onCanvas(picture, cutting, processing)
  if (cutting.kind === "together") return together(picture, cutting, processing)
  if (cutting.kind === "pad") return padded(picture, cutting, processing)
  const only = cutting.kind === "crop" ? crop(picture, cutting.shortest, processing) : undefined
  return { grid: ONE, tiles: [only ?? resize(picture, tile, processing.filter)] }
}

const ONE: Grid = { width: 1, height: 1 }

/** Of any picture. */
export function mostTiles({ cutting, tile }: Pick<ImageProcessing, "cutting" | "tile">): number {
  const across =
    cutting.kind === "split" && cutting.isSplit
      ? Math.ceil(Math.min(cutting.longest, MAX_LONGEST) / tile.width)
      : 1
  const { kind } = cutting
  if (kind === "fit") return cutting.tiles ? cutting.tiles.most + 1 : 1
  if (kind === "together") return 1
  if (kind === "anyres")
    return 1 + Math.max(...cutting.grids.map(({ width, height }) => width * height))
  const isCounted = kind === "canvas" || kind === "slices"
  const ofGrid = kind === "grid" && Math.max(cutting.most, cutting.dense?.most ?? 0)
  const most = ofGrid || (isCounted ? cutting.most : across * across)
  return most > 1 ? most + 1 : 1
}

/** Of the resized picture nothing but the tile is computed: of a very long one it would not fit into memory. */
function crop(picture: Picture, shortest: number, { tile, filter }: ImageProcessing): Picture {
  const { width, height } = picture
  const longest = Math.trunc((shortest * Math.max(width, height)) / Math.min(width, height))
  const to =
    width <= height ? { width: shortest, height: longest } : { width: longest, height: shortest }
  const left = Math.trunc((to.width - tile.width) / 2)
  const top = Math.trunc((to.height - tile.height) / 2)
  return resize(picture, to, filter, { left, top, ...tile })
}

/** In the middle of a square of one colour. */
function padded(picture: Picture, cutting: Of<"pad">, { tile, filter }: ImageProcessing): Cut {
  const delta = tile.width / Math.max(picture.width, picture.height)
  const side = (length: number) => Math.max(halfToEven(length * delta), cutting.least)
  const size = { width: side(picture.width), height: side(picture.height) }
  const resized = resize(picture, size, filter)
  return { grid: ONE, tiles: [placed(resized, tile, cutting.colour, "middle")] }
}

const MAX_RATIO = 200

const isTooLong = ({ width, height }: Size) =>
  Math.max(width, height) > MAX_RATIO * Math.min(width, height)

const tooLong = ({ width, height }: Size) => ({
  refusal: `has ${width} x ${height} pixels; no side may be more than ${MAX_RATIO} times the other; send a part of it`,
})

function fitted(
  picture: Picture,
  cutting: Of<"fit">,
  processing: ImageProcessing,
): Cut | { refusal: string } {
  const { tile, filter } = processing
  const size = cutting.grows ? growing[cutting.grows](picture, tile.width) : picture
  if (isTooLong(size)) return tooLong(picture)
  const fitting = () => resize(picture, fittingSize(size, cutting, tile.width), filter)
  const { tiles } = cutting
  if (!tiles || !isAbove(picture, tiles, processing)) return { grid: ONE, tiles: [fitting()] }
  const each = { width: tiles.edge, height: tiles.edge }
  const grid = byRatio(picture, each, tiles)
  const whole = { width: grid.width * tiles.edge, height: grid.height * tiles.edge }
  return { grid, tiles: [...parts(resize(picture, whole, filter), grid, each), fitting()] }
}

/** Neither side less than `least`. */
const growing = { "at once": grownAtOnce, "height first": grownByHeight } as const

function grownByHeight({ width, height }: Size, least: number): Size {
  if (height < least) return grownByWidth(halfToEven((width * least) / height), least, least)
  return grownByWidth(width, height, least)
}

function grownByWidth(width: number, height: number, least: number): Size {
  if (width >= least) return { width, height }
  return { width: least, height: halfToEven((height * least) / width) }
}

function grownAtOnce({ width, height }: Size, least: number): Size {
  if (width >= least && height >= least) return { width, height }
  const scale = Math.max(least / height, least / width)
  return { width: Math.trunc(width * scale), height: Math.trunc(height * scale) }
}

/** A side that is rounded to nothing counts as a patch (`_is_image_too_large`). */
function isAbove({ width, height }: Size, { above }: Tiles, { tile, patch }: ImageProcessing) {
  const whole = (side: number) => Math.max(patch, halfToEven(side / tile.width) * tile.width)
  return whole(width) * whole(height) > above
}

/** `smart_resize`: both sides multiples of `step`, and the area between the least and the most. */
function fittingSize(
  { width, height }: Size,
  { least, most, tiles }: Of<"fit">,
  step: number,
): Size {
  const fewest = tiles ? 1 : 0
  const whole = (side: number) => Math.max(fewest, halfToEven(side / step)) * step
  const area = whole(width) * whole(height)
  if (area > most) {
    const shrink = Math.sqrt((height * width) / most)
    const down = (side: number) => Math.max(step, Math.floor(side / shrink / step) * step)
    return { width: down(width), height: down(height) }
  }
  if (area >= least) return { width: whole(width), height: whole(height) }
  const grow = Math.sqrt(least / (height * width))
  const up = (side: number) => Math.ceil((side * grow) / step) * step
  return { width: up(width), height: up(height) }
}

function inside(picture: Picture, cutting: Of<"within">, { tile, filter }: ImageProcessing): Cut {
  return { grid: ONE, tiles: [resize(picture, sizeWithin(picture, cutting, tile.width), filter)] }
}

/**
 * As the processor of Pixtral: an image whose edges are too long becomes as large as they may be, and sides are rounded up to multiples
 * of `step`. An area above the most, which there is everywhere, is shrunk to it as `smart_resize` does it.
 */
function sizeWithin(
  { width, height }: Size,
  { most, longest, least }: Of<"within">,
  step: number,
): Size {
  const ratio = Math.max(height / longest, width / longest, 1)
  const up = (side: number) => Math.max(least, Math.ceil(Math.floor(side / ratio) / step) * step)
  const size = { width: up(width), height: up(height) }
  const area = size.width * size.height
  if (area <= most) return size
  const shrink = Math.sqrt(area / most)
  const down = (side: number) => Math.max(least, Math.floor(side / shrink / step) * step)
  const [across, tall] = [down(size.width), down(size.height)]
  // Of a very long one the short side was rounded up.
  const longer = Math.floor(most / Math.min(across, tall) / step) * step
  return { width: Math.min(across, longer), height: Math.min(tall, longer) }
}

/**
 * `get_aspect_ratio_preserving_size`: both sides multiples of a tile's, rounded down, and the area no more than the most. Of an image that
 * is very long, one side is the tile's, and the other as many times that as the image is longer than wide.
 */
function filling(picture: Picture, { most }: Of<"fill">, { tile, filter }: ImageProcessing): Cut {
  const { width, height } = picture
  const step = tile.width
  const grow = Math.sqrt(most / (width * height))
  const whole = (side: number) => Math.floor((grow * side) / step) * step
  const longest = Math.floor(most / (step * step)) * step
  const times = (long: number, short: number) => Math.min(Math.floor(long / short) * step, longest)
  const size = {
    width: whole(height) === 0 ? times(width, height) : whole(width) || step,
    height: whole(width) === 0 ? times(height, width) : whole(height) || step,
  }
  return { grid: ONE, tiles: [resize(picture, size, filter)] }
}

/** `smart_resize` there. Of an image that is so long that no whole side is left, the long one is as long as may be. */
function inProportion(
  picture: Picture,
  cutting: Of<"proportion">,
  { tile, filter }: ImageProcessing,
): Cut {
  const { width, height } = picture
  const step = tile.width
  const most = Math.floor(cutting.most / (step * step))
  let [down, across] = [height / step, width / step]
  const ratio = across / down
  if (down * across > most) {
    down = Math.sqrt(most / ratio)
    across = down * ratio
  }
  const both = (side: number) => [Math.floor(side), Math.ceil(side)]
  const grids = inSetOrder(
    both(down).flatMap((tall) => both(across).map((wide) => [tall, wide] as const)),
  ).filter(([tall, wide]) => tall >= 1 && wide >= 1 && tall * wide <= most)
  const farOf = ([tall, wide]: Pair) => Math.abs(tall / wide - height / width)
  const longest: Pair = height > width ? [most, 1] : [1, most]
  const best = grids.reduce<Pair | undefined>(
    (best, each) => (best && farOf(best) <= farOf(each) ? best : each),
    undefined,
  )
  const [tall, wide] = best ?? longest
  return {
    grid: ONE,
    tiles: [resize(picture, { width: wide * step, height: tall * step }, filter)],
  }
}

function shrunk(picture: Picture, cutting: Of<"shrink">, processing: ImageProcessing): Cut {
  const { tile, filter } = processing
  const whole = (side: number) => Math.ceil(side / tile.width) * tile.width
  let { area } = cutting
  for (;;) {
    const size = shrunkSize(picture, { ...cutting, area }, processing.patch)
    const canvas = { width: whole(size.width), height: whole(size.height) }
    const over = (canvas.width * canvas.height) / cutting.most
    if (over <= 1)
      return {
        grid: ONE,
        tiles: [placed(resize(picture, size, filter), canvas, BLACK, "top left")],
      }
    area /= over
  }
}

/** `navit_resize`, which counts whole patches of the image. */
function shrunkSize({ width, height }: Size, { area, longest }: Of<"shrink">, patch: number): Size {
  const patches = (side: number) => Math.max(1, Math.floor(side / patch))
  const most = area / patch ** 2
  const ofArea = Math.sqrt(most / (patches(height) * patches(width)))
  const scale = Math.min(1, ofArea, longest / height, longest / width)
  const side = (own: number) => Math.min(Math.max(1, Math.trunc(own * scale)), longest)
  return { width: side(width), height: side(height) }
}

/** `_preprocess` there, and before it `slice_image` of MiniCPM-V's own processor. */
function sliced(
  picture: Picture,
  { edge, most, keeps }: Of<"slices">,
  { tile, filter }: ImageProcessing,
): Cut | { refusal: string } {
  if (isTooLong(picture)) return tooLong(picture)
  const isKept = keeps && picture.width * picture.height <= edge ** 2
  const size = isKept ? wholeSteps(picture, tile.width) : sliceSize(picture, edge, tile.width)
  const whole = resize(picture, size, filter)
  const grid = sliceGrid(picture, edge, most)
  if (!grid) return { grid: ONE, tiles: [whole] }
  // Sides are first rounded to what the grid divides.
  const share = (side: number, of: number) => Math.max(halfToEven(side / of), 1)
  const own = {
    width: share(picture.width, grid.width),
    height: share(picture.height, grid.height),
  }
  const each = sliceSize(own, edge, tile.width)
  const all = { width: each.width * grid.width, height: each.height * grid.height }
  return { grid, tiles: [whole, ...parts(resize(picture, all, filter), grid, each)] }
}

/** `find_best_resize`: of the proportions, with about the square's pixels, each side a multiple of `step`. */
function sliceSize({ width, height }: Size, edge: number, step: number): Size {
  const ratio = width / height
  const tall = Math.trunc(edge / Math.sqrt(ratio))
  return wholeSteps({ width: Math.trunc(tall * ratio), height: tall }, step)
}

function wholeSteps({ width, height }: Size, step: number): Size {
  const whole = (side: number) => Math.max(halfToEven(side / step), 1) * step
  return { width: whole(width), height: whole(height) }
}

/** `get_sliced_grid`. @returns nothing where the picture has no more pixels than the square */
function sliceGrid({ width, height }: Size, edge: number, most: number): Grid | undefined {
  const wanted = Math.min(Math.ceil((width * height) / edge ** 2), most)
  if (wanted <= 1) return undefined
  const counts = [wanted - 1, wanted, wanted + 1].filter((count) => count > 1 && count <= most)
  const ratio = Math.log(width / height)
  let best = { grid: ONE, error: Number.POSITIVE_INFINITY }
  for (const count of counts)
    for (let across = 1; across <= count; across++) {
      if (count % across !== 0) continue
      const grid = { width: across, height: count / across }
      const error = Math.abs(ratio - Math.log(grid.width / grid.height))
      if (error < best.error) best = { grid, error }
    }
  return best.grid
}

/** Python's round. */
function halfToEven(value: number): number {
  const down = Math.floor(value)
  const rest = value - down
  return rest > 0.5 || (rest === 0.5 && down % 2 === 1) ? down + 1 : down
}

/** Pixels of the largest tile that fits. */
export function mostPixels(
  cutting: Of<"fit" | "within" | "fill" | "proportion" | "slices" | "shrink">,
  step: number,
): number {
  const { kind, most } = cutting
  if (kind === "slices") return mostSliced(cutting, step)
  if (kind === "fit") return mostFitting(cutting, step)
  if (kind === "shrink") return Math.min(most, mostShrunk(cutting, step))
  if (kind === "fill" || kind === "proportion") return most
  const longest = Math.max(cutting.least, Math.ceil(cutting.longest / step) * step)
  return Math.min(most, longest ** 2)
}

/** Long ones grow beyond the most by what their short side is rounded up. */
function mostFitting({ least, most }: Of<"fit">, step: number): number {
  const longest = longestFitting({ least, most }, step)
  const shortest = Math.sqrt(Math.max(least, most) / MAX_RATIO)
  return Math.max(most, least + step * (longest + shortest), step * longest)
}

/** In pixels. */
export const longestFitting = (
  { least, most }: Pick<Of<"fit">, "least" | "most">,
  step: number,
): number => Math.sqrt(MAX_RATIO * Math.max(least, most)) + step

/** Each side is rounded up by half a step at the most, or to one. */
function mostSliced({ edge }: Of<"slices">, step: number): number {
  const longest = longestSlice(edge, step)
  const shortest = edge / Math.sqrt(MAX_RATIO)
  return Math.max(edge * edge + (step / 2) * (longest + shortest + step / 2), longest * step)
}

/** Of a slice, in pixels. */
export const longestSlice = (edge: number, step: number) =>
  Math.ceil(edge * Math.sqrt(MAX_RATIO) + step / 2)

/** A side may have almost a patch more than is counted, and is rounded up. */
function mostShrunk({ area, longest }: Of<"shrink">, step: number): number {
  return area + 2 * step * (longest + area / longest + 2 * step)
}

type Of<Kind extends Cutting["kind"]> = Extract<Cutting, { kind: Kind }>

/** Resized twice before it is cut, first with its proportions, then to whole tiles. */
function split(picture: Picture, cutting: Of<"split">, processing: ImageProcessing): Cut {
  const { tile, filter } = processing
  const first = resize(picture, withLongest(picture, cutting.longest), filter)
  if (!cutting.isSplit) return { grid: ONE, tiles: [resize(first, tile, filter)] }
  const whole = resize(first, wholeTiles(first, tile.width), filter)
  return withWhole(whole, gridOf(whole, tile), processing, whole)
}

const MAX_LONGEST = 4096 // of Idefics 3, whatever its configuration says

function withLongest({ width, height }: Size, longest: number): Size {
  const ratio = width / height
  const even = (side: number) => side + (side % 2)
  const to =
    width >= height
      ? { width: longest, height: even(Math.trunc(longest / ratio)) }
      : { width: even(Math.trunc(longest * ratio)), height: longest }
  return belowLongest({ width: Math.max(to.width, 1), height: Math.max(to.height, 1) })
}

function belowLongest({ width, height }: Size): Size {
  const ratio = width / height
  if (width >= height && width > MAX_LONGEST)
    return { width: MAX_LONGEST, height: Math.max(Math.trunc(MAX_LONGEST / ratio), 1) }
  if (height > width && height > MAX_LONGEST)
    return { width: Math.max(Math.trunc(MAX_LONGEST * ratio), 1), height: MAX_LONGEST }
  return { width, height }
}

function wholeTiles({ width, height }: Size, edge: number): Size {
  const ratio = width / height
  const up = (side: number) => Math.ceil(side / edge) * edge
  if (width >= height) return { width: up(width), height: up(Math.trunc(up(width) / ratio)) }
  return { width: up(Math.trunc(up(height) * ratio)), height: up(height) }
}

function gridOf(size: Size, tile: Size): Grid {
  return { width: size.width / tile.width, height: size.height / tile.height }
}

function inGrid(picture: Picture, cutting: Of<"grid">, processing: ImageProcessing): Cut {
  const { tile, filter } = processing
  const grid = choices[cutting.choice](picture, tile, {
    ...cutting,
    most: mostIn(picture, cutting, tile),
  })
  const size = { width: grid.width * tile.width, height: grid.height * tile.height }
  return withWhole(resize(picture, size, filter), grid, processing, picture)
}

/** Tiles that an image may have (`get_tile_budget`). */
function mostIn({ width, height }: Size, cutting: Of<"grid">, tile: Size): number {
  const { dense, most } = cutting
  if (!dense) return most
  const { above = 0, upTo = Number.POSITIVE_INFINITY, scale } = dense
  const ratio = width / height
  if (ratio <= above || ratio > upTo) return most
  if (scale === undefined) return dense.most
  const { width: across } = byRatio({ width, height }, tile, cutting)
  return (across * tile.width) / width < scale ? dense.most : most
}

function anyRes(picture: Picture, { grids }: Of<"anyres">, processing: ImageProcessing): Cut {
  const { tile, filter } = processing
  const grid = bestGrid(picture, tile, grids)
  const whole = { width: grid.width * tile.width, height: grid.height * tile.height }
  const inner = placed(resize(picture, sizeInside(picture, whole), filter), whole, BLACK, "middle")
  return { grid, tiles: [resize(picture, tile, filter), ...parts(inner, grid, tile)] }
}

/** In which most of the picture's pixels are left; of equal ones the smallest (`select_best_resolution`). */
function bestGrid({ width, height }: Size, tile: Size, grids: readonly Grid[]): Grid {
  let best = { grid: grids[0]!, kept: 0, wasted: Number.POSITIVE_INFINITY }
  for (const grid of grids) {
    const size = { width: grid.width * tile.width, height: grid.height * tile.height }
    const scale = Math.min(size.width / width, size.height / height)
    const shrunk = Math.trunc(width * scale) * Math.trunc(height * scale)
    const kept = Math.min(shrunk, width * height)
    const wasted = size.width * size.height - kept
    if (kept > best.kept || (kept === best.kept && wasted < best.wasted))
      best = { grid, kept, wasted }
  }
  return best.grid
}

/** The largest that is not larger (`get_patch_output_size`). */
function sizeInside({ width, height }: Size, { width: across, height: tall }: Size): Size {
  const [wide, high] = [across / width, tall / height]
  return wide < high
    ? { width: across, height: Math.min(Math.ceil(height * wide), tall) }
    : { width: Math.min(Math.ceil(width * high), across), height: tall }
}

const BLACK = [0, 0, 0] as const

/** In that size, with one colour around it. */
function placed(
  { width, height, data: from }: Picture,
  size: Size,
  colour: readonly [number, number, number],
  where: "middle" | "top left",
): Picture {
  const data = new Uint8Array(size.width * size.height * 3)
  for (let at = 0; at < data.length; at++) data[at] = colour[at % 3]!
  const before = (rest: number) => (where === "middle" ? Math.floor(rest / 2) : 0)
  const left = before(size.width - width)
  const top = before(size.height - height)
  for (let y = 0; y < height; y++)
    data.set(from.subarray(y * width * 3, (y + 1) * width * 3), ((top + y) * size.width + left) * 3)
  return { ...size, data }
}

function parts(picture: Picture, grid: Grid, tile: Size): Picture[] {
  const tiles: Picture[] = []
  for (let row = 0; row < grid.height; row++)
    for (let column = 0; column < grid.width; column++)
      tiles.push(part(picture, { left: column * tile.width, top: row * tile.height, ...tile }))
  return tiles
}

function onCanvas(picture: Picture, cutting: Of<"canvas">, processing: ImageProcessing): Cut {
  const { tile, filter } = processing
  const grid = canvasOf(picture, tile, cutting)
  const whole = { width: grid.width * tile.width, height: grid.height * tile.height }
  const size = sizeOnCanvas(picture, whole, cutting.grows ? undefined : tile)
  const canvas = placed(resize(picture, size, filter), whole, BLACK, "top left")
  return withWhole(canvas, grid, processing, picture)
}

function together(
  picture: Picture,
  { most, edge }: Of<"together">,
  { filter }: ImageProcessing,
): Cut {
  const grid = byScale(picture, { width: edge, height: edge }, { most })
  const whole = { width: grid.width * edge, height: grid.height * edge }
  const resized = resize(picture, sizeInGrid(picture, whole, edge), filter)
  return { grid, tiles: [placed(resized, whole, BLACK, "top left")] }
}

/** `get_image_size_fit_to_canvas`: its proportions, in sides that are no less than a tile's where the image's are. */
function sizeInGrid({ width, height }: Size, whole: Size, edge: number): Size {
  const across = Math.min(Math.max(width, edge), whole.width)
  const tall = Math.min(Math.max(height, edge), whole.height)
  const [wide, high] = [across / width, tall / height]
  return wide < high
    ? { width: across, height: Math.min(Math.floor(height * wide) || 1, tall) }
    : { width: Math.min(Math.floor(width * high) || 1, across), height: tall }
}

/**
 * In which the picture grows least, or most where it `grows`; where it must shrink, shrinks least. Of those the smallest. Scales are
 * compared as floats of 32 bits (`get_best_fit`).
 */
function canvasOf({ width, height }: Size, tile: Size, { most, grows }: Of<"canvas">): Grid {
  const scaled = grids(1, most).map((grid) => {
    const across = Math.fround((grid.width * tile.width) / width)
    return { grid, scale: Math.min(across, Math.fround((grid.height * tile.height) / height)) }
  })
  const growing = scaled.filter(({ scale }) => scale >= 1)
  return growing.length > 0 ? least(growing, grows ? -1 : 1).grid : least(scaled, -1).grid
}

/**
 * The largest that is not larger than the canvas, nor, where `least` is given, than the picture or that (`get_max_res_without_distortion`).
 * A side that the canvas bounds is a tensor there, so that what comes of it is a float of 32 bits.
 */
function sizeOnCanvas({ width, height }: Size, canvas: Size, least: Size | undefined): Size {
  const bound = (own: number, whole: number, fewest: number | undefined) => {
    const free = fewest === undefined ? whole : Math.max(own, fewest)
    const isTensor = fewest === undefined || whole < free
    const round = isTensor ? Math.fround : (value: number) => value
    const most = Math.min(free, whole)
    return { most, isTensor, round, scale: round(most / own) }
  }
  const across = bound(width, canvas.width, least?.width)
  const down = bound(height, canvas.height, least?.height)
  const even = across.isTensor || down.isTensor ? Math.fround : (value: number) => value
  const side = (own: number, { round, scale }: typeof across, { most }: typeof across) =>
    Math.max(1, Math.min(Math.floor(round(own * scale)), most))
  return even(across.scale) < even(down.scale)
    ? { width: across.most, height: side(height, across, down) }
    : { width: side(width, down, across), height: down.most }
}

/** @param all what the last tile is made of */
function withWhole(
  picture: Picture,
  grid: Grid,
  { tile, filter }: ImageProcessing,
  all: Picture,
): Cut {
  const tiles = parts(picture, grid, tile)
  if (tiles.length > 1) tiles.push(resize(all, tile, filter))
  return { grid, tiles }
}

function part(
  { width: whole, data: from }: Picture,
  { left, top, width, height }: Window,
): Picture {
  const data = new Uint8Array(width * height * 3)
  for (let y = 0; y < height; y++) {
    const at = ((top + y) * whole + left) * 3
    data.set(from.subarray(at, at + width * 3), y * width * 3)
  }
  return { width, height, data }
}

/** All grids of so many tiles, those of few first. */
function grids(least: number, most: number): Grid[] {
  const all: Grid[] = []
  for (let width = 1; width <= most; width++)
    for (let height = 1; width * height <= most; height++)
      if (width * height >= least) all.push({ width, height })
  return all.sort((one, other) => one.width * one.height - other.width * other.height)
}

const choices = { ratio: byRatio, scale: byScale } satisfies Record<Of<"grid">["choice"], unknown>

/** Whose proportions are nearest; of equal ones the largest whose area is less than twice the picture's. */
function byRatio(
  { width, height }: Size,
  tile: Size,
  { least, most, side = most }: Pick<Of<"grid">, "least" | "most" | "side">,
): Grid {
  let best = ONE
  let nearest = Number.POSITIVE_INFINITY
  for (const grid of grids(least, most)) {
    if (Math.max(grid.width, grid.height) > side) continue
    const distance = Math.abs(width / height - grid.width / grid.height)
    const isLarge = width * height > 0.5 * tile.width * tile.height * grid.width * grid.height
    if (distance < nearest || (distance === nearest && isLarge)) best = grid
    nearest = Math.min(nearest, distance)
  }
  return best
}

/** In which the picture grows least; where it must shrink, shrinks least. */
function byScale({ width, height }: Size, tile: Size, { most }: Pick<Of<"grid">, "most">): Grid {
  const scaled = grids(1, most).map((grid) => {
    const scale = Math.min((grid.width * tile.height) / width, (grid.height * tile.height) / height)
    return { grid, scale }
  })
  const growing = scaled.filter(({ scale }) => scale >= 1)
  const best = growing.length > 0 ? least(growing, 1) : least(scaled, -1)
  return best.grid
}

function least<Scaled extends { scale: number }>(of: readonly Scaled[], sign: 1 | -1): Scaled {
  return of.reduce((best, each) => (sign * each.scale < sign * best.scale ? each : best))
}
