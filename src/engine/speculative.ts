// Speculation: a drafter proposes the next tokens of a reply, one step of the program computes them all, and each is kept
// while it *is* the token that the program draws there, with that position's own noise. The first that is not is the
// program's, and is kept too. So a draft changes speed and never text: what is drawn at a row depends on the tokens before
// it, and those are the reply's own.
//
// A draft borrows its blocks (memory.ts), takes nobody's place in a step, and costs nobody's tokens when it fails. Where a
// constraint leaves no choice its tokens are a draft that is always right: nobody has to propose it, in no mode.

import { setImmediate as breathe } from "node:timers/promises"
import type { Log } from "../log.ts"
import { type CancelWord, ProgramLost } from "../runtime/program.ts"
import { DraftLengths, type Lengths } from "./draft-lengths.ts"
import { Thrift } from "./draft-thrift.ts"
import type { Memory } from "./memory.ts"
import type { Sequence } from "./sequence.ts"
import type { Trace } from "./trace.ts"

export type SpeculativeMode = "auto" | "lookup" | "small_draft" | "eagle" | "medusa" | "mtp"

/** Where the tokens come from. */
export interface Drafter {
  /** Which of the program's last hidden rows it wants to see: none, those that tokens are drawn from, or all. */
  readonly hidden: "none" | "drawn" | "all"
  /** The most tokens it can propose at once. */
  readonly longest: number
  /** How many of the sequence's last tokens stood before what it would propose; absent: it does not look before it is asked. */
  matched?(sequence: Sequence): number
  /**
   * Adds up to `wish` tokens to the `drafts` of each of these sequences of the step. Those that wish for none are prompts
   * that a drafter may read along: their chunks are about to be computed. Leaves drafts as they are when it is cancelled.
   */
  propose(step: readonly Sequence[], cancel: CancelWord): Promise<void>
  /** Blocks of the program are about to be copied, `from[i]` to `to[i]`. */
  copyBlocks?(from: Int32Array, to: Int32Array): Promise<void>
  /** Of the drafts that were just proposed `right` came true: they are the sequence's tokens now, computed and all. */
  verified?(sequence: Sequence, right: number): void
  /**
   * Hidden rows of the sequence, `from` being the first one's position, with what else is handed out: `given` columns. Those from
   * `computed` on are of wrong drafts.
   */
  observe?(sequence: Sequence, rows: Float32Array, from: number, given: number): void
  close(): Promise<void>
}

/** Who proposes where nobody shall: only what a constraint leaves no choice about is computed ahead. */
export const nobody: Drafter = {
  hidden: "none",
  longest: 0,
  async propose() {},
  async close() {},
}

export interface Speculative {
  mode: SpeculativeMode | "disable"
  /** Whether drafts have to cost nothing, as nobody asked for them. */
  thrifty?: boolean
  /** Made once the engine knows which blocks there are. */
  drafter: (memory: Memory) => Drafter
  /** Tokens to propose for each sequence; 0: as many as pay. */
  length: number
  /** Tokens to propose in a step for all sequences together. */
  room: number
}

/** Of the program that draws. */
interface Shape {
  sequences: number
  vocabulary: number
}

interface Watchers {
  log?: Log
  trace?: Trace
  now?: () => number
}

/** The longest draft: with the token before it, the rows that a step computes for little more than one. */
export const MAX_DRAFT = 15

/** Turns of the event loop that a step waits for masks along drafts. */
const MASK_TURNS = 16

export class Speculation {
  readonly drafter: Drafter
  readonly counts: { drafted: number[]; accepted: number[] } // by place in the draft
  /** Tokens that were computed ahead because a constraint left no choice. */
  forced = 0
  readonly #room: number
  readonly #vocabulary: number
  readonly #longest: number // 0: nobody proposes, and how much to ask for need not be weighed
  readonly #isThrifty: boolean
  readonly #memory: Memory
  readonly #lengths: Lengths
  readonly #watchers: Watchers
  readonly #now: () => number
  readonly #held = new WeakMap<Sequence, { length: number; drafts: number[] }>()
  readonly #forced = new Set<Sequence>() // whose drafts of this step have to come
  readonly #resumed = new Set<Sequence>() // with held drafts in this step
  readonly #suspects = new WeakSet<Sequence>() // the drafter failed for several, of which each is asked for alone now
  readonly #leftOut = new WeakSet<Sequence>() // the drafter failed for this one alone
  // of the step being taken
  #begun = 0
  #drafted = 0
  #replayed = 0
  #accepted = 0

  constructor(given: Speculative, shape: Shape, memory: Memory, watchers: Watchers) {
    const { length, room, thrifty } = given
    const { sequences: mostSequences, vocabulary } = shape
    const drafter = given.drafter(memory)
    this.drafter = drafter
    this.#room = room
    this.#vocabulary = vocabulary
    this.#longest = Math.min(MAX_DRAFT, drafter.longest)
    this.#memory = memory
    this.#lengths = thrifty
      ? new Thrift(mostSequences + room)
      : new DraftLengths(length, mostSequences + room)
    this.#isThrifty = thrifty ?? false
    this.#watchers = watchers
    this.#now = watchers.now ?? (() => performance.now())
    const zeros = () => new Array<number>(this.#longest).fill(0)
    this.counts = { drafted: zeros(), accepted: zeros() }
  }

  /**
   * Gives sequences of the step their `drafts`, with blocks to compute them in.
   * @returns those who can take the step: the masks along a draft may come later
   */
  async propose(step: readonly Sequence[], cancel: CancelWord): Promise<readonly Sequence[]> {
    const begun = this.#now()
    let room = this.#room - this.#memory.replays
    this.#forced.clear()
    this.#resumed.clear()
    const candidates: Sequence[] = []
    for (const sequence of step) {
      if (sequence.remaining > 1) continue
      if (!this.#takeHeld(sequence, room) && !this.#takeForced(sequence, room))
        candidates.push(sequence)
      room -= sequence.drafts.length
    }
    if (this.#longest > 0) {
      // What drafts take is known of steps without prompts alone.
      const may = !this.#isThrifty || step.every(({ remaining }) => remaining === 1)
      this.#lengths.choose(
        candidates.map((sequence) => ({
          sequence,
          most: may ? this.#most(sequence) : 0,
          matched: this.drafter.matched?.(sequence),
        })),
        room,
      )
    }
    for (const sequence of step) this.#fit(sequence)
    if (this.#longest > 0) {
      await this.#ask(step, cancel)
      await this.#look(candidates)
    }
    const able = step.some(waits) ? this.#withoutWaiting(step) : step
    this.#drafted = able.reduce((sum, { drafts }) => sum + drafts.length, 0)
    this.#replayed = able.reduce((sum, { replay }) => sum + replay, 0)
    if (this.#drafted > 0) {
      const counts = { sequences: candidates.length, drafted: this.#drafted }
      this.#watchers.trace?.span(undefined, "propose", begun, counts)
    }
    return able
  }

  #withoutWaiting(step: readonly Sequence[]): readonly Sequence[] {
    for (const sequence of step.filter(waits)) {
      const { length, drafts } = sequence
      this.#held.set(sequence, { length, drafts: [...drafts] })
      sequence.chunk = 0
      this.forget(sequence)
    }
    return step.filter((each) => each.chunk > 0)
  }

  /** How many of its last tokens are to hand out their hidden rows. */
  hiddenRows(sequence: Sequence): number {
    const { chunk, drafts, draws } = sequence
    const { hidden } = this.drafter
    if (hidden === "none" || this.#leftOut.has(sequence)) return 0
    return hidden === "all" ? chunk + drafts.length : draws
  }

  observe(sequence: Sequence, rows: Float32Array, from: number, given: number): void {
    if (rows.length === 0 || sequence.state !== "running") return
    this.drafter.observe!(sequence, rows, from, given)
  }

  /** Of the sequence's drafts so many came true. */
  verified(sequence: Sequence, accepted: number): void {
    const drafted = sequence.drafts.length
    if (this.#forced.has(sequence)) {
      this.forced += accepted
      this.#accepted += accepted
      return
    }
    for (let i = 0; i < drafted; i++) this.counts.drafted[i]!++
    for (let i = 0; i < accepted; i++) this.counts.accepted[i]!++
    this.#accepted += accepted
    if (drafted === 0) return
    this.#lengths.noteLuck(sequence, drafted, accepted)
    if (this.#resumed.has(sequence) || sequence.state !== "running") return
    this.drafter.verified?.(sequence, accepted)
  }

  /** A step begins, of those whom `propose` returned. */
  begin(): void {
    this.#begun = this.#now()
    this.#accepted = 0
  }

  /** The step is over: everybody's next tokens are drawn. */
  end(sequences: number, promptTokens: number): void {
    if (promptTokens === 0 && this.#longest > 0) {
      const rows = sequences + this.#replayed + this.#drafted
      this.#lengths.noteStep(rows, this.#now() - this.#begun)
    }
    if (this.#drafted === 0) return
    const counts = { drafted: this.#drafted, accepted: this.#accepted }
    this.#watchers.trace?.span(undefined, "verify", this.#begun, counts)
  }

  async copyBlocks(from: Int32Array, to: Int32Array): Promise<void> {
    try {
      await this.drafter.copyBlocks?.(from, to)
    } catch (error) {
      if (error instanceof ProgramLost) throw error
      // What the blocks hold now, the drafter has not computed, and reads again.
      this.#watchers.log?.error({ err: error }, "the drafter failed to copy blocks")
    }
  }

  /** The sequence's drafts are over, whatever became of them: blocks that hold none of its own tokens go back. */
  forget(sequence: Sequence): void {
    this.#memory.settle(sequence)
    sequence.drafts.length = 0
    sequence.wish = 0
  }

  /** The last token needs no draft: it is drawn in any case. */
  #most(sequence: Sequence): number {
    const { sequenceGroup, length, constraint } = sequence
    if (this.#leftOut.has(sequence) || (constraint && !constraint.draft)) return 0
    return Math.max(0, Math.min(this.#longest, sequenceGroup.end - length - 1))
  }

  /** A draft whose masks came late is as good as it was. */
  #takeHeld(sequence: Sequence, room: number): boolean {
    const held = this.#held.get(sequence)
    this.#held.delete(sequence)
    if (held?.length !== sequence.length) return false
    const most = Math.min(room, sequence.constraint?.drafted ?? 0)
    sequence.drafts.push(...held.drafts.slice(0, most))
    this.#resumed.add(sequence)
    return true
  }

  /** As far as their masks are known. A token that ends the reply is not computed. */
  #takeForced(sequence: Sequence, room: number): boolean {
    const { constraint, sequenceGroup, length, drafts } = sequence
    const { forced = [], drafted = 0 } = constraint ?? {}
    const most = Math.min(drafted, room, MAX_DRAFT, sequenceGroup.end - length - 1)
    for (const token of forced.slice(0, Math.max(0, most))) {
      if (sequenceGroup.request.stopTokens.has(token)) break
      drafts.push(token)
    }
    if (drafts.length > 0) this.#forced.add(sequence)
    return drafts.length > 0
  }

  async #ask(step: readonly Sequence[], cancel: CancelWord): Promise<void> {
    const begun = this.#now()
    const longest = step.reduce((most, { wish }) => Math.max(most, wish), 0)
    const pays = this.#lengths.pays
    const concerned = step.filter(
      (each) => !this.#leftOut.has(each) && (each.wish > 0 || (pays && each.remaining > 1)),
    )
    if (concerned.length === 0) return
    const together = concerned.filter((each) => !this.#suspects.has(each))
    const alone = concerned.filter((each) => this.#suspects.has(each))
    if (together.length > 0) await this.#askFor(together, cancel)
    for (const sequence of alone) await this.#askFor([sequence], cancel)
    if (longest > 0) this.#lengths.noteDrafting(longest, this.#now() - begun)
  }

  /**
   * A drafter that fails for one sequence is not asked for that one again; where it failed for several nobody knows for
   * which, and from the next step on it is asked for each alone until it does not fail. What it proposed is as good as ever.
   */
  async #askFor(sequences: readonly Sequence[], cancel: CancelWord): Promise<void> {
    try {
      await this.drafter.propose(sequences, cancel)
      for (const each of sequences) this.#suspects.delete(each)
    } catch (error) {
      if (error instanceof ProgramLost) throw error
      const [first, ...others] = sequences
      const requests = sequences.map(({ sequenceGroup }) => sequenceGroup.request.id)
      if (others.length === 0) this.#leftOut.add(first!)
      else for (const each of sequences) this.#suspects.add(each)
      const consequence =
        others.length === 0 ? "it is left out for this reply" : "each is tried alone"
      this.#watchers.log?.error({ err: error, requests }, `the drafter failed; ${consequence}`)
    }
  }

  /** No draft is longer than its blocks. */
  #fit(sequence: Sequence): void {
    const { wish, drafts, length } = sequence
    const wanted = Math.max(wish, drafts.length)
    if (wanted === 0) return
    const room = this.#memory.lend(sequence, length + wanted) - length
    sequence.wish = Math.min(wish, room)
    drafts.length = Math.min(drafts.length, room)
  }

  /** Cuts drafts where their constraints refuse a token. Masks come together, since they are asked for together. */
  async #look(candidates: readonly Sequence[]): Promise<void> {
    for (const { drafts } of candidates) {
      const unknown = drafts.findIndex((token) => token >= this.#vocabulary)
      if (unknown >= 0) drafts.length = unknown // a drafter may be padded to more rows
    }
    const held = candidates.filter(({ constraint, drafts }) => constraint && drafts.length > 0)
    for (const { constraint, drafts } of held) constraint!.draft!([...drafts]) // what is kept of them may be cut
    for (let turn = 0; turn < MASK_TURNS && held.some(waits); turn++) await breathe()
    for (const { constraint, drafts } of held) {
      if (!constraint!.pending) drafts.length = Math.min(drafts.length, constraint!.drafted ?? 0)
    }
  }
}

function waits({ constraint, draws }: Sequence): boolean {
  return draws > 0 && constraint?.pending !== undefined
}
