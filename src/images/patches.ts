// A tile as rows of a tower: one for each patch, its pixels as a convolution's weight lies [3, patch, patch]. Patches that become
// one row lie one behind the other, row by row of their square: so are the columns of what is joined in the pixel shuffles of
// Idefics 3, InternVL, Aya Vision and Command A Vision and in the mergers of Qwen, and in the mean that Gemma 3 takes the order does
// not matter. Patches that are over at the edges, where a side is no multiple of what becomes one row, are seen and do not come out:
// they lie behind all others. Where a tower has windows, a window's patches lie one behind the other, and what comes out is line by line all the same.
//
// A patch's place is its number in the tile, row by row; or of a square of them, over which the tile is stretched, the one that its
// corner lies in, which MiniCPM-V finds by fractions, too. Idefics 3 finds it by fractions of the tile's edge, which is the same
// but where a float is rounded the wrong way: not in the grids of 26, 27, 32 and 64 patches a side that are published.

import { mostPacked } from "./arrangement.ts"
import { longestFitting, mostPixels, mostTiles } from "./cut.ts"
import { fits, type ImageProcessing, type Picture, type Size, type Tile } from "./image.ts"
import {
  cameOut,
  patchAt,
  type TogetherShape,
  togetherRows,
  togetherTile,
  toldColumns,
} from "./together.ts"

export type Layout = Pick<
  ImageProcessing,
  | "cutting"
  | "tile"
  | "patch"
  | "joined"
  | "hasClassRow"
  | "isTurned"
  | "isLined"
  | "skipped"
  | "window"
  | "isNear"
  | "places"
  | "nearest"
  | "inner"
  | "queries"
  | "spread"
  | "isNamed"
  | "rescale"
  | "steps"
  | "mean"
  | "std"
>

/** As a tile of this size is laid out. */
export const layoutOf = (processing: ImageProcessing, tile: Size): Layout => ({
  ...processing,
  tile: { width: tile.width, height: tile.height },
})

/** Where tiles are read together, what they are. */
function togetherIn({ cutting, patch }: Pick<Layout, "cutting" | "patch">) {
  if (cutting.kind !== "together") return undefined
  return { side: Math.floor(cutting.edge / patch), most: cutting.most } satisfies TogetherShape
}

/** How many of them lie in a tile of this size. */
function tilesIn({ cutting, tile }: Layout): Size {
  const { edge } = cutting as Extract<Layout["cutting"], { kind: "together" }>
  return { width: tile.width / edge, height: tile.height / edge }
}

/** Patches beside and below each other; pixels behind the last whole one are not seen. */
function sides({ tile, patch }: Layout): { columns: number; lines: number } {
  return { columns: Math.floor(tile.width / patch), lines: Math.floor(tile.height / patch) }
}

/** How what comes out of a tile lies in it, where that is line by line. */
export function gridOf(layout: Layout): Size {
  const { columns, lines } = sides(layout)
  return { width: Math.floor(columns / layout.joined), height: Math.floor(lines / layout.joined) }
}

/** Columns of a row that are pixels. */
export function pixelColumns({ patch }: Pick<Layout, "patch">): number {
  return 3 * patch * patch
}

/** Columns of a row: behind its pixels how much each learned place counts for it. */
export function takenOf({ patch, cutting, places = 0, isNamed }: Layout): number {
  const told = cutting.kind === "together" ? toldColumns(cutting.most) : 0
  return pixelColumns({ patch }) + (isNamed ? NAMED : places * places) + told
}

/** Places that a patch names. */
export const NAMED = 4

/** Rows of the largest tile in the tower. */
export function mostRows(processing: ImageProcessing): number {
  const { cutting, tile, patch, queries = 0 } = processing
  if (!fits(cutting)) return rowsOf(processing)
  const fitting = mostPixels(cutting, tile.width)
  const edge = (cutting.kind === "fit" && cutting.tiles?.edge) || 0
  return Math.floor(Math.max(fitting, edge * edge) / (patch * patch)) + queries
}

/** Rows that come of an image at the most, those that end its lines among them. */
export function mostImageRows(processing: ImageProcessing): number {
  const { cutting, tile, patch, joined, queries, isFramed } = processing
  const together = togetherIn(processing)
  if (together) return cameOut(together, together.most)
  if (cutting.kind === "slices") {
    const ofTile = mostPixels(cutting, tile.width) / (patch * joined) ** 2
    return (queries ?? Math.floor(ofTile)) * mostTiles(processing)
  }
  if (fits(cutting)) {
    const step = patch * joined
    const tiles = cutting.kind === "fit" ? cutting.tiles : undefined
    const ofTiles = tiles ? tiles.most * Math.floor(tiles.edge / step) ** 2 : 0
    const rows = Math.floor(mostPixels(cutting, tile.width) / (step * step))
    const lines = cutting.kind === "fit" ? longestFitting(cutting, step) / step : 0
    return ofTiles + rows + (isFramed ? Math.ceil(lines) + 2 : 0)
  }
  const rows = wantedOf(processing).length
  if (cutting.kind !== "anyres") return rows * mostTiles(processing)
  const { grids, most } = cutting
  const side = Math.sqrt(rows)
  return rows + Math.max(...grids.map((grid) => mostPacked(grid, side, most)))
}

/** Rows of a tile in the tower. */
export function rowsOf(layout: Layout): number {
  const together = togetherIn(layout)
  if (together) return togetherRows(together)
  const { columns, lines } = sides(layout)
  return columns * lines + Number(layout.hasClassRow) + (layout.queries ?? 0)
}

/** Rows of a tile that come out of it. */
export function wantedOf(layout: Layout): Int32Array {
  const { joined, skipped, window, queries } = layout
  const together = togetherIn(layout)
  if (together) {
    const { width, height } = tilesIn(layout)
    return Int32Array.from({ length: cameOut(together, width * height) }, (_, row) => row)
  }
  if (queries) {
    const first = rowsOf(layout) - queries
    return Int32Array.from({ length: queries }, (_, query) => first + query)
  }
  const size = joined * joined
  const grid = gridOf(layout)
  const count = fits(layout.cutting)
    ? grid.width * grid.height
    : Math.floor((rowsOf(layout) - skipped) / size)
  const firsts = Int32Array.from({ length: count }, (_, row) => skipped + row * size)
  if (!window) return firsts
  const order = patchOrder(layout)
  const { columns } = sides(layout)
  const placeOf = (row: number) => order[row]!.line * columns + order[row]!.column
  return firsts.sort((one, other) => placeOf(one) - placeOf(other))
}

interface Patch {
  column: number
  line: number
}

/** Which patch each row is of, the class row's left out. Those that are over at the edges lie behind all others. */
function patchOrder(layout: Layout): Patch[] {
  const { columns, lines } = sides(layout)
  const { joined, inner = joined, window = Math.max(columns, lines) } = layout
  const [whole, over]: [Patch[], Patch[]] = [[], []]
  for (let row = 0; row < lines; row += window)
    for (let from = 0; from < columns; from += window)
      for (let top = row; top < Math.min(row + window, lines); top += joined)
        for (let left = from; left < Math.min(from + window, columns); left += joined) {
          const order = top + joined <= lines && left + joined <= columns ? whole : over
          for (let y = top; y < top + joined; y += inner)
            for (let x = left; x < left + joined; x += inner)
              for (let line = y; line < Math.min(y + inner, lines); line++)
                for (let column = x; column < Math.min(x + inner, columns); column++)
                  order.push({ column, line })
        }
  return [...whole, ...over]
}

export function placesOf(layout: Layout): Int32Array {
  if (layout.nearest) return nearestPlaces(layout, layout.nearest)
  if (fits(layout.cutting)) return new Int32Array(rowsOf(layout))
  const { columns } = sides(layout)
  const first = Number(layout.hasClassRow)
  const places = patchOrder(layout).map(({ column, line }) => first + line * columns + column)
  return Int32Array.from(layout.hasClassRow ? [0, ...places] : places)
}

/** Of a square with `side` places to each side. Rows that ask have none: the first stands for it. */
function nearestPlaces(layout: Layout, side: number): Int32Array {
  const { columns, lines } = sides(layout)
  const places = new Int32Array(rowsOf(layout))
  for (const [row, { column, line }] of patchOrder(layout).entries()) {
    const [down, across] = [(line * side) / lines, (column * side) / columns].map(Math.floor)
    places[row] = down! * side + across!
  }
  return places
}

/** Fills rows `from` to `to` of a tile: the first columns of what `Tile.pixels` has there. */
export function pixelsOf(picture: Picture, layout: Layout, from: number, to: number): Float32Array {
  const { patch } = layout
  const columns = pixelColumns(layout)
  const numbers = normalised(layout)
  const placeOf = patchesIn(layout)
  const pixels = new Float32Array((to - from) * columns)
  for (let row = from; row < to; row++) {
    const place = placeOf(row)
    if (!place) continue // those of a class and of rows that ask are zeros
    let at = (row - from) * columns
    for (let channel = 0; channel < 3; channel++) {
      const table = numbers[channel]!
      for (let y = 0; y < patch; y++) {
        const line = place.line * patch + y
        let pixel = (line * picture.width + place.column * patch) * 3 + channel
        for (let x = 0; x < patch; x++, pixel += 3) pixels[at++] = table[picture.data[pixel]!]!
      }
    }
  }
  return pixels
}

/** Of each row its patch, where it has one. */
function patchesIn(layout: Layout): (row: number) => Patch | undefined {
  const together = togetherIn(layout)
  if (together) return (row) => patchAt(together, tilesIn(layout), row)
  const order = patchOrder(layout)
  return (row) => order[row - Number(layout.hasClassRow)]
}

/** What becomes of each byte in each channel, rounded where `rescale_and_normalize` of transformers does it. */
function normalised({ rescale, steps, mean, std }: Layout): Float32Array[] {
  if (steps) return mean.map((middle, channel) => stepwise(rescale, middle, std[channel]!, steps))
  const round = Math.fround
  const factor = round(1 / rescale)
  return mean.map((middle, channel) => {
    const shift = round(round(middle) * factor)
    const width = round(round(std[channel]!) * factor)
    return Float32Array.from({ length: 256 }, (_, byte) => round(byte - shift) / width)
  })
}

function stepwise(rescale: number, mean: number, std: number, steps: "f32" | "bf16") {
  const round = steps === "bf16" ? toBf16 : Math.fround
  const factor = Math.fround(rescale)
  const [middle, width] = [round(mean), round(std)]
  return Float32Array.from({ length: 256 }, (_, byte) =>
    round(round(round(byte * factor) - middle) / width),
  )
}

/** To the nearest of eight bits, halves to even. */
function toBf16(value: number): number {
  const [bits] = new Uint32Array(Float32Array.of(value).buffer)
  const rounded = (bits! + 0x7fff + ((bits! >>> 16) & 1)) & 0xffff0000
  return new Float32Array(Int32Array.of(rounded).buffer)[0]!
}

/** One tile of a `SeenImage`; `pixels` [rows, taken], of which places' columns are still zeros. */
export function tileOf(pixels: Float32Array, layout: Layout): Tile {
  const together = togetherIn(layout)
  if (together) return togetherTile(pixels, together, tilesIn(layout))
  const plain = { given: pixels, places: placesOf(layout), wanted: wantedOf(layout) }
  if (layout.isTurned) return { ...plain, coordinates: coordinatesOf(layout) }
  if (layout.isLined) return { ...plain, coordinates: coordinatesOf(layout, layout.joined) }
  if (!fits(layout.cutting))
    return layout.window ? { ...plain, ...askingOf(layout, layout.window) } : plain
  if (layout.places && layout.isNamed) return { ...plain, ...naming(pixels, layout, layout.places) }
  if (layout.places) shareOut(pixels, layout, layout.places)
  if (layout.queries) return { ...plain, ...asking(layout, layout.queries) }
  if (layout.inner) return { ...plain, ...merging(layout, layout.inner) }
  const windows = layout.window
    ? windowsOf(layout, layout.window)
    : layout.isNear
      ? linesAround(layout)
      : {}
  return { ...plain, coordinates: coordinatesOf(layout), ...windows }
}

/** [3, rows] of each patch: no time, its line, its column, so many of which count as one; of a class's row nothing. */
function coordinatesOf(layout: Layout, each = 1): Int32Array {
  const [rows, from] = [rowsOf(layout), Number(layout.isTurned ?? false)]
  const coordinates = new Int32Array(3 * rows)
  for (const [at, { column, line }] of patchOrder(layout).entries()) {
    const row = at + Number(layout.hasClassRow)
    coordinates[rows + row] = from + Math.floor(line / each)
    coordinates[2 * rows + row] = from + Math.floor(column / each)
  }
  return coordinates
}

/** All see the patches, and nobody those that ask; these are told by their number in the place of a line. */
function asking(layout: Layout, queries: number): Pick<Tile, "coordinates" | "seenTo"> {
  const rows = rowsOf(layout)
  const coordinates = coordinatesOf(layout)
  for (let query = 0; query < queries; query++) coordinates[2 * rows - queries + query] = query
  return { coordinates, seenTo: new Int32Array(rows).fill(rows - queries - 1) }
}

/** Of windows of a tile is asked: which patch of its window each is, in which square, and at which corner of that. */
function askingOf(layout: Layout, window: number): Omit<Tile, "given" | "places" | "wanted"> {
  const rows = rowsOf(layout)
  const { joined } = layout
  const coordinates = new Int32Array(3 * rows)
  const at = (line: number, column: number, of: number) => (line % of) * of + (column % of)
  for (const [row, { column, line }] of patchOrder(layout).entries()) {
    const square = [line, column].map((side) => Math.floor((side % window) / joined))
    coordinates[row] = at(line, column, window)
    coordinates[rows + row] = at(square[0]!, square[1]!, window / joined)
    coordinates[2 * rows + row] = at(line, column, joined)
  }
  return { coordinates, ...windowsOf(layout, window) }
}

/** Those that become one see each other, and are told by their number among them in the place of a line. */
function merging(layout: Layout, inner: number): Omit<Tile, "given" | "places" | "wanted"> {
  const rows = rowsOf(layout)
  const coordinates = new Int32Array(3 * rows)
  for (let row = 0; row < rows; row++) coordinates[rows + row] = row % (inner * inner)
  return { coordinates, ...windowsOf(layout, inner) }
}

/** Of each patch, the first and the last row of its window. */
function windowsOf(layout: Layout, window: number): { seenFrom: Int32Array; seenTo: Int32Array } {
  const { columns } = sides(layout)
  const across = Math.ceil(columns / window)
  const numbers = patchOrder(layout).map(
    ({ column, line }) => Math.floor(line / window) * across + Math.floor(column / window),
  )
  const [seenFrom, seenTo] = [new Int32Array(numbers.length), new Int32Array(numbers.length)]
  for (let from = 0, end = 0; from < numbers.length; from = end) {
    while (numbers[end] === numbers[from]) end++
    seenFrom.fill(from, from, end)
    seenTo.fill(end - 1, from, end)
  }
  return { seenFrom, seenTo }
}

/** Of each patch the first row of the line of squares above its own, and the last of the one below. */
function linesAround(layout: Layout): { seenFrom: Int32Array; seenTo: Int32Array } {
  const rows = rowsOf(layout)
  const line = sides(layout).columns * layout.joined
  const first = (row: number) => Math.floor(row / line) * line
  return {
    seenFrom: Int32Array.from({ length: rows }, (_, row) => Math.max(first(row) - line, 0)),
    seenTo: Int32Array.from(
      { length: rows },
      (_, row) => Math.min(first(row) + 2 * line, rows) - 1,
    ),
  }
}

/**
 * How much each of the learned places, of which there are `side` to each side, counts for a patch: the grid of patches is stretched
 * over theirs, corner on corner, and the four around a patch share it; or edge on edge, and these or sixteen do
 * (`_interpolation_axis_taps_weights` of transformers, `grid_sample` of torch), or all that a patch covers (`resize_positional_embeddings` of SigLIP 2).
 */
function shareOut(pixels: Float32Array, layout: Layout, side: number): void {
  const { columns, lines } = sides(layout)
  const taken = takenOf(layout)
  const shares = spreads[layout.spread ?? "corners"]
  const down = Array.from({ length: lines }, (_, line) => shares(line, lines, side))
  const across = Array.from({ length: columns }, (_, column) => shares(column, columns, side))
  for (const [row, { column, line }] of patchOrder(layout).entries()) {
    const first = row * taken + pixelColumns(layout)
    for (const { place: y, share: ofLine } of down[line]!)
      for (const { place: x, share: ofColumn } of across[column]!)
        pixels[first + y * side + x]! += Math.fround(ofLine * ofColumn)
  }
}

/** The same where four share it, which are named: the first in the place of its token, the others in those of its time, its line and its column. */
function naming(
  pixels: Float32Array,
  layout: Layout,
  side: number,
): Pick<Tile, "places" | "coordinates"> {
  const { columns, lines } = sides(layout)
  const rows = rowsOf(layout)
  const [taken, first] = [takenOf(layout), pixelColumns(layout)]
  const shares = spreads[layout.spread ?? "corners"]
  const names = new Int32Array(NAMED * rows)
  for (const [row, { column, line }] of patchOrder(layout).entries()) {
    let at = 0
    for (const { place: y, share: ofLine } of shares(line, lines, side))
      for (const { place: x, share: ofColumn } of shares(column, columns, side)) {
        names[at * rows + row] = y * side + x
        pixels[row * taken + first + at++] = Math.fround(ofLine * ofColumn)
      }
  }
  return { places: names.slice(0, rows), coordinates: names.slice(rows) }
}

/** Of one side: the place before and the one behind, as floats compute them. */
function sharesAt(index: number, of: number, side: number): Share[] {
  const at = Math.fround((index * (side - 1)) / Math.max(of - 1, 1))
  const before = Math.floor(at)
  const share = Math.fround(at - before)
  return [
    { place: before, share: Math.fround(1 - share) },
    { place: Math.min(before + 1, side - 1), share },
  ]
}

interface Share {
  place: number
  share: number
}

/** Of one side: so many places before and behind, by how far they are, also those beyond the edge. */
const around =
  (steps: readonly number[], share: (far: number) => number) =>
  (index: number, of: number, side: number): Share[] => {
    const at = ((index + 0.5) / of) * side - 0.5
    const before = Math.floor(at)
    return steps.map((step) => ({
      place: before + step,
      share: Math.fround(share(Math.abs(at - before - step))),
    }))
  }

const two = around([0, 1], (far) => 1 - far)
const four = around([-1, 0, 1, 2], cubic)

/** Those beyond the edge are the one at it. */
const atEdge = (shares: Share[], side: number) =>
  shares.map(({ place, share }) => ({ place: Math.min(Math.max(place, 0), side - 1), share }))

/** Keys' cubic with a = -0.75, as torch has it there. */
function cubic(far: number): number {
  const a = -0.75
  if (far <= 1) return ((a + 2) * far - (a + 3)) * far * far + 1
  return ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
}

/** Of one side: those that a patch covers, and its neighbours. */
function areaAt(index: number, of: number, side: number): Share[] {
  const scale = side / of
  const support = Math.max(scale, 1)
  const centre = (index + 0.5) * scale - 0.5
  const near = Array.from({ length: side }, (_, place) => ({
    place,
    share: Math.max(0, 1 - Math.abs(place - centre) / support),
  })).filter(({ share }) => share > 0)
  const sum = near.reduce((all, { share }) => all + share, 0)
  return near.map(({ place, share }) => ({ place, share: share / sum }))
}

const spreads = {
  corners: sharesAt,
  linear: (index, of, side) => atEdge(two(index, of, side), side),
  cubic: (index, of, side) => atEdge(four(index, of, side), side),
  within: (index, of, side) =>
    two(index, of, side).filter(({ place }) => place >= 0 && place < side),
  area: areaAt,
} as const satisfies Record<string, (index: number, of: number, side: number) => Share[]>
