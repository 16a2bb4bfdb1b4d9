// Who computes what in the next step. Everybody's next token comes first, then prompts in chunks, in order of precedence;
// places and blocks go by the same order, and a sequence that must make room is only put back into the queue.
// A parked sequence has lost its place, a preempted one its blocks, which are recomputed; neither ever loses a token.

import type { Log } from "../log.ts"
import { BLOCK, type ProgramLimits } from "../runtime/program.ts"
import type { Memory } from "./memory.ts"
import { Pace } from "./pace.ts"
import type { Sequence, SequenceGroup } from "./sequence.ts"
import type { Trace } from "./trace.ts"
import { byPrecedence, outranks, precedes, Turns } from "./turns.ts"

/** Blocks left to each running sequence when another is admitted: 64 tokens before any might be preempted again. */
export const HEADROOM = 4

/** A prompt that is at most a quarter of what the first still has to read gets a quarter of the step. */
const QUARTER = 1 / 4

export interface SchedulerLimits extends Omit<ProgramLimits, "blocks"> {
  /** The most prompt tokens in one step. */
  chunk: number
  /** A prompt is never cut: it is no longer than `chunk`. */
  whole?: true | undefined
  /** Rows of an image are never in two steps. */
  wholeImages?: true | undefined
}

export class Scheduler {
  readonly memory: Memory
  readonly pace: Pace
  readonly #turns = new Turns()
  /** Preemptions of running sequences, ever. */
  preemptions = 0
  readonly #limits: SchedulerLimits
  readonly #trace: Trace | undefined
  readonly #log: Log | undefined
  readonly #sequenceGroups: SequenceGroup[] = [] // by arrival
  readonly #running: Sequence[] = []
  readonly #parked = new Set<Sequence>() // waiting, and holding blocks
  readonly #step: Sequence[] = []

  constructor(memory: Memory, limits: SchedulerLimits, watchers: { trace?: Trace; log?: Log }) {
    this.memory = memory
    this.#limits = limits
    this.pace = new Pace(limits.sequences)
    this.#trace = watchers.trace
    this.#log = watchers.log
  }

  get sequenceGroups(): readonly SequenceGroup[] {
    return this.#sequenceGroups
  }

  /** The most rows of an image that is whole in a step. */
  get roomForImage(): number {
    return this.#limits.tokens - this.#limits.sequences
  }

  get running(): number {
    return this.#running.length
  }

  /** Sequence groups of which nothing runs yet. */
  get waiting(): number {
    return this.#sequenceGroups.reduce(
      (sum, sequenceGroup) => sum + (sequenceGroup.begun ? 0 : 1),
      0,
    )
  }

  get hasWaiting(): boolean {
    return this.#sequenceGroups.some(({ live }) => live.some(({ state }) => state === "waiting"))
  }

  /** What those who run wait for before they can draw. */
  get pending(): readonly Promise<void>[] {
    return this.#running.flatMap(({ constraint }) => constraint?.pending ?? [])
  }

  get places(): number {
    return this.#limits.sequences - this.#running.length
  }

  add(sequenceGroup: SequenceGroup): void {
    this.#sequenceGroups.push(sequenceGroup)
    this.#turns.add(sequenceGroup)
  }

  /** The request that leaves the queue for one of this client, if its client is a larger crowd: the last of the largest. */
  lastInQueue(client: string | undefined, choices: number): SequenceGroup | undefined {
    const waiting = this.#sequenceGroups.filter(({ begun }) => !begun)
    return this.#turns.last(waiting, client, choices)
  }

  /** The sequence has ended: what it holds is free. */
  remove(sequence: Sequence): void {
    const { sequenceGroup } = sequence
    this.memory.release(sequence)
    drop(this.#running, sequence)
    this.#parked.delete(sequence)
    sequence.state = "ended"
    drop(sequenceGroup.live, sequence)
    if (sequenceGroup.live.length === 0) drop(this.#sequenceGroups, sequenceGroup)
    this.#turns.remove(sequence, this.#sequenceGroups[0])
  }

  /** Throws unless every block is free once or owned by exactly those sequences that list it. */
  audit(): void {
    this.memory.audit(this.#sequenceGroups.flatMap(({ live }) => live))
  }

  /** The sequences of the next step, each with its `chunk`; none when nobody can go on. */
  choose(): readonly Sequence[] {
    this.#step.length = 0
    this.memory.forgetCopies()
    for (const sequence of this.#running.filter((each) => each.isBehind)) this.#park(sequence)
    for (const sequence of this.#running) this.#turns.rank(sequence)
    for (const sequence of this.#parked) this.#turns.rank(sequence)
    this.#admit()
    this.#running.sort(byPrecedence)
    for (const sequence of this.#running) if (sequence.remaining === 1) this.#give(sequence, 1)
    const room = this.#limits.tokens - this.#step.length
    if (this.#limits.whole) this.#giveWholePrompts(Math.min(this.#limits.chunk, room))
    else this.#givePrompts(Math.min(this.#promptBudget(), room))
    return this.#step
  }

  /** Whether the token behind the one that is being drawn has what it needs. */
  ride(sequence: Sequence): boolean {
    return this.memory.ride(sequence, this.#running)
  }

  /** First come, first served, and whoever fits behind them. */
  #giveWholePrompts(budget: number): void {
    let left = budget
    for (const sequence of this.#running.filter((each) => each.remaining > 1))
      if (sequence.remaining <= left && sequence.state === "running")
        left -= this.#give(sequence, left)
  }

  /** First come, first served, but a question need not wait for a book: see QUARTER. */
  #givePrompts(budget: number): void {
    const [first, ...others] = this.#running.filter((each) => each.remaining > 1)
    if (!first) return
    let left = budget
    const shortest = others.reduce(
      (least, each) => (each.remaining < least.remaining ? each : least),
      first,
    )
    if (shortest.remaining <= first.remaining * QUARTER) {
      left -= this.#give(shortest, Math.floor(left * QUARTER))
    }
    for (const sequence of [first, ...others]) {
      if (left > 0 && sequence.chunk === 0 && sequence.state === "running") {
        left -= this.#give(sequence, left)
      }
    }
  }

  /**
   * Whoever is alone may take long steps, since one that nobody is left to wait for is cancelled. In a crowd, whose own
   * tokens fill a step, as many of a prompt's go with them, up to a block.
   */
  #promptBudget(): number {
    const { chunk, sequences } = this.#limits
    if (sequences === 1) return chunk // nobody could join
    if (this.#running.length === 1) return Math.min(chunk, this.pace.allowedAlone)
    const drawing = this.#step.length
    const allowed = this.pace.allowed(drawing)
    return allowed === 0 ? 0 : Math.min(chunk, Math.max(allowed, Math.min(BLOCK, drawing)))
  }

  // places

  #admit(): void {
    for (let next = this.#next(); next; next = this.#next()) {
      if (this.places === 0 && !this.#findPlace(next)) return
      this.#takeOver(next)
      if (!this.#findBlocks(next)) return
      this.#parked.delete(next)
      this.#turns.admitted(next.sequenceGroup, this.#oldestWaits())
      next.state = "running"
      if (!next.sequenceGroup.begun) this.#explainPrefix(next)
      next.sequenceGroup.begun = true
      this.#running.push(next)
      this.#mark(next, "admitted")
    }
  }

  /** The first of those who wait for a place and could use it. */
  #next(): Sequence | undefined {
    let first: Sequence | undefined
    for (const sequenceGroup of this.#sequenceGroups) {
      const next = sequenceGroup.live.find((each) => each.state === "waiting" && !each.isBehind)
      if (!next || this.#waitsForPrompt(next)) continue
      this.#turns.rank(next)
      if (!first || precedes(next, first)) first = next
    }
    return first
  }

  #oldestWaits(): boolean {
    const { live = [] } = this.#turns.oldest ?? {}
    return live.every(({ state }) => state !== "running") && live.some(({ isBehind }) => !isBehind)
  }

  /** Whether a running sibling is still computing the prompt that both begin with. */
  #waitsForPrompt({ computed, sequenceGroup }: Sequence): boolean {
    const prompt = sequenceGroup.promptTokens
    if (computed + 1 >= prompt || sequenceGroup.live.some((each) => each.computed >= prompt))
      return false
    return sequenceGroup.live.some((each) => each.state === "running")
  }

  /** Parks whoever is furthest behind in precedence, if `next` outranks it. */
  #findPlace(next: Sequence): boolean {
    const last = this.#running.reduce((worst, each) => (precedes(worst, each) ? each : worst))
    if (!outranks(next, last)) return false
    this.#park(last)
    return true
  }

  #takeOver(next: Sequence): void {
    const { live, promptTokens } = next.sequenceGroup
    if (next.trail.blocks.length === 0) {
      const sibling = live.find((each) => each.computed >= promptTokens)
      if (!sibling || !this.memory.fork(next, sibling)) this.memory.adopt(next)
    }
    if (next.trail.blocks.length > 0) this.#parked.add(next)
  }

  /** Blocks for all its tokens beside what those who run still need; whoever is alone needs no reserve. */
  #findBlocks(next: Sequence): boolean {
    const { memory } = this
    while (!memory.fits(next, this.#running, HEADROOM)) {
      if (this.#preempt(next, (victim) => outranks(next, victim))) continue
      return this.#running.length === 0
    }
    return true
  }

  #park(sequence: Sequence): void {
    drop(this.#running, sequence)
    sequence.state = "waiting"
    this.#mark(sequence, "parked")
    this.#parked.add(sequence)
  }

  // blocks

  /** Puts up to `most` tokens of the sequence into the step, and says how many. */
  #give(sequence: Sequence, most: number): number {
    const { memory } = this
    memory.slide(sequence)
    if (sequence.remaining > 1) memory.adopt(sequence)
    // The last token's row is drawn from, which takes the mask.
    const ready = sequence.remaining - (sequence.constraint?.pending ? 1 : 0)
    const last = Math.min(
      sequence.computed + Math.min(most, ready),
      this.#scorable(sequence),
      frontEnd(sequence),
    )
    const end = this.#throughImage(sequence, memory.stop(sequence, last), ready)
    while (memory.reach(sequence) < end) if (!this.#preempt(sequence, () => true)) break
    const reached = this.#beforeImage(sequence, Math.min(end, memory.reach(sequence)))
    const chunk = reached - sequence.computed
    if (chunk <= 0) return 0
    memory.grow(sequence, sequence.computed + chunk)
    sequence.chunk = chunk
    this.#step.push(sequence)
    return chunk
  }

  /**
   * Where an image is whole in a step, a chunk ends before one that it would cut, or behind one that it begins with. So is a prompt that is
   * seen both ways. @param ready of its tokens
   */
  #throughImage(sequence: Sequence, end: number, ready: number): number {
    const before = this.#beforeImage(sequence, end)
    if (before === end || before > sequence.computed) return before
    const behind = sequence.mutualEnd(end - 1)
    const room = this.#limits.tokens - this.#step.reduce((sum, { chunk }) => sum + chunk, 0)
    return behind - sequence.computed <= Math.min(room, ready) ? behind : before
  }

  #beforeImage(sequence: Sequence, end: number): number {
    if (!this.#limits.wholeImages || end <= sequence.computed) return end
    let at = end
    if (sequence.mutualEnd(end - 1) > end)
      while (at > sequence.computed && sequence.isMutual(at - 1)) at--
    return at
  }

  /** Where its chunk must end to leave everybody else's rows alone, each token of a prompt that is scored wanting one. */
  #scorable({ computed, sequenceGroup }: Sequence): number {
    if (sequenceGroup.isScored) return Number.POSITIVE_INFINITY
    const taken = this.#step.reduce((sum, { rows }) => sum + rows, 0)
    const others = this.#running.filter(({ chunk }) => chunk === 0).length - 1
    return Math.max(computed, sequenceGroup.scored) + this.#limits.rows - taken - others
  }

  /**
   * Takes all blocks from whoever can spare them best: first from those who wait, then from the last of those who run
   * after `needy` and may be preempted. A waiting sequence may not preempt an earlier waiting one, unless that one's reader is
   * slow; a running one may preempt any waiting one, so that the first always progresses.
   */
  #preempt(needy: Sequence, mayPreempt: (victim: Sequence) => boolean): boolean {
    let victim: Sequence | undefined
    for (const each of this.#parked) {
      if (each === needy) continue
      if (needy.state === "waiting" && !each.isBehind && precedes(each, needy)) continue
      if (!victim || precedes(victim, each)) victim = each
    }
    if (!victim) {
      for (const each of this.#running) {
        if (!precedes(needy, each) || each.trail.blocks.length === 0 || !mayPreempt(each)) continue
        if (!victim || precedes(victim, each)) victim = each
      }
      if (!victim) return false
      this.#park(victim)
      this.preemptions++
    }
    this.#mark(victim, "preempted")
    this.memory.release(victim)
    this.#parked.delete(victim)
    victim.chunk = 0
    drop(this.#step, victim)
    return true
  }

  /** What the first look into the prefix cache found, and why no more. */
  #explainPrefix(first: Sequence): void {
    if (!this.#trace && !this.#log?.isLevelEnabled("debug")) return
    const { request, promptTokens, cached } = first.sequenceGroup
    const miss = this.memory.miss(first)
    const counts = {
      prompt: promptTokens,
      cached,
      miss: miss?.kind ?? "none",
      ...(miss?.kind === "diverged" ? { at: miss.at } : {}),
    }
    this.#trace?.mark(request.id, "prefix", counts)
    this.#log?.debug({ request: request.id, ...counts }, "prefix")
  }

  #mark({ sequenceGroup, choice, computed, trail }: Sequence, name: string): void {
    this.#trace?.mark(sequenceGroup.request.id, name, {
      choice,
      computed,
      cached: sequenceGroup.cached,
      blocks: trail.blocks.length,
    })
  }
}

/** Rows before all tokens and tokens are in no step together: what these see begins behind those. */
function frontEnd({ computed, sequenceGroup: { front } }: Sequence): number {
  return computed < front ? front : Number.POSITIVE_INFINITY
}

function drop<T>(list: T[], item: T): void {
  const at = list.indexOf(item)
  if (at >= 0) list.splice(at, 1)
}
