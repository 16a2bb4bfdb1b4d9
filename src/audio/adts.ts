// AAC as it is broadcast (ADTS): each frame has a header that says what it is and how long it is.
//
// ISO/IEC 14496-3, 1.A.2.2.

import { mustBeLc, RATES } from "./aac/config.ts"
import { AacDecoder } from "./aac/decoder.ts"
import { Broken, type Decoded, orRefusal } from "./broken.ts"
import { tooLong } from "./limits.ts"
import { decodeSpans } from "./spans.ts"
import { behindTags, isEnd } from "./tags.ts"

const SIZE = 1024 // samples of a frame
const HEADER = 7 // bytes
const CHECKSUM = 2

/** @returns its channels' mean, or why there is none, as the rest of a sentence that begins with what it is about */
export function decodeAdts(bytes: Uint8Array, most: number): Promise<Decoded> {
  return orRefusal("an AAC", () => {
    const stream = framesOf(bytes, most)
    if (!stream) return { refusal: tooLong(most) }
    const { rate, frames } = stream
    const open = () => new AacDecoder({ rate, size: SIZE })
    const span = { from: 0, end: frames.length * SIZE }
    return decodeSpans({ rate, size: SIZE, frames, open }, [span], most)
  })
}

/** @returns undefined as soon as they last more than `most` seconds: headers alone may be millions */
function framesOf(
  bytes: Uint8Array,
  most: number,
): { rate: number; frames: Uint8Array[] } | undefined {
  const frames: Uint8Array[] = []
  let rate: number | undefined
  const start = behindTags(new DataView(bytes.buffer, bytes.byteOffset, bytes.length))
  for (let at = start; at === start || !isEnd(bytes.subarray(at)); ) {
    const header = headerAt(bytes, at)
    rate ??= header.rate
    if (header.rate !== rate) throw new Broken(`its rate changes at byte ${at}`)
    const end = at + header.length
    if (end > bytes.length) throw new Broken(`it is cut off in the frame at byte ${at}`)
    frames.push(bytes.subarray(at + header.own, end))
    if (frames.length * SIZE > most * rate) return undefined
    at = end
  }
  return { rate: rate!, frames }
}

interface Header {
  rate: number
  /** Bytes of the header, and of all of the frame. */
  own: number
  length: number
}

function headerAt(bytes: Uint8Array, at: number): Header {
  if (at + HEADER > bytes.length) throw new Broken(`it is cut off in the frame at byte ${at}`)
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, HEADER)
  const word = view.getUint32(0)
  if (word >>> 20 !== 0xfff || (word >>> 17) & 3) throw new Broken(`no frame begins at byte ${at}`)
  mustBeLc(((word >>> 14) & 3) + 1)
  const rate = RATES[(word >>> 10) & 15]
  if (rate === undefined) throw new Broken("it has a rate that is reserved")
  if (view.getUint8(6) & 3) throw new Broken("it packs several frames in one, which is not read")
  const own = HEADER + ((word >>> 16) & 1 ? 0 : CHECKSUM)
  const length = (view.getUint32(3) >>> 13) & 0x1fff
  if (length < own) throw new Broken(`the frame at byte ${at} is shorter than its header`)
  return { rate, own, length }
}
