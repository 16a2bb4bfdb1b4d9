// Sound at 16 kHz for a tower whose three convolutions look at a second at a time, in both directions: 100 frames and all bands, of
// which 50, 25 and at last 13 columns are left, and an eighth of the bands (Qwen3-ASR, Qwen 3 Omni). What lies beyond a second's edge is
// nothing, and so is what lies beyond the recording's end; a second that it ends in gives as many rows as its frames alone would. All bands of
// a column together become a row.
//
// A row is computed by itself: it needs three columns of the second convolution, each of these three of the first, and for every place in
// those the nine numbers around it, which are what goes in. Places at an edge that the next convolution takes for nothing are marked. In the
// second that a recording ends in, what lies behind it is no edge: the models' code fills it with zeros, whose places are those of any frames.
// Only where there is no other second Qwen 3 Omni's does not.
//
// Sources: feature_extraction_qwen3_asr.py, modeling_qwen3_asr.py, processing_qwen3_omni_moe.py and modeling_qwen3_omni_moe.py of
// transformers.

import type { ChunkProcessing, Tile } from "./audio.ts"
import { featuresOf, HOP, RATE } from "./features.ts"
import { sinesOf } from "./sines.ts"

const CHUNK = RATE / HOP // frames
const ROWS = 13
/** Samples; silence fills shorter recordings. */
export const LEAST = RATE / 2
const TAPS = 3

/** Where in a row each part of what goes in lies. `heights`: places in height that the first and the second convolution leave, and one below. */
export function chunkLayout(bands: number, width: number) {
  const heights = [bands / 2 + 1, bands / 4 + 1] as const
  const places = TAPS * heights[0] // that one column of the second convolution sees
  const sizes = {
    around: TAPS * places * TAPS * TAPS, // [columns, heights, columns before, 3 x 3]
    first: TAPS * places, // [columns, heights, columns before]  1, or 0 where there is nothing
    second: TAPS * heights[1], // [heights, columns]  likewise
    position: width,
  }
  let columns = 0
  const parts = Object.fromEntries(
    Object.entries(sizes).map(([name, size]) => {
      const from = columns
      columns += size
      return [name, { from, columns: size }]
    }),
  ) as Record<keyof typeof sizes, { from: number; columns: number }>
  return { heights, places, parts, columns }
}

/** Of so many frames. */
export function chunkRows(frames: number): number {
  const rest = frames % CHUNK
  return Math.floor(frames / CHUNK) * ROWS + halved(halved(halved(rest)))
}

const halved = (count: number) => Math.ceil(count / 2)

export interface ChunkWindow {
  rows: number
  own: number
  frames: Float32Array // [frames, bands]
}

/** The loudest band of all of a recording bounds every window. */
export function chunkWindows(
  samples: Float32Array,
  { bands, window, isFilled }: Pick<ChunkProcessing, "bands" | "window" | "isFilled">,
): ChunkWindow[] {
  const filled = new Float32Array(Math.max(samples.length, isFilled ? LEAST : 0))
  filled.set(samples)
  const frames = featuresOf(filled, bands)
  const second = CHUNK * bands
  const size = window * second
  const isWhole = isFilled || frames.length > second
  const windows: ChunkWindow[] = []
  for (let from = 0; from < frames.length; from += size) {
    const own = frames.subarray(from, from + size)
    const rows = chunkRows(own.length / bands)
    const seen = new Float32Array(isWhole ? Math.ceil(own.length / second) * second : own.length)
    seen.set(own)
    windows.push({ rows, own: rows, frames: seen })
  }
  return windows
}

/** @param frames [frames, bands] of a window: whole seconds, or of one as much as counts as there */
export function chunkTile(
  rows: number,
  frames: Float32Array,
  { bands, width }: Pick<ChunkProcessing, "bands" | "width">,
): Tile {
  const { heights, parts, columns } = chunkLayout(bands, width)
  const given = new Float32Array(rows * columns)
  const count = frames.length / bands
  for (let row = 0; row < rows; row++) {
    const [chunk, third] = [Math.floor(row / ROWS), row % ROWS]
    const end = Math.min(count, (chunk + 1) * CHUNK)
    const columnsLeft = halved(end - chunk * CHUNK)
    const secondsLeft = halved(columnsLeft)
    const own = given.subarray(row * columns, (row + 1) * columns)
    let around = parts.around.from
    let first = parts.first.from
    for (const second of threeAt(third)) {
      const isThere = second >= 0 && second < secondsLeft
      for (let height = -1; height < heights[0] - 1; height++)
        for (const column of threeAt(second)) {
          const isColumn = column >= 0 && column < columnsLeft
          own[first++] = Number(isThere && isColumn && height >= 0)
          for (const band of threeAt(height))
            for (const frame of threeAt(column)) {
              const at = chunk * CHUNK + frame
              const isFrame = frame >= 0 && at < end
              if (isFrame && band >= 0) own[around] = frames[at * bands + band]!
              around++
            }
        }
    }
    let mark = parts.second.from
    for (let height = -1; height < heights[1] - 1; height++)
      for (const second of threeAt(third))
        own[mark++] = Number(height >= 0 && second >= 0 && second < secondsLeft)
    own.set(sinesOf(third, width), parts.position.from)
  }
  return {
    given,
    places: new Int32Array(rows),
    wanted: Int32Array.from({ length: rows }, (_, row) => row),
  }
}

/** What a convolution of stride 2 sees of the one before it. */
const threeAt = (place: number) => [2 * place - 1, 2 * place, 2 * place + 1] as const
