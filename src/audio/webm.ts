// Opus in WebM, as browsers record it, and in Matroska: the first track of Opus. Elements that hold others are entered and never left,
// since those of a recording that was written as it came do not say where they end; what stands in one is known by its own number.
//
// RFC 8794 (EBML); RFC 9559 (Matroska); https://wiki.xiph.org/MatroskaOpus

import { Broken, type Decoded, orRefusal } from "./broken.ts"
import { decodeOpus, OPUS_RATE } from "./opus.ts"

interface Track {
  number: number
  codec: string
  /** The header of Opus. */
  private: Uint8Array
  isEncoded: boolean
}

interface Block {
  track: number
  packet: Uint8Array
}

interface Parts {
  tracks: Track[]
  blocks: Block[]
  /** Nanoseconds at the end of a track that are not meant, by its number. */
  discarded: Map<number, number>
}

const ENTERED = new Set([
  0x18538067, // Segment
  0x1654ae6b, // Tracks
  0x1f43b675, // Cluster
  0xa0, // BlockGroup
])
const TRACK = 0xae
const NUMBER = 0xd7
const CODEC = 0x86
const PRIVATE = 0x63a2
const ENCODINGS = 0x6d80
const SIMPLE_BLOCK = 0xa3
const BLOCK = 0xa1
const DISCARDED = 0x75a2

const OPUS = "A_OPUS"

export function decodeWebm(bytes: Uint8Array, most: number): Promise<Decoded> {
  return orRefusal("a WebM", () => {
    const { tracks, blocks, discarded } = partsOf(bytes)
    const track = tracks.find(({ codec }) => codec === OPUS)
    if (!track) {
      const has = tracks.map(({ codec }) => codec).join(", ")
      throw new Broken(`it has ${has || "no track"}, and ${OPUS} is read`)
    }
    if (track.isEncoded) throw new Broken("its track is encrypted, or compressed once more")
    const packets = blocks.flatMap(({ track: of, packet }) => (of === track.number ? [packet] : []))
    const cut = Math.round(((discarded.get(track.number) ?? 0) * OPUS_RATE) / 1e9)
    return decodeOpus({ head: track.private, packets, most }, ({ total }) => total - cut)
  })
}

function partsOf(bytes: Uint8Array): Parts {
  const parts: Parts = { tracks: [], blocks: [], discarded: new Map() }
  for (let at = 0; at < bytes.length; ) {
    const id = numberAt(bytes, at, true)
    const size = numberAt(bytes, id.end, false)
    if (ENTERED.has(id.value) || id.value === TRACK) {
      if (id.value === TRACK)
        parts.tracks.push({ number: 0, codec: "", private: new Uint8Array(), isEncoded: false })
      at = size.end
      continue
    }
    const end = size.end + size.value
    if (end > bytes.length) throw new Broken(`it is cut off in what begins at byte ${at}`)
    take(parts, id.value, bytes.subarray(size.end, end))
    at = end
  }
  return parts
}

function take({ tracks, blocks, discarded }: Parts, id: number, content: Uint8Array): void {
  const track = tracks.at(-1)
  const block = blocks.at(-1)
  if (id === SIMPLE_BLOCK || id === BLOCK) blocks.push(blockOf(content))
  else if (id === DISCARDED && block)
    discarded.set(block.track, (discarded.get(block.track) ?? 0) + signed(content))
  else if (!track) return
  else if (id === NUMBER) track.number = Number(unsigned(content))
  else if (id === CODEC) track.codec = Buffer.from(content).toString("latin1").replace(/\0+$/, "")
  else if (id === PRIVATE) track.private = content
  else if (id === ENCODINGS) track.isEncoded = true
}

function blockOf(content: Uint8Array): Block {
  const { value: track, end } = numberAt(content, 0, false)
  const flags = content[end + 2] // behind two bytes of time
  if (flags === undefined) throw new Broken("a block of it has no header")
  if (flags & 6) throw new Broken("a block of it holds several packets, which is not known")
  return { track, packet: content.subarray(end + 3) }
}

/** Of as many bytes as the zeros ahead of its first bit say. @param isWhole that bit is a part of it, as of an element's id */
function numberAt(bytes: Uint8Array, at: number, isWhole: boolean): { value: number; end: number } {
  const first = bytes[at]
  const length = first === undefined ? 9 : Math.clz32(first) - 23
  if (length > 8 || at + length > bytes.length) throw new Broken(`no element begins at byte ${at}`)
  let value = isWhole ? first! : first! & (0xff >> length)
  for (const byte of bytes.subarray(at + 1, at + length)) value = value * 256 + byte
  return { value, end: at + length }
}

const unsigned = (content: Uint8Array) => content.reduce((value, byte) => value * 256 + byte, 0)

/** Two's complement of up to eight bytes. */
function signed(content: Uint8Array): number {
  const value = unsigned(content)
  return content[0]! & 0x80 ? value - 256 ** content.length : value
}
