// The boxes of an MP4 or a QuickTime file: each says how long it is and what; what it holds are fields, or boxes again.
//
// ISO/IEC 14496-12, 4.2.

import { Bits } from "./bits.ts"
import { Broken } from "./broken.ts"

export interface Box {
  kind: string
  /** Of all bytes among which it stands. */
  start: number
  body: Uint8Array
}

export function boxesIn(bytes: Uint8Array): Box[] {
  const boxes: Box[] = []
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  for (let start = 0; start + 8 <= bytes.length; ) {
    const short = view.getUint32(start)
    const hasLong = short === 1 && start + 16 <= bytes.length
    const size = hasLong ? Number(view.getBigUint64(start + 8)) : short || bytes.length - start
    const head = hasLong ? 16 : 8
    if (size < head) throw new Broken(`the box at byte ${start} is shorter than its header`)
    if (start + size > bytes.length) throw new Broken(`it is cut off in the box at byte ${start}`)
    const kind = Buffer.from(bytes.subarray(start + 4, start + 8)).toString("latin1")
    boxes.push({ kind, start, body: bytes.subarray(start + head, start + size) })
    start += size
  }
  return boxes
}

/** What the first box of each kind within the one before it holds. */
export function bodyOf(bytes: Uint8Array, ...path: string[]): Uint8Array | undefined {
  let body: Uint8Array | undefined = bytes
  for (const kind of path) {
    if (!body) return undefined
    body = boxesIn(body).find((box) => box.kind === kind)?.body
  }
  return body
}

/** Of a box that begins with its version and flags. */
export function fieldsOf(body: Uint8Array): { version: number; flags: number; bits: Bits } {
  const bits = bitsOf(body)
  return { version: bits.read(8), flags: bits.read(24), bits }
}

export function bitsOf(body: Uint8Array): Bits {
  return new Bits(body, "a box of it holds less than it says")
}

/** Of 64 bits where the version is 1, else of 32. */
export function longOf(bits: Bits, version: number): number {
  const first = bits.read(32)
  return version === 1 ? first * 2 ** 32 + bits.read(32) : first
}
