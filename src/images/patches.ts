// A tile as rows of a tower: one for each patch, its pixels as a convolution's weight lies [3, patch, patch]. Patches that become
// one row lie one behind the other, row by row of their square: so are the columns of what is joined in the pixel shuffles of
// Idefics 3, InternVL, Aya Vision and Command A Vision, and in the mean that Gemma 3 takes the order does not matter.
//
// A patch's place is its number in the tile, row by row. Idefics 3 finds it by fractions of the tile's edge, which is the same
// but where a float is rounded the wrong way: not in the grids of 26, 27, 32 and 64 patches a side that are published.

import type { ImageProcessing, Picture, Tile } from "./image.ts"

type Layout = Pick<
  ImageProcessing,
  "tile" | "patch" | "joined" | "hasClassRow" | "skipped" | "rescale" | "mean" | "std"
>

/** Patches beside and below each other; pixels behind the last whole one are not seen. */
function sides({ tile, patch }: Layout): { columns: number; lines: number } {
  return { columns: Math.floor(tile.width / patch), lines: Math.floor(tile.height / patch) }
}

/** Columns of a row of pixels. */
export function takenOf({ patch }: Layout): number {
  return 3 * patch * patch
}

/** Rows of a tile in the tower. */
export function rowsOf(layout: Layout): number {
  const { columns, lines } = sides(layout)
  return columns * lines + Number(layout.hasClassRow)
}

/** Rows of a tile that come out of it. */
export function wantedOf(layout: Layout): Int32Array {
  const { joined, skipped } = layout
  const count = Math.floor((rowsOf(layout) - skipped) / (joined * joined))
  return Int32Array.from({ length: count }, (_, row) => skipped + row * joined * joined)
}

/** Which patch each row is of, the class row's left out. */
function patchOrder(layout: Layout): { column: number; line: number }[] {
  const { columns, lines } = sides(layout)
  const { joined } = layout
  const order: { column: number; line: number }[] = []
  for (let top = 0; top < lines; top += joined)
    for (let left = 0; left < columns; left += joined)
      for (let line = top; line < top + joined; line++)
        for (let column = left; column < left + joined; column++) order.push({ column, line })
  return order
}

export function placesOf(layout: Layout): Int32Array {
  const { columns } = sides(layout)
  const first = Number(layout.hasClassRow)
  const places = patchOrder(layout).map(({ column, line }) => first + line * columns + column)
  return Int32Array.from(layout.hasClassRow ? [0, ...places] : places)
}

/** Fills rows `from` to `to` of a tile: what `Tile.pixels` has there. */
export function pixelsOf(picture: Picture, layout: Layout, from: number, to: number): Float32Array {
  const { patch } = layout
  const taken = takenOf(layout)
  const numbers = normalised(layout)
  const order = patchOrder(layout)
  const pixels = new Float32Array((to - from) * taken)
  for (let row = from; row < to; row++) {
    const place = order[row - Number(layout.hasClassRow)]
    if (!place) continue // the class row's are zeros
    let at = (row - from) * taken
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

/** What becomes of each byte in each channel, rounded to float32 where `rescale_and_normalize` of transformers does it. */
function normalised({ rescale, mean, std }: Layout): Float32Array[] {
  const round = Math.fround
  const factor = round(1 / rescale)
  return mean.map((middle, channel) => {
    const shift = round(round(middle) * factor)
    const width = round(round(std[channel]!) * factor)
    return Float32Array.from({ length: 256 }, (_, byte) => round(byte - shift) / width)
  })
}

/** One tile of a `SeenImage`. */
export function tileOf(pixels: Float32Array, layout: Layout): Tile {
  return { pixels, places: placesOf(layout), wanted: wantedOf(layout) }
}
