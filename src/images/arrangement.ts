// In which order rows of tiles stand in the prompt where it is not that of the tiles: LLaVA 1.6 puts the tiles of a grid together
// again, line by line across all of them, without what was padded, and ends each line with a row of its own. LLaVA OneVision shrinks
// what has too many rows. As `pack_image_features` of transformers does it.

import type { Grid } from "./cut.ts"
import type { Arrangement, Size } from "./image.ts"

/** Where there are so many times as many rows a side as there may be, they are shrunk. */
const MAX_RATIO = 1.1

/**
 * The first tile is the whole picture, and those of the grid follow.
 * @param side of a tile, in rows
 * @param most rows of so many tiles stay as they are
 */
export function packed(picture: Size, grid: Grid, side: number, most?: number): Arrangement {
  const all = { width: grid.width * side, height: grid.height * side }
  const { left, top, ...seen } = unpadded(picture, all)
  const ratio = most ? Math.sqrt((seen.width * seen.height) / (most * side * side)) : 1
  const shrink = ratio > MAX_RATIO ? ratio : 1
  const size = {
    width: Math.floor(seen.width / shrink),
    height: Math.floor(seen.height / shrink),
  }
  const rowAt = ({ x, y }: Point) => {
    const [column, line] = [left + x, top + y]
    const tile = 1 + Math.floor(line / side) * grid.width + Math.floor(column / side)
    return (tile * side + (line % side)) * side + (column % side)
  }
  const rows: { row: number; share: number }[][] = []
  for (let row = 0; row < side * side; row++) rows.push([{ row, share: 1 }])
  const newline = (1 + grid.width * grid.height) * side * side
  for (let y = 0; y < size.height; y++) {
    for (let x = 0; x < size.width; x++)
      rows.push(
        shrink === 1
          ? [{ row: rowAt({ x, y }), share: 1 }]
          : mixed({ x, y }, size, seen).map(({ share, ...at }) => ({ row: rowAt(at), share })),
      )
    rows.push([{ row: newline, share: 1 }])
  }
  return { of: newline, ...told(rows, shrink === 1 ? 1 : 4) }
}

interface Point {
  x: number
  y: number
}

/** What is left of rows of all tiles where the picture was padded to their proportions (`unpad_image`). */
function unpadded(picture: Size, all: Size): Size & { left: number; top: number } {
  const whole = (side: number) => Math.trunc(Number(side.toFixed(7)))
  if (picture.width / picture.height > all.width / all.height) {
    const height = whole(picture.height * (all.width / picture.width))
    const top = Math.floor((all.height - height) / 2)
    return { width: all.width, height: all.height - 2 * top, left: 0, top }
  }
  const width = whole(picture.width * (all.height / picture.height))
  const left = Math.floor((all.width - width) / 2)
  return { width: all.width - 2 * left, height: all.height, left, top: 0 }
}

/** The four of `seen` around a point of `size` (`interpolate`, bilinear, corners not aligned). */
function mixed({ x, y }: Point, size: Size, seen: Size): (Point & { share: number })[] {
  const across = neighbours(x, size.width, seen.width)
  return neighbours(y, size.height, seen.height).flatMap((line) =>
    across.map((column) => ({ x: column.at, y: line.at, share: line.share * column.share })),
  )
}

function neighbours(index: number, to: number, from: number): { at: number; share: number }[] {
  const place = Math.max(0, ((index + 0.5) * from) / to - 0.5)
  const before = Math.floor(place)
  return [
    { at: before, share: 1 - (place - before) },
    { at: Math.min(before + 1, from - 1), share: place - before },
  ]
}

function told(
  rows: readonly (readonly { row: number; share: number }[])[],
  taps: Arrangement["taps"],
): Omit<Arrangement, "of"> {
  const from = new Int32Array(rows.length * taps)
  const shares = new Float32Array(rows.length * taps)
  for (const [i, sum] of rows.entries())
    for (const [tap, { row, share }] of sum.entries()) {
      from[i * taps + tap] = row
      shares[i * taps + tap] = share
    }
  return { taps, from, shares }
}

/**
 * @param rows of all tiles [rows, hidden]
 * @param newline what ends a line [hidden]
 * @returns [rows of the prompt, hidden]
 */
export function arranged(
  rows: Float32Array,
  { taps, of, from, shares }: Arrangement,
  newline: Float32Array,
): Float32Array {
  const hidden = newline.length
  const all = new Float32Array((from.length / taps) * hidden)
  for (const [i, row] of from.entries()) {
    const share = shares[i]!
    if (share === 0) continue
    const own = row < of ? rows.subarray(row * hidden, (row + 1) * hidden) : newline
    const at = Math.floor(i / taps) * hidden
    for (let column = 0; column < hidden; column++) all[at + column]! += share * own[column]!
  }
  return all
}
