// How loud a sound is in each band of the mel scale, a hundred times a second, as WhisperFeatureExtractor of transformers computes it:
// periodic Hann windows of 25 ms around each 10 ms, edges reflected, the bands of Slaney's Auditory Toolbox, decimal logarithms.
// Float64 inside, where transformers has float32 if torch is there: its quietest bands are off in the fifth decimal.

import { type Filter, melFilters } from "./filters.ts"
import { Fourier } from "./fourier.ts"

export const RATE = 16_000 // samples a second
export const HOP = 160 // samples from one frame to the next
export const LENGTH = 400 // samples that a frame sees
export const BINS = LENGTH / 2 + 1 // frequencies of a frame

const fourier = new Fourier(LENGTH)
const hann = Float64Array.from(
  { length: LENGTH },
  (_, index) => 0.5 - 0.5 * Math.cos((2 * Math.PI * index) / LENGTH),
)

/** What the softest sound counts as. */
const FLOOR = 1e-10
/** In powers of ten: nothing is further below the loudest. */
const RANGE = 8

/**
 * @param samples at RATE, so many that an edge can be reflected; a frame that is not whole at their end is left out
 * @returns [frames, bands] about -1 to 1
 */
export function featuresOf(samples: Float32Array, bands: number): Float32Array {
  const frames = Math.floor(samples.length / HOP)
  const logs = new Float64Array(frames * bands).fill(Math.log10(FLOOR))
  const filters = slaneyFilters(bands)
  const pair = new Float64Array(2 * LENGTH) // of two frames, one as real and one as imaginary numbers
  const spectrum = new Float64Array(2 * LENGTH)
  const [first, second] = [new Float64Array(BINS), new Float64Array(BINS)]
  for (let frame = 0; frame < frames; frame += 2) {
    const isLast = frame + 1 === frames
    const isHeard = windowed(samples, frame, pair, 0)
    const isOtherHeard = !isLast && windowed(samples, frame + 1, pair, 1)
    if (!isHeard && !isOtherHeard) continue
    fourier.transform(pair, spectrum)
    powersOf(spectrum, first, second)
    loudness(first, filters, logs, frame * bands)
    if (!isLast) loudness(second, filters, logs, (frame + 1) * bands)
  }
  return bounded(logs)
}

/** Decimal logarithms by the loudest of them. */
export function bounded(logs: Float64Array): Float32Array {
  let loudest = Number.NEGATIVE_INFINITY
  for (const log of logs) loudest = Math.max(loudest, log)
  return Float32Array.from(logs, (log) => (Math.max(log, loudest - RANGE) + 4) / 4)
}

/** Whether there is any sound; puts it at every second place from `at` on. */
function windowed(samples: Float32Array, frame: number, to: Float64Array, at: number): boolean {
  const start = frame * HOP - LENGTH / 2
  const last = samples.length - 1
  let isHeard = false
  for (let index = 0; index < LENGTH; index++) {
    const place = Math.abs(start + index)
    const sample = samples[place > last ? 2 * last - place : place]!
    isHeard ||= sample !== 0
    to[2 * index + at] = sample * hann[index]!
  }
  return isHeard
}

/** Takes the spectra of two real frames apart: those of real numbers are mirrored, those of imaginary ones against it. */
function powersOf(spectrum: Float64Array, first: Float64Array, second: Float64Array): void {
  for (let bin = 0; bin < BINS; bin++) {
    const mirror = (LENGTH - bin) % LENGTH
    const [real, imaginary] = [spectrum[2 * bin]!, spectrum[2 * bin + 1]!]
    const [mirrorReal, mirrorImaginary] = [spectrum[2 * mirror]!, spectrum[2 * mirror + 1]!]
    first[bin] = ((real + mirrorReal) ** 2 + (imaginary - mirrorImaginary) ** 2) / 4
    second[bin] = ((imaginary + mirrorImaginary) ** 2 + (real - mirrorReal) ** 2) / 4
  }
}

function loudness(powers: Float64Array, filters: Filter[], to: Float64Array, at: number): void {
  for (let band = 0; band < filters.length; band++) {
    const { start, weights } = filters[band]!
    let sum = 0
    for (let index = 0; index < weights.length; index++)
      sum += weights[index]! * powers[start + index]!
    to[at + band] = Math.log10(Math.max(FLOOR, sum))
  }
}

/** [bands, bins] what of a spectrum counts for each band. */
export function melWeights(bands: number): Float32Array {
  const weights = new Float32Array(bands * BINS)
  for (const [band, { start, weights: own }] of slaneyFilters(bands).entries())
    weights.set(own, band * BINS + start)
  return weights
}

/** Triangles that overlap by half, each of the same area. @param transform numbers that a spectrum is made of */
export function slaneyFilters(bands: number, transform = LENGTH): Filter[] {
  const top = melOf(RATE / 2)
  const corners = Array.from({ length: bands + 2 }, (_, corner) =>
    hertzOf((top * corner) / (bands + 1)),
  )
  const spectrum = { bins: transform / 2 + 1, step: RATE / transform }
  return melFilters(corners, spectrum, (low, high) => 2 / (high - low))
}

/** Slaney's scale: a straight line up to 1000 Hz, and from there on 27 steps to 6.4 times as much. */
const LINEAR = 1000
const SLOPE = 3 / 200
const STEP = Math.log(6.4) / 27

function melOf(hertz: number): number {
  return hertz < LINEAR ? hertz * SLOPE : LINEAR * SLOPE + Math.log(hertz / LINEAR) / STEP
}

function hertzOf(mel: number): number {
  const bend = LINEAR * SLOPE
  return mel < bend ? mel / SLOPE : LINEAR * Math.exp((mel - bend) * STEP)
}
