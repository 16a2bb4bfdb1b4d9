// Ogg to sound: Opus or Vorbis, whichever its stream is.

import { type Decoded, orRefusal } from "./broken.ts"
import { type OggStream, streamIn } from "./ogg.ts"
import { decodeOpus } from "./opus.ts"
import { decodeVorbis } from "./vorbis.ts"

export function decodeOgg(bytes: Uint8Array, most: number): Promise<Decoded> {
  return orRefusal("an Ogg", () => {
    const stream = streamIn(bytes)
    return decoders[stream.kind](stream, most)
  })
}

const decoders = { opus: decodeOpusIn, vorbis: decodeVorbis }

/** Its last page may say that fewer samples are meant than the packets hold, and its first that some came before. */
function decodeOpusIn(
  { headers: [head], packets, first, position }: OggStream,
  most: number,
): Promise<Decoded> {
  return decodeOpus({ head: head!, packets, most }, ({ samplesOf, total }) => {
    if (!first) return total
    const firstSamples = packets
      .slice(0, first.packets)
      .reduce((sum, packet) => sum + samplesOf(packet), 0)
    return position - Math.max(0, first.position - firstSamples)
  })
}
