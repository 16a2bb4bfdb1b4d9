// The states of one KV group: matrices that every position changes, so there is one of a sequence and not a row of each position.
// Nobody changes a state in place. A step goes on from one and leaves another, so whoever must take a step again goes on from
// the same; what was left where a block ends is kept until the block may be shared, and then found again by whoever has the
// same tokens. Nothing leads back from a state: a prefix goes on from one that was kept or from its beginning, and where a draft was
// wrong the step is taken again as far as it was right, together with the next one. A prompt keeps one at its last block; where
// many begin alike, the second of them keeps one where they part.

import { BLOCK } from "../runtime/program.ts"
import { Blocks } from "./blocks.ts"
import type { Companions } from "./companions.ts"
import type { Prefix } from "./pool.ts"
import type { Serial } from "./prefix-cache.ts"
import { noStates, type Sequence, type StateHolding } from "./sequence.ts"

/** What a sequence must be able to hold: what it goes on from, what the step leaves, what it left where a block ended. */
export const STATES = 3

/** Behind as many positions nobody ever is. */
const NOWHERE = -1 - BLOCK

export class States {
  readonly blocks: Blocks
  /** A state that two hold is left as it is by both. */
  readonly copies = { from: [] as number[], to: [] as number[] }
  readonly #group: number
  readonly #companions: Companions

  constructor(group: number, total: number, companions: Companions) {
    this.blocks = new Blocks(total, companions)
    this.#group = group
    this.#companions = companions
  }

  get used(): number {
    return this.blocks.used
  }

  get total(): number {
    return this.blocks.total
  }

  /** Any length, as soon as there is a state that a step can leave. */
  reach(sequence: Sequence): number {
    const { to } = this.#settled(sequence)
    return to !== undefined || this.blocks.free > 0 ? Number.POSITIVE_INFINITY : sequence.computed
  }

  /** Whether it can go on beside what `others` may still take. */
  fits(sequence: Sequence, others: readonly Sequence[]): boolean {
    return this.#lacking([sequence]) <= this.blocks.free - this.#lacking(others)
  }

  /** Whether one is left beside what those who run may still take. */
  hasSpare(running: readonly Sequence[]): boolean {
    return this.#lacking(running) < this.blocks.free
  }

  #lacking(sequences: readonly Sequence[]): number {
    return sequences.reduce((sum, each) => {
      const held = this.#held(this.#settled(each)).length
      return sum + Math.max(0, STATES - held)
    }, 0)
  }

  grow(sequence: Sequence, length: number): false {
    const held = this.#settled(sequence)
    held.to ??= this.blocks.take()
    held.next = length
    return false
  }

  /** The step behind the one that runs goes on from what that one leaves, and leaves another. */
  goAhead(sequence: Sequence): void {
    this.#settled(sequence).ahead ??= this.blocks.take()
  }

  // sharing

  /** The last block of the prefix where nothing was kept: one before it is to be tried. */
  lastLacking(sequence: Sequence, { reached, count, serialAt }: Prefix): number | undefined {
    if (reached <= sequence.computed) return undefined
    const isThere = this.#companions.find(serialAt(count - 1)) !== undefined
    return reached === count * BLOCK && isThere ? undefined : count - 1
  }

  /** Goes on from what was kept at the end of the prefix, if that is further. */
  adopt(sequence: Sequence, { reached, count, serialAt }: Prefix): void {
    if (reached <= sequence.computed) return
    const state = this.#companions.find(serialAt(count - 1))!
    this.blocks.hold(state)
    this.release(sequence)
    const held = this.#of(sequence)
    held.from = state
    held.at = reached
  }

  /** What it goes on from may be found: somebody has the blocks of the same tokens, and has vouched for them. */
  offer(sequence: Sequence, serial: Serial): void {
    const { from, at } = this.#settled(sequence)
    const isThere = this.#companions.find(serial) !== undefined
    if (from !== undefined && at === sequence.computed && !isThere)
      this.#companions.enter(serial, from)
  }

  /** What was left at the end of block number `at`, be it kept or still to go on from, may be found. */
  publish(sequence: Sequence, at: number, serial: Serial): void {
    const held = this.#settled(sequence)
    const { from, kept } = held
    const end = (at + 1) * BLOCK
    const isFrom = from !== undefined && held.at === end && this.#isWorthKeeping(sequence, end)
    const state = kept?.at === at ? kept.state : isFrom ? from : undefined
    if (state === undefined) return
    if (this.#companions.find(serial) === undefined) this.#companions.enter(serial, state)
    if (state !== kept?.state) return
    this.blocks.letGo(state)
    held.kept = undefined
  }

  // giving up

  slide(): void {}

  /**
   * What a step has left behind drafts of which some were wrong leads nowhere.
   * @returns how many computed positions the sequence has to take again
   */
  settle(sequence: Sequence): number {
    const held = this.#settled(sequence)
    const replay = sequence.computed - held.at
    if (replay > 0) held.next = NOWHERE
    return replay
  }

  release(sequence: Sequence): void {
    const held = this.#of(sequence)
    for (const state of this.#held(held)) this.blocks.letGo(state)
    Object.assign(held, noStates())
  }

  /** Throws unless every state is free once or held by exactly those of all `sequences` that list it. */
  audit(sequences: readonly Sequence[]): void {
    this.blocks.audit(sequences.map((each) => this.#held(this.#of(each))))
  }

  /** Once a step has been taken, and all its drafts were right, the sequence goes on from what that has left; of two, from each. */
  #settled(sequence: Sequence): StateHolding {
    const held = this.#of(sequence)
    const { computed, drafts } = sequence
    if (held.ahead !== undefined && computed === held.next + 1) this.#pass(sequence, held.next)
    const next = held.next + drafts.length
    if (held.to !== undefined && computed === next) this.#pass(sequence, next)
    return held
  }

  /** The step has been taken that leaves a state behind `next` positions. */
  #pass(sequence: Sequence, next: number): void {
    const held = this.#of(sequence)
    const { from, at, to, kept, ahead } = held
    if (from !== undefined) {
      if (at % BLOCK === 0 && this.#isWorthKeeping(sequence, at)) {
        if (kept) this.blocks.letGo(kept.state)
        held.kept = { state: from, at: at / BLOCK - 1 }
      } else this.blocks.letGo(from)
    }
    held.from = to
    held.at = next
    held.to = ahead
    held.next = ahead === undefined ? next : next + 1
    held.ahead = undefined
  }

  /** Whoever asks the same again has a token to compute. */
  #isWorthKeeping({ sequenceGroup }: Sequence, at: number): boolean {
    return at !== sequenceGroup.promptTokens
  }

  #of({ held }: Sequence): StateHolding {
    return held[this.#group]!.states
  }

  #held({ from, to, ahead, kept }: StateHolding): number[] {
    return [from, to, ahead, kept?.state].filter((state) => state !== undefined)
  }
}

/** Where a chunk of a sequence's tokens ends for its state to be kept: the last block that ends before its last token. */
export function lastBoundary({ length }: Sequence): number {
  return Math.floor((length - 1) / BLOCK) * BLOCK
}
