// How loud a sound is in each band of the mel scale as Gemma4AudioFeatureExtractor of transformers computes it, and Gemma3n's: periodic Hann
// windows of some 20 ms, the first of which has half of itself ahead of the sound, or nothing, bands of the scale that HTK has, whose triangles
// are all as high as each other, natural logarithms of magnitudes over a floor, or above it. Float64 inside, where transformers transforms in float32.

import type { Spectrum } from "./audio.ts"
import { RATE } from "./features.ts"
import { type Filter, melFilters } from "./filters.ts"
import { Fourier } from "./fourier.ts"

/** Frames that lie within so many samples, the half ahead of them aside; each needs one more than its length. */
export function framesOf(samples: number, { length, hop, filled }: Spectrum): number {
  const seen = filled ? Math.ceil(samples / filled) * filled : samples + Math.floor(length / 2)
  return Math.max(0, Math.ceil((seen - length) / hop))
}

/** Fewer samples have no frame. */
export const leastOf = ({ length, filled }: Spectrum): number =>
  filled ? Math.floor(length / filled) * filled + 1 : Math.ceil(length / 2) + 1

/** @returns [frames, bands] */
export function loudnessOf(samples: Float32Array, bands: number, spectrum: Spectrum): Float32Array {
  const { length, hop, transform, scale, floor, isLeast, filled, means, deviations } = spectrum
  const frames = framesOf(samples.length, spectrum)
  const filters = htkFilters(bands, spectrum)
  const fourier = new Fourier(transform)
  const window = Float32Array.from(
    { length },
    (_, at) => 0.5 - 0.5 * Math.cos((2 * Math.PI * at) / length),
  )
  const loudness = new Float32Array(frames * bands)
  const given = new Float64Array(2 * transform) // real numbers, each with an imaginary one behind it
  const made = new Float64Array(2 * transform)
  for (let frame = 0; frame < frames; frame++) {
    const start = frame * hop - (filled ? 0 : Math.floor(length / 2))
    const sample = (at: number) => (samples[start + at] ?? 0) * scale
    for (let at = 0; at < length; at++)
      given[2 * at] = emphasised(sample, at, spectrum) * window[at]!
    fourier.transform(given, made)
    for (let band = 0; band < bands; band++) {
      const magnitude = magnitudeOf(made, filters[band]!)
      const log = Math.log(isLeast ? Math.max(magnitude, floor) : magnitude + floor)
      const centred = log - (means?.[band] ?? 0)
      loudness[frame * bands + band] = centred / (deviations?.[band] ?? 1)
    }
  }
  return loudness
}

/** Less a part of the sample before it; not as HTK has it, of one further on. What becomes of a frame's first is all one: its window is 0. */
function emphasised(
  sample: (at: number) => number,
  at: number,
  { emphasis }: Pick<Spectrum, "emphasis">,
): number {
  if (!emphasis) return sample(at)
  const { by, isHtk } = emphasis
  const own = isHtk ? at : at + 1
  return sample(own) - by * sample(own - 1)
}

function magnitudeOf(made: Float64Array, { start, weights }: Filter): number {
  let sum = 0
  for (let index = 0; index < weights.length; index++) {
    const bin = 2 * (start + index)
    sum += weights[index]! * Math.hypot(made[bin]!, made[bin + 1]!)
  }
  return sum
}

/** The same of powers. */
export function powerOf(made: Float64Array, { start, weights }: Filter): number {
  let sum = 0
  for (let index = 0; index < weights.length; index++) {
    const bin = 2 * (start + index)
    sum += weights[index]! * (made[bin]! ** 2 + made[bin + 1]! ** 2)
  }
  return sum
}

/** HTK's scale. */
const melOf = (hertz: number) => 2595 * Math.log10(1 + hertz / 700)
const hertzOf = (mel: number) => 700 * (10 ** (mel / 2595) - 1)

export function htkFilters(
  bands: number,
  { transform, low, high }: Pick<Spectrum, "transform" | "low" | "high">,
): Filter[] {
  const [from, to] = [melOf(low), melOf(high)]
  const corners = Array.from({ length: bands + 2 }, (_, corner) =>
    hertzOf(from + ((to - from) * corner) / (bands + 1)),
  )
  return melFilters(corners, { bins: transform / 2 + 1, step: RATE / transform })
}
