// What sequences hold: taking blocks, sharing those that somebody has computed, copying a shared one before writing into
// it, giving up those that slid out of the window. Who may take from whom is the scheduler's business; here a sequence
// gets only what is free.

import { BLOCK } from "../runtime/program.ts"
import { Blocks } from "./blocks.ts"
import { type Miss, PrefixCache, type Serial, UNKNOWN } from "./prefix-cache.ts"
import type { Sequence } from "./sequence.ts"

export interface MemoryShape {
  blocks: number
  /** How many of them are kept for drafts. */
  spares: number
  /** Positions a token sees, itself included; Infinity: all. */
  window: number
  /** Positions kept at the start whatever the window. */
  sinks: number
  /** How many finished sequences are remembered for others; Infinity: as many as the blocks allow. */
  recycled: number
}

export class Memory {
  readonly blocks: Blocks
  readonly cache: PrefixCache
  /** Block copies that the program must make before the next step, in order. */
  readonly copies = { from: [] as number[], to: [] as number[] }
  /** Prompt tokens that were taken over, ever. */
  cachedTokens = 0
  readonly #shape: MemoryShape
  readonly #sinkBlocks: number
  readonly #spares: number[] = []
  // Of the remembered sequences, where their number is limited: the blocks of each, and how many list a block.
  readonly #recycled: { block: number; serial: Serial }[][] = []
  readonly #listed = new Map<Serial, number>()

  constructor(shape: MemoryShape) {
    this.cache = new PrefixCache(shape.blocks)
    this.blocks = new Blocks(shape.blocks, this.cache)
    this.#shape = shape
    this.#sinkBlocks = Math.ceil(shape.sinks / BLOCK)
    for (let i = 0; i < shape.spares; i++) this.#spares.push(this.blocks.take())
  }

  /** Blocks that sequences hold, of how many: spare ones are neither. */
  get used(): number {
    return this.blocks.used - this.#shape.spares
  }

  get total(): number {
    return this.blocks.total - this.#shape.spares
  }

  /** How long the sequence could get with the free blocks but `spared` of them. */
  reach(sequence: Sequence, spared: number): number {
    const free = Math.max(0, this.blocks.free - spared)
    const copied = this.#mustCopy(sequence) ? 1 : 0
    if (free < copied) return sequence.computed
    return (sequence.blocks.length + free - copied) * BLOCK
  }

  /** How many of its positions must be held together before it can draw. */
  goal(sequence: Sequence): number {
    return Math.min(sequence.length, sequence.computed + this.#shape.window)
  }

  /** How many blocks it still wants for that. */
  lacking(sequence: Sequence): number {
    return Math.max(0, Math.ceil(this.goal(sequence) / BLOCK) - sequence.blocks.length)
  }

  /** Takes blocks up to `length` positions; they are there, as `reach` said. */
  grow(sequence: Sequence, length: number): void {
    this.settle(sequence)
    const { blocks } = sequence
    if (this.#mustCopy(sequence)) {
      const at = Math.floor(sequence.computed / BLOCK)
      const shared = blocks[at]!
      const own = this.blocks.take()
      blocks[at] = own
      this.blocks.letGo(shared)
      this.copies.from.push(shared)
      this.copies.to.push(own)
      sequence.shared = Math.min(sequence.shared, at)
    }
    while (blocks.length * BLOCK < length) blocks.push(this.blocks.take())
  }

  /**
   * A block for drafts, if they need one and there is one left. It comes from the spare ones, so that a draft takes
   * nothing from anybody, nor from the prefix cache.
   * @returns how many positions the sequence's blocks hold now
   */
  lend(sequence: Sequence, length: number): number {
    const { blocks } = sequence
    if (length > blocks.length * BLOCK && sequence.spare === undefined) {
      sequence.spare = this.#spares.pop()
      if (sequence.spare !== undefined) this.blocks.renew(sequence.spare)
    }
    return (blocks.length + (sequence.spare === undefined ? 0 : 1)) * BLOCK
  }

  /** Takes a lent block back. One that holds tokens of the sequence by now is changed for a free one, when there is one. */
  settle(sequence: Sequence): void {
    const { blocks, spare, computed } = sequence
    if (spare === undefined) return
    if (computed <= blocks.length * BLOCK) this.#spares.push(spare)
    else if (this.blocks.free === 0) return
    else {
      blocks.push(spare)
      this.#spares.push(this.blocks.take())
    }
    sequence.spare = undefined
  }

  /**
   * Takes over what somebody has computed of the sequence's next tokens. At least one token is left to compute, and all
   * of the prompt that must still be scored.
   */
  adopt(sequence: Sequence): void {
    if (this.#shape.recycled === 0 || sequence.gone > 0) return
    const { blocks, tokens, family } = sequence
    const length = family.isScored ? sequence.length : family.scored + 1
    for (let at = sequence.shared; (at + 1) * BLOCK <= length; at++) {
      const found = this.cache.find(this.#parent(sequence, at), tokens, at * BLOCK)
      if (found === undefined) break
      this.blocks.hold(found)
      if (at < blocks.length) this.blocks.letGo(blocks[at]!)
      blocks[at] = found
      sequence.shared = at + 1
    }
    const reached = Math.min(sequence.shared * BLOCK, length - 1)
    sequence.computed = Math.max(sequence.computed, reached)
    sequence.sound = Math.max(sequence.sound, reached)
    this.#credit(sequence)
  }

  /** Why `adopt` took over no more; undefined when too little is left to look for. */
  miss(sequence: Sequence): Miss | undefined {
    const { shared, tokens, length } = sequence
    if (this.#shape.recycled === 0 || (shared + 1) * BLOCK > length) return undefined
    return this.cache.miss(this.#parent(sequence, shared), tokens, shared * BLOCK)
  }

  /** Takes over the prompt that a sibling holds; false when it does not hold all of it. */
  fork(sequence: Sequence, sibling: Sequence): boolean {
    const prompt = sequence.family.promptTokens
    const computed = Math.min(prompt, sequence.length - 1)
    const seen = Math.max(0, computed + 1 - this.#shape.window)
    if (sibling.computed < prompt || sibling.gone * BLOCK > seen) return false
    sequence.gone = sibling.gone
    for (let at = 0; at * BLOCK < prompt; at++) {
      const block = sibling.blocks[at]!
      if (this.isHeld(sequence, at)) this.blocks.hold(block)
      sequence.blocks.push(block)
    }
    sequence.shared = Math.min(sibling.shared, sequence.blocks.length)
    sequence.computed = computed
    sequence.sound = Math.min(sibling.sound, computed)
    return true
  }

  /** Gives up blocks that no later token can see. */
  slide(sequence: Sequence): void {
    const seen = Math.max(0, sequence.computed + 1 - this.#shape.window)
    const kept = Math.floor(seen / BLOCK)
    for (let at = Math.max(sequence.gone, this.#sinkBlocks); at < kept; at++) {
      this.blocks.letGo(sequence.blocks[at]!)
      sequence.blocks[at] = 0 // a place that is not held
    }
    if (kept > this.#sinkBlocks) sequence.gone = kept
  }

  /** Gives back everything; what was computed is to be computed again. The end of a prefix is the first to be reused. */
  release(sequence: Sequence): void {
    const { blocks } = sequence
    for (let at = blocks.length - 1; at >= 0; at--) {
      if (this.isHeld(sequence, at)) this.blocks.letGo(blocks[at]!)
    }
    blocks.length = 0
    if (sequence.spare !== undefined) this.#spares.push(sequence.spare)
    sequence.spare = undefined
    sequence.gone = 0
    sequence.shared = 0
    sequence.computed = 0
    sequence.sound = 0
  }

  /** Lets others find the sequence's first `length` positions, as far as finite numbers vouch for them. */
  publish(sequence: Sequence, length: number): void {
    if (this.#shape.recycled === 0 || sequence.gone > 0) return
    const { blocks, tokens } = sequence
    const end = Math.min(length, sequence.sound)
    for (let at = sequence.shared; (at + 1) * BLOCK <= end; at++) {
      const parent = this.#parent(sequence, at)
      if (parent === UNKNOWN) return
      const own = blocks[at]!
      const found = this.cache.enter(parent, tokens, at * BLOCK, own)
      if (found !== own) {
        this.blocks.hold(found)
        this.blocks.letGo(own)
        blocks[at] = found
      }
      sequence.shared = at + 1
    }
  }

  /** The same for a sequence that is over; too many of those, and the oldest is forgotten. */
  recycle(sequence: Sequence, length: number): void {
    this.publish(sequence, length)
    const { recycled } = this.#shape
    if (recycled === Number.POSITIVE_INFINITY || sequence.shared === 0) return
    const kept = sequence.blocks
      .slice(0, sequence.shared)
      .filter((_, at) => this.isHeld(sequence, at))
      .map((block) => ({ block, serial: this.cache.serial(block) }))
    for (const { serial } of kept) this.#listed.set(serial, (this.#listed.get(serial) ?? 0) + 1)
    this.#recycled.push(kept)
    if (this.#recycled.length <= recycled) return
    for (const { block, serial } of this.#recycled.shift()!) {
      const others = this.#listed.get(serial)! - 1
      if (others > 0) this.#listed.set(serial, others)
      else this.#listed.delete(serial)
      const known = this.cache.serial(block) === serial
      if (others === 0 && known && this.blocks.isFree(block)) this.cache.forget(block)
    }
  }

  /** Throws unless every block is free once, spare, or owned by exactly those of all `sequences` that list it. */
  audit(sequences: readonly Sequence[]): void {
    const lent = sequences.flatMap(({ spare }) => spare ?? [])
    this.blocks.audit([this.#spares, lent, ...sequences.map((each) => this.#held(each))])
  }

  /** Whether block number `at` of the sequence is a sink or still inside its window: only those reach the program. */
  isHeld(sequence: Sequence, at: number): boolean {
    return at >= sequence.gone || at < this.#sinkBlocks
  }

  *#held(sequence: Sequence): Iterable<number> {
    for (const [at, block] of sequence.blocks.entries()) {
      if (this.isHeld(sequence, at)) yield block
    }
  }

  /** Whether the block that the next token goes into is somebody else's too. */
  #mustCopy(sequence: Sequence): boolean {
    const at = Math.floor(sequence.computed / BLOCK)
    return at < sequence.blocks.length && !this.blocks.isWritable(sequence.blocks[at]!)
  }

  #parent(sequence: Sequence, at: number): Serial {
    if (at === 0) return this.cache.root(sequence.family.request.scope)
    return this.cache.serial(sequence.blocks[at - 1]!)
  }

  /** Prompt tokens that nobody of the family had to compute. */
  #credit(sequence: Sequence): void {
    const { family } = sequence
    const reached = Math.min(sequence.computed, family.promptTokens)
    if (reached <= family.reached) return
    family.cached += reached - family.reached
    this.cachedTokens += reached - family.reached
    family.reached = reached
  }
}
