// How many tokens are proposed for whom. A fixed length is the user's; otherwise those drafts are taken that make the time
// of a token shortest, from measured times of steps and from how often each sequence's drafts came true, none among them.
// Lengths never change what is said, so nothing here has to be repeatable.

import type { Sequence } from "./sequence.ts"
import { StepCosts } from "./step-costs.ts"

/** What is thought of a drafter of which nothing is known, and how many tries that thought is worth. */
const HOPE = { chance: 0.6, weight: 4 }

/** How many tries everybody's luck is worth in judging one sequence. */
const COMMON = 2

/** What is kept of a sequence's luck at each further try, and of everybody's: texts change. */
const KEPT = 0.9
const KEPT_IN_COMMON = 0.98

/** Drafts must promise that much to be worth their trouble: times of steps are not known better. */
const MARGIN = 1.05

/** After so many tokens without drafts one is tried; twice as many each time it fails. */
const PATIENCE = 32
const MAX_PATIENCE = 512

export interface Wish {
  sequence: Sequence
  most: number
  /** How many of its last tokens stood before what would be proposed, where the drafter knows that. */
  matched?: number | undefined
}

/** Decides how much is proposed for whom, and is told what became of it. */
export interface Lengths {
  /** Whether a sequence of which nothing is known would be given drafts. */
  readonly pays: boolean
  /** Gives everybody its `wish`; together at most `room`. */
  choose(wishes: readonly Wish[], room: number): void
  /** A step without prompts computed `tokens` tokens in `ms`; luck is noted before. */
  noteStep(tokens: number, ms: number): void
  /** Proposing took `ms` for up to `length` tokens a sequence. */
  noteDrafting(length: number, ms: number): void
  /** Of a sequence's `drafted` tokens `accepted` came true; the next one was wrong, and those after it were not tried. */
  noteLuck(sequence: Sequence, drafted: number, accepted: number): void
}

export class DraftLengths implements Lengths {
  readonly #fixed: number
  readonly #costs: StepCosts
  readonly #common = new Luck(KEPT_IN_COMMON)
  readonly #own = new WeakMap<Sequence, OwnLuck>()
  #draftMs = 0 // of one token for everybody

  /** @param fixed 0: as many as pay */
  constructor(fixed: number, mostTokens: number) {
    this.#fixed = fixed
    this.#costs = new StepCosts(mostTokens)
  }

  get pays(): boolean {
    if (this.#fixed > 0) return true
    const chance = this.#common.chance(HOPE.chance, HOPE.weight)
    return mostWorth(this.#costs, [{ chance, depth: 1 }], 1, this.#draftMs) > 0
  }

  choose(wishes: readonly Wish[], room: number): void {
    for (const { sequence } of wishes) sequence.wish = 0
    if (this.#fixed > 0) {
      for (const { sequence, most } of wishes) {
        sequence.wish = Math.min(most, this.#fixed, room)
        room -= sequence.wish
      }
      return
    }
    const candidates = wishes.flatMap(({ sequence, most }) => this.#candidates(sequence, most))
    candidates.sort((a, b) => b.chance - a.chance || a.depth - b.depth)
    const likely = candidates.slice(0, room)
    const taken = mostWorth(this.#costs, likely, wishes.length, this.#draftMs)
    for (const { sequence } of candidates.slice(0, taken)) sequence.wish++
    this.#tryOnce(wishes, room - taken)
  }

  noteStep(tokens: number, ms: number): void {
    this.#costs.note(tokens, ms)
  }

  noteDrafting(length: number, ms: number): void {
    const each = ms / length
    this.#draftMs =
      this.#draftMs === 0
        ? each
        : this.#draftMs + (Math.min(each, 4 * this.#draftMs) - this.#draftMs) / 4
  }

  noteLuck(sequence: Sequence, drafted: number, accepted: number): void {
    const own = this.#lucky(sequence)
    own.patience = accepted > 0 ? 1 : Math.min(MAX_PATIENCE, Math.max(PATIENCE, 2 * own.patience))
    own.triedAt = sequence.length
    for (let i = 0; i <= accepted && i < drafted; i++) {
      own.note(i < accepted)
      this.#common.note(i < accepted)
    }
  }

  #candidates(
    sequence: Sequence,
    most: number,
  ): { sequence: Sequence; chance: number; depth: number }[] {
    const own = this.#lucky(sequence)
    const everybody = this.#common.chance(HOPE.chance, HOPE.weight)
    const one = own.chance(everybody, COMMON)
    return Array.from({ length: most }, (_, i) => ({
      sequence,
      chance: one ** (i + 1),
      depth: i + 1,
    }))
  }

  /** Whose drafts do not pay is tried again now and then. */
  #tryOnce(wishes: readonly Wish[], room: number): void {
    let left = room
    for (const { sequence, most } of wishes) {
      if (sequence.wish > 0 || most === 0 || left === 0) continue
      const { triedAt, patience } = this.#lucky(sequence)
      if (sequence.length - triedAt < patience) continue
      sequence.wish = 1
      left--
    }
  }

  #lucky(sequence: Sequence): OwnLuck {
    const own = this.#own.get(sequence) ?? new OwnLuck(sequence.length)
    this.#own.set(sequence, own)
    return own
  }
}

/**
 * How many of the likeliest drafts make the time of a token shortest, when `sequences` are sure to get one anyway.
 * @param draftMs what proposing takes, for each token of the longest draft
 */
export function mostWorth(
  costs: StepCosts,
  candidates: readonly { chance: number; depth: number }[],
  sequences: number,
  draftMs = 0,
): number {
  let best = 0
  let least = costs.of(sequences) / sequences / MARGIN
  let tokens = sequences
  let depth = 0
  for (const [i, candidate] of candidates.entries()) {
    tokens += candidate.chance
    depth = Math.max(depth, candidate.depth)
    const ms = (costs.of(sequences + i + 1) + depth * draftMs) / tokens
    if (ms >= least) continue
    least = ms
    best = i + 1
  }
  return best
}

/** How often drafts came true; old tries count for less. */
export class Luck {
  readonly #kept: number
  #tried = 0
  #true = 0

  constructor(kept: number) {
    this.#kept = kept
  }

  note(cameTrue: boolean): void {
    this.#tried = this.#tried * this.#kept + 1
    this.#true = this.#true * this.#kept + (cameTrue ? 1 : 0)
  }

  /** The chance of the next one, when `thought` was thought before and is worth `weight` tries. */
  chance(thought: number, weight: number): number {
    return (this.#true + thought * weight) / (this.#tried + weight)
  }
}

class OwnLuck extends Luck {
  patience = PATIENCE
  /** How long the sequence was at its last try. */
  triedAt: number

  constructor(length: number) {
    super(KEPT)
    this.triedAt = length
  }
}
