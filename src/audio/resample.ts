// Any rate to that of the features: a sinc under a Kaiser window, one set of coefficients for each place between two samples that an
// output falls on, of which a ratio of whole numbers has few. What is kept and what is taken away is as in soxr's high quality,
// which librosa and with it transformers resample with: all up to 0.913 of the lower of the two Nyquist frequencies, and
// nothing from there on. In between the slopes differ.

import type { Sound } from "./audio.ts"

/** Of the lower Nyquist frequency: what is kept whole. */
const PASS = 0.913
/** Decibels: ripples above PASS and below 1, with room to 80. */
const ATTENUATION = 100

/** Kaiser's formulas: https://ccrma.stanford.edu/~jos/sasp/Kaiser_Window.html */
const BETA = 0.1102 * (ATTENUATION - 8.7)
/** Samples of the lower rate to each side. */
const REACH = (ATTENUATION - 7.95) / (14.36 * ((1 - PASS) / 2)) / 2
/** The middle of the slope. */
const CUTOFF = (1 + PASS) / 2

/** @returns as many samples as there is time for, the last one begun */
export function resampled({ rate, samples }: Sound, to: number): Float32Array {
  if (rate === to) return samples
  const shared = divisor(rate, to)
  const [up, down] = [to / shared, rate / shared]
  const stretch = Math.max(1, rate / to) // samples of the input to one of the lower rate
  const reach = REACH * stretch
  const phases = new Map<number, Float64Array>()
  const out = new Float32Array(Math.ceil((samples.length * up) / down))
  for (let at = 0; at < out.length; at++) {
    const phase = (at * down) % up
    const whole = (at * down - phase) / up
    const weights = phases.get(phase) ?? weightsAt(phase / up, stretch, reach)
    phases.set(phase, weights)
    const first = whole - Math.floor(reach)
    const begin = Math.max(0, -first)
    const end = Math.min(weights.length, samples.length - first)
    let sum = 0
    for (let tap = begin; tap < end; tap++) sum += weights[tap]! * samples[first + tap]!
    out[at] = sum
  }
  return out
}

/** How much each sample around counts for what lies `fraction` behind one of them; together 1. */
function weightsAt(fraction: number, stretch: number, reach: number): Float64Array {
  const before = Math.floor(reach)
  const weights = Float64Array.from({ length: 2 * before + 2 }, (_, tap) => {
    const far = tap - before - fraction
    const edge = 1 - (far / reach) ** 2
    return edge < 0 ? 0 : sinc((far / stretch) * CUTOFF) * bessel(BETA * Math.sqrt(edge))
  })
  const sum = weights.reduce((all, weight) => all + weight, 0)
  return weights.map((weight) => weight / sum)
}

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x)
}

/** The modified Bessel function of the first kind and order 0, by its series. */
function bessel(x: number): number {
  let sum = 1
  let term = 1
  for (let index = 1; term > sum * Number.EPSILON; index++) {
    term *= (x / (2 * index)) ** 2
    sum += term
  }
  return sum
}

function divisor(one: number, other: number): number {
  return other === 0 ? one : divisor(other, one % other)
}
