// What sequences hold: taking blocks, sharing those that somebody has computed, copying a shared one before writing into
// it, giving up those that slid out of a window. Every KV group has a pool of its own (pool.ts), and a sequence gets only
// what is free in all of them. Prefixes are found in the *trail*, which reaches back to their first block: the first group, or
// where that has a window, too, a pool of the engine's own, of numbers behind which no bytes lie. The others follow as far as
// they have what is seen after a prefix, states (states.ts) as blocks do.

import { BLOCK } from "../runtime/program.ts"
import type { Blocks } from "./blocks.ts"
import { Companions } from "./companions.ts"
import type { GenerationRequest } from "./generation.ts"
import { Pool, type Prefix } from "./pool.ts"
import { type Miss, PrefixCache, type Serial, UNKNOWN } from "./prefix-cache.ts"
import type { Sequence } from "./sequence.ts"
import { lastBoundary, States } from "./states.ts"

export interface MemoryShape {
  /** Whoever looks furthest back first; windows in positions, a token's own included, Infinity: all. */
  groups: readonly { blocks: number; window: number; isState?: boolean; isBehindMedia?: boolean }[]
  /** How many blocks the trail has where it is none of these. */
  trail: number
  /** How many blocks of each group are kept for drafts. */
  spares: number
  /** Positions kept at the start whatever the windows. */
  sinks: number
  /** How many finished sequences are remembered for others; Infinity: as many as the blocks allow. */
  recycled: number
}

interface Follower {
  pool: Pool | States
  companions: Companions
}

export class Memory {
  readonly cache: PrefixCache
  /** Prompt tokens that were taken over, ever. */
  cachedTokens = 0
  /** Positions that all sequences together compute again for their states' sake. */
  replays = 0
  readonly #recycling: number
  readonly #trail: Pool
  readonly #followers: readonly Follower[]
  /** Of each of the program's groups. */
  readonly #groups: readonly (Pool | States)[]
  /** These and the trail. */
  readonly #pools: readonly (Pool | States)[]
  /** Of these, which hold nothing of rows before all tokens. */
  readonly #behindMedia: readonly boolean[]
  /** Those of blocks, which may be lent. */
  readonly #lenders: readonly Pool[]
  readonly #states: readonly States[]
  // Of the remembered sequences, where their number is limited: the blocks of each, and how many list a block.
  readonly #recycled: { block: number; serial: Serial }[][] = []
  readonly #listed = new Map<Serial, number>()

  constructor({ groups, trail, spares, sinks, recycled }: MemoryShape) {
    const shapes = groups.map((each, group) => ({ ...each, group, spares, sinks }))
    const all = { window: Number.POSITIVE_INFINITY, spares, sinks }
    const [first] = shapes
    const isApart = !first || first.window < all.window
    const shape = isApart ? { ...all, group: groups.length, blocks: trail + spares } : first
    this.#recycling = recycled
    this.cache = new PrefixCache(shape.blocks)
    this.#trail = new Pool(shape, this.cache)
    this.#followers = shapes.slice(isApart ? 0 : 1).map((shape) => {
      const companions = new Companions(shape.blocks)
      const pool = shape.isState
        ? new States(shape.group, shape.blocks, companions)
        : new Pool(shape, companions)
      return { pool, companions }
    })
    const following = this.#followers.map(({ pool }) => pool)
    this.#groups = isApart ? following : [this.#trail, ...following]
    this.#pools = isApart ? [...following, this.#trail] : this.#groups
    this.#behindMedia = this.#pools.map((_, pool) => groups[pool]?.isBehindMedia ?? false)
    this.#lenders = this.#pools.filter((pool) => pool instanceof Pool)
    this.#states = this.#pools.filter((pool) => pool instanceof States)
  }

  /** Of the program's first group: what drafters go by. */
  get blocks(): Blocks {
    return this.#groups[0]!.blocks
  }

  /** How many positions may be held by all sequences together. */
  get room(): number {
    return this.#trail.total * BLOCK
  }

  /** What a sequence holds something of, and which of them is the trail. */
  get holdings(): { behindMedia: readonly boolean[]; trail: number } {
    return { behindMedia: this.#behindMedia, trail: this.#pools.indexOf(this.#trail) }
  }

  /** Blocks of all groups that sequences hold, of how many: spare ones are neither. */
  get used(): number {
    return this.#groups.reduce((sum, { used }) => sum + used, 0)
  }

  get total(): number {
    return this.#groups.reduce((sum, { total }) => sum + total, 0)
  }

  /** How many blocks of the first group can be found. */
  get remembered(): number {
    const [first] = this.#followers
    return (this.#groups[0] === this.#trail || !first ? this.cache : first.companions).size
  }

  /** Block copies that the program must make before the next step, in order; of each group. */
  get copies(): readonly { from: readonly number[]; to: readonly number[] }[] {
    return this.#groups.map(({ copies }) => copies)
  }

  /** The copies have been made. */
  forgetCopies(): void {
    for (const { copies } of this.#pools) copies.from.length = copies.to.length = 0
  }

  /** How long the sequence could get with the free blocks. */
  reach(sequence: Sequence): number {
    return Math.min(...this.#pools.map((pool) => pool.reach(sequence)))
  }

  /** Whether it can hold all that it must before it can draw, beside what `others` still lack and so many blocks for each. */
  fits(sequence: Sequence, others: readonly Sequence[], headroom: number): boolean {
    return this.#pools.every((pool) => pool.fits(sequence, others, headroom))
  }

  /**
   * Where a chunk that could go on to `end` has to stop, for what it leaves of a state to be found again: at the last block, and
   * where blocks end that somebody has of the same beginning.
   */
  stop(sequence: Sequence, end: number): number {
    const { computed, shared, remaining, trail } = sequence
    if (!this.#hasStates || remaining === 1 || !this.#mayShare(sequence)) return end
    const known = this.#known(sequence, sequence.length - 1)
    const branch = (shared + known.length) * BLOCK
    const last = known.at(-1) ?? trail.blocks[shared - 1]
    if (last !== undefined && branch === computed)
      for (const states of this.#states) states.offer(sequence, this.cache.serial(last))
    return Math.min(end, ...[branch, lastBoundary(sequence)].filter((at) => at > computed))
  }

  get #hasStates(): boolean {
    return this.#states.length > 0
  }

  /** Takes blocks up to `length` positions; they are there, as `reach` said. */
  grow(sequence: Sequence, length: number): void {
    this.settle(sequence)
    this.#growBlocks(sequence, length)
    for (const states of this.#states) states.grow(sequence, length)
  }

  #growBlocks(sequence: Sequence, length: number): void {
    for (const pool of this.#lenders) {
      const copied = pool.grow(sequence, length)
      if (copied && pool === this.#trail)
        sequence.shared = Math.min(sequence.shared, Math.floor(sequence.computed / BLOCK))
    }
  }

  /**
   * Takes what the token behind the one that is being drawn needs, as far as that is free.
   * @param running all who run, whom nothing is taken from
   * @returns whether it was
   */
  ride(sequence: Sequence, running: readonly Sequence[]): boolean {
    const next = sequence.length + 1
    this.slide(sequence)
    const hasBlocks = this.#lenders.every((pool) => pool.reach(sequence) >= next)
    if (!hasBlocks || !this.#states.every((states) => states.hasSpare(running))) return false
    this.#growBlocks(sequence, next)
    for (const states of this.#states) states.goAhead(sequence)
    return true
  }

  /**
   * Blocks for drafts, if they need some and there are some left. They come from the spare ones, so that a draft takes
   * nothing from anybody, nor from the prefix cache. Where there are states a draft ends where a block does at the latest: what is
   * left there can be found again.
   * @returns how many positions drafts may reach to
   */
  lend(sequence: Sequence, length: number): number {
    const end = this.#hasStates ? Math.ceil(sequence.length / BLOCK) * BLOCK : length
    const wanted = Math.min(length, end)
    return Math.min(wanted, ...this.#lenders.map((pool) => pool.lend(sequence, wanted)))
  }

  /**
   * The sequence's drafts are over. Takes lent blocks back. Those that hold tokens of the sequence by now are changed for free ones, when there are some: in
   * all groups or in none, whose blocks are of the same positions.
   */
  settle(sequence: Sequence): void {
    const { blocks, spare } = sequence.trail
    if (spare === undefined || sequence.computed <= blocks.length * BLOCK) {
      for (const pool of this.#lenders) pool.takeBack(sequence)
    } else if (this.#lenders.every((pool) => pool.blocks.free > 0)) {
      for (const pool of this.#lenders) pool.exchange(sequence)
    }
    for (const states of this.#states) this.#setReplay(sequence, states.settle(sequence))
  }

  #setReplay(sequence: Sequence, replay: number): void {
    this.replays += replay - sequence.replay
    sequence.replay = replay
  }

  /**
   * Takes over what somebody has computed of the sequence's next tokens. At least one token is left to compute, and all
   * of the prompt that must still be scored.
   */
  adopt(sequence: Sequence): void {
    if (!this.#mayShare(sequence)) return
    const { sequenceGroup, shared } = sequence
    const length = sequenceGroup.isScored ? sequence.length : sequenceGroup.scored + 1
    const found = this.#find(sequence, length)
    for (const [i, block] of found.entries()) this.#trail.share(sequence, shared + i, block)
    sequence.shared += found.length
    const reached = Math.min(sequence.shared * BLOCK, length - 1)
    if (found.length > 0) this.#follow(sequence, reached)
    sequence.computed = Math.max(sequence.computed, reached)
    sequence.verified = Math.max(sequence.verified, reached)
    this.#credit(sequence)
  }

  /** Blocks of the trail that hold the sequence's next tokens: as many as every group can go on after. */
  #find(sequence: Sequence, length: number): number[] {
    const { shared } = sequence
    const found = this.#known(sequence, length)
    const { blocks } = sequence.trail
    const serialAt = (at: number) =>
      this.cache.serial(at < shared ? blocks[at]! : found[at - shared]!)
    while (found.length > 0) {
      const count = shared + found.length
      const reached = Math.min(count * BLOCK, length - 1)
      const lacking = this.#lacking(sequence, { reached, count, serialAt })
      if (lacking === undefined) break
      found.length = Math.max(0, lacking - shared)
    }
    return found
  }

  /** Blocks of the trail that hold what comes behind the sequence's shared ones. */
  #known(sequence: Sequence, length: number): number[] {
    const { shared, keys } = sequence
    const known: number[] = []
    let parent = this.#parent(sequence, shared)
    for (let at = shared; (at + 1) * BLOCK <= length; at++) {
      const block = this.cache.find(parent, keys, at * BLOCK)
      if (block === undefined) break
      known.push(block)
      parent = this.cache.serial(block)
    }
    return known
  }

  /** A block that some group would lack for the prefix. */
  #lacking(sequence: Sequence, prefix: Prefix): number | undefined {
    for (const { pool, companions } of this.#followers) {
      const lacking = pool.lastLacking(sequence, prefix, companions)
      if (lacking !== undefined) return lacking
    }
    return undefined
  }

  /** What the trail has taken over the others take over too. */
  #follow(sequence: Sequence, reached: number): void {
    const { blocks } = sequence.trail
    const serialAt = (at: number) => this.cache.serial(blocks[at]!)
    const prefix = { reached, count: sequence.shared, serialAt }
    for (const { pool, companions } of this.#followers) pool.adopt(sequence, prefix, companions)
  }

  /** Why `adopt` took over no more; undefined when too little is left to look for. */
  miss(sequence: Sequence): Miss | undefined {
    const { shared, keys, length } = sequence
    if (this.#recycling === 0 || (shared + 1) * BLOCK > length) return undefined
    const parent = this.#parent(sequence, shared)
    const isThere = this.cache.find(parent, keys, shared * BLOCK) !== undefined
    if (isThere && this.#followers.length > 0) return { kind: "forgotten" } // by a group that follows
    return this.cache.miss(parent, keys, shared * BLOCK)
  }

  /** Takes over the prompt that a sibling holds; false when it does not hold all of it, as where its state has moved on. */
  fork(sequence: Sequence, sibling: Sequence): boolean {
    const prompt = sequence.sequenceGroup.promptTokens
    const computed = Math.min(prompt, sequence.length - 1)
    const isHeld = this.#lenders.every((pool) => pool.canFork(sibling, computed))
    if (sibling.computed < prompt || !isHeld || this.#hasStates) return false
    for (const pool of this.#lenders) pool.fork(sequence, sibling, prompt)
    sequence.shared = Math.min(sibling.shared, sequence.trail.blocks.length)
    sequence.computed = computed
    sequence.verified = Math.min(sibling.verified, computed)
    return true
  }

  /** Gives up blocks that no later token can see. */
  slide(sequence: Sequence): void {
    const { shared, sequenceGroup } = sequence
    const prompt = { from: shared, end: Math.floor(sequenceGroup.promptTokens / BLOCK) }
    const publishable = this.#mayShare(sequence) ? prompt : undefined
    for (const { pool } of this.#followers) pool.slide(sequence, publishable)
  }

  /** Gives back everything; what was computed is to be computed again. */
  release(sequence: Sequence): void {
    for (const pool of this.#pools) pool.release(sequence)
    this.#setReplay(sequence, 0)
    sequence.shared = 0
    sequence.computed = 0
    sequence.verified = 0
    this.#takeBack(sequence)
  }

  /** Lets others find the sequence's first `length` positions, as far as they are verified. */
  publish(sequence: Sequence, length: number): void {
    if (!this.#mayShare(sequence)) return
    const { keys } = sequence
    const { blocks } = sequence.trail
    const end = Math.min(length, sequence.verified)
    for (let at = sequence.shared; (at + 1) * BLOCK <= end; at++) {
      const parent = this.#parent(sequence, at)
      if (parent === UNKNOWN) return
      const own = blocks[at]!
      const block = this.cache.enter(parent, keys, at * BLOCK, own)
      if (block !== own) this.#trail.share(sequence, at, block)
      const serial = this.cache.serial(block)
      for (const { pool, companions } of this.#followers)
        pool.publish(sequence, at, serial, companions)
      sequence.shared = at + 1
    }
  }

  /** The same for a sequence that is over; too many of those, and the oldest is forgotten. */
  recycle(sequence: Sequence, length: number): void {
    this.publish(sequence, length)
    const recycled = this.#recycling
    if (recycled === Number.POSITIVE_INFINITY || sequence.shared === 0) return
    const { trail } = sequence
    const kept = trail.blocks
      .slice(0, sequence.shared)
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

  /** Throws unless in every group every block is free once, spare, or owned by exactly those of all `sequences` that list it. */
  audit(sequences: readonly Sequence[]): void {
    for (const pool of this.#pools) pool.audit(sequences)
    const replays = sequences.reduce((sum, { replay }) => sum + replay, 0)
    if (replays !== this.replays)
      throw new Error(`internal: ${this.replays} replays, not ${replays}`)
  }

  #mayShare({ sequenceGroup }: Sequence): boolean {
    return this.#recycling !== 0 && !sequenceGroup.request.readHidden
  }

  #parent(sequence: Sequence, at: number): Serial {
    if (at === 0) return this.cache.root(prefixScope(sequence.sequenceGroup.request))
    return this.cache.serial(sequence.trail.blocks[at - 1]!)
  }

  /** Prompt tokens that nobody of the sequence group had to compute. */
  #credit(sequence: Sequence): void {
    const { sequenceGroup } = sequence
    const reached = Math.min(sequence.computed, sequenceGroup.promptTokens)
    if (reached <= sequenceGroup.reached) return
    sequenceGroup.cached += reached - sequenceGroup.reached
    this.cachedTokens += reached - sequenceGroup.reached
    sequenceGroup.reached = reached
  }

  /** What a request has to compute after all, as its prefix was taken from it before it ran. */
  #takeBack({ sequenceGroup }: Sequence): void {
    if (sequenceGroup.begun) return
    this.cachedTokens -= sequenceGroup.cached
    sequenceGroup.cached = 0
    sequenceGroup.reached = 0
  }
}

/** What is computed with one adapter is of no use to another. A key has no such character. */
function prefixScope({ scope, adapter }: GenerationRequest): string {
  return adapter === undefined ? scope : `${scope}\0${adapter}`
}
