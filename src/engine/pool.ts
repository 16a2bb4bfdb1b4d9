// The blocks of one KV group, and what each sequence holds of them: taking, copying before writing, giving up what slid out
// of the group's window. Every group has blocks for the same positions of a sequence; they differ in which are given up.
// Who may take from whom is the scheduler's business, and what groups must agree about is memory.ts's.

import { BLOCK } from "../runtime/program.ts"
import { Blocks, type Contents } from "./blocks.ts"
import type { Companions } from "./companions.ts"
import type { Serial } from "./prefix-cache.ts"
import type { Holding, Sequence } from "./sequence.ts"

export interface PoolShape {
  /** Which of a sequence's holdings are this group's. */
  group: number
  blocks: number
  /** How many of them are kept for drafts. */
  spares: number
  /** Positions a token sees, itself included; Infinity: all. */
  window: number
  /** Positions kept at the start whatever the window. */
  sinks: number
  /** It holds nothing of rows that stand before all tokens. */
  isBehindMedia?: boolean
}

export class Pool {
  readonly blocks: Blocks
  /** Block copies that the program must make before the next step, in order. */
  readonly copies = { from: [] as number[], to: [] as number[] }
  readonly #shape: PoolShape
  readonly #sinkBlocks: number
  readonly #spares: number[] = []

  constructor(shape: PoolShape, contents: Contents) {
    this.blocks = new Blocks(shape.blocks, contents)
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

  of({ held }: Sequence): Holding {
    return held[this.#shape.group]!
  }

  /** How long the sequence could get with the free blocks but `spared` of them. */
  reach(sequence: Sequence, spared = 0): number {
    const free = Math.max(0, this.blocks.free - spared)
    const copied = this.#mustCopy(sequence) ? 1 : 0
    if (free < copied) return sequence.computed
    return (this.#listed(sequence) + free - copied) * BLOCK
  }

  /** Whether it can hold all that it must before it can draw, beside what `others` still lack and so many blocks for each. */
  fits(sequence: Sequence, others: readonly Sequence[], headroom: number): boolean {
    const spared = others.reduce((sum, each) => sum + headroom + this.#lacking(each), 0)
    return this.reach(sequence, spared) >= this.#goal(sequence)
  }

  /** Blocks that it has or never needs. */
  #listed(sequence: Sequence): number {
    return Math.max(this.of(sequence).blocks.length, this.#begin(sequence))
  }

  /** The first block that it ever holds. */
  #begin({ sequenceGroup }: Sequence): number {
    return this.#shape.isBehindMedia ? Math.floor(sequenceGroup.front / BLOCK) : 0
  }

  /** How many of its positions must be held together before it can draw. */
  #goal({ length, computed }: Sequence): number {
    return Math.min(length, computed + this.#shape.window)
  }

  /** How many blocks it still wants for that. */
  #lacking(sequence: Sequence): number {
    return Math.max(0, Math.ceil(this.#goal(sequence) / BLOCK) - this.#listed(sequence))
  }

  /**
   * Takes blocks up to `length` positions; they are there, as `reach` said.
   * @returns whether a shared one had to be copied
   */
  grow(sequence: Sequence, length: number): boolean {
    const { blocks } = this.of(sequence)
    const copied = this.#mustCopy(sequence)
    if (copied) {
      const at = Math.floor(sequence.computed / BLOCK)
      const shared = blocks[at]!
      const own = this.blocks.take()
      blocks[at] = own
      this.blocks.letGo(shared)
      this.copies.from.push(shared)
      this.copies.to.push(own)
    }
    const begin = this.#begin(sequence)
    while (blocks.length * BLOCK < length)
      blocks.push(blocks.length < begin ? GIVEN_UP : this.blocks.take())
    return copied
  }

  // spare blocks

  /** How many positions the sequence's blocks hold, with one that is lent if they hold less than `length`. */
  lend(sequence: Sequence, length: number): number {
    const held = this.of(sequence)
    if (length > held.blocks.length * BLOCK && held.spare === undefined) {
      held.spare = this.#spares.pop()
      if (held.spare !== undefined) this.blocks.renew(held.spare)
    }
    return (held.blocks.length + (held.spare === undefined ? 0 : 1)) * BLOCK
  }

  takeBack(sequence: Sequence): void {
    const held = this.of(sequence)
    if (held.spare !== undefined) this.#spares.push(held.spare)
    held.spare = undefined
  }

  /** The lent block becomes one of its own, a free one spare. */
  exchange(sequence: Sequence): void {
    const held = this.of(sequence)
    held.blocks.push(held.spare!)
    held.spare = undefined
    this.#spares.push(this.blocks.take())
  }

  // sharing

  /** Whether a sibling still holds what a sequence of so many computed positions sees. */
  canFork(sibling: Sequence, computed: number): boolean {
    const { gone } = this.of(sibling)
    const seen = Math.max(0, computed + 1 - this.#shape.window)
    return gone <= Math.max(seen / BLOCK, this.#begin(sibling))
  }

  /** Takes over the sibling's blocks of `length` positions. */
  fork(sequence: Sequence, sibling: Sequence, length: number): void {
    const [held, theirs] = [this.of(sequence), this.of(sibling)]
    held.gone = theirs.gone
    for (let at = 0; at * BLOCK < length; at++) {
      const block = theirs.blocks[at]!
      if (this.isHeld(held, at)) this.blocks.hold(block)
      held.blocks.push(block)
    }
  }

  /** Holds somebody else's block in place of its own, if it has one there. */
  share(sequence: Sequence, at: number, block: number): void {
    const { blocks } = this.of(sequence)
    this.blocks.hold(block)
    if (at < blocks.length) this.blocks.letGo(blocks[at]!)
    blocks[at] = block
  }

  /**
   * The last block that the sequence would lack if its first `reached` positions, in `count` blocks, were taken over: neither
   * its own nor known under the serial that is given of a block.
   */
  lastLacking(
    sequence: Sequence,
    { reached, count, serialAt }: Prefix,
    companions: Companions,
  ): number | undefined {
    const gone = Math.max(this.#goneAt(sequence, reached), this.of(sequence).gone)
    const lacks = (at: number) =>
      !this.#hasComputed(sequence, at) && companions.find(serialAt(at)) === undefined
    for (let at = count - 1; at >= gone; at--) if (lacks(at)) return at
    for (let at = Math.min(this.#sinkBlocks, gone) - 1; at >= 0; at--) if (lacks(at)) return at
    return undefined
  }

  /** Takes over what others have computed of the prefix and the sequence has not; nothing is lacking. */
  adopt(sequence: Sequence, { reached, count, serialAt }: Prefix, companions: Companions): void {
    const held = this.of(sequence)
    const gone = this.#goneAt(sequence, reached)
    this.#giveUp(held, Math.min(gone, held.blocks.length), (block) => this.blocks.letGo(block))
    held.gone = Math.max(held.gone, gone)
    for (let at = 0; at < count; at++) {
      if (!this.isHeld(held, at)) held.blocks[at] = GIVEN_UP
      else if (!this.#hasComputed(sequence, at))
        this.share(sequence, at, companions.find(serialAt(at))!)
    }
  }

  /** Lets others find block number `at`, whose tokens have this serial, also if it has slid away and nobody took it yet. */
  publish(sequence: Sequence, at: number, serial: Serial, companions: Companions): void {
    const held = this.of(sequence)
    const known = companions.find(serial)
    const left = held.left.get(at)
    held.left.delete(at)
    if (this.isHeld(held, at)) {
      const own = held.blocks[at]!
      if (known === undefined) companions.enter(serial, own)
      else if (known !== own) this.share(sequence, at, known)
    } else if (left && known === undefined && this.blocks.edition(left.block) === left.edition) {
      companions.enter(serial, left.block)
    }
  }

  // giving up

  /**
   * Gives up blocks that no later token can see.
   * @param publishable the blocks that others may find once somebody has vouched for them. Where there are such, nobody who
   *   goes on after the last full block may see what is given up either
   */
  slide(sequence: Sequence, publishable?: { from: number; end: number }): void {
    const held = this.of(sequence)
    const { from } = sequence
    const last = publishable ? Math.floor(from / BLOCK) * BLOCK : from
    const kept = this.#goneAt(sequence, last)
    this.#giveUp(held, kept, (block, at) => {
      const keep = publishable !== undefined && at >= publishable.from && at < publishable.end
      if (keep) held.left.set(at, { block, edition: this.blocks.edition(block) })
      this.blocks.letGo(block, keep)
    })
    held.gone = Math.max(held.gone, kept)
  }

  #giveUp(held: Holding, kept: number, letGo: (block: number, at: number) => void): void {
    for (let at = Math.max(held.gone, this.#sinkBlocks); at < kept; at++) {
      letGo(held.blocks[at]!, at)
      held.blocks[at] = GIVEN_UP
    }
  }

  /** Gives back everything. The end of a prefix is the first to be reused. */
  release(sequence: Sequence): void {
    const held = this.of(sequence)
    const { blocks } = held
    for (let at = blocks.length - 1; at >= 0; at--) {
      if (this.isHeld(held, at)) this.blocks.letGo(blocks[at]!)
    }
    blocks.length = 0
    this.takeBack(sequence)
    held.gone = this.#begin(sequence)
    held.left.clear()
  }

  /** Throws unless every block is free once, spare, or owned by exactly those of all `sequences` that list it. */
  audit(sequences: readonly Sequence[]): void {
    const holdings = sequences.map((each) => this.of(each))
    const lent = holdings.flatMap(({ spare }) => spare ?? [])
    this.blocks.audit([this.#spares, lent, ...holdings.map((each) => this.#held(each))])
  }

  /** Whether block number `at` is a sink or still inside the window: only those reach the program. */
  isHeld({ gone }: Holding, at: number): boolean {
    return at >= gone || at < this.#sinkBlocks
  }

  *#held(held: Holding): Iterable<number> {
    for (const [at, block] of held.blocks.entries()) {
      if (this.isHeld(held, at)) yield block
    }
  }

  /** The first block but for sinks that is still seen after so many positions. */
  #goneAt(sequence: Sequence, computed: number): number {
    const slid = Math.floor(Math.max(0, computed + 1 - this.#shape.window) / BLOCK)
    const kept = Math.max(slid, this.#begin(sequence))
    return kept > this.#sinkBlocks ? kept : 0
  }

  /** Whether the block that the next token goes into is somebody else's too. */
  #mustCopy(sequence: Sequence): boolean {
    const { blocks } = this.of(sequence)
    const at = Math.floor(sequence.computed / BLOCK)
    if (at < this.#begin(sequence)) return false
    return at < blocks.length && !this.blocks.isWritable(blocks[at]!)
  }

  #hasComputed(sequence: Sequence, at: number): boolean {
    return (at + 1) * BLOCK <= sequence.computed && this.isHeld(this.of(sequence), at)
  }
}

/** Positions that somebody has computed: `count` blocks of the trail, by their serials. */
export interface Prefix {
  reached: number
  count: number
  serialAt: (at: number) => Serial
}

/** In the place of a block that is not held. */
const GIVEN_UP = 0
