// Masks away from the event loop. A token that has been drawn is sent to a thread, and the mask after it comes back in memory
// that both share; so do the masks along a draft. A constraint whose masks take long, or whose schema did, is moved to a thread
// beside, so that nobody else waits for it. A thread that is lost is replaced, and the new one told the tokens again: what
// a constraint says depends on its tokens alone.

import { codeRoot } from "../code-root.ts"
import type { Constraint } from "../engine/generation.ts"
import { problem } from "../errors.ts"
import type { Log } from "../log.ts"
import { Worker, WorkerLost } from "../worker/worker.ts"
import type { ConstraintOptions } from "./constraint.ts"
import type { ConstraintSpec } from "./grammars.ts"
import { MAX_FORCED } from "./lookahead.ts"

export type Order = ({ kind: "open"; spec: ConstraintSpec } & Move) | ({ kind: "accept" } & Move)

/** On by some tokens, and then a look ahead: along a draft, or else along what is forced. */
export interface Move {
  sequence: number
  tokens: readonly number[]
  draft: readonly number[] | undefined
  /** Moves of a constraint are numbered. */
  turn: number
  /** Where the masks go, when they go somewhere else than before. */
  shared: SharedMasks | undefined
}

/** How long it took. */
export interface Answer {
  milliseconds: number
}

export interface SharedMasks {
  /** [3 + MAX_FORCED] the move that the masks are of; how many tokens were drafted; how many are forced; these. */
  status: Int32Array<SharedArrayBuffer>
  /** After none of the draft's tokens and after each; of a forced run only after the last, as the others are known. */
  masks: Uint32Array<SharedArrayBuffer> // [rows, ceil(tokens / 32)]
}

export interface MaskLimits {
  milliseconds: number // for one move
  megabytes: number
  log?: Log | undefined
}

export type MaskThread = Worker<Order, Answer>

export function maskThread(options: ConstraintOptions, limits: MaskLimits): MaskThread {
  return new Worker({
    ...limits,
    name: "schema masks",
    file: new URL("chat/mask-worker", codeRoot),
    host: "thread",
    afterLoss: "reset",
    opening: options,
  })
}

/** What is known of a grammar whenever it is asked for. */
export interface Known {
  unenforced: readonly string[]
  isSlow: boolean
}

/** A move that takes longer moves its constraint: a mask takes a millisecond, and one in a hundred takes ten. */
const SLOW = 500 // milliseconds

/** A constraint whose masks are made elsewhere. */
export class DistantConstraint implements Constraint {
  readonly #spec: ConstraintSpec
  readonly #known: Known
  readonly #threads: { quick: MaskThread; slow: MaskThread }
  readonly #sequence: number
  readonly #words: number
  readonly #tokens: number[] = []
  /** The thread that knows it, as it was after so many losses. */
  #opened: { thread: MaskThread; losses: number } | undefined
  #sent = 0 // tokens that it knows of
  #turn = 0
  #draft: readonly number[] | undefined // of the last move
  /** What was found of it, once it is there. */
  #ahead: { tokens: readonly number[]; isForced: boolean } | undefined
  #taken = 0 // tokens accepted along it
  #shared: SharedMasks
  #fault: Error | undefined
  #pending: Promise<void> | undefined
  #settle = () => {}
  #isClosed = false

  /** @param sequence its number, among all constraints */
  constructor(
    spec: ConstraintSpec,
    known: Known,
    threads: { quick: MaskThread; slow: MaskThread },
    sequence: number,
    words: number,
  ) {
    this.#spec = spec
    this.#known = known
    this.#threads = threads
    this.#sequence = sequence
    this.#words = words
    this.#shared = newMasks(0, words)
    this.#go(undefined)
  }

  // The thread writes when it likes: whoever was told to wait must not find out, without being woken, that it is over.
  get pending(): Promise<void> | undefined {
    if (this.#pending) return this.#pending
    if (this.#fault || Atomics.load(this.#shared.status, 0) === this.#turn) return undefined
    this.#pending = new Promise((resolve) => {
      this.#settle = () => {
        this.#pending = undefined
        resolve()
      }
    })
    return this.#pending
  }

  mask(into: Uint32Array, after = 0): void {
    if (this.#fault) throw this.#fault
    const { tokens, isForced } = this.#look()
    const at = this.#taken + after
    const only = isForced ? tokens[at] : undefined
    into.fill(0)
    if (only !== undefined) into[only >>> 5] = 1 << (only & 31)
    else {
      const row = isForced ? 0 : at * this.#words
      into.set(this.#shared.masks.subarray(row, row + Math.min(this.#words, into.length)))
    }
  }

  accept(token: number): void {
    this.#tokens.push(token)
    if (!this.pending && !this.#fault && this.#look().tokens[this.#taken] === token) this.#taken++
    else this.#go(undefined)
  }

  draft(tokens: readonly number[]): void {
    this.#go(tokens)
  }

  get drafted(): number {
    return this.pending || this.#fault ? 0 : this.#look().tokens.length - this.#taken
  }

  get forced(): readonly number[] {
    if (this.pending || this.#fault) return []
    return forcedOf(this.#shared).slice(this.#taken)
  }

  close(): void {
    this.#isClosed = true
    this.#opened?.thread.tell(this.#sequence)
    this.#settle()
  }

  #go(draft: readonly number[] | undefined): void {
    const thread = this.#threads[this.#known.isSlow ? "slow" : "quick"]
    const { losses } = thread
    const isOpen = this.#opened?.thread === thread && this.#opened.losses === losses
    if (!isOpen) this.#opened?.thread.tell(this.#sequence)
    const rows = 1 + (draft?.length ?? 0)
    // What an old thread may still write goes nowhere.
    const isNew = !isOpen || rows * this.#words > this.#shared.masks.length
    if (isNew) this.#shared = newMasks(rows, this.#words)
    const move: Move = {
      sequence: this.#sequence,
      tokens: this.#tokens.slice(isOpen ? this.#sent : 0),
      draft,
      turn: ++this.#turn,
      shared: isNew ? this.#shared : undefined,
    }
    this.#opened = { thread, losses }
    this.#sent = this.#tokens.length
    this.#draft = draft
    this.#ahead = undefined
    this.#taken = 0
    const order: Order = isOpen
      ? { kind: "accept", ...move }
      : { kind: "open", spec: this.#spec, ...move }
    thread.ask(order).then(
      (answer) => this.#answered(answer),
      (error) => {
        if (move.turn === this.#turn) this.#failed(error, thread)
      },
    )
  }

  #look(): { tokens: readonly number[]; isForced: boolean } {
    const draft = this.#draft
    this.#ahead ??= draft
      ? { tokens: draft.slice(0, this.#shared.status[1]), isForced: false }
      : { tokens: forcedOf(this.#shared), isForced: true }
    return this.#ahead
  }

  #answered({ milliseconds }: Answer): void {
    if (milliseconds > SLOW) this.#known.isSlow = true
    this.#settle()
  }

  /**
   * A thread that was lost over another order is replaced, and the new one told what the old one owed an answer to; so is the
   * thread for slow ones, when this was too slow for the other. An answer that is there still holds, as a step may have
   * been chosen for it; then the thread is told with the next token.
   */
  #failed(error: Error, thread: MaskThread): void {
    const isLost = error instanceof WorkerLost
    const isSlow = isLost && error.isCost && thread === this.#threads.quick
    if (isSlow) this.#known.isSlow = true
    if (this.#isClosed) return
    if (isSlow || (isLost && error.isInnocent)) {
      if (this.pending) this.#go(this.#draft)
      return
    }
    this.#fault = isLost && error.isCost ? tooCostly(error.why) : error
    this.#settle()
  }
}

function tooCostly(why: string): Error {
  const words = `The reply cannot be held to its schema: to find the next token, ${why}.`
  return problem("unsupported_value", { problem: words })
}

function forcedOf({ status: found }: SharedMasks): readonly number[] {
  return Array.from(found.subarray(3, 3 + found[2]!))
}

function newMasks(rows: number, words: number): SharedMasks {
  const status = new Int32Array(new SharedArrayBuffer(4 * (3 + MAX_FORCED)))
  return { status: status, masks: new Uint32Array(new SharedArrayBuffer(rows * words * 4)) }
}
