// Sound at 16 kHz for a tower that convolves samples themselves (model/hearing/moonshine.ts): of 127 with a stride of 64, of 7 of those with a stride of
// 3, and of 3 of those with a stride of 2. So a row has 384 samples of its own, and sees 895. What comes of the first convolution is normed by the mean
// and the deviation of all of it; behind the last row's own there are up to 12 places more, which count, and so each row brings the samples of
// 18 places, marks of those that count as its own, and how many of all places there are for one of its rows.

import type { StridedProcessing, Tile } from "./audio.ts"
import { piecesOf } from "./cuts.ts"
import { RATE } from "./features.ts"
import { eachRow } from "./subsampled.ts"

/** Of each convolution how much it sees, and how far apart. */
export const STRIDES = [
  { taps: 127, stride: 64 },
  { taps: 7, stride: 3 },
  { taps: 3, stride: 2 },
] as const

const [FIRST, SECOND, THIRD] = STRIDES
const OWN = SECOND.stride * THIRD.stride // places of the first convolution
const ROW = OWN * FIRST.stride // samples
/** Places that a row sees, and those that may be counted as the last one's. */
const SEEN_PLACES = (THIRD.taps - 1) * SECOND.stride + SECOND.taps
export const PLACES = SEEN_PLACES + OWN - 1

const samplesOf = (places: number) => (places - 1) * FIRST.stride + FIRST.taps
const SAMPLES = samplesOf(PLACES)

/** Samples, marks, and a number. */
export const stridedColumns = { samples: SAMPLES, all: SAMPLES + PLACES + 1 } as const

/** Fewer make no row. */
export const LEAST_STRIDED = samplesOf(SEEN_PLACES)

const places = (count: number, { taps, stride }: { taps: number; stride: number }) =>
  Math.floor((count - taps) / stride) + 1

export const stridedRows = (samples: number) => STRIDES.reduce(places, samples)

export interface StridedWindow {
  rows: number
  own: number
  frames: Float32Array // [samples]
}

export function stridedWindows(
  samples: Float32Array,
  { window }: Pick<StridedProcessing, "window">,
): StridedWindow[] {
  return piecesOf(samples, { most: window * RATE, least: LEAST_STRIDED }).map((frames) => {
    const rows = stridedRows(frames.length)
    return { rows, own: rows, frames }
  })
}

export function stridedTile(rows: number, samples: Float32Array): Tile {
  const all = places(samples.length, FIRST)
  const given = new Float32Array(rows * stridedColumns.all)
  for (let row = 0; row < rows; row++) {
    const begin = row * stridedColumns.all
    given.set(samples.subarray(row * ROW, row * ROW + SAMPLES), begin)
    const own = row < rows - 1 ? OWN : all - row * OWN
    given.fill(1, begin + SAMPLES, begin + SAMPLES + own)
    given[begin + stridedColumns.all - 1] = rows / all
  }
  return { given, ...eachRow(rows) }
}
