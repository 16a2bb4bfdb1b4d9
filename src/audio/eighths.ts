// Sound at 16 kHz for a tower that makes a row of every eight frames (model/hearing/parakeet.ts). Loudness is computed as
// ParakeetFeatureExtractor of transformers computes it: samples less most of the one before, Hann windows of 25 ms around each 10 ms among 512
// numbers, nothing beyond the edges, powers in bands of Slaney's scale, natural logarithms over a floor; then each band has its mean taken off and is
// divided by its deviation. Float64 inside, where transformers has float32.
//
// A tower sees all rows of a tile at once, whose attention would grow with the square of a recording. A longer one is cut where it is quietest, near the end
// of each 40 seconds, and every piece is heard as a recording by itself. Pieces begin where rows do, so that rows of all of them are of one clock.

import type { EighthsProcessing, Tile } from "./audio.ts"
import { HOP, LENGTH, RATE, slaneyFilters } from "./features.ts"
import { Fourier } from "./fourier.ts"
import { powerOf } from "./spectrum.ts"
import { eachRow } from "./subsampled.ts"

/** Frames of a row, and samples. */
const JOINED = 8
export const ROW_SAMPLES = JOINED * HOP
const TRANSFORM = 512
const FLOOR = 2 ** -24
const EPSILON = 1e-5
/** Of one frame there is no deviation. */
export const LEAST_EIGHTHS = 2 * HOP

/** Of a piece. */
export const PIECE_SECONDS = 40 // what goes on at once of a row has 1.5 MB, and models are trained on as much
const PIECE = PIECE_SECONDS * RATE
const SOUGHT = 15 * RATE // samples at the end of a piece among which the quietest place is looked for
const AROUND = 2 * ROW_SAMPLES // samples to either side of a place, which tell how quiet it is

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
  const places = [...cutsOf(samples), samples.length]
  return places.flatMap((end, piece) => {
    const own = samples.subarray(places[piece - 1] ?? 0, end)
    if (own.length < LEAST_EIGHTHS) return []
    const rows = eighthsRows(own.length)
    return [{ rows, own: rows, frames: loudnessOf(own, processing) }]
  })
}

/** Where pieces end but the last. */
export function cutsOf(samples: Float32Array): number[] {
  const cuts: number[] = []
  for (let from = 0; samples.length - from > PIECE; from = cuts.at(-1)!) {
    let [quietest, least] = [from + PIECE, Number.POSITIVE_INFINITY]
    for (let place = from + PIECE; place > from + PIECE - SOUGHT; place -= ROW_SAMPLES) {
      const power = powerAround(samples, place)
      if (power < least) [quietest, least] = [place, power]
    }
    cuts.push(quietest)
  }
  return cuts
}

function powerAround(samples: Float32Array, place: number): number {
  let sum = 0
  for (const sample of samples.subarray(place - AROUND, place + AROUND)) sum += sample * sample
  return sum
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
