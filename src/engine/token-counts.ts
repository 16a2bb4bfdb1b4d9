// What penalties need to know of a reply, kept as it is written.

import { withRoom } from "./growing.ts"

/** How often each token of a reply has come, as the flat lists that rows want. */
export class TokenCounts {
  readonly #place = new Map<number, number>()
  #tokens = new Int32Array(16)
  #counts = new Int32Array(16)

  get size(): number {
    return this.#place.size
  }

  add(token: number): void {
    const known = this.#place.get(token)
    if (known !== undefined) {
      this.#counts[known]!++
      return
    }
    const place = this.#place.size
    this.#place.set(token, place)
    this.#tokens = withRoom(this.#tokens, place + 1)
    this.#counts = withRoom(this.#counts, place + 1)
    this.#tokens[place] = token
    this.#counts[place] = 1
  }

  /** Undoes `add`, the last one first. */
  takeBack(token: number): void {
    const place = this.#place.get(token)!
    if (--this.#counts[place]! === 0) this.#place.delete(token)
  }

  copy(tokens: Int32Array, counts: Int32Array, at: number): void {
    tokens.set(this.#tokens.subarray(0, this.size), at)
    counts.set(this.#counts.subarray(0, this.size), at)
  }
}
