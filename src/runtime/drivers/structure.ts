// C structures as bytes, for drivers whose calls fill them in. Fields are read by their offset; whoever reads one has the
// driver's header beside it. All processors that we run on keep the lowest byte first.

import { addressOf, type Pointer } from "../ffi.ts"

/** Whoever is handed a structure's bytes holds nothing else of it. */
const pointedTo = new WeakMap<Uint8Array, ArrayBufferView[]>()

export class Structure {
  readonly bytes: Uint8Array
  readonly #view: DataView

  constructor(size: number) {
    this.bytes = new Uint8Array(size)
    this.#view = new DataView(this.bytes.buffer)
  }

  /** Where it lies, for as long as somebody holds it. */
  get address(): Pointer {
    return addressOf(this.bytes)
  }

  word(at: number): number {
    return this.#view.getUint32(at, true)
  }

  setWord(at: number, value: number): void {
    this.#view.setUint32(at, value, true)
  }

  /** 64 bits: sizes are exact up to 2^53. */
  long(at: number): number {
    return Number(this.#view.getBigUint64(at, true))
  }

  pointer(at: number): Pointer {
    return this.#view.getBigUint64(at, true)
  }

  setPointer(at: number, value: Pointer): void {
    this.#view.setBigUint64(at, value, true)
  }

  /** Writes an address down. What lies there lives as long as the bytes of this. */
  pointTo(at: number, target: Structure | ArrayBufferView): void {
    const bytes = target instanceof Structure ? target.bytes : target
    this.setPointer(at, addressOf(bytes))
    const targets = pointedTo.get(this.bytes)
    if (targets) targets.push(bytes)
    else pointedTo.set(this.bytes, [bytes])
  }

  /** Up to its zero byte, or to the end of its `length` bytes. */
  text(at = 0, length = this.bytes.length - at): string {
    const bytes = this.bytes.subarray(at, at + length)
    const end = bytes.indexOf(0)
    return new TextDecoder().decode(end < 0 ? bytes : bytes.subarray(0, end)).trim()
  }
}
