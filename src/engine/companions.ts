// What blocks hold of the KV groups that follow. A prefix is found by its tokens in the trail (prefix-cache.ts), whose serials
// name it for good; a block here holds keys and values of the same sixteen tokens, in other layers. Of a group that slides
// only some of a prefix's blocks are here, and that is enough for whoever goes on where they end.

import type { Contents } from "./blocks.ts"
import { type Serial, UNKNOWN } from "./prefix-cache.ts"

export class Companions implements Contents {
  readonly #serials: Float64Array // [blocks]  of the trail's block; UNKNOWN: nothing is remembered
  readonly #blockOf = new Map<Serial, number>()

  constructor(blocks: number) {
    this.#serials = new Float64Array(blocks)
  }

  /** How many blocks it knows. */
  get size(): number {
    return this.#blockOf.size
  }

  has(block: number): boolean {
    return this.#serials[block] !== UNKNOWN
  }

  find(serial: Serial): number | undefined {
    return this.#blockOf.get(serial)
  }

  enter(serial: Serial, block: number): void {
    this.forget(block)
    this.#blockOf.set(serial, block)
    this.#serials[block] = serial
  }

  forget(block: number): void {
    if (!this.has(block)) return
    this.#blockOf.delete(this.#serials[block]!)
    this.#serials[block] = UNKNOWN
  }
}
