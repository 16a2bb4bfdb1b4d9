// A driver's memory as the processor sees it, of any length. Arrays are of the bytes that are wanted: one of more than 4 GiB is too
// long for Node 20, which ends the process over it.

import { bytesAt, type Pointer } from "../ffi.ts"

/** Memory up to this is one array, since making one takes longer than a step's short writes. */
const AT_ONCE = 1 << 28 // bytes

export class ShownBytes {
  readonly #at: Pointer
  readonly #whole: Uint8Array | undefined

  /** @param at where `length` bytes lie, as long as this is used */
  constructor(at: Pointer, length: number) {
    this.#at = at
    if (length <= AT_ONCE) this.#whole = bytesAt(at, length)
  }

  part(from: number, length: number): Uint8Array {
    return this.#whole?.subarray(from, from + length) ?? bytesAt(this.#at + BigInt(from), length)
  }

  clear(from: number, length: number): void {
    for (let done = 0; done < length; done += AT_ONCE)
      this.part(from + done, Math.min(AT_ONCE, length - done)).fill(0)
  }
}
