// Sound at 16 kHz as the one tile of a tower that makes a row of every four frames (model/hearing/conformer.ts). Counted as transformers
// counts: feature_extraction_gemma4.py, processing_gemma4.py.

import type { Spectrum, SubsampledProcessing, Tile } from "./audio.ts"
import { framesOf, loudnessOf } from "./spectrum.ts"

export const JOINED = 4 // frames of a row
const BEFORE = 3 // frames ahead of its first that a row sees
const SEEN = 2 * BEFORE + 1

export function rowsIn(samples: number, spectrum: Spectrum): number {
  return Math.ceil(framesOf(samples, spectrum) / JOINED)
}

export function subsampledWindow(
  samples: Float32Array,
  { bands, spectrum }: SubsampledProcessing,
): { rows: number; own: number; frames: Float32Array } {
  const rows = rowsIn(samples.length, spectrum)
  return { rows, own: rows, frames: loudnessOf(samples, bands, spectrum) }
}

/** @param frames [frames, bands], all there are: what is beyond them counts as none */
export function subsampledTile(
  rows: number,
  frames: Float32Array,
  { bands }: SubsampledProcessing,
): Tile {
  const columns = SEEN * bands + 2
  const count = frames.length / bands
  const given = new Float32Array(rows * columns)
  for (let row = 0; row < rows; row++) {
    const first = JOINED * row - BEFORE
    const seen = frames.subarray(Math.max(0, first) * bands, (first + SEEN) * bands)
    given.set(seen, row * columns + Math.max(0, -first) * bands)
    const flags = (row + 1) * columns - 2
    given[flags] = Number(row > 0)
    given[flags + 1] = Number(JOINED * row + 2 < count)
  }
  return { given, ...eachRow(rows) }
}

/** Of a tile whose rows come out one by one, and are looked up nowhere. */
export const eachRow = (rows: number): Omit<Tile, "given"> => ({
  places: new Int32Array(rows),
  wanted: Int32Array.from({ length: rows }, (_, row) => row),
})
