// Pages of Ogg, whose streams have Opus or Vorbis in them: the first such stream is what is heard, and pages of others are passed over.
// Every page is held to its checksum, and to its number, so that what is missing or damaged is known.
//
// RFC 3533; RFC 7845 for Opus; the Vorbis I specification, annex A.

import { Broken } from "./broken.ts"

export interface OggStream {
  kind: Kind
  /** Its pages, whole. */
  pages: Uint8Array[]
  /** What comes ahead of the sound. */
  headers: Uint8Array[]
  packets: Uint8Array[]
  /** How many of `packets` are whole behind the first page of sound, and what position that page ends at. */
  first: { packets: number; position: number } | undefined
  /** That the last page ends at, counted in samples. */
  position: number
}

/** By what is in a stream, how that begins, and how many packets come ahead of the sound. */
const KINDS = {
  opus: { begins: "OpusHead", headers: 2 },
  vorbis: { begins: "\x01vorbis", headers: 3 },
} as const

type Kind = keyof typeof KINDS

/** What else streams begin with. */
const OTHERS: Record<string, string> = {
  "\x7fFLAC": "FLAC",
  "Speex   ": "Speex",
  "\x80theora": "Theora",
}

interface Page {
  bytes: Uint8Array
  isContinued: boolean
  isFirst: boolean
  isLast: boolean
  position: bigint // -1: no packet ends here
  serial: number
  number: number
  /** Of each piece; one of 255 bytes goes on in the next. */
  lacing: Uint8Array
  content: Uint8Array
}

const NOWHERE = -1n

/** @throws Broken */
export function streamIn(bytes: Uint8Array): OggStream {
  let found: { kind: Kind; serial: number } | undefined
  let other = "no sound that is known"
  const pages: Page[] = []
  for (const page of pagesOf(bytes)) {
    if (page.isFirst) {
      const kind = kindOf(page.content)
      if (!kind) other = otherOf(page.content) ?? other
      else if (!found) found = { kind, serial: page.serial }
      else if (pages.at(-1)!.isLast)
        throw new Broken("it is several recordings, one behind the other")
    }
    if (page.serial === found?.serial) pages.push(page)
  }
  if (found) return joinedPages(found.kind, pages)
  throw new Broken(`it has ${other}, and Opus and Vorbis are read`)
}

function joinedPages(kind: Kind, pages: readonly Page[]): OggStream {
  const { headers } = KINDS[kind]
  const packets: Uint8Array[] = []
  let first: OggStream["first"]
  let position = 0
  let rest: Uint8Array[] = [] // of a packet that is not whole
  for (const [i, page] of pages.entries()) {
    const { number, isContinued } = page
    if (number !== pages[0]!.number + i) throw new Broken(`its page ${i} is not there`)
    if (isContinued !== rest.length > 0) throw new Broken(`its page ${i} does not go on`)
    rest = takePackets(page, rest, packets)
    if (page.position === NOWHERE) continue
    position = Number(page.position)
    if (packets.length > headers) first ??= { packets: packets.length - headers, position }
  }
  if (rest.length > 0) throw new Broken("it is cut off in a packet")
  if (packets.length < headers) throw new Broken("it is cut off before its sound")
  const whole = pages.map(({ bytes }) => bytes)
  return { kind, pages: whole, headers: packets.splice(0, headers), packets, first, position }
}

function kindOf(content: Uint8Array): Kind | undefined {
  const kinds = Object.keys(KINDS) as Kind[]
  return kinds.find((kind) => beginsWith(content, KINDS[kind].begins))
}

function otherOf(content: Uint8Array): string | undefined {
  const begins = Object.keys(OTHERS).find((begins) => beginsWith(content, begins))
  return begins && OTHERS[begins]
}

const beginsWith = (content: Uint8Array, text: string) =>
  Buffer.from(content.subarray(0, text.length)).toString("latin1") === text

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
      isLast: (bytes[at + 5]! & 4) !== 0,
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
