// Truth is transformers': test/golden/hearing/spectrum.py.

import { readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { sound } from "../../test/model/recordings.ts"
import type { Spectrum } from "./audio.ts"
import { framesOf, leastOf, loudnessOf } from "./spectrum.ts"
import { rowsIn } from "./subsampled.ts"

const golden = JSON.parse(
  readFileSync(new URL("../../test/golden/hearing/spectrum.json", import.meta.url), "utf8"),
) as {
  bands: number
  samples: number
  seed: number
  spectra: {
    what: string
    settings: Record<string, number[]>
    frames: number
    shown: number[]
    features: string
  }[]
  ended: {
    frames: number
    shown: number[]
    features: string
    counts: { samples: number; frames: number }[]
  }
  counts: { samples: number; frames: number; rows: number }[]
}

const usual: Spectrum = {
  length: 320,
  hop: 160,
  transform: 512,
  low: 0,
  high: 8000,
  scale: 1,
  floor: 1e-3,
}

/** What the settings of each golden spectrum say. */
const spectra: Record<string, Partial<Spectrum>> = {
  "as it is made": {},
  "of other frames": { length: 512, transform: 1024, low: 125, high: 7600, floor: 0.01 },
  emphasised: { emphasis: { by: 0.9, isHtk: true }, scale: 2.5 },
  "emphasised otherwise": { emphasis: { by: 0.9, isHtk: false }, length: 400 },
  normalised: {},
}

const NEAR = 3e-5 // transformers transforms in float32

test.each(golden.spectra)("a sound's loudness, $what", ({ what, settings, ...truth }) => {
  const { per_bin_mean: means, per_bin_stddev: deviations } = settings
  const normal = means && deviations && { means, deviations }
  judge({ ...usual, ...spectra[what], ...normal }, truth)
})

/** What Gemma 3n's extractor does where nothing is said. */
const ended: Spectrum = {
  ...{ length: 512, hop: 160, transform: 1024, low: 125, high: 7600, scale: 1 },
  ...{ emphasis: { by: 0.97, isHtk: true }, floor: 1e-5, isLeast: true, filled: 128 },
}

test("a sound's loudness as Gemma 3n hears it", () => judge(ended, golden.ended))

function judge(
  spectrum: Spectrum,
  truth: Pick<(typeof golden)["ended"], "frames" | "shown" | "features">,
): void {
  const { bands, samples, seed } = golden
  const heard = Float32Array.from(sound(samples, seed), (sample) => sample / 32768)
  const loudness = loudnessOf(heard, bands, spectrum)
  expect(loudness).toHaveLength(truth.frames * bands)
  const numbers = new Float32Array(Uint8Array.from(Buffer.from(truth.features, "base64")).buffer)
  for (const [row, at] of truth.shown.entries())
    for (let band = 0; band < bands; band++) {
      const frame = at < 0 ? truth.frames + at : at
      const far = loudness[frame * bands + band]! - numbers[row * bands + band]!
      expect(Math.abs(far)).toBeLessThan(NEAR)
    }
}

test("frames and rows are as many as transformers counts", () => {
  for (const { samples, frames, rows } of golden.counts)
    expect([framesOf(samples, usual), rowsIn(samples, usual)]).toEqual([frames, rows])
  for (const { samples, frames } of golden.ended.counts)
    expect(framesOf(samples, ended)).toBe(frames)
  for (const spectrum of [usual, ended]) {
    expect(framesOf(leastOf(spectrum), spectrum)).toBe(1)
    expect(framesOf(leastOf(spectrum) - 1, spectrum)).toBe(0)
  }
})
