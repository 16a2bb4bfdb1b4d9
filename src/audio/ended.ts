// Sound at 16 kHz as the one tile of a tower that makes a row of every four frames, looks ahead and not back, and leaves every few of its rows
// (model/hearing/cumulative.ts). As many come out of every recording: what lacks is a row that stands for nothing, and a last one ends all.
// Both of these are learned, and stand behind the recording's. Counted as transformers counts: feature_extraction_gemma3n.py,
// modeling_gemma3n.py.

import type { EndedProcessing, Tile } from "./audio.ts"
import { loudnessOf } from "./spectrum.ts"
import { JOINED, rowsIn } from "./subsampled.ts"

const SEEN = 7 // of which it is made

/** Behind a row's frames: whether it has a second and a third part, by how much what is between the mean so far and those beside it counts, whether it is heard. */
export const ENDED_MARKS = { second: 0, third: 1, first: 2, next: 3, heard: 4, columns: 5 } as const

/** What fills up, and what ends. */
export const endingRows = 2

export function endedWindow(
  samples: Float32Array,
  { bands, spectrum }: EndedProcessing,
): { rows: number; own: number; frames: Float32Array } {
  const own = rowsIn(samples.length, spectrum)
  return { rows: own + endingRows, own, frames: loudnessOf(samples, bands, spectrum) }
}

/** @param frames [frames, bands], all there are: what is beyond them counts as none */
export function endedTile(
  rows: number,
  frames: Float32Array,
  { bands, every, filled }: EndedProcessing,
): Tile {
  const columns = SEEN * bands + ENDED_MARKS.columns
  const own = rows - endingRows
  const halves = Math.ceil(frames.length / bands / 2) // rows of the first convolution
  const given = new Float32Array(rows * columns)
  for (let row = 0; row < own; row++) {
    const first = JOINED * row * bands
    given.set(frames.subarray(first, first + SEEN * bands), row * columns)
    const half = 2 * row
    const marks = [half + 1 < halves, half + 2 < halves, -1 / (half + 1), 1 / (half + 3), 1]
    given.set(marks.map(Number), row * columns + SEEN * bands)
  }
  const heard = Math.min(Math.ceil(own / every), filled)
  return {
    given,
    places: Int32Array.from({ length: rows }, (_, row) => Math.max(0, row - own + 1)),
    wanted: Int32Array.from({ length: filled + 1 }, (_, at) =>
      at < heard ? at * every : at < filled ? own : own + 1,
    ),
  }
}
