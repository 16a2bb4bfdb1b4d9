// A reply that may not end before it has so many tokens: the tokens that would end it are left out of the masks until then,
// unless nothing else is allowed.

import type { Constraint } from "../engine/generation.ts"

export class AtLeast implements Constraint {
  readonly #ends: ReadonlySet<number>
  readonly #inner: Constraint
  #missing: number

  /** @param inner what else the reply is held to */
  constructor(tokens: number, ends: ReadonlySet<number>, inner: Constraint) {
    this.#missing = tokens
    this.#ends = ends
    this.#inner = inner
  }

  get pending(): Promise<void> | undefined {
    return this.#inner.pending
  }

  mask(into: Uint32Array, after = 0): void {
    this.#inner.mask(into, after)
    if (after >= this.#missing) return
    for (const end of this.#ends) into[end >>> 5]! &= ~(1 << (end & 31))
    if (into.every((word) => word === 0)) this.#inner.mask(into, after)
  }

  accept(token: number): void {
    this.#missing--
    this.#inner.accept(token)
  }

  draft(tokens: readonly number[]): void {
    const end = tokens.findIndex((token) => this.#ends.has(token))
    const isEarly = end >= 0 && end < this.#missing
    this.#inner.draft?.(isEarly ? tokens.slice(0, end) : tokens)
  }

  get drafted(): number {
    return this.#inner.drafted ?? 0
  }

  get forced(): readonly number[] {
    return this.#inner.forced ?? []
  }

  close(): void {
    this.#inner.close?.()
  }
}
