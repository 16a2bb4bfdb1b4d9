// Tokens that were told, kept until their choice has ended: as columns, because there may be millions. An alternative takes
// eight bytes here and a hundred as objects.

import type { TokenLogprob } from "../../chat/conversation.ts"
import { withRoom } from "../../engine/growing.ts"

export class TokenColumns implements Iterable<TokenLogprob> {
  #count = 0
  #tokens = new Int32Array(0) // [count]
  #logprobs = new Float32Array(0) // [count], as precise as they come; NaN: not known
  #offsets = new Int32Array(0) // [count]
  #shows = new Int32Array(0) // [count], 0 or 1
  #ends = new Int32Array(0) // [count], where each one's alternatives end
  #topTokens = new Int32Array(0)
  #topLogprobs = new Float32Array(0)

  get length(): number {
    return this.#count
  }

  /** What it takes, in bytes. */
  get bytes(): number {
    const columns = [this.#tokens, this.#logprobs, this.#offsets, this.#shows, this.#ends]
    const all = [...columns, this.#topTokens, this.#topLogprobs]
    return all.reduce((sum, { byteLength }) => sum + byteLength, 0)
  }

  add(tokens: readonly TokenLogprob[]): void {
    for (const { token, logprob, offset, shows, top } of tokens) {
      const at = this.#count++
      this.#makeRoom(top.length)
      this.#tokens[at] = token
      this.#logprobs[at] = logprob ?? Number.NaN
      this.#offsets[at] = offset
      this.#shows[at] = shows ? 1 : 0
      let end = this.#endOf(at - 1)
      for (const each of top) {
        this.#topTokens[end] = each.token
        this.#topLogprobs[end++] = each.logprob
      }
      this.#ends[at] = end
    }
  }

  *[Symbol.iterator](): Generator<TokenLogprob, void, undefined> {
    for (let at = 0; at < this.#count; at++) {
      const logprob = this.#logprobs[at]!
      const top = () => this.#topOf(at)
      yield {
        token: this.#tokens[at]!,
        shows: this.#shows[at] === 1,
        offset: this.#offsets[at]!,
        logprob: Number.isNaN(logprob) ? undefined : logprob,
        get top() {
          return top() // most lists do without
        },
      }
    }
  }

  #topOf(at: number): TokenLogprob["top"] {
    const from = this.#endOf(at - 1)
    return Array.from({ length: this.#endOf(at) - from }, (_, i) => ({
      token: this.#topTokens[from + i]!,
      logprob: this.#topLogprobs[from + i]!,
    }))
  }

  #endOf(at: number): number {
    return at < 0 ? 0 : this.#ends[at]!
  }

  #makeRoom(top: number): void {
    const count = this.#count
    if (count > this.#tokens.length) {
      this.#tokens = withRoom(this.#tokens, count)
      this.#logprobs = withRoom(this.#logprobs, count)
      this.#offsets = withRoom(this.#offsets, count)
      this.#shows = withRoom(this.#shows, count)
      this.#ends = withRoom(this.#ends, count)
    }
    const end = this.#endOf(count - 2) + top
    this.#topTokens = withRoom(this.#topTokens, end)
    this.#topLogprobs = withRoom(this.#topLogprobs, end)
  }
}
