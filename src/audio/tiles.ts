// Sound at 16 kHz as windows of 30 seconds, and a window as a tile of a tower: 3,000 frames, of which the encoder has a row for every
// two. Counted as the processors and models of transformers count: processing_qwen2_audio.py, processing_voxtral.py,
// processing_audioflamingo3.py, processing_glmasr.py.

import type { AudioProcessing, Tile } from "./audio.ts"
import { featuresOf, HOP, RATE } from "./features.ts"
import { leastOf } from "./spectrum.ts"
import { eachRow, rowsIn, subsampledTile, windowIn } from "./subsampled.ts"

export const WINDOW = 30 // seconds
const SAMPLES = WINDOW * RATE
const FRAMES = SAMPLES / HOP

/** What is known of a tile before its frames are there. */
export interface Span {
  /** The tower's. */
  rows: number
  /** Those of them that hold the recording. */
  own: number
}

export interface Window extends Span {
  /** As many as the rows see. */
  frames: Float32Array // [frames, bands]
}

/** Encoder rows of the largest tile. */
export function mostRows(processing: Counted): number {
  const { spectrum, isPlain, bands } = processing
  if (isPlain) return Math.ceil((mostSeconds(processing) * RATE) / bands)
  if (spectrum) return rowsIn(mostSeconds(processing) * RATE, spectrum)
  const isWhole = processing.cutting === "padded" || processing.isFull
  return isWhole ? rowsOf(FRAMES) : ownRows(mostSeconds(processing) * RATE)
}

type Counted = Pick<
  AudioProcessing,
  "bands" | "cutting" | "most" | "isFull" | "isPlain" | "spectrum"
>

/** Seconds; longer recordings are refused. */
export function mostSeconds({ cutting, most }: Pick<Counted, "cutting" | "most">): number {
  return cutting === "window" ? Math.min(WINDOW, most) : most
}

/** Rows that come of a recording at the most. */
export function mostRecordingRows(processing: AudioProcessing): number {
  const ofWindow = Math.floor(mostRows(processing) / processing.joined)
  return Math.ceil(mostSeconds(processing) / WINDOW) * ofWindow
}

/** Fewer samples are refused: no row would come out. */
export function leastSamples({ cutting, joined, isPlain, spectrum }: AudioProcessing): number {
  if (isPlain) return 1
  if (spectrum) return leastOf(spectrum)
  return cutting === "padded" ? 1 : (2 * joined - 2) * HOP + 1
}

/** Windows of which nothing comes out, at the end of a recording, are left out. */
export function windowsOf(samples: Float32Array, processing: AudioProcessing): Window[] {
  const { bands, cutting, joined, isFull, isPlain, spectrum } = processing
  if (isPlain) return [plainWindow(samples, bands)]
  if (spectrum) return [windowIn(samples, processing, spectrum)]
  const count = Math.ceil(samples.length / SAMPLES)
  const padded = new Float32Array(count * SAMPLES)
  padded.set(samples)
  const all = cutting === "padded" ? featuresOf(padded, bands) : undefined
  const windows: Window[] = []
  for (let from = 0; from < padded.length; from += SAMPLES) {
    const own = all ? rowsOf(FRAMES) : ownRows(samples.length - from)
    if (own < joined) continue
    const rows = isFull ? rowsOf(FRAMES) : own
    const first = all ? (from / HOP) * bands : 0
    const frames = all ?? featuresOf(padded.subarray(from, from + SAMPLES), bands)
    const seen = Math.min(2 * rows + 1, FRAMES)
    windows.push({ rows, own, frames: frames.slice(first, first + seen * bands) })
  }
  return windows
}

/** Silence fills the last row. */
function plainWindow(samples: Float32Array, ofRow: number): Window {
  const rows = Math.ceil(samples.length / ofRow)
  const frames = new Float32Array(rows * ofRow)
  frames.set(samples)
  return { rows, own: rows, frames }
}

const ownRows = (samples: number) => rowsOf(Math.ceil(Math.min(samples, SAMPLES) / HOP))

/** Of so many frames, behind a convolution of stride 2. */
function rowsOf(frames: number): number {
  return Math.floor((frames - 1) / 2) + 1
}

/** @param frames [frames, bands] of the window, as many as the rows see */
export function tileOf(
  { rows, own }: Span,
  frames: Float32Array,
  processing: AudioProcessing,
): Tile {
  const { bands, joined, isTurned, isPlain, spectrum } = processing
  if (isPlain) return { given: frames, ...eachRow(rows) }
  if (spectrum) return subsampledTile(rows, frames, processing)
  const columns = 5 * bands + 1
  const given = new Float32Array(rows * columns)
  for (let row = 0; row < rows; row++) {
    const from = (2 * row - 2) * bands
    const seen = frames.subarray(Math.max(0, from), from + 5 * bands)
    given.set(seen, row * columns + Math.max(0, -from))
    given[(row + 1) * columns - 1] = Math.min(row, 1)
  }
  return {
    given,
    places: Int32Array.from({ length: rows }, (_, row) => (isTurned ? 0 : row)),
    wanted: Int32Array.from({ length: Math.floor(own / joined) }, (_, row) => row * joined),
  }
}
