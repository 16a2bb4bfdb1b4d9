// In which order rows of tiles stand in the prompt where it is not that of the tiles: LLaVA 1.6 puts the tiles of a grid together
// again, line by line across all of them, without what was padded, and ends each line with a row of its own. LLaVA OneVision shrinks
// what has too many rows. As `pack_image_features` of transformers does it. Hunyuan ends lines so, too, and puts a row before the first and one
// behind the last.

import { setImmediate as breathe } from "node:timers/promises"
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
  const rowAt = (x: number, y: number) => {
    const [column, line] = [left + x, top + y]
    const tile = 1 + Math.floor(line / side) * grid.width + Math.floor(column / side)
    return (tile * side + (line % side)) * side + (column % side)
  }
  const newline = (1 + grid.width * grid.height) * side * side
  const taps = shrink === 1 ? 1 : 4
  const count = side * side + size.height * (size.width + 1)
  const [from, shares] = [new Int32Array(count * taps), new Float32Array(count * taps)]
  let at = 0
  const put = (row: number) => {
    from[at] = row
    shares[at] = 1
    at += taps
  }
  for (let row = 0; row < side * side; row++) put(row)
  const columns = Array.from({ length: size.width }, (_, x) =>
    neighbours(x, size.width, seen.width),
  )
  for (let y = 0; y < size.height; y++) {
    const lines = neighbours(y, size.height, seen.height)
    for (let x = 0; x < size.width; x++) {
      if (taps === 1) put(rowAt(x, y))
      else
        for (const line of lines)
          for (const column of columns[x]!) {
            from[at] = rowAt(column.at, line.at)
            shares[at++] = line.share * column.share
          }
    }
    put(newline)
  }
  return { of: newline, taps, from, shares }
}

/** One tile, line by line, each with what ends it, and what frames them. @param grid of its rows */
export function framed({ width, height }: Size): Arrangement {
  const of = width * height
  const [newline, opening, closing] = [of, of + 1, of + 2]
  const lines = Array.from({ length: height }, (_, y) => [
    ...Array.from({ length: width }, (_, x) => y * width + x),
    newline,
  ])
  const from = Int32Array.from([opening, ...lines.flat(), closing])
  return { taps: 1, of, from, shares: new Float32Array(from.length).fill(1) }
}

/** Rows of a grid at the most, and what ends its lines. */
export function mostPacked({ width, height }: Grid, side: number, most?: number): number {
  const all = width * height * side * side
  const left = most ? Math.min(all, most * side * side * MAX_RATIO ** 2) : all
  return Math.floor(left) + height * side
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

/** Of one side, the two around a place that share it (`interpolate`, bilinear, corners not aligned). */
function neighbours(index: number, to: number, from: number): { at: number; share: number }[] {
  const place = Math.max(0, ((index + 0.5) * from) / to - 0.5)
  const before = Math.floor(place)
  return [
    { at: before, share: 1 - (place - before) },
    { at: Math.min(before + 1, from - 1), share: place - before },
  ]
}

/** Numbers that are put together before others have their turn: for a millisecond or so. */
const AT_ONCE = 1 << 18

/**
 * @param rows of all tiles [rows, hidden]
 * @param apart that are no patch's [those, hidden]
 * @returns [rows of the prompt, hidden]
 */
export async function arranged(
  rows: Float32Array,
  { taps, of, from, shares }: Arrangement,
  apart: Float32Array,
  signal?: AbortSignal,
): Promise<Float32Array> {
  const hidden = rows.length / of
  const all = new Float32Array((from.length / taps) * hidden)
  const step = Math.ceil(AT_ONCE / hidden)
  for (let begin = 0; begin < from.length; begin += step) {
    await breathe()
    signal?.throwIfAborted()
    for (let i = begin; i < Math.min(begin + step, from.length); i++) {
      const [row, share] = [from[i]!, shares[i]!]
      const [where, place] = row < of ? [rows, row] : [apart, row - of]
      const own = where.subarray(place * hidden, (place + 1) * hidden)
      const at = Math.floor(i / taps) * hidden
      if (share === 1) all.set(own, at)
      else if (share !== 0)
        for (let column = 0; column < hidden; column++) all[at + column]! += share * own[column]!
    }
  }
  return all
}
