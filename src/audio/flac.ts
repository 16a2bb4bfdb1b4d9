// FLAC to sound: everything that RFC 9639 has, but streams whose rate, channels or bits change under way. Written here since it is
// shorter than what a decoder in WebAssembly would need around it, and since a few bytes may stand for an hour: blocks become
// one channel as they come, and too many end it. Frames are held to their checksums, the stream to the length that it promises.
//
// Samples are doubles: products of a prediction take up to 52 bits.

import { Bits } from "./bits.ts"
import { Broken, type Decoded, orRefusal } from "./broken.ts"
import { lengthProblem, rateProblem, tooLong } from "./limits.ts"

interface Stream {
  rate: number
  channels: number
  bits: number
  /** 0: not known. */
  total: number
}

/** @returns its channels' mean, or why there is none, as the rest of a sentence that begins with what it is about */
export function decodeFlac(bytes: Uint8Array, most: number): Promise<Decoded> {
  return orRefusal("a FLAC", () => decoded(bytes, most))
}

function decoded(bytes: Uint8Array, most: number): Decoded {
  const bits = new Bits(bytes)
  bits.read(32) // "fLaC"
  const stream = metadata(bits)
  const { rate, total } = stream
  const refusal = rateProblem(rate) ?? lengthProblem(total / rate, most)
  if (refusal !== undefined) return { refusal }
  const blocks: Float32Array[] = []
  let count = 0
  // What stands behind a stream of known length, such as a tag, is not of it.
  while (total ? count < total : !bits.isAtEnd) {
    const block = frame(bytes, bits, stream)
    blocks.push(block)
    count += block.length
    if (count > most * rate) return { refusal: tooLong(most) }
  }
  if (total && count > total)
    throw new Broken(`it has more than the ${total} samples that it promises`)
  const samples = new Float32Array(count)
  let at = 0
  for (const block of blocks) {
    samples.set(block, at)
    at += block.length
  }
  return { rate, samples }
}

/** Of its blocks the first is the only one that must be read. */
function metadata(bits: Bits): Stream {
  let stream: Stream | undefined
  for (let isLast = false; !isLast; ) {
    isLast = bits.read(1) === 1
    const type = bits.read(7)
    const length = bits.read(24)
    if (!stream) {
      if (type !== 0 || length !== 34) throw new Broken("it does not begin with what its stream is")
      stream = streamInfo(bits)
    } else bits.skip(length)
  }
  return stream!
}

function streamInfo(bits: Bits): Stream {
  bits.skip(10) // the least and most samples of a block and bytes of a frame
  const rate = bits.read(20)
  const channels = bits.read(3) + 1
  const depth = bits.read(5) + 1
  const total = bits.read(4) * 2 ** 32 + bits.read(32)
  bits.skip(16) // a checksum of all samples: each frame has its own
  if (depth < 4) throw new Broken(`it has ${depth} bits a sample, and 4 are the fewest`)
  return { rate, channels, bits: depth, total }
}

const SYNC = 0b11111111111110
const DEPTHS = [0, 8, 12, Number.NaN, 16, 20, 24, 32]
const RATES = [0, 88.2, 176.4, 192, 8, 16, 22.05, 24, 32, 44.1, 48, 96].map((each) => each * 1000)

/** One block: the mean of its channels. */
function frame(bytes: Uint8Array, bits: Bits, stream: Stream): Float32Array {
  const start = bits.position
  if (bits.read(14) !== SYNC || bits.read(1) !== 0)
    throw new Broken(`no frame begins at byte ${start}`)
  bits.read(1) // whether what is counted below is samples or frames
  const sizeCode = bits.read(4)
  const rateCode = bits.read(4)
  const layout = bits.read(4)
  const depth = DEPTHS[bits.read(3)] || stream.bits
  bits.read(1)
  for (let more = utf8Length(bits.read(8)); more > 1; more--) bits.read(8)
  const size = blockSize(sizeCode, bits)
  const rate = rateOf(rateCode, bits) || stream.rate
  const header = checksum8(bytes, start, bits.position)
  if (bits.read(8) !== header) throw new Broken(`the head of the frame at byte ${start} is damaged`)
  const channels = layout < 8 ? layout + 1 : 2
  if (layout > 10) throw new Broken(`the frame at byte ${start} has no known channels`)
  if (channels !== stream.channels || rate !== stream.rate || depth !== stream.bits)
    throw new Broken("its rate, channels or bits change under way")
  const own = Array.from({ length: channels }, (_, channel) =>
    subframe(bits, size, depth + (channel === DIFFERENCE[layout] ? 1 : 0)),
  )
  bits.align()
  const checksum = checksum16(bytes, start, bits.position)
  if (bits.read(16) !== checksum) throw new Broken(`the frame at byte ${start} is damaged`)
  apart(own, layout)
  return mean(own, depth)
}

/** Bytes of a number that is written as UTF-8 writes a character, up to 36 bits. */
function utf8Length(first: number): number {
  const ones = Math.clz32(~first << 24)
  if (ones === 1 || ones === 8) throw new Broken("a frame's number is damaged")
  return Math.max(1, ones)
}

function blockSize(code: number, bits: Bits): number {
  if (code === 0) throw new Broken("a frame has a size that is reserved")
  if (code === 1) return 192
  if (code < 6) return 576 << (code - 2)
  if (code < 8) return bits.read(code === 6 ? 8 : 16) + 1
  return 256 << (code - 8)
}

function rateOf(code: number, bits: Bits): number {
  if (code < 12) return RATES[code]!
  if (code === 12) return bits.read(8) * 1000
  if (code === 15) throw new Broken("a frame has a rate that is forbidden")
  return bits.read(16) * (code === 13 ? 1 : 10)
}

const LEFT_SIDE = 8
const SIDE_RIGHT = 9
const MID_SIDE = 10
/** Which channel is the difference of two, and has one bit more. */
const DIFFERENCE: Record<number, number> = { [LEFT_SIDE]: 1, [SIDE_RIGHT]: 0, [MID_SIDE]: 1 }

/** Left and right of what was stored in their place. */
function apart(own: Float64Array[], layout: number): void {
  if (layout < LEFT_SIDE) return
  const [first, second] = own as [Float64Array, Float64Array]
  for (let at = 0; at < first.length; at++) {
    const [one, other] = [first[at]!, second[at]!]
    if (layout === LEFT_SIDE) second[at] = one - other
    else if (layout === SIDE_RIGHT) first[at] = one + other
    else {
      const sum = 2 * one + Math.abs(other % 2)
      first[at] = (sum + other) / 2
      second[at] = (sum - other) / 2
    }
  }
}

function mean(own: Float64Array[], bits: number): Float32Array {
  const full = 2 ** (bits - 1)
  const samples = new Float32Array(own[0]!.length)
  for (let at = 0; at < samples.length; at++) {
    let sum = 0
    for (const channel of own) {
      const sample = channel[at]!
      if (!(sample >= -full && sample < full))
        throw new Broken(`it has samples of more than ${bits} bits`)
      sum += sample
    }
    samples[at] = sum / own.length / full
  }
  return samples
}

const CONSTANT = 0
const VERBATIM = 1
const FIXED = 8
const LINEAR = 32

/** What predicts a sample from those before it, the last one first, by the order. */
const FIXED_COEFFICIENTS = [[], [1], [2, -1], [3, -3, 1], [4, -6, 4, -1]]

function subframe(bits: Bits, size: number, depth: number): Float64Array {
  const samples = new Float64Array(size)
  if (bits.read(1) !== 0) throw new Broken("a channel begins with a bit that is not 0")
  const type = bits.read(6)
  const wasted = bits.read(1) ? bits.zeros() + 1 : 0
  const width = depth - wasted
  if (width < 1) throw new Broken("a channel has no bits")
  if (type === CONSTANT) samples.fill(bits.signed(width))
  else if (type === VERBATIM) for (let at = 0; at < size; at++) samples[at] = bits.signed(width)
  else predicted(bits, samples, type, width)
  if (wasted) for (let at = 0; at < size; at++) samples[at]! *= 2 ** wasted
  return samples
}

function predicted(bits: Bits, samples: Float64Array, type: number, width: number): void {
  const isLinear = type >= LINEAR
  const order = isLinear ? type - LINEAR + 1 : type - FIXED
  if (order < 0 || (!isLinear && order > 4))
    throw new Broken("a channel is of a kind that is reserved")
  if (order > samples.length) throw new Broken("a channel is shorter than what predicts it")
  for (let at = 0; at < order; at++) samples[at] = bits.signed(width)
  let coefficients = FIXED_COEFFICIENTS[order] ?? []
  let scale = 1
  if (isLinear) {
    const precision = bits.read(4) + 1
    const shift = bits.signed(5)
    if (precision === 16 || shift < 0)
      throw new Broken("a channel is predicted in a way that is reserved")
    coefficients = Array.from({ length: order }, () => bits.signed(precision))
    scale = 2 ** shift
  }
  residuals(bits, samples, order)
  for (let at = order; at < samples.length; at++) {
    let sum = 0
    for (let back = 0; back < order; back++) sum += coefficients[back]! * samples[at - 1 - back]!
    samples[at]! += Math.floor(sum / scale)
  }
}

/** Puts what prediction missed into its place: parts of equal size, each with a parameter of its own (Rice). */
function residuals(bits: Bits, samples: Float64Array, order: number): void {
  const method = bits.read(2)
  if (method > 1) throw new Broken("what prediction missed is stored in a way that is reserved")
  const parameterBits = 4 + method
  const parts = 2 ** bits.read(4)
  const size = samples.length / parts
  if (!Number.isInteger(size) || size < order)
    throw new Broken("a block does not come apart as it says")
  for (let part = 0, at = order; part < parts; part++) {
    const end = (part + 1) * size
    const parameter = bits.read(parameterBits)
    if (parameter === 2 ** parameterBits - 1) {
      const width = bits.read(5)
      for (; at < end; at++) samples[at] = width === 0 ? 0 : bits.signed(width)
      continue
    }
    const scale = 2 ** parameter
    for (; at < end; at++) {
      const folded = bits.zeros() * scale + bits.read(parameter)
      samples[at] = folded % 2 === 0 ? folded / 2 : -(folded + 1) / 2
    }
  }
}

/** Of the bytes between `start` and `end`. */
function checksum8(bytes: Uint8Array, start: number, end: number): number {
  let sum = 0
  for (let at = start; at < end; at++) sum = CRC8[sum ^ bytes[at]!]!
  return sum
}

function checksum16(bytes: Uint8Array, start: number, end: number): number {
  let sum = 0
  for (let at = start; at < end; at++) sum = ((sum << 8) & 0xffff) ^ CRC16[(sum >> 8) ^ bytes[at]!]!
  return sum
}

const CRC8 = crcTable(8, 0x07)
const CRC16 = crcTable(16, 0x8005)

/** What each byte does to a checksum of so many bits. */
function crcTable(bits: number, polynomial: number): Uint16Array {
  return Uint16Array.from({ length: 256 }, (_, byte) => {
    let sum = byte << (bits - 8)
    for (let bit = 0; bit < 8; bit++) sum = (sum << 1) ^ ((sum >> (bits - 1)) & 1 ? polynomial : 0)
    return sum & (2 ** bits - 1)
  })
}
