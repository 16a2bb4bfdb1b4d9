// How many tokens are proposed where nobody asked for drafts: they must cost nothing. So there are none until the text repeats a run
// of tokens; how far a repetition has gone says how likely it goes on, which is counted; and every reply has an account, in steps of
// one token: what drafts saved is put into it, what they took is taken out, and none is proposed that it could not pay for if it were
// wrong. What it begins with and what each step adds is all that drafts can ever cost a reply.

import { type Lengths, Luck, mostWorth, type Wish } from "./draft-lengths.ts"
import type { Sequence } from "./sequence.ts"
import { StepCosts } from "./step-costs.ts"

/** The shortest run of tokens that is taken for a repetition. */
export const MIN_MATCH = 4

/** What is thought of the next token after so many that were the same, before anything is known. */
const CLASSES = [
  { from: MIN_MATCH, hope: 0.6 },
  { from: 2 * MIN_MATCH, hope: 0.85 },
  { from: 4 * MIN_MATCH, hope: 0.95 },
]

/** How many tries that thought is worth, and everybody's luck in judging one reply. */
const WEIGHT = 4
const COMMON = 2

/** What is kept of a reply's luck at each further try, and of everybody's: texts change. */
const KEPT = 0.9
const KEPT_IN_COMMON = 0.98

/** Of an account, in steps: 1 % of a reply of a hundred tokens, of which a half is there at once. What was saved is not all risked again. */
const BEGINNING = 0.25
const EACH_STEP = 1 / 200
const MOST = 4
const LEAST = -0.5

/** After so many tokens without a draft one token is tried, though it is not thought to pay: times of steps change, too. */
const PATIENCE = 32

export class Thrift implements Lengths {
  readonly pays = false
  readonly #costs: StepCosts
  readonly #common = CLASSES.map(() => new Luck(KEPT_IN_COMMON))
  readonly #accounts = new WeakMap<Sequence, Account>()
  #wishes: readonly Wish[] = [] // of the step being taken
  readonly #tried: { account: Account; drafted: number; accepted: number }[] = []

  constructor(mostTokens: number) {
    this.#costs = new StepCosts(mostTokens)
  }

  choose(wishes: readonly Wish[], room: number): void {
    this.#wishes = wishes
    this.#tried.length = 0
    for (const { sequence } of wishes) sequence.wish = 0
    const sequences = wishes.length
    const candidates = wishes.flatMap((wish) => this.#candidates(wish))
    if (candidates.length === 0 || !this.#costs.knows(sequences)) return
    candidates.sort((a, b) => b.chance - a.chance || a.depth - b.depth)
    // One more token takes a step at the most. How much longer a longer draft takes is known once one was tried.
    const worth = candidates.slice(0, this.#costs.knows(sequences + 1) ? room : 1)
    const taken = mostWorth(this.#costs, worth, sequences)
    const chosen = taken > 0 ? worth.slice(0, taken) : worth.filter(isOverdue).slice(0, 1)
    const { length } = chosen
    const each = (this.#costs.of(sequences + length) / this.#costs.of(sequences) - 1) / length
    for (const { sequence, account, depth } of chosen)
      if (depth * each <= account.credit) sequence.wish++
  }

  noteStep(tokens: number, ms: number): void {
    const drafted = this.#tried.reduce((sum, each) => sum + each.drafted, 0)
    const plain = this.#costs.of(tokens - drafted)
    this.#costs.note(tokens, ms)
    const sequences = this.#wishes.length
    for (const { sequence } of this.#wishes) this.#account(sequence).add(EACH_STEP / sequences)
    // What held the machine up for long is nobody's fault.
    const lost = Math.max(0, Math.min(ms, 2 * this.#costs.of(tokens)) / plain - 1)
    for (const each of this.#tried)
      each.account.add(each.accepted / sequences - (lost * each.drafted) / drafted)
    this.#tried.length = 0
  }

  /** Looking up takes no time to speak of. */
  noteDrafting(): void {}

  noteLuck(sequence: Sequence, drafted: number, accepted: number): void {
    const account = this.#account(sequence)
    account.triedAt = sequence.length
    this.#tried.push({ account, drafted, accepted })
    for (let i = 0; i <= accepted && i < drafted; i++) {
      const at = classOf(account.matched + i)
      account.luck[at]!.note(i < accepted)
      this.#common[at]!.note(i < accepted)
    }
  }

  #candidates({ sequence, most, matched = 0 }: Wish): Candidate[] {
    if (matched < MIN_MATCH || most === 0) return []
    const account = this.#account(sequence)
    account.matched = matched
    let chance = 1
    return Array.from({ length: most }, (_, i) => {
      const at = classOf(matched + i)
      const everybody = this.#common[at]!.chance(CLASSES[at]!.hope, WEIGHT)
      chance *= account.luck[at]!.chance(everybody, COMMON)
      return { sequence, account, chance, depth: i + 1 }
    })
  }

  #account(sequence: Sequence): Account {
    const account = this.#accounts.get(sequence) ?? new Account(sequence.length)
    this.#accounts.set(sequence, account)
    return account
  }
}

interface Candidate {
  sequence: Sequence
  account: Account
  chance: number
  depth: number
}

class Account {
  credit = BEGINNING
  /** How far the repetition had gone when drafts were last thought of. */
  matched = 0
  /** How long the sequence was at its last try. */
  triedAt: number
  readonly luck: readonly Luck[] = CLASSES.map(() => new Luck(KEPT))

  constructor(length: number) {
    this.triedAt = length
  }

  add(steps: number): void {
    this.credit = Math.min(MOST, Math.max(LEAST, this.credit + steps))
  }
}

const classOf = (matched: number) => CLASSES.findLastIndex(({ from }) => matched >= from)

const isOverdue = ({ sequence, account, depth }: Candidate) =>
  depth === 1 && sequence.length - account.triedAt >= PATIENCE
