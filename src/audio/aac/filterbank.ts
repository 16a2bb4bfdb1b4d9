// Spectra to samples: each window's inverse transform (IMDCT), with slopes by which neighbours fade into each other.
//
// ISO/IEC 14496-3, 4.6.11.

import { Fourier } from "../fourier.ts"
import { SHORT, START, STOP, type Windows } from "./windows.ts"

/** How loud samples of 16 bits are. */
const FULL = 32_768

/** A spectrum, its windows, and by which slope the last one before them fell. */
export interface Windowed extends Pick<Windows, "sequence" | "isKaiser"> {
  spectrum: Float64Array // [windows, samples]
  wasKaiser: boolean
}

export class Filterbank {
  readonly #size: number
  readonly #long: Transform
  readonly #short: Transform
  readonly #slopes: readonly Record<"long" | "short", Float64Array>[] // sine, Kaiser and Bessel
  readonly #block: Float64Array // [2, size]
  readonly #part: Float64Array // [2, size / 8]
  readonly #rest: Float64Array // [size] what a frame leaves for the next

  /** @param size samples of a frame */
  constructor(size: number) {
    this.#size = size
    this.#long = new Transform(size)
    this.#short = new Transform(size / 8)
    this.#slopes = [
      { long: sine(size), short: sine(size / 8) },
      { long: kaiser(size, 4), short: kaiser(size / 8, 6) },
    ]
    this.#block = new Float64Array(2 * size)
    this.#part = new Float64Array(size / 4)
    this.#rest = new Float64Array(size)
  }

  /** Of a frame's parts, each with windows of its own, and what the frame before left. */
  samplesOf(parts: readonly Windowed[]): Float64Array {
    const samples = this.#rest.slice()
    this.#rest.fill(0)
    for (const part of parts) {
      this.#inverse(part)
      for (let at = 0; at < this.#size; at++) {
        samples[at]! += this.#block[at]!
        this.#rest[at]! += this.#block[this.#size + at]!
      }
    }
    return samples
  }

  #inverse({ spectrum, sequence, isKaiser, wasKaiser }: Windowed): void {
    const before = this.#slopes[Number(wasKaiser)]!
    const own = this.#slopes[Number(isKaiser)]!
    if (sequence !== SHORT) {
      this.#long.inverse(spectrum, this.#block)
      fade(
        this.#block,
        sequence === STOP ? before.short : before.long,
        sequence === START ? own.short : own.long,
      )
      return
    }
    const length = this.#size / 8
    this.#block.fill(0)
    for (let window = 0; window < 8; window++) {
      this.#short.inverse(spectrum.subarray(window * length, (window + 1) * length), this.#part)
      fade(this.#part, (window === 0 ? before : own).short, own.short)
      const first = (this.#size - length) / 2 + window * length
      for (let at = 0; at < 2 * length; at++) this.#block[first + at]! += this.#part[at]!
    }
  }
}

/** Slopes shorter than half a block stand in the middle of it, with nothing before the one and behind the other. */
function fade(block: Float64Array, rise: Float64Array, fall: Float64Array): void {
  const half = block.length / 2
  const last = block.length - 1
  const [before, behind] = [(half - rise.length) / 2, (half - fall.length) / 2]
  block.fill(0, 0, before)
  for (let at = 0; at < rise.length; at++) block[before + at]! *= rise[at]!
  for (let at = 0; at < fall.length; at++) block[last - behind - at]! *= fall[at]!
  block.fill(0, block.length - behind)
}

function sine(length: number): Float64Array {
  return Float64Array.from({ length }, (_, at) => Math.sin((Math.PI / (2 * length)) * (at + 0.5)))
}

function kaiser(length: number, alpha: number): Float64Array {
  const weights = Float64Array.from({ length: length + 1 }, (_, at) =>
    bessel(Math.PI * alpha * Math.sqrt(1 - ((2 * at) / length - 1) ** 2)),
  )
  const whole = weights.reduce((sum, weight) => sum + weight)
  let sum = 0
  return weights.subarray(0, length).map((weight) => {
    sum += weight
    return Math.sqrt(sum / whole)
  })
}

/** The modified Bessel function of the first kind and of order 0, by its series. */
function bessel(x: number): number {
  let [sum, term] = [1, 1]
  for (let count = 1; term > sum * Number.EPSILON; count++) {
    term *= (x / (2 * count)) ** 2
    sum += term
  }
  return sum
}

/** The inverse of the modified discrete cosine transform, by a Fourier transform of half as many numbers as a spectrum has. */
class Transform {
  readonly #size: number
  readonly #fourier: Fourier
  readonly #turns: Float64Array // [size / 2, 2]
  readonly #given: Float64Array // [size / 2, 2]
  readonly #taken: Float64Array // [size / 2, 2]

  constructor(size: number) {
    this.#size = size
    this.#fourier = new Fourier(size / 2)
    this.#turns = Float64Array.from({ length: size }, (_, at) => {
      const angle = (Math.PI / size) * ((at >> 1) + 0.125)
      return at & 1 ? -Math.sin(angle) : Math.cos(angle)
    })
    this.#given = new Float64Array(size)
    this.#taken = new Float64Array(size)
  }

  /** @param to [2, size] */
  inverse(spectrum: Float64Array, to: Float64Array): void {
    const size = this.#size
    const [turns, given, taken] = [this.#turns, this.#given, this.#taken]
    for (let at = 0; at < size; at += 2) {
      const [real, imaginary] = [spectrum[at]!, spectrum[size - 1 - at]!]
      const [cosine, sine] = [turns[at]!, turns[at + 1]!]
      given[at] = real * cosine - imaginary * sine
      given[at + 1] = real * sine + imaginary * cosine
    }
    this.#fourier.transform(given, taken)
    const scale = 1 / (size * FULL)
    for (let at = 0; at < size; at += 2) {
      const [cosine, sine] = [turns[at]!, turns[at + 1]!]
      given[at] = (taken[at]! * cosine - taken[at + 1]! * sine) * scale
      given[size - 1 - at] = -(taken[at]! * sine + taken[at + 1]! * cosine) * scale
    }
    unfold(given, to)
  }
}

/** Every number of a cosine transform of the fourth kind stands in two places of this one. */
function unfold(from: Float64Array, to: Float64Array): void {
  const half = from.length / 2
  for (let at = 0; at < half; at++) {
    const [low, high] = [from[at]!, from[half + at]!]
    to[at] = high
    to[2 * half - 1 - at] = -high
    to[3 * half - 1 - at] = -low
    to[3 * half + at] = -low
  }
}
