// MP3 to sound, by mpg123 in WebAssembly. Its decoder is shown nothing but whole frames one behind the other, found here: what it
// cannot read it says to the console and tries again for ever, and of a change of rate it tells nobody. So a file that is cut off is
// known as such, and how long it lasts before any of it is decoded. What an encoder added before and behind the
// sound, by the word of its first frame, mpg123 takes away.
//
// http://www.mp3-tech.org/programmer/frame_header.html, http://gabriel.mp3-tech.org/mp3infotag.html

import { MPEGDecoder } from "mpg123-decoder"
import { attentively, Broken, type Decoded, meanOf, orRefusal } from "./broken.ts"
import { lengthProblem, tooLong } from "./limits.ts"
import { behindTags, isEnd } from "./tags.ts"

/** @returns its channels' mean, or why there is none, as the rest of a sentence that begins with what it is about */
export function decodeMp3(bytes: Uint8Array, most: number): Promise<Decoded> {
  return orRefusal("an MP3", async () => {
    const { starts, rate, size } = framesOf(bytes)
    // What is taken away is less than a second.
    if (((starts.length - 1) * size) / rate > most + 1) return { refusal: tooLong(most) }
    const samples = await decoded(bytes, starts, rate)
    const refusal = lengthProblem(samples.length / rate, most)
    return refusal === undefined ? { rate, samples } : { refusal }
  })
}

interface Frames {
  /** Of each frame, and the end of the last. */
  starts: number[]
  rate: number
  /** Samples of each. */
  size: number
}

function framesOf(bytes: Uint8Array): Frames {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  let at = behindTags(view)
  const first = at + 4 <= bytes.length ? headerOf(view.getUint32(at)) : undefined
  if (!first) throw new Broken(`no frame begins at byte ${at}`)
  const starts = [at]
  for (let header = first; ; ) {
    if (header.rate !== first.rate) throw new Broken(`its rate changes at byte ${at}`)
    if (at + header.length > bytes.length)
      throw new Broken(`it is cut off in the frame at byte ${at}`)
    at += header.length
    starts.push(at)
    if (isEnd(bytes.subarray(at))) break
    const next = at + 4 <= bytes.length ? headerOf(view.getUint32(at)) : undefined
    if (!next) throw new Broken(`no frame begins at byte ${at}`)
    header = next
  }
  const promised = promisedFrames(view, starts[0]!, first)
  if (starts.length - 2 < promised)
    throw new Broken(
      `it is cut off: it has ${starts.length - 2} of the ${promised} frames that it promises`,
    )
  return { starts, rate: first.rate, size: first.size }
}

interface Header {
  isFirstVersion: boolean
  isMono: boolean
  hasChecksum: boolean
  rate: number
  length: number
  size: number
}

/** Of the first version by their code, and its halves and quarters in the versions 2 and 2.5. */
const RATES = [44_100, 48_000, 32_000]
/** Thousands of bits a second. */
const FIRST_BITS = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320]
const LATER_BITS = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]

/** @returns nothing where it is no header of a frame of layer 3 whose length it says */
function headerOf(word: number): Header | undefined {
  const version = (word >>> 19) & 3 // 0: 2.5, 2: 2, 3: 1
  const isFirstVersion = version === 3
  const bits = (isFirstVersion ? FIRST_BITS : LATER_BITS)[(word >>> 12) & 15]
  const base = RATES[(word >>> 10) & 3]
  const isLayer3 = ((word >>> 17) & 3) === 1
  if (word >>> 21 !== 0x7ff || version === 1 || !isLayer3 || !bits || !base) return undefined
  const rate = base / (isFirstVersion ? 1 : version === 2 ? 2 : 4)
  const size = isFirstVersion ? 1152 : 576
  return {
    isFirstVersion,
    isMono: ((word >>> 6) & 3) === 3,
    hasChecksum: ((word >>> 16) & 1) === 0,
    rate,
    length: Math.floor((size * bits * 125) / rate) + ((word >>> 9) & 1),
    size,
  }
}

/** How many frames the first one says that there are behind it; 0 where it says nothing. */
function promisedFrames(view: DataView, start: number, header: Header): number {
  const { isFirstVersion, isMono, hasChecksum, length } = header
  const side = isFirstVersion ? (isMono ? 17 : 32) : isMono ? 9 : 17
  const at = start + 4 + (hasChecksum ? 2 : 0) + side
  if (at + 12 > start + length || ![XING, INFO].includes(view.getUint32(at))) return 0
  return view.getUint32(at + 4) & 1 ? view.getUint32(at + 8) : 0
}

const XING = 0x58696e67 // "Xing": of variable bits
const INFO = 0x496e666f // "Info": of constant ones

/** Frames that are shown at once: of the longest, half of what the decoder takes. */
const AT_ONCE = 20

/** Each has a decoder of its own, whose memory goes with it, whatever state that is in. */
async function decoded(bytes: Uint8Array, starts: number[], rate: number): Promise<Float32Array> {
  const decoder = new MPEGDecoder()
  await decoder.ready
  const parts: Float32Array[] = []
  for (let frame = 0; frame + 1 < starts.length; frame += AT_ONCE) {
    const end = starts[Math.min(frame + AT_ONCE, starts.length - 1)]
    const frames = bytes.subarray(starts[frame], end)
    const part = attentively(() => decoder.decode(frames))
    if (part.samplesDecoded > 0 && part.sampleRate !== rate)
      throw new Broken(`a frame has ${part.sampleRate} samples a second instead of ${rate}`)
    parts.push(meanOf(part.channelData)) // two, also of one
  }
  const samples = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    samples.set(part, at)
    at += part.length
  }
  return samples
}
