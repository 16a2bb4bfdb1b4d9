// AAC LC: frames to sound, one after the other, as each fades into the next. Elements of a frame are channels, alone or in pairs, and what is
// written about them; channels are told apart by their order.
//
// ISO/IEC 14496-3, 4.4.2.1 (raw_data_block).

import { Bits } from "../bits.ts"
import { Broken } from "../broken.ts"
import { COUPLED, DATA, END, FILL, PAIR, PROGRAM, passData, passFill } from "../elements.ts"
import type { FrameDecoder } from "../spans.ts"
import { bandsOf } from "./bands.ts"
import { type Channel, channelIn, type Stream } from "./channel.ts"
import { type Config, passProgramConfig } from "./config.ts"
import { Filterbank, type Windowed } from "./filterbank.ts"
import { Noise } from "./noise.ts"
import { pairIn } from "./pair.ts"
import { shape } from "./shaping.ts"

const MAX_CHANNELS = 64
const LOUDEST = 2 ** 31

export class AacDecoder implements FrameDecoder {
  readonly #stream: Stream
  readonly #filterbank: Filterbank
  #wereKaiser: boolean[] | undefined // of each channel's last window

  constructor({ rate, size }: Config) {
    this.#stream = { bands: bandsOf(rate, size), noise: new Noise() }
    this.#filterbank = new Filterbank(size)
  }

  /** @returns the mean of its channels. @throws Broken */
  decode(frame: Uint8Array): Float32Array {
    const channels = channelsIn(new Bits(frame, "a frame of it ends too early"), this.#stream)
    if (channels.length === 0) throw new Broken("a frame of it has no channels")
    this.#wereKaiser ??= channels.map(() => false)
    if (channels.length !== this.#wereKaiser.length)
      throw new Broken("its channels change under way")
    const sum = this.#filterbank.samplesOf(this.#alike(channels, this.#wereKaiser))
    this.#wereKaiser = channels.map(({ windows }) => windows.isKaiser)
    const samples = new Float32Array(sum.length)
    for (let at = 0; at < samples.length; at++) {
      if (!(Math.abs(sum[at]!) < LOUDEST))
        throw new Broken("it has samples that are no numbers, or 2^31 and more")
      samples[at] = sum[at]! / channels.length
    }
    return samples
  }

  /** Sums of channels that have the same windows, as their mean alone is heard: what the filterbank makes of a sum is the sum of what it makes. */
  #alike(channels: readonly Channel[], wereKaiser: readonly boolean[]): Windowed[] {
    const sums: Windowed[] = []
    for (const [at, { spectrum, windows, filters }] of channels.entries()) {
      shape(spectrum, filters)
      const { sequence, isKaiser } = windows
      const wasKaiser = wereKaiser[at]!
      const sum = sums.find(
        (each) =>
          each.sequence === sequence && each.isKaiser === isKaiser && each.wasKaiser === wasKaiser,
      )
      if (sum)
        for (let place = 0; place < spectrum.length; place++)
          sum.spectrum[place]! += spectrum[place]!
      else sums.push({ spectrum, sequence, isKaiser, wasKaiser })
    }
    return sums
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
    else if (kind === DATA) passData(bits)
    else {
      bits.drop(4) // its number
      if (kind === PAIR) channels.push(...pairIn(bits, stream))
      else channels.push(channelIn(bits, stream))
      if (channels.length > MAX_CHANNELS)
        throw new Broken(`a frame of it has more than ${MAX_CHANNELS} channels`)
    }
  }
}
