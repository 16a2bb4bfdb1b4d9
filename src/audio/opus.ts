// Packets of Opus to sound, by libopus in WebAssembly. How long they last is counted before any of them is decoded.
//
// RFC 6716, section 3 (packets); RFC 7845, section 5.1 (the header), which WebM has, too.

import { OpusDecoder } from "opus-decoder"
import { attentively, Broken, type Decoded, meanOf } from "./broken.ts"
import { lengthProblem, tooLong } from "./limits.ts"

export const OPUS_RATE = 48_000 // that lengths are counted in, whatever was recorded
/** That a decoder gives out. */
const RATES = [8_000, 12_000, 16_000, 24_000, OPUS_RATE] as const
const MAX_CHANNELS = 8

/** What a container has of Opus. */
export interface OpusPackets {
  head: Uint8Array
  packets: readonly Uint8Array[]
  /** Seconds. */
  most: number
}

export interface Counted {
  samplesOf: (packet: Uint8Array) => number
  /** Of all packets. */
  total: number
}

/** @param end how many samples are meant, those included that the header says to leave out at the beginning */
export async function decodeOpus(
  { head, packets, most }: OpusPackets,
  end: (counted: Counted) => number,
): Promise<Decoded> {
  const { skipped, gain, rate, ...channels } = headerOf(head)
  const total = packets.reduce((sum, packet) => sum + samplesOf(packet), 0)
  const meant = Math.max(0, Math.min(total, end({ samplesOf, total })) - skipped)
  const refusal = lengthProblem(meant / OPUS_RATE, most)
  if (refusal !== undefined) return { refusal }
  if (total / OPUS_RATE > most + 1) return { refusal: tooLong(most) } // more is decoded than is meant
  const given = (samples: number) => Math.floor((samples * rate) / OPUS_RATE)
  const samples = new Float32Array(given(meant))
  let at = -given(skipped)
  for await (const part of decoded(packets, rate, channels)) {
    if (at >= samples.length) break
    const wanted = part.subarray(Math.max(0, -at), Math.max(0, samples.length - at))
    samples.set(wanted, Math.max(0, at))
    at += part.length
  }
  return { rate, samples: gain === 1 ? samples : samples.map((sample) => sample * gain) }
}

interface Header extends Channels {
  /** Samples at the beginning that are none. */
  skipped: number
  /** That samples are multiplied with. */
  gain: number
  /** The least that holds what was recorded, as libsndfile takes it. */
  rate: (typeof RATES)[number]
}

interface Channels {
  channels: number
  streamCount: number
  coupledStreamCount: number
  channelMappingTable: number[]
}

function headerOf(head: Uint8Array): Header {
  const view = new DataView(head.buffer, head.byteOffset, head.length)
  const isHeader =
    head.length >= 19 && Buffer.from(head.subarray(0, 8)).toString("latin1") === "OpusHead"
  if (!isHeader || head[8]! >= 16) throw new Broken("its header is none of Opus")
  const channels = head[9]!
  const family = head[18]!
  const recorded = view.getUint32(12, true)
  if (channels === 0 || channels > MAX_CHANNELS)
    throw new Broken(`it has ${channels} channels, and 1 to ${MAX_CHANNELS} are read`)
  if (family === 0 && channels > 2)
    throw new Broken("its header does not say what its channels are")
  const told = family === 0 ? [1, channels - 1, 0, 1] : [...head.subarray(19, 21 + channels)]
  const [streamCount, coupledStreamCount, ...table] = told as [number, number, ...number[]]
  const channelMappingTable = table.slice(0, channels)
  const streams = streamCount + coupledStreamCount
  const isKnown = (stream: number) => stream < streams || stream === SILENT
  if (
    channelMappingTable.length < channels ||
    streamCount === 0 ||
    coupledStreamCount > streamCount ||
    !channelMappingTable.every(isKnown)
  )
    throw new Broken("its header does not say what its channels are")
  return {
    channels,
    streamCount,
    coupledStreamCount,
    channelMappingTable,
    skipped: view.getUint16(10, true),
    rate: RATES.find((rate) => recorded > 0 && rate >= recorded) ?? OPUS_RATE,
    gain: 10 ** (view.getInt16(16, true) / (20 * 256)),
  }
}

const SILENT = 255

/** Tenths of a millisecond that a frame lasts, by the upper five bits of a packet's first byte. */
const SPEECH = [100, 200, 400, 600]
const BOTH = [100, 200]
const MUSIC = [25, 50, 100, 200]
const MOST = (120 * OPUS_RATE) / 1000 // samples of a packet

function samplesOf(packet: Uint8Array): number {
  const [first, second = 0] = packet
  if (first === undefined) throw new Broken("a packet of it is empty")
  const kind = first >> 3
  const lasts = kind < 12 ? SPEECH[kind & 3]! : kind < 16 ? BOTH[kind & 1]! : MUSIC[kind & 3]!
  const frames = [1, 2, 2, second & 63][first & 3]!
  const samples = (frames * lasts * OPUS_RATE) / 10_000
  if (samples === 0 || samples > MOST) throw new Broken("a packet of it lasts longer than one may")
  return samples
}

/** Packets that are decoded at once. */
const AT_ONCE = 50

async function* decoded(
  packets: readonly Uint8Array[],
  sampleRate: Header["rate"],
  channels: Channels,
): AsyncGenerator<Float32Array> {
  const decoder = new OpusDecoder({ sampleRate, ...channels })
  await decoder.ready
  for (let at = 0; at < packets.length; at += AT_ONCE) {
    const some = packets.slice(at, at + AT_ONCE)
    yield meanOf(attentively(() => decoder.decodeFrames(some)).channelData)
  }
}
