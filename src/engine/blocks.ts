// KV blocks: who owns which. A block is owned by as many sequences as hold it and is free once the last lets go.
// A free block keeps its bytes until it is taken again, so what a finished sequence computed stays findable (that is all
// the prefix cache is); free blocks are taken in the order in which they were let go, worthless ones first.
// Bytes are never touched here: sharing moves ids, and the program copies blocks when told to.

/** Remembers what free blocks hold. */
export interface Contents {
  has(block: number): boolean
  /** The block is about to be written by somebody. */
  forget(block: number): void
}

export class Blocks {
  readonly total: number
  readonly #contents: Contents
  readonly #owners: Int32Array // [total]
  readonly #editions: Uint32Array // [total]
  // The free list: a ring of block ids through the head, whose place is `total`.
  readonly #next: Int32Array // [total + 1]
  readonly #previous: Int32Array // [total + 1]
  #free = 0

  constructor(total: number, contents: Contents) {
    this.total = total
    this.#contents = contents
    this.#owners = new Int32Array(total)
    this.#editions = new Uint32Array(total)
    this.#next = new Int32Array(total + 1).fill(total)
    this.#previous = new Int32Array(total + 1).fill(total)
    for (let block = 0; block < total; block++) this.#append(block)
  }

  get free(): number {
    return this.#free
  }

  get used(): number {
    return this.total - this.#free
  }

  /** A block for one new owner. The caller has seen that there is a free one. */
  take(): number {
    const block = this.#next[this.total]!
    if (block === this.total) throw new Error("internal: no free block to take")
    this.#contents.forget(block)
    this.renew(block)
    this.hold(block)
    return block
  }

  /** What stands in the block from now on is somebody else's. */
  renew(block: number): void {
    this.#editions[block]!++
  }

  /** Counts those to whom the block was given: while it stays the same, so do the tokens that it holds. */
  edition(block: number): number {
    return this.#editions[block]!
  }

  hold(block: number): void {
    if (this.#owners[block]!++ === 0) this.#unlink(block)
  }

  /** @param mayServe what it holds may be found later, although it is not yet */
  letGo(block: number, mayServe = false): void {
    const left = --this.#owners[block]!
    if (left < 0) throw new Error(`internal: block ${block} was let go by nobody who held it`)
    if (left > 0) return
    if (mayServe || this.#contents.has(block)) this.#append(block)
    else this.#prepend(block)
  }

  isFree(block: number): boolean {
    return this.#owners[block] === 0
  }

  /** Whether its one owner may write into it: nobody else reads it, now or by finding it again. */
  isWritable(block: number): boolean {
    return this.#owners[block] === 1 && !this.#contents.has(block)
  }

  /** Throws unless every block is free once or owned exactly by the `holdings` that list it. */
  audit(holdings: Iterable<Iterable<number>>): void {
    const owners = new Int32Array(this.total)
    for (const blocks of holdings) for (const block of blocks) owners[block]!++
    for (let block = 0; block < this.total; block++) {
      if (owners[block] === this.#owners[block]) continue
      throw new Error(
        `internal: block ${block} has ${this.#owners[block]} owners, ${owners[block]} hold it`,
      )
    }
    let listed = 0
    for (let block = this.#next[this.total]!; block !== this.total; block = this.#next[block]!) {
      if (owners[block] !== 0) throw new Error(`internal: block ${block} is free and owned`)
      if (++listed > this.total) break
    }
    const unowned = owners.reduce((sum, count) => sum + (count === 0 ? 1 : 0), 0)
    if (listed === unowned && listed === this.#free) return
    throw new Error(`internal: ${unowned} blocks are free, ${listed} listed, ${this.#free} counted`)
  }

  #append(block: number): void {
    this.#link(this.#previous[this.total]!, block, this.total)
  }

  #prepend(block: number): void {
    this.#link(this.total, block, this.#next[this.total]!)
  }

  #link(before: number, block: number, after: number): void {
    this.#next[before] = block
    this.#previous[block] = before
    this.#next[block] = after
    this.#previous[after] = block
    this.#free++
  }

  #unlink(block: number): void {
    const before = this.#previous[block]!
    const after = this.#next[block]!
    this.#next[before] = after
    this.#previous[after] = before
    this.#free--
  }
}
