// The first sound track of an MP4: what its sound is, where its frames lie, and which parts of it are meant. Frames are listed in tables, or, in a
// file that was written as it was recorded, fragment by fragment, or in both.
//
// ISO/IEC 14496-12, 8.6 (times and edits), 8.7 (tables), 8.8 (fragments).

import type { Bits } from "./bits.ts"
import { Broken } from "./broken.ts"
import { type Box, bodyOf, boxesIn, fieldsOf, longOf } from "./mp4-boxes.ts"

export interface Track {
  /** What its sound is: the kind of its first description, and what that holds. */
  kind: string
  description: Uint8Array
  frames: Uint8Array[]
  /** How many seconds all frames last; absent where nothing says so. */
  lasts?: number
  edits: Edit[]
}

/** A part that is meant, in seconds of what the frames hold; one without an end goes on to theirs. */
export interface Edit {
  from: number
  end: number
}

export function trackIn(bytes: Uint8Array): Track {
  const boxes = boxesIn(bytes)
  const movie = boxes.find(({ kind }) => kind === "moov")?.body
  if (!movie) throw new Broken("it is cut off: it does not say what it holds")
  const track = boxesIn(movie).find(({ kind, body }) => kind === "trak" && isSound(body))?.body
  if (!track) throw new Broken("it has no sound")
  const table = bodyOf(track, "mdia", "minf", "stbl")
  if (!table) throw new Broken("it does not say where its sound is")
  const frames = new Frames(bytes)
  listed(table, frames)
  const fragments = boxes.filter(({ kind }) => kind === "moof")
  const others = new Frames(bytes)
  if (fragments.length > 0) fragmented(fragments, movie, numberOf(track), { frames, others })
  const scale = scaleOf(bodyOf(track, "mdia", "mdhd"))
  const isWhole = fragments.length === 0
  const lasts = isWhole ? lastsOf(bodyOf(table, "stts")) / scale : 0
  const list = bodyOf(track, "edts", "elst")
  const edits = list
    ? editsOf(list, scale, isWhole ? scaleOf(bodyOf(movie, "mvhd")) : undefined)
    : toldByItunes(bodyOf(movie, "udta"), scale)
  return { ...descriptionIn(table), frames: frames.all, ...(lasts > 0 && { lasts }), edits }
}

function isSound(track: Uint8Array): boolean {
  const handler = bodyOf(track, "mdia", "hdlr")
  return handler !== undefined && Buffer.from(handler.subarray(8, 12)).toString("latin1") === "soun"
}

function numberOf(track: Uint8Array): number {
  const { version, bits } = fieldsOf(bodyOf(track, "tkhd") ?? new Uint8Array())
  longOf(bits, version) // when it was made
  longOf(bits, version) // and changed
  return bits.read(32)
}

/** Parts that a second has. */
function scaleOf(header: Uint8Array | undefined): number {
  const { version, bits } = fieldsOf(header ?? new Uint8Array())
  longOf(bits, version) // when it was made
  longOf(bits, version) // and changed
  const scale = bits.read(32)
  if (scale === 0) throw new Broken("its seconds have no parts")
  return scale
}

function descriptionIn(table: Uint8Array): Pick<Track, "kind" | "description"> {
  const [first] = boxesIn((bodyOf(table, "stsd") ?? new Uint8Array()).subarray(8))
  if (!first) throw new Broken("it does not say what its sound is")
  return { kind: first.kind, description: first.body }
}

/** Almost six hours of AAC; a file of frames of one byte would have so many that they take gigabytes. */
const MAX_FRAMES = 2 ** 20

/** Frames as they are found. No two share bytes, so that they cannot be more than the file holds. */
class Frames {
  readonly all: Uint8Array[] = []
  readonly #bytes: Uint8Array
  #left: number

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#left = bytes.length
  }

  /** @returns where it ends */
  take(at: number, size: number): number {
    if (size === 0) throw new Broken("a frame of it is empty")
    this.#left -= size
    if (at < 0 || at + size > this.#bytes.length)
      throw new Broken("it is cut off: a part of what it lists is not there")
    if (this.#left < 0) throw new Broken("its frames take more bytes than it has")
    if (this.all.length === MAX_FRAMES) throw new Broken(`it has more than ${MAX_FRAMES} frames`)
    this.all.push(this.#bytes.subarray(at, at + size))
    return at + size
  }
}

// ---- tables

/** Frames lie in chunks, one behind the other. */
function listed(table: Uint8Array, frames: Frames): void {
  const sizes = sizesIn(table)
  const { bits, long } = chunksIn(table)
  const runs = countsIn(table)
  let sizesLeft = sizes.count
  let run = -1
  for (let chunk = 1, left = bits.read(32); left > 0 && sizesLeft > 0; chunk++, left--) {
    let at = longOf(bits, long)
    while (runs[run + 1] && runs[run + 1]!.first <= chunk) run++
    const count = runs[run]?.count
    if (!count) throw new Broken("a part of its sound has no frames")
    for (let frame = 0; frame < count && sizesLeft > 0; frame++, sizesLeft--)
      at = frames.take(at, sizes.next())
  }
  if (sizesLeft > 0) throw new Broken("it has more frames than places for them")
}

function sizesIn(table: Uint8Array): { count: number; next: () => number } {
  const body = bodyOf(table, "stsz")
  if (body) {
    const { bits } = fieldsOf(body)
    const [size, count] = [bits.read(32), bits.read(32)]
    return { count, next: () => size || bits.read(32) }
  }
  const { bits } = fieldsOf(bodyOf(table, "stz2") ?? new Uint8Array())
  const width = bits.read(32) // of which three bytes are reserved
  if (![4, 8, 16].includes(width)) throw new Broken("its frames have sizes of no known form")
  return { count: bits.read(32), next: () => bits.read(width) }
}

function chunksIn(table: Uint8Array): { bits: Bits; long: number } {
  const short = bodyOf(table, "stco")
  const body = short ?? bodyOf(table, "co64") ?? new Uint8Array()
  return { bits: fieldsOf(body).bits, long: short ? 0 : 1 }
}

/** From which chunk on each has how many frames. */
function countsIn(table: Uint8Array): { first: number; count: number }[] {
  const { bits } = fieldsOf(bodyOf(table, "stsc") ?? new Uint8Array())
  const runs: { first: number; count: number }[] = []
  for (let left = bits.read(32); left > 0; left--) {
    runs.push({ first: bits.read(32), count: bits.read(32) })
    if (bits.read(32) !== 1) throw new Broken("its kind of sound changes under way")
  }
  return runs
}

/** Parts of a second. The last frame may be shorter than the others. */
function lastsOf(times: Uint8Array | undefined): number {
  if (!times) return 0
  const { bits } = fieldsOf(times)
  let sum = 0
  for (let left = bits.read(32); left > 0; left--) sum += bits.read(32) * bits.read(32)
  return sum
}

// ---- edits

/** Pauses before the sound are none of it. @param scale of the movie, which lengths are counted in; absent: they are not known */
function editsOf(list: Uint8Array, scale: number, movieScale: number | undefined): Edit[] {
  const { version, bits } = fieldsOf(list)
  const edits: Edit[] = []
  const pause = version === 1 ? 2 ** 64 - 1 : 2 ** 32 - 1
  for (let left = bits.read(32); left > 0; left--) {
    const length = longOf(bits, version)
    const from = longOf(bits, version)
    const [speed, part] = [bits.read(16), bits.read(16)]
    if (from >= pause) continue
    if (speed !== 1 || part !== 0) throw new Broken("it is played at another speed than recorded")
    const isBounded = length > 0 && movieScale !== undefined
    edits.push({
      from: from / scale,
      end: isBounded ? from / scale + length / movieScale : Infinity,
    })
    if (edits.length > MAX_EDITS)
      throw new Broken(`it is cut together of more than ${MAX_EDITS} parts`)
  }
  return edits
}

const MAX_EDITS = 100

/** Where there is no list, a comment may say what an encoder added before and behind the sound, and how long that is. */
function toldByItunes(remarks: Uint8Array | undefined, scale: number): Edit[] {
  const text = Buffer.from(remarks ?? new Uint8Array()).toString("latin1")
  const told = /iTunSMPB.{4}data.{8} 0{8} ([\dA-F]{8}) [\dA-F]{8} ([\dA-F]{16})/s.exec(text)
  if (!told) return []
  const [before, length] = [told[1], told[2]].map((digits) => Number.parseInt(digits!, 16))
  return [{ from: before! / scale, end: (before! + length!) / scale }]
}

// ---- fragments

const BASE = 0x1
const KIND = 0x2
const DURATION = 0x8
const SIZE = 0x10
const IS_FROM_FRAGMENT = 0x20000

/** @param others takes what is not of the track, whose end the next part may begin at */
function fragmented(
  fragments: Box[],
  movie: Uint8Array,
  number: number,
  { frames, others }: { frames: Frames; others: Frames },
): void {
  const usual = usualSize(movie, number)
  for (const { start, body } of fragments) {
    let end = start // of the part before
    for (const { kind, body: part } of boxesIn(body)) {
      if (kind !== "traf") continue
      const { flags, bits } = fieldsOf(bodyOf(part, "tfhd") ?? new Uint8Array())
      const isOwn = bits.read(32) === number
      const base = flags & BASE ? longOf(bits, 1) : flags & IS_FROM_FRAGMENT ? start : end
      for (const flag of [KIND, DURATION]) if (flags & flag) bits.read(32)
      const size = flags & SIZE ? bits.read(32) : usual
      end = runsIn(part, { base, size }, isOwn ? frames : others)
    }
  }
}

/** What the file says of all fragments of a track. */
function usualSize(movie: Uint8Array, number: number): number {
  const defaults = boxesIn(bodyOf(movie, "mvex") ?? new Uint8Array())
  for (const { kind, body } of defaults) {
    if (kind !== "trex") continue
    const { bits } = fieldsOf(body)
    if (bits.read(32) !== number) continue
    bits.read(32) // the number of what the sound is
    bits.read(32) // how long a frame lasts
    return bits.read(32)
  }
  return 0
}

const OFFSET = 0x1
const FIRST_FLAGS = 0x4
const RUN_DURATION = 0x100
const RUN_SIZE = 0x200
const RUN_FLAGS = 0x400
const RUN_SHIFT = 0x800

/** @returns where the last one ends */
function runsIn(
  part: Uint8Array,
  { base, size }: { base: number; size: number },
  to: Frames,
): number {
  let at = base
  for (const { kind, body } of boxesIn(part)) {
    if (kind !== "trun") continue
    const { flags, bits } = fieldsOf(body)
    let left = bits.read(32)
    if (flags & OFFSET) at = base + bits.signed(32)
    if (flags & FIRST_FLAGS) bits.read(32)
    for (; left > 0; left--) {
      if (flags & RUN_DURATION) bits.read(32)
      const own = flags & RUN_SIZE ? bits.read(32) : size
      for (const flag of [RUN_FLAGS, RUN_SHIFT]) if (flags & flag) bits.read(32)
      at = to.take(at, own)
    }
  }
  return at
}
