// Whose turn is first. A client is whoever asks under one name: a key, or a connection. Each client's first sequence comes
// before anybody's second, so that a thousand sequences of one are no more than one of another when places are short. Of two
// that are their clients' n-th, the one of the smaller crowd comes first, and then whoever came first. The sequences of one
// client are ordered alike: the first of each request before the second of any, small requests before large ones.
//
// Small ones could keep a crowd waiting for ever: so the oldest request is passed over a few times at most.

import type { Client, Sequence, SequenceGroup } from "./sequence.ts"

/** How often a later request may get a place before the oldest one gets its first. */
const MAX_PASSED = 16

export class Turns {
  readonly #named = new Map<string, Client>()
  /** Ranks that were told before the last arrival or end are told anew. */
  #edition = 0
  #oldest: SequenceGroup | undefined
  #passed = 0

  add(sequenceGroup: SequenceGroup): void {
    const { client: name } = sequenceGroup.request
    const known = name === undefined ? undefined : this.#named.get(name)
    const client = known ?? { name, sequenceGroups: [], size: 0 }
    if (name !== undefined) this.#named.set(name, client)
    client.sequenceGroups.push(sequenceGroup)
    client.size += sequenceGroup.live.length
    sequenceGroup.client = client
    for (const [turn, sequence] of sequenceGroup.live.entries()) sequence.turn = turn
    this.#oldest ??= sequenceGroup
    this.#edition++
  }

  /** The sequence is no longer among its sequence group's live ones. @param oldest the sequence group that is first by arrival now */
  remove({ sequenceGroup }: Sequence, oldest: SequenceGroup | undefined): void {
    const { client, live } = sequenceGroup
    client.size--
    for (const [turn, sibling] of live.entries()) sibling.turn = turn
    if (live.length === 0)
      client.sequenceGroups.splice(client.sequenceGroups.indexOf(sequenceGroup), 1)
    if (client.sequenceGroups.length === 0 && client.name !== undefined)
      this.#named.delete(client.name)
    if (sequenceGroup === this.#oldest) this.#passed = 0
    this.#oldest = oldest
    this.#edition++
  }

  /** A sequence of this sequence group got a place; `waits`: whether the oldest one could use it and has none. */
  admitted(sequenceGroup: SequenceGroup, waits: boolean): void {
    if (sequenceGroup === this.#oldest || !waits) return
    this.#passed++
    if (this.#passed === MAX_PASSED) this.#edition++
  }

  get oldest(): SequenceGroup | undefined {
    return this.#oldest
  }

  /** Brings the sequence's place in the order up to date. */
  rank(sequence: Sequence): void {
    if (sequence.ranked === this.#edition) return
    const { sequenceGroup, turn } = sequence
    sequence.ranked = this.#edition
    sequence.crowd = magnitude(sequenceGroup.client.size)
    const isPassed = sequenceGroup === this.#oldest && this.#passed >= MAX_PASSED
    sequence.rank = isPassed && turn === 0 ? -1 : rankOf(sequence)
  }

  /** Of the sequence groups that nothing runs of, the last one of the largest crowd; undefined when that is no larger than the newcomer's. */
  last(
    waiting: readonly SequenceGroup[],
    name: string | undefined,
    choices: number,
  ): SequenceGroup | undefined {
    const size = (name === undefined ? undefined : this.#named.get(name)?.size) ?? 0
    let most = magnitude(size + choices)
    let last: SequenceGroup | undefined
    for (const sequenceGroup of waiting) {
      const crowd = magnitude(sequenceGroup.client.size)
      if (crowd < most || (crowd === most && !last)) continue
      most = crowd
      last = sequenceGroup
    }
    return last
  }
}

/** How many of its client's sequences come before it: the first of each request before the second of any, small requests first. */
function rankOf({ sequenceGroup, turn }: Sequence): number {
  let before = 0
  for (const other of sequenceGroup.client.sequenceGroups) {
    const isEarlier = other.live.length > turn && isFirst(other, sequenceGroup)
    before += Math.min(other.live.length, turn) + (isEarlier ? 1 : 0)
  }
  return before
}

function isFirst(a: SequenceGroup, b: SequenceGroup): boolean {
  const [mine, other] = [magnitude(a.live.length), magnitude(b.live.length)]
  return mine < other || (mine === other && a.arrival < b.arrival)
}

/** 0 for up to 15, 1 for up to 255 and so on: who asks for a few replies is no crowd. */
function magnitude(size: number): number {
  return Math.floor(Math.log2(Math.max(1, size)) / 4)
}

/** For sequences whose places are up to date. */
export function precedes(a: Sequence, b: Sequence): boolean {
  return byPrecedence(a, b) < 0
}

export function byPrecedence(a: Sequence, b: Sequence): number {
  return a.rank - b.rank || a.crowd - b.crowd || a.sequenceGroup.arrival - b.sequenceGroup.arrival
}

/** Whether `b` gives its place up for `a`, which is more than coming after it. */
export function outranks(a: Sequence, b: Sequence): boolean {
  return a.rank < b.rank || (a.rank === b.rank && a.crowd < b.crowd)
}
