// Memory that windows of weights are read into, over and over: pages that are new for every window take longer than reading into
// them, and the collector runs for them. Windows of a model have few lengths, so what is kept is found by its length.

import type { UnpackBlocks } from "../../runtime/program.ts"

export class Room {
  /** Of the program that the windows are for, if that does it. */
  readonly unpackBlocks: UnpackBlocks | undefined
  readonly #free = new Map<number, Uint8Array[]>()
  readonly #taken: Uint8Array[] = []

  constructor(unpackBlocks?: UnpackBlocks) {
    this.unpackBlocks = unpackBlocks
  }

  /** Bytes of any value, from the beginning of a buffer of their own. */
  take(length: number): Uint8Array {
    const bytes = this.#free.get(length)?.pop() ?? new Uint8Array(length)
    this.#taken.push(bytes)
    return bytes
  }

  /** Nobody uses what was taken any more. */
  clear(): void {
    for (const bytes of this.#taken.splice(0)) {
      const alike = this.#free.get(bytes.length)
      if (alike) alike.push(bytes)
      else this.#free.set(bytes.length, [bytes])
    }
  }
}
