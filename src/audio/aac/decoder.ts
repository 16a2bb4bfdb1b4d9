// AAC LC: frames to sound, one after the other, as each fades into the next. Elements of a frame are channels, alone or in pairs, and what is
// written about them; channels are told apart by their order.
//
// ISO/IEC 14496-3, 4.4.2.1 (raw_data_block).

import { Bits } from "../bits.ts"
import { Broken } from "../broken.ts"
import { bandsOf } from "./bands.ts"
import { type Channel, channelIn, type Stream } from "./channel.ts"
import { type Config, passProgramConfig } from "./config.ts"
import { type Fading, Filterbank } from "./filterbank.ts"
import { Noise } from "./noise.ts"
import { pairIn } from "./pair.ts"
import { shape } from "./shaping.ts"

/** Kinds of elements; the others are single channels. */
const PAIR = 1
const COUPLED = 2
const DATA = 4
const PROGRAM = 5
const FILL = 6
const END = 7

const LOUDEST = 2 ** 31

export class AacDecoder {
  readonly #stream: Stream
  readonly #filterbank: Filterbank
  #fadings: readonly Fading[] | undefined // of channels

  constructor({ rate, size }: Config) {
    this.#stream = { bands: bandsOf(rate, size), noise: new Noise() }
    this.#filterbank = new Filterbank(size)
  }

  /** @returns the mean of its channels. @throws Broken */
  decode(frame: Uint8Array): Float32Array {
    const channels = channelsIn(new Bits(frame, "a frame of it ends too early"), this.#stream)
    const { size } = this.#filterbank
    this.#fadings ??= channels.map(() => ({ rest: new Float64Array(size), isKaiser: false }))
    const fadings = this.#fadings
    if (channels.length === 0) throw new Broken("a frame of it has no channels")
    if (channels.length !== fadings.length) throw new Broken("its channels change under way")
    const sum = new Float64Array(size)
    for (const [at, channel] of channels.entries()) {
      shape(channel.spectrum, channel.filters)
      this.#filterbank.add(channel, fadings[at]!, sum)
    }
    if (!sum.every((sample) => Math.abs(sample) < LOUDEST))
      throw new Broken("it has samples that are no numbers, or 2^31 and more")
    return Float32Array.from(sum, (sample) => sample / channels.length)
  }
}

function channelsIn(bits: Bits, stream: Stream): Channel[] {
  const channels: Channel[] = []
  for (;;) {
    const kind = bits.read(3)
    if (kind === END) return channels
    if (kind === COUPLED)
      throw new Broken("it has a channel that is added to others (CCE), which is not read")
    if (kind === PROGRAM) passProgramConfig(bits)
    else if (kind === FILL) passFill(bits)
    else {
      bits.drop(4) // its number
      if (kind === DATA) passData(bits)
      else if (kind === PAIR) channels.push(...pairIn(bits, stream))
      else channels.push(channelIn(bits, stream))
    }
  }
}

/** Zeros, or what a decoder of HE-AAC makes of the lower half of the spectrum. */
function passFill(bits: Bits): void {
  let bytes = bits.read(4)
  if (bytes === 15) bytes += bits.read(8) - 1
  for (; bytes > 0; bytes--) bits.read(8)
}

/** What somebody wrote beside the sound. */
function passData(bits: Bits): void {
  const isAligned = bits.read(1)
  let bytes = bits.read(8)
  if (bytes === 255) bytes += bits.read(8)
  if (isAligned) bits.align()
  for (; bytes > 0; bytes--) bits.read(8)
}
