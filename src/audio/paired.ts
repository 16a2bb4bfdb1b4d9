// Sound at 16 kHz as the one tile of a tower that makes a row of every two frames, and of a few rows at a time a few that come out (Granite
// Speech). Frames are those of torchaudio's MelSpectrogram, as GraniteSpeechFeatureExtractor of transformers asks for them: 25 ms around each 10 ms
// among 512 numbers, edges reflected, powers in bands of HTK's scale, decimal logarithms no further than 8 below the loudest.
//
// Rows see those of their block. Behind the last there are rows of nothing, as many as a span lacks. Behind the frames of each stands what
// the projector tells spans apart by (model/hearing/granite-projector.ts): three take turns, and so no two neighbours are alike.

import type { PairedProcessing, Tile } from "./audio.ts"
import { bounded, HOP, LENGTH, RATE } from "./features.ts"
import { Fourier } from "./fourier.ts"
import { htkFilters, powerOf } from "./spectrum.ts"

const JOINED = 2 // frames of a row
const TRANSFORM = 512
/** Fewer samples have an edge that is not reflected. */
export const LEAST_PAIRED = TRANSFORM / 2 + 1
const TURNS = 3

/** Behind the frames of a row: where each part lies, from there on, and how many columns there are. */
export const PAIRED_MARKS = {
  there: 0, // 1, or 0 where there is no row
  asking: 1, // of each turn, 1 where it is another's; and behind them 1
  seen: 1 + TURNS + 1, // 1 where it is its own; and behind them 1 of a row that does not ask
  nothing: 1 + 2 * (TURNS + 1), // 0
  columns: 2 + 2 * (TURNS + 1),
} as const

const framesOf = (samples: number) => Math.floor(samples / HOP) + 1

/** Those that there are, and those with the ones that a span lacks. */
export function pairedRows(samples: number, { span }: Pick<PairedProcessing, "span">) {
  const own = Math.floor(framesOf(samples) / JOINED)
  return { own, rows: Math.ceil(own / span) * span }
}

export function pairedWindow(
  samples: Float32Array,
  processing: PairedProcessing,
): { rows: number; own: number; frames: Float32Array } {
  const { rows, own } = pairedRows(samples.length, processing)
  const bands = processing.bands / JOINED
  return { rows, own, frames: powersOf(samples, JOINED * own, bands) }
}

/** @returns [frames, bands] */
function powersOf(samples: Float32Array, frames: number, bands: number): Float32Array {
  const filters = htkFilters(bands, { transform: TRANSFORM, low: 0, high: RATE / 2 })
  const fourier = new Fourier(TRANSFORM)
  const window = Float64Array.from(
    { length: LENGTH },
    (_, at) => 0.5 - 0.5 * Math.cos((2 * Math.PI * at) / LENGTH),
  )
  const logs = new Float64Array(frames * bands)
  const [given, made] = [new Float64Array(2 * TRANSFORM), new Float64Array(2 * TRANSFORM)]
  const last = samples.length - 1
  for (let frame = 0; frame < frames; frame++) {
    const start = frame * HOP - LENGTH / 2
    for (let at = 0; at < LENGTH; at++) {
      const place = Math.abs(start + at)
      given[2 * at] = samples[place > last ? 2 * last - place : place]! * window[at]!
    }
    fourier.transform(given, made)
    for (const [band, filter] of filters.entries())
      logs[frame * bands + band] = Math.log10(Math.max(1e-10, powerOf(made, filter)))
  }
  return bounded(logs)
}

/** @param frames of the rows that there are, one row behind the other */
export function pairedTile(
  { rows, own }: Record<"rows" | "own", number>,
  frames: Float32Array,
  { bands, block, span, asked }: PairedProcessing,
): Tile {
  const columns = bands + PAIRED_MARKS.columns
  const { there, asking, seen } = PAIRED_MARKS
  const given = new Float32Array(rows * columns)
  for (let row = 0; row < rows; row++) {
    const marks = row * columns + bands
    if (row < own) given.set(frames.subarray(row * bands, (row + 1) * bands), row * columns)
    given[marks + there] = Number(row < own)
    const turn = Math.floor(row / span) % TURNS
    for (let each = 0; each < TURNS; each++) {
      given[marks + asking + each] = Number(each !== turn)
      given[marks + seen + each] = Number(each === turn)
    }
    given[marks + asking + TURNS] = 1
    given[marks + seen + TURNS] = Number(row % span >= asked)
  }
  const each = Array.from({ length: rows }, (_, row) => row)
  const beginOf = (row: number) => Math.floor(Math.min(row, own - 1) / block) * block
  return {
    given,
    places: Int32Array.from(each, (row) => Math.min(row % span, asked - 1)),
    wanted: Int32Array.from(each.filter((row) => row % span < asked)),
    seenFrom: Int32Array.from(each, beginOf),
    seenTo: Int32Array.from(each, (row) => Math.min(beginOf(row) + block, own) - 1),
  }
}
