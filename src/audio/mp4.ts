// MP4, as telephones, browsers and video cameras write it, and QuickTime: the first sound track, of AAC, Apple Lossless or Opus. What an encoder added
// before the sound, an edit list leaves out; what it added behind it, that or the last frame's length.
//
// ISO/IEC 14496-12, 8.5.2 (descriptions); 14496-1, 7.2.6 (descriptors); 14496-14, 5.6; QuickTime File Format, Sound Sample Descriptions;
// https://opus-codec.org/docs/opus_in_isobmff.html

import { type Config, configOf } from "./aac/config.ts"
import { AacDecoder } from "./aac/decoder.ts"
import { AlacDecoder, alacIn } from "./alac.ts"
import type { Bits } from "./bits.ts"
import { Broken, type Decoded, orRefusal } from "./broken.ts"
import { bitsOf, bodyOf } from "./mp4-boxes.ts"
import { type Track, trackIn } from "./mp4-track.ts"
import { decodeOpus, OPUS_RATE } from "./opus.ts"
import { decodeSpans, type Framed, type Span } from "./spans.ts"

/** @returns its channels' mean, or why there is none, as the rest of a sentence that begins with what it is about */
export function decodeMp4(bytes: Uint8Array, most: number): Promise<Decoded> {
  return orRefusal("an MP4", () => {
    const track = trackIn(bytes)
    if (track.kind === "mp4a") return decodeAacIn(track, most)
    if (track.kind === "alac") return decodeAlacIn(track, most)
    if (track.kind === "Opus") return decodeOpusIn(track, most)
    if (track.kind === "enca") throw new Broken("its sound is encrypted")
    throw otherCodec(nameOf(track.kind))
  })
}

const otherCodec = (name: string) =>
  new Broken(`it has ${name}, and AAC, Apple Lossless and Opus are read`)

const KINDS: Record<string, string> = {
  "ac-3": "AC-3",
  "ec-3": "E-AC-3",
  "ac-4": "AC-4",
  dtsc: "DTS",
  fLaC: "FLAC",
  ".mp3": "MP3",
  samr: "AMR",
  sawb: "AMR-WB",
  "raw ": "uncompressed samples",
  twos: "uncompressed samples",
  sowt: "uncompressed samples",
  lpcm: "uncompressed samples",
  fl32: "uncompressed samples",
  in24: "uncompressed samples",
  ulaw: "mu-law",
  alaw: "A-law",
}

function nameOf(kind: string): string {
  return KINDS[kind] ?? (/^[\w.-]+$/.test(kind) ? kind : "a codec that is not known")
}

function decodeAacIn(track: Track, most: number): Decoded {
  const config = aacIn(track)
  const { frames } = track
  return decodeMeant(track, { ...config, frames, open: () => new AacDecoder(config) }, most)
}

function decodeAlacIn(track: Track, most: number): Decoded {
  const boxes = boxesBehindFields(track)
  const body = bodyOf(boxes, "alac") ?? bodyOf(boxes, "wave", "alac")
  const config = alacIn(bitsOf(body ?? new Uint8Array()))
  const { frames } = track
  return decodeMeant(track, { ...config, frames, open: () => new AlacDecoder(config) }, most)
}

const decodeMeant = (track: Track, framed: Framed, most: number) =>
  decodeSpans(framed, spansOf(track, framed), most)

function spansOf({ edits, frames, lasts }: Track, { rate, size }: Framed): Span[] {
  const all = frames.length * size
  const told = Math.round((lasts ?? 0) * rate)
  // It may be told of another rate, as of HE-AAC's upper half; then it is off by more than the last frame.
  const end = told > all - size ? Math.min(all, told) : all
  const meant = edits.length > 0 ? edits : [{ from: 0, end: Number.POSITIVE_INFINITY }]
  return meant.map((edit) => ({
    from: Math.round(edit.from * rate),
    end: Math.min(end, Math.round(edit.end * rate)),
  }))
}

/** Fields of a description that each has, and those that QuickTime adds in versions of its own. */
const COMMON = 28 // bytes
const ADDED = [0, 16, 36]

function boxesBehindFields({ description }: Track): Uint8Array {
  const version = bitsOf(description.subarray(8)).read(16)
  return description.subarray(COMMON + (ADDED[version] ?? 0))
}

function aacIn(track: Track): Config {
  const boxes = boxesBehindFields(track)
  const body = bodyOf(boxes, "esds") ?? bodyOf(boxes, "wave", "esds")
  if (!body) throw new Broken("it does not say what its AAC is")
  return descriptorIn(bitsOf(body))
}

/** Tags of descriptors, which hold each other in this order. */
const STREAM = 3
const DECODER = 4
const SPECIFIC = 5

const MPEG4 = 0x40
const MPEG2_LC = 0x67
const CODECS: Record<number, string> = {
  102: "AAC Main",
  104: "AAC SSR",
  105: "MP3",
  107: "MP3",
  165: "AC-3",
  166: "E-AC-3",
  169: "DTS",
  221: "Vorbis",
}

function descriptorIn(bits: Bits): Config {
  bits.read(32) // version and flags
  lengthIn(bits, STREAM)
  bits.read(16) // its number
  const [dependsOn, hasAddress, hasClock] = [bits.read(1), bits.read(1), bits.read(1)]
  bits.read(5)
  if (dependsOn) bits.read(16)
  if (hasAddress) for (let left = bits.read(8); left > 0; left--) bits.read(8)
  if (hasClock) bits.read(16)
  lengthIn(bits, DECODER)
  const codec = bits.read(8)
  if (codec !== MPEG4 && codec !== MPEG2_LC)
    throw otherCodec(CODECS[codec] ?? `the codec of number ${codec}`)
  bits.read(8 + 24) // the kind of stream, and what it needs to be kept
  bits.read(32) // bits a second, at most
  bits.read(32) // and usually
  const length = lengthIn(bits, SPECIFIC)
  return configOf(Uint8Array.from({ length }, () => bits.read(8)))
}

/** Seven bits a byte, of which the last has no upper one. */
function lengthIn(bits: Bits, tag: number): number {
  if (bits.read(8) !== tag) throw new Broken("it does not say what its AAC is")
  let length = 0
  for (let more = 1; more; ) {
    more = bits.read(1)
    length = length * 128 + bits.read(7)
    if (length > MAX_DESCRIPTOR) throw new Broken("it does not say what its AAC is")
  }
  return length
}

const MAX_DESCRIPTOR = 65_536 // bytes

function decodeOpusIn({ description, frames, edits }: Track, most: number): Promise<Decoded> {
  const head = opusHead(bodyOf(description.subarray(COMMON), "dOps") ?? new Uint8Array())
  const skipped = head.readUInt16LE(10)
  const [edit = { from: 0, end: Number.POSITIVE_INFINITY }, ...more] = edits
  const from = Math.round(edit.from * OPUS_RATE)
  if (more.length > 0 || (from !== 0 && from !== skipped))
    throw new Broken("it is cut, which is read of AAC alone")
  return decodeOpus({ head, packets: frames, most }, ({ total }) =>
    Math.min(total, Math.round(edit.end * OPUS_RATE)),
  )
}

/** As Ogg and WebM have it, with the other byte order. */
function opusHead(body: Uint8Array): Buffer {
  const bits = bitsOf(body)
  bits.read(8) // version
  const head = Buffer.alloc(19)
  head.write("OpusHead\x01", "latin1")
  head.writeUInt8(bits.read(8), 9) // channels
  head.writeUInt16LE(bits.read(16), 10) // samples to leave out
  head.writeUInt32LE(bits.read(32), 12) // the rate that was recorded
  head.writeUInt16LE(bits.read(16), 16) // how much louder
  head.writeUInt8(bits.read(8), 18) // what the channels are, which more may say
  return Buffer.concat([head, body.subarray(11)])
}
