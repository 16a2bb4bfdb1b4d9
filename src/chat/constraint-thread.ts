// Constraints away from the event loop: schemas are compiled, and masks made, in one thread. A token that has been drawn
// is sent there, and the mask after it comes back in memory that both share; so do the masks along a draft. The thread takes
// orders one after the other; an order that takes too long or too much memory costs its own request alone. A new thread takes
// over what the others had: what a constraint says depends on its tokens alone, so the thread is told them again.

import type { Worker } from "node:worker_threads"
import type { Constraint } from "../engine/generation.ts"
import { problem } from "../errors.ts"
import type { Arguments, ConstraintOptions, Held, Holding } from "./constraint.ts"
import type { ResponseFormat, SchemaVerdict } from "./conversation.ts"
import { MOST_FORCED } from "./lookahead.ts"
import { startThread } from "./thread.ts"

export type Order =
  | { kind: "hold"; held: Held }
  | { kind: "check"; asked: ResponseFormat | Arguments }
  | ({ kind: "open"; held: Held } & Move)
  | ({ kind: "accept" } & Move)
  | { kind: "close"; sequence: number }

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

/** One when the thread has started, then one to each order but `close`, in their order. */
export type Answer =
  | { value: unknown }
  | { refusal: string; param: string | undefined } // a schema's
  | { failure: string }

export interface SharedMasks {
  /** [3 + MOST_FORCED] the move that the masks are of; how many tokens were drafted; how many are forced; these. */
  found: Int32Array<SharedArrayBuffer>
  /** After none of the draft's tokens and after each; of a forced run only after the last, as the others are known. */
  masks: Uint32Array<SharedArrayBuffer> // [rows, ceil(tokens / 32)]
}

interface Waiting {
  order: Order | { kind: "start" }
  since: number
  /** Whether its client is still there. */
  wanted: boolean
  resolve: (value: unknown) => void
  reject: (error: Error) => void
}

export interface ThreadLimits {
  milliseconds: number // for one order
  megabytes: number
}

// Ten times what the largest sensible schema takes; whoever is held to another one waits as long.
const LIMITS: ThreadLimits = { milliseconds: 5_000, megabytes: 1024 }

/** Milliseconds after which an order whose client has left is given up, and the thread with it. */
const UNWANTED = 1000

export class ConstraintThread {
  readonly #options: ConstraintOptions
  readonly #limits: ThreadLimits
  readonly #waiting: Waiting[] = [] // the first is being worked on
  readonly #live = new Map<number, DistantConstraint>()
  #sequences = 0
  #worker: Worker | undefined
  #watch: NodeJS.Timeout | undefined

  constructor(options: ConstraintOptions, limits = LIMITS) {
    this.#options = options
    this.#limits = limits
    this.#worker = this.#start() // at once: the vocabulary takes too long for the first request to wait
    this.#worker.unref()
  }

  /** Rejects with the problem that refuses a schema, or the signal's reason. */
  async hold(held: Held, signal: AbortSignal): Promise<Holding> {
    const unenforced = (await this.#asked({ kind: "hold", held }, signal)) as readonly string[]
    return { unenforced, constraint: () => this.#open(held) }
  }

  check(asked: ResponseFormat | Arguments, signal: AbortSignal): Promise<SchemaVerdict> {
    return this.#asked({ kind: "check", asked }, signal) as Promise<SchemaVerdict>
  }

  async close(): Promise<void> {
    const worker = this.#worker
    this.#worker = undefined
    clearInterval(this.#watch)
    for (const { reject } of this.#waiting.splice(0)) reject(problem("server_closing", {}))
    worker?.removeAllListeners()
    await worker?.terminate()
  }

  #open(held: Held): Constraint {
    const sequence = this.#sequences++
    const words = Math.ceil(this.#options.tokens.size / 32)
    const constraint = new DistantConstraint(words, {
      open: (move) => this.#order({ kind: "open", held, sequence, ...move }),
      accept: (move) => this.#order({ kind: "accept", sequence, ...move }),
      close: () => {
        this.#live.delete(sequence)
        this.#worker?.postMessage({ kind: "close", sequence } satisfies Order)
      },
    })
    this.#live.set(sequence, constraint)
    constraint.open()
    return constraint
  }

  /** The answer, unless the client leaves before: nobody waits for a schema that nobody wants any more. */
  #asked(order: Order, signal: AbortSignal): Promise<unknown> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted()
      const leave = () => {
        const waiting = this.#waiting.find((each) => each.order === order)
        if (waiting) waiting.wanted = false
        reject(signal.reason)
      }
      signal.addEventListener("abort", leave, { once: true })
      const done = () => signal.removeEventListener("abort", leave)
      this.#order(order).finally(done).then(resolve, reject)
    })
  }

  #order(order: Order): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#worker ??= this.#start()
      this.#worker.ref()
      this.#waiting.push({ order, since: performance.now(), wanted: true, resolve, reject })
      this.#worker.postMessage(order)
      this.#watch ??= setInterval(() => this.#check(), 250).unref()
    })
  }

  #check(): void {
    const [first] = this.#waiting
    if (!first || first.order.kind === "start") return
    const most = first.wanted ? this.#limits.milliseconds : UNWANTED
    if (performance.now() - first.since < most) return
    this.#worker?.removeAllListeners()
    void this.#worker?.terminate()
    this.#failed(`it takes more than ${most / 1000} seconds`)
  }

  #start(): Worker {
    const nothing = () => {}
    const order = { kind: "start" } as const
    this.#waiting.push({ order, since: 0, wanted: true, resolve: nothing, reject: nothing })
    const worker = startThread("constraint-worker", {
      workerData: this.#options,
      resourceLimits: { maxOldGenerationSizeMb: this.#limits.megabytes },
    })
    worker.on("message", (answer: Answer) => this.#answered(answer))
    worker.on("error", (error) => {
      const outOfMemory = "code" in error && error.code === "ERR_WORKER_OUT_OF_MEMORY"
      this.#failed(outOfMemory ? "it takes too much memory" : error.message)
    })
    return worker
  }

  #answered(answer: Answer): void {
    const { resolve, reject } = this.#waiting.shift()!
    if (this.#waiting.length > 0) this.#waiting[0]!.since = performance.now()
    else {
      this.#worker?.unref()
      clearInterval(this.#watch)
      this.#watch = undefined
    }
    if ("value" in answer) resolve(answer.value)
    else if ("failure" in answer) reject(new Error(answer.failure))
    else reject(problem("unsupported_value", { problem: answer.refusal }, answer.param))
  }

  /** The first order was too much. Questions are asked again; constraints begin again with what they accepted. */
  #failed(why: string): void {
    const [first, ...others] = this.#waiting.splice(0)
    this.#worker = undefined
    const failure = new Error(`the thread of the constraints: ${why}`)
    if (first?.order.kind === "start") {
      for (const { reject } of others) reject(failure)
      return
    }
    const refusal = `The schema cannot be compiled: ${why}.`
    first?.reject(isQuestion(first) ? problem("unsupported_value", { problem: refusal }) : failure)
    const culprit = first && "sequence" in first.order ? first.order.sequence : undefined
    for (const [sequence, constraint] of this.#live) if (sequence !== culprit) constraint.reopen()
    for (const { order, wanted, resolve, reject } of others) {
      if (!wanted) continue
      if (order.kind === "hold" || order.kind === "check") this.#order(order).then(resolve, reject)
    }
  }
}

function isQuestion({ order }: Waiting): boolean {
  return order.kind === "hold" || order.kind === "check"
}

interface Line {
  open(move: Omit<Move, "sequence">): Promise<unknown>
  accept(move: Omit<Move, "sequence">): Promise<unknown>
  close(): void
}

/** A constraint whose masks are made elsewhere. */
class DistantConstraint implements Constraint {
  readonly #line: Line
  readonly #words: number
  readonly #tokens: number[] = []
  #isOpen = false // in the thread that takes orders now
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

  constructor(words: number, line: Line) {
    this.#line = line
    this.#words = words
    this.#shared = newMasks(0, words)
  }

  open(): void {
    this.#go(undefined)
  }

  /**
   * Another thread has taken over. It is told what the old one owes an answer to. An answer that is there still holds, as a
   * step may have been chosen for it; then the thread is told with the next token.
   */
  reopen(): void {
    this.#isOpen = false
    if (this.pending) this.#go(this.#draft)
  }

  // The thread writes when it likes: whoever was told to wait must not find out, without being woken, that it is over.
  get pending(): Promise<void> | undefined {
    if (this.#pending) return this.#pending
    if (this.#fault || Atomics.load(this.#shared.found, 0) === this.#turn) return undefined
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
      into.set(this.#shared.masks.subarray(row, row + this.#words))
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
    this.#line.close()
    this.#settle()
  }

  #go(draft: readonly number[] | undefined): void {
    const wasOpen = this.#isOpen
    const rows = 1 + (draft?.length ?? 0)
    // What an old thread may still write goes nowhere.
    const isNew = !wasOpen || rows * this.#words > this.#shared.masks.length
    if (isNew) this.#shared = newMasks(rows, this.#words)
    const tokens = this.#tokens.slice(wasOpen ? this.#sent : 0)
    const shared = isNew ? this.#shared : undefined
    const move = { tokens, draft, turn: ++this.#turn, shared }
    this.#isOpen = true
    this.#sent = this.#tokens.length
    this.#draft = draft
    this.#ahead = undefined
    this.#taken = 0
    this.#expect(wasOpen ? this.#line.accept(move) : this.#line.open(move))
  }

  #look(): { tokens: readonly number[]; isForced: boolean } {
    const draft = this.#draft
    this.#ahead ??= draft
      ? { tokens: draft.slice(0, this.#shared.found[1]), isForced: false }
      : { tokens: forcedOf(this.#shared), isForced: true }
    return this.#ahead
  }

  #expect(answer: Promise<unknown>): void {
    answer.then(
      () => this.#settle(),
      (error) => {
        this.#fault = error
        this.#settle()
      },
    )
  }
}

function forcedOf({ found }: SharedMasks): readonly number[] {
  return Array.from(found.subarray(3, 3 + found[2]!))
}

function newMasks(rows: number, words: number): SharedMasks {
  const found = new Int32Array(new SharedArrayBuffer(4 * (3 + MOST_FORCED)))
  return { found, masks: new Uint32Array(new SharedArrayBuffer(rows * words * 4)) }
}
