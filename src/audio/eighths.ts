// Sound at 16 kHz for a tower that makes a row of every eight frames (model/hearing/parakeet.ts). Loudness is computed as
// ParakeetFeatureExtractor of transformers computes it: samples less most of the one before, Hann windows of 25 ms around each 10 ms among 512
// numbers, nothing beyond the edges, powers in bands of Slaney's scale, natural logarithms over a floor; then each band has its mean taken off and is
// divided by its deviation. Float64 inside, where transformers has float32.
//
// A recording of more than 40 seconds is cut (cuts.ts). Pieces begin where rows do, so that rows of all of them are of one clock.

import type { EighthsProcessing, Tile } from "./audio.ts"
import { piecesOf } from "./cuts.ts"
import { HOP, LENGTH, RATE, slaneyFilters } from "./features.ts"
import { Fourier } from "./fourier.ts"
import { powerOf } from "./spectrum.ts"
import { eachRow } from "./subsampled.ts"

/** Frames of a row. */
const JOINED = 8
const TRANSFORM = 512
const FLOOR = 2 ** -24
const EPSILON = 1e-5
/** Of one frame there is no deviation. */
export const LEAST_EIGHTHS = 2 * HOP

/** Of a piece. */
export const PIECE_SECONDS = 40 // what goes on at once of a row has 1.5 MB, and models are trained on as much
const PIECE = PIECE_SECONDS * RATE

/** What a row sees of frames, and of what the first and the second of three convolutions of stride 2 make of them. */
export const SEEN = { frames: 15, firsts: 7, seconds: 3 } as const

/** Frames, behind them marks of what is there, and a column of zeros: what lies beyond the bands. */
export const eighthsColumns = (bands: number) => nothingAt(bands) + 1
export const nothingAt = (bands: number) => SEEN.frames * bands + SEEN.firsts + SEEN.seconds

const framesOf = (samples: number) => Math.floor(samples / HOP)
const halved = (count: number) => Math.ceil(count / 2)

export const eighthsRows = (samples: number) => halved(halved(halved(framesOf(samples))))

export interface EighthsWindow {
  rows: number
  own: number
  frames: Float32Array // [frames, bands]
}

export function eighthsWindows(
  samples: Float32Array,
  processing: Pick<EighthsProcessing, "bands" | "emphasis">,
): EighthsWindow[] {
  return piecesOf(samples, { most: PIECE, least: LEAST_EIGHTHS }).map((own) => {
    const rows = eighthsRows(own.length)
    return { rows, own: rows, frames: loudnessOf(own, processing) }
  })
}

/** @returns [frames, bands] */
function loudnessOf(
  samples: Float32Array,
  { bands, emphasis }: Pick<EighthsProcessing, "bands" | "emphasis">,
): Float32Array {
  const frames = framesOf(samples.length)
  const filters = slaneyFilters(bands, TRANSFORM)
  const fourier = new Fourier(TRANSFORM)
  const window = Float64Array.from(
    { length: LENGTH },
    (_, at) => 0.5 - 0.5 * Math.cos((2 * Math.PI * at) / (LENGTH - 1)),
  )
  const logs = new Float64Array(frames * bands)
  const [given, made] = [new Float64Array(2 * TRANSFORM), new Float64Array(2 * TRANSFORM)]
  for (let frame = 0; frame < frames; frame++) {
    const start = frame * HOP - LENGTH / 2
    for (let at = 0; at < LENGTH; at++) {
      const own = (samples[start + at] ?? 0) - emphasis * (samples[start + at - 1] ?? 0)
      given[2 * at] = start + at < samples.length ? own * window[at]! : 0
    }
    fourier.transform(given, made)
    for (const [band, filter] of filters.entries())
      logs[frame * bands + band] = Math.log(powerOf(made, filter) + FLOOR)
  }
  return evened(logs, bands)
}

/** Of each band all frames count. */
function evened(logs: Float64Array, bands: number): Float32Array {
  const frames = logs.length / bands
  const out = new Float32Array(logs.length)
  for (let band = 0; band < bands; band++) {
    const own = Float64Array.from({ length: frames }, (_, frame) => logs[frame * bands + band]!)
    const mean = own.reduce((sum, log) => sum + log, 0) / frames
    const variance = own.reduce((sum, log) => sum + (log - mean) ** 2, 0) / (frames - 1)
    const by = Math.sqrt(variance) + EPSILON
    for (let frame = 0; frame < frames; frame++)
      out[frame * bands + band] = (own[frame]! - mean) / by
  }
  return out
}

/** @param frames [frames, bands], all there are: what is beyond them is nothing, and so is what convolutions make of it */
export function eighthsTile(
  rows: number,
  frames: Float32Array,
  { bands }: Pick<EighthsProcessing, "bands">,
): Tile {
  const columns = eighthsColumns(bands)
  const firsts = halved(frames.length / bands)
  const seconds = halved(firsts)
  const given = new Float32Array(rows * columns)
  for (let row = 0; row < rows; row++) {
    const begin = row * columns
    const first = JOINED * row - (SEEN.frames >> 1)
    const seen = frames.subarray(Math.max(0, first) * bands, (first + SEEN.frames) * bands)
    given.set(seen, begin + Math.max(0, -first) * bands)
    const marks = [
      ...marksAround(4 * row, SEEN.firsts, firsts),
      ...marksAround(2 * row, SEEN.seconds, seconds),
    ]
    given.set(marks, begin + SEEN.frames * bands)
  }
  return { given, ...eachRow(rows) }
}

/** 1 of each place around that one which is there, else 0. */
function marksAround(place: number, seen: number, count: number): number[] {
  return Array.from({ length: seen }, (_, at) => {
    const own = place - (seen >> 1) + at
    return Number(own >= 0 && own < count)
  })
}
