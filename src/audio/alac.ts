// Apple Lossless: frames to samples as they were. What differs from a prediction is written in codes whose length follows how large the last
// differences were (Golomb and Rice); the prediction's coefficients follow the signs of what it misses. Numbers have 32 bits and
// wrap around, as in Apple's own program.
//
// https://github.com/macosforge/alac: ALACMagicCookieDescription.txt, ag_dec.c, dp_dec.c, matrix_dec.c

import { Bits } from "./bits.ts"
import { Broken } from "./broken.ts"
import { COUPLED, DATA, END, FILL, PAIR, PROGRAM, passData, passFill } from "./elements.ts"
import type { FrameDecoder } from "./spans.ts"

export interface AlacConfig {
  rate: number
  /** Samples of a frame, at most. */
  size: number
  /** Of a sample. */
  bits: number
  /** How fast codes follow the differences, how long they are at first, and at most. */
  pace: number
  start: number
  limit: number
}

/** Bits of a sample. */
const MIN_BITS = 8
const MAX_BITS = 32
/** A frame has 4,096 as a rule. */
const MAX_SIZE = 65_536
const MAX_CHANNELS = 8

/** What a file says of all frames. */
export function alacIn(bits: Bits): AlacConfig {
  bits.read(32) // version and flags
  const size = bits.read(32)
  const version = bits.read(8)
  const depth = bits.read(8)
  const [pace, start, limit] = [bits.read(8), bits.read(8), bits.read(8)]
  bits.read(8 + 16) // channels, which frames say, too; a bound that nothing keeps
  bits.read(32) // bytes of the longest frame
  bits.read(32) // bits a second
  const rate = bits.read(32)
  const isKnown =
    version === 0 && depth >= MIN_BITS && depth <= MAX_BITS && size > 0 && size <= MAX_SIZE
  if (!isKnown || limit === 0 || limit > 24)
    throw new Broken("its Apple Lossless has a form that is not known")
  return { rate, size, bits: depth, pace, start, limit }
}

export class AlacDecoder implements FrameDecoder {
  readonly #config: AlacConfig

  constructor(config: AlacConfig) {
    this.#config = config
  }

  decode(frame: Uint8Array): Float32Array {
    const bits = new Bits(frame, "a frame of it ends too early")
    const channels: Int32Array[] = []
    for (let kind = bits.read(3); kind !== END; kind = bits.read(3)) {
      if (kind === FILL) passFill(bits)
      else if (kind === DATA) passData(bits)
      else if (kind === COUPLED || kind === PROGRAM)
        throw new Broken("a frame of it has a part that is not known")
      else channels.push(...channelsIn(bits, this.#config, kind === PAIR ? 2 : 1))
      if (channels.length > MAX_CHANNELS)
        throw new Broken(`a frame of it has more than ${MAX_CHANNELS} channels`)
    }
    return meanOf(channels, this.#config.bits)
  }
}

function meanOf(channels: readonly Int32Array[], bits: number): Float32Array {
  const [first] = channels
  if (!first) throw new Broken("a frame of it has no channels")
  if (channels.some(({ length }) => length !== first.length))
    throw new Broken("a frame of it has channels of several lengths")
  const full = 2 ** (bits - 1)
  const samples = new Float32Array(first.length)
  for (let at = 0; at < samples.length; at++) {
    let sum = 0
    for (const channel of channels) sum += channel[at]!
    samples[at] = sum / channels.length / full
  }
  return samples
}

/** Of one channel, or of two that are written as one. */
function channelsIn(bits: Bits, config: AlacConfig, count: 1 | 2): Int32Array[] {
  bits.read(4 + 12) // its number; reserved
  const hasSize = bits.read(1)
  const lower = 8 * bits.read(2) // bits of each sample that are written as they are
  const isPlain = bits.read(1)
  const size = hasSize ? bits.read(32) : config.size
  if (size > config.size) throw new Broken("a frame of it is longer than all may be")
  const channels = Array.from({ length: count }, () => new Int32Array(size))
  if (isPlain) {
    for (let at = 0; at < size; at++)
      for (const channel of channels) channel[at] = bits.signed(config.bits)
    return channels
  }
  const width = config.bits - lower + count - 1
  if (width < 1 || width > 32)
    throw new Broken("a frame of it has samples of a width that none have")
  const [shift, weight] = [bits.read(8), bits.signed(8)]
  const predictors = channels.map(() => predictorIn(bits))
  const rests = channels.map(() => new Int32Array(lower > 0 ? size : 0))
  for (let at = 0; at < size && lower > 0; at++)
    for (const rest of rests) rest[at] = bits.read(lower)
  for (const [channel, samples] of channels.entries()) {
    const predictor = predictors[channel]!
    differencesInto(bits, samples, { ...config, pace: (config.pace * predictor.pace) >> 2 }, width)
    if (predictor.isTwofold) predict(samples, { ...predictor, coefficients: undefined }, width)
    predict(samples, predictor, width)
  }
  if (count === 2 && weight !== 0) apart(channels, shift, weight)
  if (lower > 0)
    for (const [channel, samples] of channels.entries())
      for (let at = 0; at < size; at++) samples[at] = (samples[at]! << lower) | rests[channel]![at]!
  return channels
}

interface Predictor {
  pace: number
  /** Binary places of the coefficients. */
  shift: number
  /** Of the samples before one, the farthest first; absent: the one before it stands for it. */
  coefficients: Int16Array | undefined
  /** That prediction comes first. */
  isTwofold: boolean
}

const DIFFERENCES = 31 // of an order

function predictorIn(bits: Bits): Predictor {
  const mode = bits.read(4)
  const shift = bits.read(4)
  const pace = bits.read(3)
  const order = bits.read(5)
  const coefficients = Int16Array.from({ length: order }, () => bits.signed(16)).reverse()
  if (mode !== 0 && mode !== 15)
    throw new Broken("a frame of it is predicted in a way that is not known")
  if (shift === 0 && order > 0) throw new Broken("a frame of it is predicted by whole numbers")
  return {
    ...{ pace, shift, isTwofold: mode === 15 },
    coefficients: order === DIFFERENCES ? undefined : coefficients,
  }
}

/** Binary places of what codes follow, and what it is at most. */
const PLACES = 9
const MAX_HISTORY = 0xffff
/** Below this, zeros come in runs. */
const QUIET = 128
const RUN_BITS = 16

function differencesInto(
  bits: Bits,
  samples: Int32Array,
  { pace, start, limit }: Pick<AlacConfig, "pace" | "start" | "limit">,
  width: number,
): void {
  let history = start
  let isAfterRun = false // behind zeros comes none
  for (let at = 0; at < samples.length; at++) {
    const length = 31 - Math.clz32((history >> PLACES) + 3)
    const folded = codeIn(bits, Math.min(length, limit), width) + Number(isAfterRun)
    samples[at] = folded % 2 === 0 ? folded / 2 : -(folded + 1) / 2
    history =
      folded > MAX_HISTORY ? MAX_HISTORY : history + folded * pace - ((history * pace) >> PLACES)
    isAfterRun = false
    if (history >= QUIET || at + 1 === samples.length) continue
    const runLength = Math.clz32(history) - 24 + ((history + 16) >> 6)
    const run = codeIn(bits, Math.min(runLength, limit), RUN_BITS)
    if (at + 1 + run > samples.length) throw new Broken("a frame of it has zeros beyond its end")
    at += run
    isAfterRun = run < MAX_HISTORY
    history = 0
  }
}

const MAX_ONES = 9 // behind which a number stands as it is

/** As many ones as there are wholes, a zero, and the rest, of which 0 and 1 take a bit less. */
function codeIn(bits: Bits, length: number, width: number): number {
  let ones = 0
  while (ones < MAX_ONES && bits.read(1)) ones++
  if (ones === MAX_ONES) return bits.read(width)
  if (length === 1) return ones
  const wholes = ones * (2 ** length - 1)
  const rest = bits.peek(length)
  bits.drop(rest > 1 ? length : length - 1)
  return rest > 1 ? wholes + rest - 1 : wholes
}

/** Puts samples into the place of what prediction missed. */
function predict(samples: Int32Array, { coefficients, shift }: Predictor, width: number): void {
  const unused = 32 - width
  const order = coefficients?.length ?? samples.length
  if (order === 0) return
  for (let at = 1; at <= order && at < samples.length; at++)
    samples[at] = ((samples[at - 1]! + samples[at]!) << unused) >> unused
  if (!coefficients) return
  const half = 1 << (shift - 1)
  for (let at = order + 1; at < samples.length; at++) {
    const first = at - order
    const base = samples[first - 1]!
    let sum = half
    for (let place = 0; place < order; place++)
      sum = (sum + Math.imul(samples[first + place]! - base, coefficients[place]!)) | 0
    const missed = samples[at]!
    samples[at] = (((sum >> shift) + base + missed) << unused) >> unused
    let left = missed
    for (
      let place = 0;
      place < order && Math.sign(left) === Math.sign(missed) && left !== 0;
      place++
    ) {
      const away = (base - samples[first + place]!) | 0
      const sign = Math.sign(away) * Math.sign(missed)
      coefficients[place]! -= sign
      left = (left - Math.imul((away * sign) >> shift, place + 1)) | 0
    }
  }
}

/** Left and right of what was stored in their place. */
function apart([left, right]: readonly Int32Array[], shift: number, weight: number): void {
  for (let at = 0; at < left!.length; at++) {
    const [one, other] = [left![at]!, right![at]!]
    const second = one - (Math.imul(other, weight) >> shift)
    left![at] = second + other
    right![at] = second
  }
}
