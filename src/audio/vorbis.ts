// Pages of Vorbis to sound, by libvorbis in WebAssembly, some at a time: its decoder keeps what it has decoded of those that it is given
// together.

import { OggVorbisDecoder } from "@wasm-audio-decoders/ogg-vorbis"
import { attentively, Broken, type Decoded, meanOf } from "./broken.ts"
import { lengthProblem, rateProblem } from "./limits.ts"
import type { OggStream } from "./ogg.ts"

/** Bytes of the pages that are decoded at once, about. */
const AT_ONCE = 64 << 10

export async function decodeVorbis(
  { pages, headers, position }: OggStream,
  most: number,
): Promise<Decoded> {
  const rate = rateOf(headers[0]!)
  const refusal = rateProblem(rate) ?? lengthProblem(position / rate, most)
  if (refusal !== undefined) return { refusal }
  const decoder = new OggVorbisDecoder()
  await decoder.ready
  const samples = new Float32Array(position)
  let at = 0
  const take = ({ channelData, sampleRate, samplesDecoded }: VorbisDecoded) => {
    if (samplesDecoded === 0) return
    if (sampleRate !== rate) throw new Broken("its rate changes")
    const part = meanOf(channelData).subarray(0, position - at)
    samples.set(part, at)
    at += part.length
  }
  for (const some of together(pages)) take(await heard(() => decoder.decode(some)))
  take(await heard(() => decoder.flush())) // it holds a page back until another comes
  return { rate, samples: samples.subarray(0, at) }
}

type VorbisDecoded = Awaited<ReturnType<OggVorbisDecoder["decode"]>>

/** All of the work is done before its promise is there. */
const heard = (decode: () => Promise<VorbisDecoded>): Promise<VorbisDecoded> =>
  attentively(decode).catch((error: Error) => {
    throw new Broken(error.message)
  })

function rateOf(header: Uint8Array): number {
  if (header.length < 30) throw new Broken("its header is none of Vorbis")
  return new DataView(header.buffer, header.byteOffset).getUint32(12, true)
}

function* together(pages: readonly Uint8Array[]): Generator<Uint8Array> {
  let some: Uint8Array[] = []
  let length = 0
  for (const page of pages) {
    some.push(page)
    length += page.length
    if (length < AT_ONCE) continue
    yield new Uint8Array(Buffer.concat(some))
    some = []
    length = 0
  }
  if (some.length > 0) yield new Uint8Array(Buffer.concat(some))
}
