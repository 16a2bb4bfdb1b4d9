// Bits of a recording, from the highest of each byte on. Throws where there are no more.

import { Broken } from "./broken.ts"

export class Bits {
  readonly #bytes: Uint8Array
  readonly #lack: string
  #at = 0 // the byte that is taken next
  #cache = 0
  #count = 0 // of the lowest bits of the cache, which are still to be read

  /** @param lack what is wrong with a recording where there are no more */
  constructor(bytes: Uint8Array, lack = "it is cut off") {
    this.#bytes = bytes
    this.#lack = lack
  }

  /** Of the byte that is read next. */
  get position(): number {
    return this.#at - (this.#count >> 3)
  }

  get isAtEnd(): boolean {
    return this.position >= this.#bytes.length
  }

  read(count: number): number {
    if (count > 24) return this.read(count - 16) * 2 ** 16 + this.read(16)
    if (count === 0) return 0
    if (this.#count < count) this.#fill(count)
    const value = (this.#cache << (32 - this.#count)) >>> (32 - count)
    this.#count -= count
    return value
  }

  /** The next bits, at most 25, which stay; behind the end there are zeros. */
  peek(count: number): number {
    if (this.#count < count) this.#fill(0)
    if (this.#count === 0) return 0
    return (this.#cache << (32 - this.#count)) >>> (32 - count)
  }

  /** Passes over at most 25 bits. */
  drop(count: number): void {
    if (this.#count < count) this.#fill(count)
    this.#count -= count
  }

  signed(count: number): number {
    const value = this.read(count)
    return value >= 2 ** (count - 1) ? value - 2 ** count : value
  }

  /** How many zeros stand before the next one, which is read, too. */
  zeros(): number {
    for (let zeros = 0; ; ) {
      if (this.#count === 0) this.#fill(1)
      const next = Math.clz32(this.#cache << (32 - this.#count))
      if (next < this.#count) {
        this.#count -= next + 1
        return zeros + next
      }
      zeros += this.#count
      this.#count = 0
    }
  }

  /** Bytes, from a whole one on. */
  skip(bytes: number): void {
    this.#at = this.position + bytes
    this.#count = 0
    if (this.#at > this.#bytes.length) throw new Broken(this.#lack)
  }

  /** Passes over what is left of a byte. */
  align(): void {
    this.#count -= this.#count % 8
  }

  #fill(least: number): void {
    for (; this.#count <= 24 && this.#at < this.#bytes.length; this.#count += 8)
      this.#cache = (this.#cache << 8) | this.#bytes[this.#at++]!
    if (this.#count < least) throw new Broken(this.#lack)
  }
}
