// Sound at 16 kHz as windows, and a window as a tile of a tower. Of those like Whisper's it has 30 seconds: 3,000 frames, of which the
// encoder has a row for every two, or of two (Qwen 2.5 Omni). Counted as the processors and models of transformers count:
// processing_qwen2_audio.py, processing_voxtral.py, processing_audioflamingo3.py, processing_glmasr.py, processing_qwen2_5_omni.py; and
// ultravox_processing.py of fixie-ai/ultravox.

import type { AudioProcessing, SamplesProcessing, Tile, WhisperProcessing } from "./audio.ts"
import { chunkRows, chunkTile, chunkWindows } from "./chunks.ts"
import { eighthsRows, eighthsTile, eighthsWindows, LEAST_EIGHTHS } from "./eighths.ts"
import { endedTile, endedWindow, endingRows } from "./ended.ts"
import { featuresOf, HOP, LENGTH, RATE } from "./features.ts"
import { LEAST_PAIRED, pairedRows, pairedTile, pairedWindow } from "./paired.ts"
import { leastOf } from "./spectrum.ts"
import { LEAST_STRIDED, stridedRows, stridedTile, stridedWindows } from "./strided.ts"
import { eachRow, rowsIn, subsampledTile, subsampledWindow } from "./subsampled.ts"

const WINDOW = 30 // seconds
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
export function mostRows(processing: AudioProcessing): number {
  switch (processing.cutting) {
    case "chunks":
      return chunkRows(processing.window * (RATE / HOP))
    case "subsampled":
      return rowsIn(processing.most * RATE, processing.spectrum)
    case "ended":
      return rowsIn(processing.most * RATE, processing.spectrum) + endingRows
    case "samples":
      return Math.ceil((processing.most * RATE) / processing.bands)
    case "paired":
      return pairedRows(processing.most * RATE, processing).rows
    case "eighths":
      return eighthsRows(processing.window * RATE)
    case "strided":
      return stridedRows(processing.window * RATE)
    default: {
      if (processing.cutting === "pieces") return ownRows(windowSeconds(processing) * RATE)
      if (processing.cutting === "filled") return filledRows(rowsOf(FRAMES), processing)
      const isWhole = ["padded", "sought"].includes(processing.cutting) || processing.isFull
      return isWhole ? rowsOf(FRAMES) : ownRows(mostSeconds(processing) * RATE)
    }
  }
}

/** Of one tile at the most, in seconds. */
export const windowSeconds = (processing: AudioProcessing): number =>
  processing.cutting === "chunks"
    ? processing.window
    : Math.min(wholeWindow(processing), processing.most)

const wholeWindow = (processing: AudioProcessing): number =>
  processing.cutting === "paired"
    ? processing.most
    : (("window" in processing ? processing.window : undefined) ?? WINDOW)

/** Rows that come of it. */
export function mostWindowRows(processing: AudioProcessing): number {
  if (processing.cutting === "paired")
    return (mostRows(processing) / processing.span) * processing.asked
  if (processing.cutting === "ended") return processing.filled + 1
  return Math.floor(mostRows(processing) / ("joined" in processing ? processing.joined : 1))
}

/** Seconds; longer recordings are refused. */
export function mostSeconds({ cutting, most }: AudioProcessing): number {
  return cutting === "window" ? Math.min(WINDOW, most) : most
}

/** Rows that come of a recording at the most. */
export function mostRecordingRows(processing: AudioProcessing): number {
  if (processing.cutting === "chunks") return chunkRows(processing.most * (RATE / HOP))
  return Math.ceil(mostSeconds(processing) / wholeWindow(processing)) * mostWindowRows(processing)
}

/** Fewer samples are refused: no row would come out. */
export function leastSamples(processing: AudioProcessing): number {
  switch (processing.cutting) {
    case "chunks":
      return processing.isFilled ? 1 : LENGTH / 2 + 1 // an edge is reflected
    case "padded":
    case "samples":
    case "filled":
      return 1
    case "subsampled":
    case "ended":
      return leastOf(processing.spectrum)
    case "paired":
      return LEAST_PAIRED
    case "eighths":
      return LEAST_EIGHTHS
    case "strided":
      return LEAST_STRIDED
    default: {
      const frames = 2 * processing.joined - 1
      return processing.isLate ? frames * HOP : (frames - 1) * HOP + 1
    }
  }
}

/** Windows of which nothing comes out, at the end of a recording, are left out. */
export function windowsOf(samples: Float32Array, processing: AudioProcessing): Window[] {
  switch (processing.cutting) {
    case "chunks":
      return chunkWindows(samples, processing)
    case "subsampled":
      return [subsampledWindow(samples, processing)]
    case "ended":
      return [endedWindow(samples, processing)]
    case "samples":
      return [samplesWindow(samples, processing)]
    case "paired":
      return [pairedWindow(samples, processing)]
    case "eighths":
      return eighthsWindows(samples, processing)
    case "strided":
      return stridedWindows(samples, processing)
    case "pieces":
      return pieceWindows(samples, processing)
    case "sought":
      return soughtWindows(samples, processing)
    case "filled":
      return filledWindows(samples, processing)
    default:
      return whisperWindows(samples, processing)
  }
}

function whisperWindows(samples: Float32Array, processing: WhisperProcessing): Window[] {
  const { bands, cutting, joined, isFull } = processing
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

/** All frames, as many at once as a window has: windows of the tower are cut of them by `soughtTile`. */
function soughtWindows(samples: Float32Array, { bands }: WhisperProcessing): Window[] {
  const filled = new Float32Array(Math.max(SAMPLES, samples.length))
  filled.set(samples)
  const frames = featuresOf(filled, bands)
  const size = FRAMES * bands
  return Array.from({ length: Math.ceil(frames.length / size) }, (_, window) => ({
    rows: rowsOf(FRAMES),
    own: rowsOf(FRAMES),
    frames: frames.slice(window * size, (window + 1) * size),
  }))
}

/** Frames of a recording; one that is shorter than any has one. */
export const soughtFrames = (samples: number) => Math.max(1, Math.floor(samples / HOP))

/**
 * The window that begins at a frame. Behind a recording's last one there is nothing, not what silence sounds like, as in
 * generation_whisper.py; but in the first window of a shorter one.
 * @param pieces all of its frames, as `windowsOf` cuts them
 * @param frames how many of them are the recording's
 */
export function soughtTile(
  pieces: readonly Float32Array[],
  { first, frames }: { first: number; frames: number },
  processing: WhisperProcessing,
): Tile {
  const { bands } = processing
  const end = first === 0 ? FRAMES : Math.min(frames, first + FRAMES)
  const given = new Float32Array(FRAMES * bands)
  for (let at = first; at < end; ) {
    const [piece, from] = [Math.floor(at / FRAMES), at % FRAMES]
    const own = pieces[piece]!.subarray(from * bands, (from + end - at) * bands)
    given.set(own, (at - first) * bands)
    at += own.length / bands
  }
  return whisperTile({ rows: rowsOf(FRAMES), own: rowsOf(FRAMES) }, given, processing)
}

function pieceWindows(samples: Float32Array, processing: WhisperProcessing): Window[] {
  const { bands, joined } = processing
  const frames = filledFrames(samples, processing)
  const size = windowSeconds(processing) * (RATE / HOP) * bands
  const windows: Window[] = []
  for (let from = 0; from < frames.length; from += size) {
    const piece = frames.slice(from, from + size)
    const rows = rowsOf(piece.length / bands)
    if (rows >= joined) windows.push({ rows, own: rows, frames: piece })
  }
  return windows
}

/**
 * Silence fills the last frame, and two of a recording that has fewer. Behind the end of one that has a window before its last there are
 * frames of zeros, which are no silence: what rows there make of them fills up the last that are joined.
 */
function filledWindows(samples: Float32Array, processing: WhisperProcessing): Window[] {
  const { bands } = processing
  const filled = new Float32Array(Math.max(2, Math.ceil(samples.length / HOP)) * HOP)
  filled.set(samples)
  const frames = featuresOf(filled, bands)
  const size = FRAMES * bands
  return Array.from({ length: Math.ceil(frames.length / size) }, (_, window) => {
    const heard = frames.slice(window * size, (window + 1) * size)
    const own = rowsOf(heard.length / bands)
    const seen = window > 0 ? new Float32Array(size) : heard
    seen.set(heard)
    return { rows: filledRows(own, processing), own, frames: seen }
  })
}

/** With those that lack of rows that become one. */
const filledRows = (own: number, { joined }: Pick<WhisperProcessing, "joined">) =>
  Math.ceil(own / joined) * joined

/** Those of a recording's frames where silence fills the longest that is heard: so much of it as they see. */
function filledFrames(
  samples: Float32Array,
  { bands, most, isLate }: Pick<WhisperProcessing, "bands" | "most" | "isLate">,
): Float32Array {
  const { length } = samples
  const count = isLate ? Math.floor(length / HOP) : Math.ceil(length / HOP)
  const all = Math.min(count + Math.ceil(LENGTH / HOP) + 1, (most * RATE) / HOP) * HOP
  const filled = new Float32Array(Math.max(length, all))
  filled.set(samples, isLate ? filled.length - length : 0)
  const frames = featuresOf(filled, bands)
  return isLate ? frames.subarray(frames.length - count * bands) : frames.subarray(0, count * bands)
}

/** Silence fills the last row. */
function samplesWindow(samples: Float32Array, { bands }: SamplesProcessing): Window {
  const rows = Math.ceil(samples.length / bands)
  const frames = new Float32Array(rows * bands)
  frames.set(samples)
  return { rows, own: rows, frames }
}

const ownRows = (samples: number) => rowsOf(Math.ceil(Math.min(samples, SAMPLES) / HOP))

/** Of so many frames, behind a convolution of stride 2. */
function rowsOf(frames: number): number {
  return Math.floor((frames - 1) / 2) + 1
}

/** @param frames [frames, bands] of the window, as many as the rows see */
export function tileOf(span: Span, frames: Float32Array, processing: AudioProcessing): Tile {
  switch (processing.cutting) {
    case "chunks":
      return chunkTile(span.rows, frames, processing)
    case "subsampled":
      return subsampledTile(span.rows, frames, processing)
    case "ended":
      return endedTile(span.rows, frames, processing)
    case "samples":
      return { given: frames, ...eachRow(span.rows) }
    case "paired":
      return pairedTile(span, frames, processing)
    case "eighths":
      return eighthsTile(span.rows, frames, processing)
    case "strided":
      return stridedTile(span.rows, frames)
    default:
      return whisperTile(span, frames, processing)
  }
}

function whisperTile(
  { rows, own }: Span,
  frames: Float32Array,
  { bands, joined, isTurned, cutting }: WhisperProcessing,
): Tile {
  const isFilled = cutting === "filled"
  const columns = 5 * bands + (isFilled ? 3 : cutting === "pieces" ? 2 : 1)
  const given = new Float32Array(rows * columns)
  const count = frames.length / bands
  for (let row = 0; row < rows; row++) {
    const from = (2 * row - 2) * bands
    const seen = frames.subarray(Math.max(0, from), from + 5 * bands)
    given.set(seen, row * columns + Math.max(0, -from))
    const marks = [Math.min(row, 1), Number(2 * row + 1 < count), Number(2 * row < count)]
    given.set(marks.slice(0, columns - 5 * bands), row * columns + 5 * bands)
  }
  const isPlaced = (row: number) => !isTurned && 2 * row < FRAMES
  return {
    given,
    places: Int32Array.from({ length: rows }, (_, row) => (isPlaced(row) ? row : 0)),
    wanted: Int32Array.from(
      { length: Math.floor((isFilled ? rows : own) / joined) },
      (_, row) => row * joined,
    ),
    ...(isFilled && { seenTo: new Int32Array(rows).fill(own - 1) }),
  }
}
