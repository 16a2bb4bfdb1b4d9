// One channel of a frame: its spectrum, as it is written, and what is to be done with it. A long window has one spectrum, eight short ones
// have eight, which lie one behind the other; neighbours may form groups, whose bands have one scale.
//
// ISO/IEC 14496-3, 4.4.2.7 (syntax), 4.6.1 to 4.6.3 (numbers and scales), 4.6.9 (shaping), 4.6.13 (noise).

import type { Bits } from "../bits.ts"
import { Broken } from "../broken.ts"
import type { Bands } from "./bands.ts"
import { DIFFERENCES, MAX_NUMBER, SPECTRAL } from "./codebooks.ts"
import type { Noise } from "./noise.ts"
import { type Filter, filtersIn } from "./shaping.ts"
import { SHORT, type Windows, windowsIn } from "./windows.ts"

/** What channels are decoded with. */
export interface Stream {
  bands: Bands
  noise: Noise
}

export interface Channel {
  windows: Windows
  codebooks: Uint8Array // [groups, written]
  scales: Float64Array // [groups, written]  what numbers are multiplied with; of a band in intensity stereo the other channel's
  spectrum: Float64Array // [windows, samples]
  filters: readonly Filter[]
}

/** Codebooks that are none. */
const ZERO = 0
const RESERVED = 12
export const NOISE = 13
export const OPPOSITE = 14
export const INTENSITY = 15

/** @param common what both channels of a pair share, where they do */
export function channelIn(bits: Bits, { bands, noise }: Stream, common?: Windows): Channel {
  const loudness = bits.read(8)
  const windows = common ?? windowsIn(bits, bands)
  const codebooks = codebooksIn(bits, windows)
  const scales = scalesIn(bits, codebooks, loudness)
  const pulses = bits.read(1) ? pulsesIn(bits, windows) : []
  const filters = bits.read(1) ? filtersIn(bits, windows) : []
  if (bits.read(1)) throw new Broken("a frame of it has its gain controlled, as of AAC SSR")
  const spectrum = new Float64Array(bands.long.at(-1)!)
  const channel = { windows, codebooks, scales, spectrum, filters }
  numbersInto(bits, channel)
  for (const { at, by } of pulses) spectrum[at]! += spectrum[at]! > 0 ? by : -by
  scale(channel, noise)
  return channel
}

/** Sections of bands, one behind the other. */
function codebooksIn(bits: Bits, { sequence, groups, written }: Windows): Uint8Array {
  const codebooks = new Uint8Array(groups.length * written)
  const width = sequence === SHORT ? 3 : 5
  const more = 2 ** width - 1 // and another number follows
  for (let first = 0; first < codebooks.length; first += written)
    for (let band = 0; band < written; ) {
      const codebook = bits.read(4)
      if (codebook === RESERVED) throw new Broken("a frame of it has a codebook that is reserved")
      let length = 0
      let part: number
      do {
        part = bits.read(width)
        length += part
      } while (part === more)
      if (band + length > written)
        throw new Broken("a frame of it has sections that its bands do not hold")
      codebooks.fill(codebook, first + band, first + band + length)
      band += length
    }
  return codebooks
}

/** Of 2^(1/4): a scale of 100 leaves numbers as they are. */
const UNSCALED = 100
/** How much less noise begins with, and what is taken off its first scale. */
const QUIETER = 90
const FIRST_NOISE = 256
const UNCHANGED = 60 // of differences
const MAX_SCALE = 255

/** Each as its difference from the one before it of its own kind. */
function scalesIn(bits: Bits, codebooks: Uint8Array, loudness: number): Float64Array {
  const scales = new Float64Array(codebooks.length)
  const difference = () => DIFFERENCES.read(bits) - UNCHANGED
  let [scale, direction, noise] = [loudness, 0, loudness - QUIETER]
  let isFirstNoise = true
  for (const [band, codebook] of codebooks.entries()) {
    if (codebook === ZERO) continue
    let quarters: number
    if (codebook === INTENSITY || codebook === OPPOSITE) {
      direction += difference()
      quarters = -direction
    } else if (codebook === NOISE) {
      noise += isFirstNoise ? bits.read(9) - FIRST_NOISE : difference()
      isFirstNoise = false
      quarters = noise
    } else {
      scale += difference()
      if (scale < 0) throw new Broken("a frame of it has a scale below 0")
      quarters = scale - UNSCALED
    }
    if (Math.abs(quarters) > MAX_SCALE)
      throw new Broken("a frame of it has a scale beyond all bounds")
    scales[band] = 2 ** (quarters / 4)
  }
  return scales
}

interface Pulse {
  at: number
  by: number
}

/** What single numbers are larger by than they are written. */
function pulsesIn(bits: Bits, { sequence, starts, written }: Windows): Pulse[] {
  if (sequence === SHORT) throw new Broken("a frame of it has pulses in short windows")
  const count = bits.read(2) + 1
  let at = starts[bits.read(6)] ?? Number.POSITIVE_INFINITY
  return Array.from({ length: count }, () => {
    at += bits.read(5)
    if (at >= starts[written]!) throw new Broken("a frame of it has pulses beyond its bands")
    return { at, by: bits.read(4) }
  })
}

/** What each band of each window is, in the order in which they are written. */
export function* bandsIn({ windows, codebooks }: Pick<Channel, "windows" | "codebooks">) {
  const { groups, starts, written, sequence } = windows
  const size = sequence === SHORT ? starts.at(-1)! : 0
  let first = 0
  for (const [group, count] of groups.entries()) {
    for (let band = 0; band < written; band++) {
      const place = group * written + band
      for (let window = first; window < first + count; window++)
        yield {
          place,
          codebook: codebooks[place]!,
          from: window * size + starts[band]!,
          end: window * size + starts[band + 1]!,
        }
    }
    first += count
  }
}

function numbersInto(bits: Bits, channel: Channel): void {
  for (const { codebook, from, end } of bandsIn(channel))
    if (codebook !== ZERO && codebook < RESERVED)
      SPECTRAL[codebook - 1]!.read(bits, channel.spectrum, from, end)
}

const MAX_PULSES = 4 * 15
/** |number|^(4/3). */
const POWERS = Float64Array.from(
  { length: MAX_NUMBER + MAX_PULSES + 1 },
  (_, number) => Math.cbrt(number) * number,
)

function scale(channel: Channel, noise: Noise): void {
  const { spectrum, scales } = channel
  for (const { place, codebook, from, end } of bandsIn(channel)) {
    if (codebook === NOISE) noise.fill(spectrum, from, end, scales[place]!)
    else if (codebook < RESERVED)
      for (let at = from; at < end; at++) {
        const number = spectrum[at]!
        const power = number < 0 ? -POWERS[-number]! : POWERS[number]!
        spectrum[at] = power * scales[place]!
      }
  }
}
