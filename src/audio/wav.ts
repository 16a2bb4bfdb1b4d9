// WAV to sound: whole numbers of 8 to 32 bits, floats, A-law and mu-law, of any number of channels; chunks in any order. A writer that
// could not know how long its stream would be says 0 or almost 2^31 or 2^32 bytes, and then all that follows is sound. Any other
// size is held to.
//
// https://www.mmsp.ece.mcgill.ca/Documents/AudioFormats/WAVE/WAVE.html

import type { Sound } from "./audio.ts"
import { lengthProblem, rateProblem } from "./limits.ts"

interface Layout {
  channels: number
  rate: number
  bits: number
  read: Reader
}

type Reader = (view: DataView, at: number) => number

const PCM = 1
const FLOAT = 3
const A_LAW = 6
const MU_LAW = 7
const EXTENSIBLE = 0xfffe

/** By format and bits, each between -1 and 1. */
const READERS: Record<string, Reader> = {
  [`${PCM} 8`]: (view, at) => (view.getUint8(at) - 128) / 2 ** 7,
  [`${PCM} 16`]: (view, at) => view.getInt16(at, true) / 2 ** 15,
  [`${PCM} 24`]: (view, at) =>
    (view.getInt8(at + 2) * 2 ** 16 + view.getUint16(at, true)) / 2 ** 23,
  [`${PCM} 32`]: (view, at) => view.getInt32(at, true) / 2 ** 31,
  [`${FLOAT} 32`]: (view, at) => view.getFloat32(at, true),
  [`${FLOAT} 64`]: (view, at) => view.getFloat64(at, true),
  [`${A_LAW} 8`]: (view, at) => fromALaw(view.getUint8(at)) / 2 ** 15,
  [`${MU_LAW} 8`]: (view, at) => fromMuLaw(view.getUint8(at)) / 2 ** 15,
}

/** Of a subformat, behind its first two bytes: what Microsoft gives to all formats that have a number. */
const NUMBERED = "000000001000800000aa00389b71"

/** What nobody writes who knows the size: 2^31 less a page (SoX), 2^32 less 1 (FFmpeg). */
const UNKNOWN_SIZE = 0x7ffff000

/** Beyond full scale as far as a number of 32 bits that was never scaled. */
const MAX_SAMPLE = 2 ** 31

/** @returns its channels' mean, or why there is none, as the rest of a sentence that begins with what it is about */
export function decodeWav(bytes: Uint8Array, most: number): Sound | { refusal: string } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const chunks = chunksOf(view)
  if (typeof chunks === "string") return broken(chunks)
  const { format, data } = chunks
  if (!format) return broken("it does not say how its samples are stored")
  if (!data) return broken("it has no samples")
  const layout = layoutOf(format)
  if (typeof layout === "string") return broken(layout)
  const { channels, rate, bits } = layout
  const frame = (channels * bits) / 8
  const count = data.byteLength / frame
  if (!Number.isInteger(count)) return broken("it ends in the middle of a sample")
  const refusal = rateProblem(rate) ?? lengthProblem(count / rate, most)
  if (refusal !== undefined) return { refusal }
  const samples = mean(data, layout)
  return samples
    ? { rate, samples }
    : broken("it has samples that are no numbers, or 2^31 and more")
}

const broken = (why: string) => ({
  refusal: `is a WAV that cannot be decoded (${why}); send it whole and valid`,
})

interface Chunks {
  format?: DataView
  data?: DataView
}

/** The first of each kind, or what is wrong. */
function chunksOf(view: DataView): Chunks | string {
  const isWhole = view.byteLength - 8 === view.getUint32(4, true)
  const chunks: Chunks = {}
  for (let at = 12; at + 8 <= view.byteLength; ) {
    const id = view.getUint32(at)
    const size = view.getUint32(at + 4, true)
    const rest = view.byteLength - at - 8
    const isStream = id === DATA && (size >= UNKNOWN_SIZE || (size === 0 && !isWhole))
    if (!isStream && size > rest) return `it is cut off, ${rest} bytes into a part of ${size}`
    const content = new DataView(view.buffer, view.byteOffset + at + 8, isStream ? rest : size)
    if (id === FORMAT) chunks.format ??= content
    if (id === DATA) chunks.data ??= content
    if (isStream) break
    at += 8 + size + (size % 2) // padded to even
  }
  return chunks
}

const FORMAT = 0x666d7420 // "fmt "
const DATA = 0x64617461 // "data"

/** How samples lie, or what is wrong. */
function layoutOf(format: DataView): Layout | string {
  if (format.byteLength < 16) return `its format has ${format.byteLength} bytes instead of 16`
  const channels = format.getUint16(2, true)
  const rate = format.getUint32(4, true)
  const frame = format.getUint16(12, true)
  const bits = format.getUint16(14, true)
  const tag = numberOf(format)
  if (tag === undefined) return "its extended format is none that has a number"
  const read = READERS[`${tag} ${bits}`]
  if (!read)
    return `its format is number ${tag} with ${bits} bits a sample; whole numbers (1) of 8, 16, 24 and 32 bits, floats (3) of 32 and 64, A-law (6) and mu-law (7) are read`
  if (channels === 0) return "it has no channels"
  if (frame !== (channels * bits) / 8)
    return `${channels} channels of ${bits} bits take ${(channels * bits) / 8} bytes, and it says ${frame}`
  return { channels, rate, bits, read }
}

function numberOf(format: DataView): number | undefined {
  const tag = format.getUint16(0, true)
  if (tag !== EXTENSIBLE) return tag
  if (format.byteLength < 40) return undefined
  const rest = Buffer.from(format.buffer, format.byteOffset + 26, 14).toString("hex")
  return rest === NUMBERED ? format.getUint16(24, true) : undefined
}

function mean(data: DataView, { channels, bits, read }: Layout): Float32Array | undefined {
  const step = bits / 8
  const samples = new Float32Array(data.byteLength / step / channels)
  for (let sample = 0, at = 0; sample < samples.length; sample++) {
    let sum = 0
    for (let channel = 0; channel < channels; channel++, at += step) sum += read(data, at)
    const value = sum / channels
    if (!(Math.abs(value) < MAX_SAMPLE)) return undefined
    samples[sample] = value
  }
  return samples
}

/** ITU-T G.711, table 1: sign, three bits of exponent and four of mantissa; every second bit is inverted. */
function fromALaw(byte: number): number {
  const code = byte ^ 0x55
  const exponent = (code >> 4) & 7
  const mantissa = ((code & 15) << 4) + 8
  const size = exponent === 0 ? mantissa : (mantissa + 256) << (exponent - 1)
  return code & 0x80 ? size : -size
}

/** ITU-T G.711, table 2: the same with all bits inverted, and 33 (here times four) added before. */
function fromMuLaw(byte: number): number {
  const code = ~byte
  const size = ((((code & 15) << 3) + 132) << ((code >> 4) & 7)) - 132
  return code & 0x80 ? -size : size
}
