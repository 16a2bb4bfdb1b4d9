// Memory as run.ts sees it: bytes, which of them were ever written, and who has touched what since when. From that it
// refuses what a device would do silently or differently each time: what lies outside, what nobody wrote, and two threads
// in one place of which one writes without a barrier between them. Equal values written twice are a race like any other:
// what is promised of them differs from language to language.

import { halfValues, narrow } from "../../../../runtime/dtype.ts"
import { type Element, elementBytes } from "./ir.ts"
import type { Column, Lanes } from "./lanes.ts"

/** Bytes that a kernel is handed. Those of a new one hold zeros, and reading them is refused until they are written. */
export class Memory {
  readonly storage: Storage
  /** Where this begins in its storage. */
  readonly from: number
  readonly bytes: number

  constructor(bytes: number, within?: Memory, at = 0) {
    if (within && at + bytes > within.bytes)
      throw new Error(`internal: ${bytes} bytes from ${at} on, of ${within.bytes}`)
    this.storage = within?.storage ?? new Storage(bytes)
    this.from = (within?.from ?? 0) + at
    this.bytes = bytes
  }

  /** A copy of an array, all of it written. */
  static of(array: ArrayBufferView): Memory {
    const memory = new Memory(array.byteLength)
    memory.put(0, array)
    return memory
  }

  /** A part of the same bytes. */
  at(offset: number, bytes = this.bytes - offset): Memory {
    return new Memory(bytes, this, offset)
  }

  /** Writes an array. */
  put(offset: number, array: ArrayBufferView): void {
    const { u8, written } = this.at(offset, array.byteLength).storage
    const source = new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
    u8.set(source, this.from + offset)
    written.fill(1, this.from + offset, this.from + offset + array.byteLength)
  }

  /** Whether somebody has written all of these bytes. */
  isWritten(offset = 0, bytes = this.bytes - offset): boolean {
    const first = this.from + offset
    return !this.storage.written.subarray(first, first + bytes).includes(0)
  }

  // Views of the bytes themselves: what is written through them counts as written by nobody.
  f32 = () => new Float32Array(this.storage.buffer, this.from, Math.floor(this.bytes / 4))
  i32 = () => new Int32Array(this.storage.buffer, this.from, Math.floor(this.bytes / 4))
  u32 = () => new Uint32Array(this.storage.buffer, this.from, Math.floor(this.bytes / 4))
  u16 = () => new Uint16Array(this.storage.buffer, this.from, Math.floor(this.bytes / 2))
  i8 = () => new Int8Array(this.storage.buffer, this.from, this.bytes)
  u8 = () => new Uint8Array(this.storage.buffer, this.from, this.bytes)
}

class Storage {
  readonly buffer: ArrayBuffer
  readonly f32: Float32Array
  readonly i32: Int32Array
  readonly u32: Uint32Array
  readonly u16: Uint16Array
  readonly i8: Int8Array
  readonly u8: Uint8Array
  /** 1 for each byte that was written; the others see several at once. */
  readonly written: Uint8Array
  readonly written16: Uint16Array
  readonly written32: Uint32Array
  #cells: Cells | undefined

  constructor(bytes: number) {
    const whole = Math.ceil(bytes / 4) * 4
    this.buffer = new ArrayBuffer(whole)
    this.f32 = new Float32Array(this.buffer)
    this.i32 = new Int32Array(this.buffer)
    this.u32 = new Uint32Array(this.buffer)
    this.u16 = new Uint16Array(this.buffer)
    this.i8 = new Int8Array(this.buffer)
    this.u8 = new Uint8Array(this.buffer)
    this.written = new Uint8Array(whole)
    this.written16 = new Uint16Array(this.written.buffer)
    this.written32 = new Uint32Array(this.written.buffer)
  }

  /** Who touched what, kept for cells of so many bytes. Stamps of launches before are told apart, so they need no clearing. */
  cells(unit: number): Cells {
    if (this.#cells?.unit !== unit) this.#cells = new Cells(unit, this.buffer.byteLength / unit)
    return this.#cells
  }
}

/** When something happened: a multiple of `MANY + 1`, to which a lane is added to say who did it. */
export interface Clock {
  /** When this launch began, this group in it, and the time since its last barrier. */
  launch: number
  group: number
  interval: number
}

const MANY = 511 // lanes instead of one
let now = 0

/** A time after all others. */
export function tick(): number {
  now += MANY + 1
  return now
}

const PAGE_BITS = 10
const PAGE = 1 << PAGE_BITS

/** When each of so many cells was touched last. */
class Page {
  readonly wrote = new Float64Array(PAGE)
  readonly read = new Float64Array(PAGE)
  /** Read by a group before the one that has read it last. */
  readonly readBefore = new Float64Array(PAGE)
  readonly added = new Float64Array(PAGE)
  /** Read as what nobody writes. */
  readonly settled = new Float64Array(PAGE)
}

/** Who touched each cell last. Of most memory a kernel touches little, so there are only the pages that it does. */
class Cells {
  readonly unit: number
  readonly #bits: number
  readonly #pages: (Page | undefined)[]

  constructor(unit: number, count: number) {
    this.unit = unit
    this.#bits = Math.log2(unit)
    this.#pages = Array(Math.ceil(count / PAGE)).fill(undefined)
  }

  /** The cell in which a byte lies. */
  of(byte: number): number {
    return byte >> this.#bits
  }

  #pageOf(cell: number): Page {
    const number = cell >> PAGE_BITS
    this.#pages[number] ??= new Page()
    return this.#pages[number]
  }

  /** Notes a read of what nobody may write while the kernel runs, not even who reads it. */
  readSettled(cell: number, { launch }: Clock): string | undefined {
    const { settled, wrote } = this.#pageOf(cell)
    const at = cell & (PAGE - 1)
    settled[at] = launch
    return wrote[at]! >= launch ? "it was written by this launch, as another operand" : undefined
  }

  /** Notes who reads. @returns with whom that collides */
  read(cell: number, lane: number, clock: Clock): string | undefined {
    const { wrote, read, readBefore, added } = this.#pageOf(cell)
    const at = cell & (PAGE - 1)
    const { interval } = clock
    const me = interval + lane
    const collision =
      this.#collides(wrote[at]!, "written", me, clock) ??
      this.#collides(added[at]!, "added to", me, clock)
    const before = read[at]!
    if (before >= interval) {
      if (before !== me) read[at] = interval + MANY
    } else {
      if (before >= clock.launch && before < clock.group) readBefore[at] = before
      read[at] = me
    }
    return collision
  }

  write(cell: number, lane: number, clock: Clock): string | undefined {
    const { wrote, read, readBefore, added, settled } = this.#pageOf(cell)
    const at = cell & (PAGE - 1)
    const me = clock.interval + lane
    const collision =
      this.#collides(wrote[at]!, "written", me, clock) ??
      this.#collides(read[at]!, "read", me, clock) ??
      this.#collides(readBefore[at]!, "read", me, clock) ??
      this.#collides(added[at]!, "added to", me, clock)
    wrote[at] = me
    if (settled[at]! >= clock.launch) return "this launch reads it as another operand"
    return collision
  }

  /** Additions are at peace among themselves. */
  add(cell: number, lane: number, clock: Clock): string | undefined {
    const { wrote, read, added } = this.#pageOf(cell)
    const at = cell & (PAGE - 1)
    const me = clock.interval + lane
    const collision =
      this.#collides(wrote[at]!, "written", me, clock) ??
      this.#collides(read[at]!, "read", me, clock)
    const before = added[at]!
    added[at] = before >= clock.interval && before !== me ? clock.interval + MANY : me
    return collision
  }

  #collides(stamp: number, how: string, me: number, { launch, group, interval }: Clock) {
    if (stamp < launch || stamp === me) return undefined
    if (stamp < group) return `it is ${how} by another group of this launch`
    if (stamp < interval) return undefined
    const lane = stamp - interval
    return `it is ${how} by ${lane === MANY ? "several lanes" : `lane ${lane}`} with no barrier between`
  }
}

/** Memory as elements of one kind, as a kernel has it. */
export interface Bound {
  name: string
  element: Element
  storage: Storage
  /** In bytes, a multiple of 4. */
  from: number
  /** How many elements there are. */
  length: number
  /** Where nobody writes, nobody collides. */
  cells: Cells | undefined
  /** Whether it was promised that nobody writes it in this launch, as this operand or another. */
  isSettled: boolean
  clock: Clock
}

/** Says of a lane what is wrong. */
export type Refuse = (lane: number, problem: string) => never

/** Refuses to read `width` elements from `width * index` on where that is not sound. */
export function checkRead(
  bound: Bound,
  index: Column,
  width: 1 | 2 | 4 | 8,
  { list, count }: Lanes,
  refuse: Refuse,
): void {
  const { storage, from, length, cells, clock, isSettled } = bound
  const size = elementBytes[bound.element]
  const bytes = size * width
  for (let k = 0; k < count; k++) {
    const lane = list[k]!
    const first = index[lane]! * width
    if (first + width > length)
      refuse(lane, `element ${first + width - 1} of ${length} is out of bounds`)
    const at = from + first * size
    if ((at & (bytes - 1)) !== 0)
      refuse(
        lane,
        `elements ${first} … ${first + width - 1} do not lie on a multiple of ${bytes} bytes`,
      )
    if (!isWritten(storage, at, bytes)) refuse(lane, `element ${first} was written by nobody`)
    if (!cells) continue
    const end = cells.of(at + bytes)
    for (let cell = cells.of(at); cell < end; cell++) {
      const collision = isSettled ? cells.readSettled(cell, clock) : cells.read(cell, lane, clock)
      if (collision) refuse(lane, `a race: it reads element ${first} and ${collision}`)
    }
  }
}

function isWritten({ written, written16, written32 }: Storage, at: number, bytes: number) {
  if (bytes === 1) return written[at] === 1
  if (bytes === 2) return written16[at >> 1] === 0x0101
  for (let word = at >> 2; word < (at + bytes) >> 2; word++)
    if (written32[word] !== 0x01010101) return false
  return true
}

/** Refuses to write where that is not sound, and marks what is written. */
export function checkWrite(
  { storage, from, length, cells, clock, element }: Bound,
  index: Column,
  { list, count }: Lanes,
  refuse: Refuse,
): void {
  const size = elementBytes[element]
  for (let k = 0; k < count; k++) {
    const lane = list[k]!
    const first = index[lane]!
    if (first >= length) refuse(lane, `element ${first} of ${length} is out of bounds`)
    const at = from + first * size
    for (let byte = at; byte < at + size; byte++) storage.written[byte] = 1
    if (!cells) continue
    const end = cells.of(at + size)
    for (let cell = cells.of(at); cell < end; cell++) {
      const collision = cells.write(cell, lane, clock)
      if (collision) refuse(lane, `a race: it writes element ${first} and ${collision}`)
    }
  }
}

/** Adds to words, one lane after the other, where that is sound. */
export function addLanes(
  { storage, length, cells, clock }: Bound,
  index: Column,
  values: Column,
  { list, count }: Lanes,
  refuse: Refuse,
): void {
  for (let k = 0; k < count; k++) {
    const lane = list[k]!
    const first = index[lane]!
    if (first >= length) refuse(lane, `element ${first} of ${length} is out of bounds`)
    if (!isWritten(storage, first * 4, 4)) refuse(lane, `element ${first} was written by nobody`)
    const collision = cells?.add(first, lane, clock)
    if (collision) refuse(lane, `a race: it adds to element ${first} and ${collision}`)
    storage.u32[first]! += values[lane]!
  }
}

type Move = (bound: Bound, index: Column, width: number, part: number, lanes: Lanes) => void

/** Reads what `checkRead` let pass: of each element, element `part` of `width`. */
export const loadLanes: Record<Element, (out: Column, ...rest: Parameters<Move>) => void> = {
  f32(out, { storage, from }, index, width, part, { list, count }) {
    const [view, base] = [storage.f32, from / 4 + part]
    for (let k = 0; k < count; k++) out[list[k]!] = view[base + index[list[k]!]! * width]!
  },
  i32(out, { storage, from }, index, width, part, { list, count }) {
    const [view, base] = [storage.i32, from / 4 + part]
    for (let k = 0; k < count; k++) out[list[k]!] = view[base + index[list[k]!]! * width]!
  },
  u32(out, { storage, from }, index, width, part, { list, count }) {
    const [view, base] = [storage.u32, from / 4 + part]
    for (let k = 0; k < count; k++) out[list[k]!] = view[base + index[list[k]!]! * width]!
  },
  f16(out, { storage, from }, index, width, part, { list, count }) {
    const [view, base, values] = [storage.u16, from / 2 + part, halfValues()]
    for (let k = 0; k < count; k++) out[list[k]!] = values[view[base + index[list[k]!]! * width]!]!
  },
  u16(out, { storage, from }, index, width, part, { list, count }) {
    const [view, base] = [storage.u16, from / 2 + part]
    for (let k = 0; k < count; k++) out[list[k]!] = view[base + index[list[k]!]! * width]!
  },
  i8(out, { storage, from }, index, width, part, { list, count }) {
    const [view, base] = [storage.i8, from + part]
    for (let k = 0; k < count; k++) out[list[k]!] = view[base + index[list[k]!]! * width]!
  },
  u8(out, { storage, from }, index, width, part, { list, count }) {
    const [view, base] = [storage.u8, from + part]
    for (let k = 0; k < count; k++) out[list[k]!] = view[base + index[list[k]!]! * width]!
  },
}

/** Writes what `checkWrite` let pass. */
export function storeLanes(
  { storage, from, element }: Bound,
  index: Column,
  values: Column,
  { list, count }: Lanes,
): void {
  if (element === "f16") {
    const chosen = Float32Array.from({ length: count }, (_, k) => values[list[k]!]!)
    const halves = new Uint16Array(narrow(chosen, "f16").buffer)
    for (let k = 0; k < count; k++) storage.u16[from / 2 + index[list[k]!]!] = halves[k]!
    return
  }
  const view = storage[element]
  const base = from / elementBytes[element]
  for (let k = 0; k < count; k++) view[base + index[list[k]!]!] = values[list[k]!]!
}
