// Which block holds which tokens. A full block is found by the block before it and its own 16 tokens, so a prefix is a
// chain from its scope's root, and equal prefixes of different requests are the same blocks. The hash only finds the
// place: tokens and parent are compared, so no collision can hand one prompt another's blocks.
// The cache owns nothing. It knows what blocks hold, in use or free, until a free one is taken for something else.

import { BLOCK } from "../runtime/program.ts"
import type { Contents } from "./blocks.ts"

/** A block's place in the tree of prefixes: given once and never again, so a child of a forgotten block is lost too. */
export type Serial = number

/** Why a prefix goes on no further: somebody else's went another way at a token, it was forgotten, or it is new. */
export type Miss = { kind: "diverged"; at: number } | { kind: "forgotten" } | { kind: "new" }

/** No block: the serial of those that the cache does not know. */
export const UNKNOWN: Serial = 0

export class PrefixCache implements Contents {
  readonly #tokens: Int32Array // [blocks, 16]
  readonly #serials: Float64Array // [blocks]  UNKNOWN: nothing is remembered
  readonly #parents: Float64Array // [blocks]
  readonly #keys: Float64Array // [blocks]
  readonly #keyOf: typeof keyOf
  readonly #blockOf = new Map<number, number>() // by key
  readonly #roots = new Map<string, Serial>() // by scope
  readonly #forgotten = new Set<number>() // keys, as many as there are blocks
  #given: Serial = UNKNOWN

  /** @param hash where a block is looked for; tests give one that collides */
  constructor(blocks: number, hash = keyOf) {
    this.#keyOf = hash
    this.#tokens = new Int32Array(blocks * BLOCK)
    this.#serials = new Float64Array(blocks)
    this.#parents = new Float64Array(blocks)
    this.#keys = new Float64Array(blocks)
  }

  /** How many blocks it knows. */
  get size(): number {
    return this.#blockOf.size
  }

  /** Where the prefixes of a scope begin. */
  root(scope: string): Serial {
    const known = this.#roots.get(scope)
    if (known !== undefined) return known
    this.#roots.set(scope, ++this.#given)
    return this.#given
  }

  serial(block: number): Serial {
    return this.#serials[block]!
  }

  has(block: number): boolean {
    return this.#serials[block] !== UNKNOWN
  }

  /** The block that holds the 16 tokens from `at` on, after everything that `parent` stands for. */
  find(parent: Serial, tokens: Int32Array, at: number): number | undefined {
    const block = this.#blockOf.get(this.#keyOf(parent, tokens, at))
    return block !== undefined && this.#holds(block, parent, tokens, at) ? block : undefined
  }

  /** Remembers what `block` holds. Equal bits may stand in another block already: then that one is returned. */
  enter(parent: Serial, tokens: Int32Array, at: number, block: number): number {
    const key = this.#keyOf(parent, tokens, at)
    const known = this.#blockOf.get(key)
    if (known !== undefined) {
      if (this.#holds(known, parent, tokens, at)) return known
      this.forget(known)
    }
    this.#forgotten.delete(key)
    this.#blockOf.set(key, block)
    this.#keys[block] = key
    this.#serials[block] = ++this.#given
    this.#parents[block] = parent
    this.#tokens.set(tokens.subarray(at, at + BLOCK), block * BLOCK)
    return block
  }

  forget(block: number): void {
    if (!this.has(block)) return
    const key = this.#keys[block]!
    this.#blockOf.delete(key)
    this.#serials[block] = UNKNOWN
    this.#forgotten.add(key)
    if (this.#forgotten.size <= this.#serials.length) return
    for (const oldest of this.#forgotten) {
      this.#forgotten.delete(oldest)
      break
    }
  }

  /** Explains why nothing was found here. Looks at every block: for traces and debug logs. */
  miss(parent: Serial, tokens: Int32Array, at: number): Miss {
    if (this.#forgotten.has(this.#keyOf(parent, tokens, at))) return { kind: "forgotten" }
    let nearest: Miss = { kind: "new" }
    let most = -1
    for (let block = 0; block < this.#serials.length; block++) {
      if (!this.has(block) || this.#parents[block] !== parent) continue
      const known = this.#tokens.subarray(block * BLOCK, (block + 1) * BLOCK)
      const equal = known.findIndex((token, i) => token !== tokens[at + i])
      if (equal <= most) continue
      most = equal
      nearest = { kind: "diverged", at: at + equal }
    }
    return nearest
  }

  #holds(block: number, parent: Serial, tokens: Int32Array, at: number): boolean {
    if (this.#parents[block] !== parent) return false
    for (let i = 0; i < BLOCK; i++) {
      if (this.#tokens[block * BLOCK + i] !== tokens[at + i]) return false
    }
    return true
  }
}

/** 53 bits of the parent and 16 tokens: two multiplicative hashes side by side (constants of MurmurHash3). */
function keyOf(parent: Serial, tokens: Int32Array, at: number): number {
  let high = (parent % 0x1_0000_0000) | 0
  let low = (parent / 0x1_0000_0000) | 0
  for (let i = at; i < at + BLOCK; i++) {
    high = Math.imul(high ^ tokens[i]!, 0xcc9e2d51)
    high ^= high >>> 15
    low = Math.imul(low ^ tokens[i]!, 0x1b873593)
    low = (low ^ (low >>> 13)) + high
  }
  high = Math.imul(high ^ (high >>> 16), 0x85ebca6b)
  low = Math.imul(low ^ (low >>> 16), 0xc2b2ae35)
  return (high >>> 0) * 0x20_0000 + (low >>> 11)
}
