// Pages of Ogg, whose streams have Opus or Vorbis in them: the first such stream is what is heard, and pages of others are passed over.
// Every page is held to its checksum, and to its number, so that what is missing or damaged is known.
//
// RFC 3533; RFC 7845 for Opus; the Vorbis I specification, annex A.

import { Broken, type Decoded, orRefusal } from "./broken.ts"
import { decodeOpus } from "./opus.ts"
import { decodeVorbis } from "./vorbis.ts"

export interface OggStream {
  /** Its pages, whole. */
  pages: Uint8Array[]
  packets: Uint8Array[]
  /** How many of `packets` are whole behind the first page of sound, and what position that page ends at. */
  first: { packets: number; position: number } | undefined
  /** That the last page ends at, counted in samples. */
  position: number
}

const KINDS = {
  opus: { begins: "OpusHead", headers: 2, decode: decodeOpusIn },
  vorbis: { begins: "\x01vorbis", headers: 3, decode: decodeVorbis },
} as const

type Kind = (typeof KINDS)[keyof typeof KINDS]

/** What else streams begin with. */
const OTHERS: Record<string, string> = {
  "\x7fFLAC": "FLAC",
  "Speex   ": "Speex",
  "\x80theora": "Theora",
}

export function decodeOgg(bytes: Uint8Array, most: number): Promise<Decoded> {
  return orRefusal("an Ogg", () => {
    const { kind, stream } = streamIn(bytes)
    return kind.decode(stream, most)
  })
}

/** Its last page may say that fewer samples are meant than the packets hold, and its first that some came before. */
function decodeOpusIn({ packets, first, position }: OggStream, most: number): Promise<Decoded> {
  const [head, , ...sounds] = packets
  return decodeOpus({ head: head!, packets: sounds, most }, ({ samplesOf, total }) => {
    if (!first) return total
    const firstSamples = sounds
      .slice(0, first.packets - KINDS.opus.headers)
      .reduce((sum, packet) => sum + samplesOf(packet), 0)
    return position - Math.max(0, first.position - firstSamples)
  })
}

interface Page {
  bytes: Uint8Array
  isContinued: boolean
  isFirst: boolean
  position: bigint // -1: no packet ends here
  serial: number
  number: number
  /** Of each piece; one of 255 bytes goes on in the next. */
  lacing: Uint8Array
  content: Uint8Array
}

const NOWHERE = -1n

function streamIn(bytes: Uint8Array): { kind: Kind; stream: OggStream } {
  let kind: Kind | undefined
  let serial = 0
  let number = 0
  let rest: Uint8Array[] = [] // of a packet that is not whole
  let isEnded = false
  const stream: OggStream = { pages: [], packets: [], first: undefined, position: 0 }
  let other = "no sound that is known"
  for (const page of pagesOf(bytes)) {
    if (page.isFirst) {
      const found = kindOf(page.content)
      if (typeof found === "string") other = found
      else if (!kind) [kind, serial, number] = [found, page.serial, page.number]
      else if (isEnded) throw new Broken("it is several recordings, one behind the other")
    }
    if (!kind || page.serial !== serial) continue
    if (page.number !== number++) throw new Broken(`its page ${number - 1} is not there`)
    isEnded = (page.bytes[5]! & 4) !== 0
    stream.pages.push(page.bytes)
    if (page.isContinued !== rest.length > 0)
      throw new Broken(`its page ${number - 1} does not go on`)
    rest = takePackets(page, rest, stream.packets)
    if (page.position === NOWHERE) continue
    stream.position = Number(page.position)
    if (stream.packets.length > kind.headers)
      stream.first ??= { packets: stream.packets.length, position: stream.position }
  }
  if (!kind) throw new Broken(`it has ${other}, and Opus and Vorbis are read`)
  if (rest.length > 0) throw new Broken("it is cut off in a packet")
  if (stream.packets.length < kind.headers) throw new Broken("it is cut off before its sound")
  return { kind, stream }
}

function kindOf(content: Uint8Array): Kind | string {
  const text = Buffer.from(content.subarray(0, 8)).toString("latin1")
  const found = Object.values(KINDS).find(({ begins }) => text.startsWith(begins))
  const other = Object.keys(OTHERS).find((begins) => text.startsWith(begins))
  return found ?? (other === undefined ? "no sound that is known" : OTHERS[other]!)
}

/** @returns what is left of the last, which goes on in the next page */
function takePackets(page: Page, before: Uint8Array[], packets: Uint8Array[]): Uint8Array[] {
  let pieces = before
  let at = 0
  let from = 0
  for (const length of page.lacing) {
    at += length
    if (length === 255) continue
    packets.push(joined([...pieces, page.content.subarray(from, at)]))
    pieces = []
    from = at
  }
  return from < at ? [...pieces, page.content.subarray(from, at)] : pieces
}

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  return pieces.length === 1 ? pieces[0]! : new Uint8Array(Buffer.concat(pieces))
}

const HEADER = 27 // bytes ahead of the lacing

function* pagesOf(bytes: Uint8Array): Generator<Page> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  for (let at = 0; at < bytes.length; ) {
    if (at + HEADER > bytes.length) throw new Broken("it is cut off in a page")
    if (view.getUint32(at) !== OGGS || bytes[at + 4] !== 0)
      throw new Broken(`no page begins at byte ${at}`)
    const lacing = bytes.subarray(at + HEADER, at + HEADER + bytes[at + 26]!)
    const from = at + HEADER + lacing.length
    const end = from + lacing.reduce((sum, length) => sum + length, 0)
    if (lacing.length < bytes[at + 26]! || end > bytes.length)
      throw new Broken("it is cut off in a page")
    const whole = bytes.subarray(at, end)
    if (checksumOf(whole) !== view.getUint32(at + 22, true))
      throw new Broken(`its page at byte ${at} is damaged`)
    yield {
      bytes: whole,
      isContinued: (bytes[at + 5]! & 1) !== 0,
      isFirst: (bytes[at + 5]! & 2) !== 0,
      position: view.getBigInt64(at + 6, true),
      serial: view.getUint32(at + 14, true),
      number: view.getUint32(at + 18, true),
      lacing,
      content: bytes.subarray(from, end),
    }
    at = end
  }
}

const OGGS = 0x4f676753

/** x^32 + x^26 + … of Ethernet, neither reflected nor inverted. */
const POLYNOMIAL = 0x04c11db7
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let sum = byte << 24
  for (let bit = 0; bit < 8; bit++) sum = (sum << 1) ^ (sum < 0 ? POLYNOMIAL : 0)
  return sum >>> 0
})

/** The sum's own four bytes count as zeros. */
function checksumOf(page: Uint8Array): number {
  let sum = 0
  for (let at = 0; at < page.length; at++) {
    const byte = at >= 22 && at < 26 ? 0 : page[at]!
    sum = ((sum << 8) ^ TABLE[(sum >>> 24) ^ byte]!) >>> 0
  }
  return sum
}
