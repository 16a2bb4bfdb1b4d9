// Work that must not hold up the event loop, or that can end whatever it runs in, is done by a worker: a thread, or a process
// where native code is involved. This is the asking side: orders go in, each is answered once, in words when it fails. A
// worker that dies, hangs or takes too much memory costs the order it was working on; what becomes of the others is the
// asker's choice (`afterLoss`), and the next order starts another. A worker's own side is serve.ts.
//
// Events of a worker that is over are not heard: it may still say things, and a dead one must never answer for a live one.

import { Problem, problem } from "../errors.ts"
import type { Log } from "../log.ts"
import { type Host, startHost } from "./hosts.ts"
import type { Ending, FromWorker, ToWorker, WorkerOptions } from "./protocol.ts"

/** The worker is gone, and with it what this order came to. */
export class WorkerLost extends Problem {
  readonly reason: Ending["reason"]
  readonly why: string
  /** It was lost over another order: this one can be asked again. */
  readonly isInnocent: boolean

  constructor(worker: string, { reason, why }: Ending, isInnocent: boolean) {
    super("worker_failed", { worker, problem: why })
    this.reason = reason
    this.why = why
    this.isInnocent = isInnocent
  }

  /** Whether the order took too much, rather than met a fault. */
  get isCost(): boolean {
    return this.reason === "time" || this.reason === "memory"
  }
}

export interface Asking {
  signal?: AbortSignal | undefined
  /** For this order, instead of the worker's own. */
  milliseconds?: number
}

interface Pending {
  id: number
  message: ToWorker
  isOpening: boolean
  milliseconds: number
  /** When it was begun, on the clock of `performance`; undefined: not yet. */
  since: number | undefined
  /** Whether somebody waits for it. */
  isWanted: boolean
  resolve: (value: unknown) => void
  reject: (error: Error) => void
}

const WATCH = 250 // milliseconds between two looks at what takes too long
const OPENING = 120_000 // milliseconds: a large tokenizer on a small, busy machine takes ten seconds

export class Worker<Order, Answer> {
  /** Told of losses. */
  log: Log | undefined
  readonly #options: WorkerOptions
  readonly #posted: Pending[] = []
  /** After a loss with several suspects: they are asked one at a time, and whoever comes after them waits. */
  readonly #held: Pending[] = []
  #opening: { value: unknown } | undefined
  #host: Host | undefined
  #watch: NodeJS.Timeout | undefined
  #ids = 0
  #losses = 0
  #over: Error | undefined

  constructor(options: WorkerOptions) {
    this.#options = options
    this.log = options.log
    if ("opening" in options) this.#opening = { value: options.opening }
  }

  /** How many workers have been lost: what was told to one before is gone. */
  get losses(): number {
    return this.#losses
  }

  /** Before the first order: the worker loads its code, and opens if it has been told what. */
  start(): void {
    if (this.#host || this.#over) return
    this.#host = this.#started()
    if (this.#opening) this.#postOpening(nothing, nothing)
    else this.#host.hold(false)
  }

  /**
   * What this worker is opened with, and every one that replaces it.
   * @returns what the first says to it; rejects with its own words, or WorkerLost
   */
  open(value: unknown): Promise<unknown> {
    this.#opening = { value }
    return new Promise((resolve, reject) => this.#postOpening(resolve, reject))
  }

  /** Rejects with WorkerLost, `server_closing`, the signal's reason, or an Error in the worker's own words. */
  ask(order: Order, { signal, milliseconds }: Asking = {}): Promise<Answer> {
    let leave = () => {}
    return new Promise<unknown>((resolve, reject) => {
      signal?.throwIfAborted()
      if (this.#over) throw this.#over
      const id = this.#ids++
      const limit = milliseconds ?? this.#options.milliseconds ?? Number.POSITIVE_INFINITY
      const pending = newPending(id, { id, order }, resolve, reject, limit)
      leave = () => {
        pending.isWanted = false
        drop(this.#held, pending)
        reject(signal!.reason)
      }
      signal?.addEventListener("abort", leave, { once: true })
      if (this.#held.length > 0) this.#held.push(pending)
      else this.#post(pending)
    }).finally(() => signal?.removeEventListener("abort", leave)) as Promise<Answer>
  }

  /** Says something that is not answered. A worker that has not started is told nothing. */
  tell(message: unknown): void {
    this.#host?.post({ tell: message })
  }

  /** Rejects all orders with `server_closing`; later ones, too. */
  async close(): Promise<void> {
    this.#over ??= problem("server_closing", {})
    const waiting = [...this.#posted.splice(0), ...this.#held.splice(0)]
    for (const { reject } of waiting) reject(this.#over)
    await this.#letGo()?.end()
  }

  get #isBusy(): boolean {
    return this.#posted.length + this.#held.length > 0
  }

  #post(pending: Pending): void {
    if (!this.#host) {
      this.#host = this.#started()
      if (this.#opening && !pending.isOpening) this.#postOpening(nothing, nothing)
    }
    this.#posted.push(pending)
    this.#beginNext()
    this.#host?.hold(true)
    this.#watch ??= setInterval(() => this.#look(), WATCH).unref()
    this.#host?.post(pending.message)
  }

  #postOpening(resolve: (value: unknown) => void, reject: (error: Error) => void): void {
    if (this.#over) {
      reject(this.#over)
      return
    }
    const id = this.#ids++
    const message = { id, opening: this.#opening!.value }
    const { openingMilliseconds = OPENING } = this.#options
    const pending = newPending(id, message, resolve, reject, openingMilliseconds)
    this.#post({ ...pending, isOpening: true })
  }

  #started(): Host {
    const current: Host = startHost(this.#options, {
      onMessage: (message) => {
        if (this.#host === current) this.#answered(message)
      },
      onEnd: (ending) => {
        if (this.#host === current) this.#lost(ending)
      },
    })
    return current
  }

  #answered(answer: FromWorker): void {
    const at = this.#posted.findIndex(({ id }) => id === answer.id)
    const [pending] = this.#posted.splice(at, 1)
    if (!pending) throw new Error("internal: an answer to no order")
    if ("failure" in answer) pending.reject(new Error(answer.failure))
    else pending.resolve(answer.value)
    if (this.#posted.length === 0) this.#postHeld()
    this.#beginNext()
    if (!this.#isBusy) this.#rest()
  }

  #postHeld(): void {
    const next = this.#held.shift()
    if (next) this.#post(next)
  }

  /** From here on its time counts. */
  #beginNext(): void {
    const now = performance.now()
    const [first] = this.#posted
    if (first) first.since ??= now
    if (!this.#options.isParallel || first?.isOpening) return
    for (const pending of this.#posted) pending.since ??= now
  }

  #rest(): void {
    clearInterval(this.#watch)
    this.#watch = undefined
    this.#host?.hold(false)
  }

  #look(): void {
    const now = performance.now()
    const late = this.#posted.find(
      ({ since = now, ...pending }) => now - since >= this.#most(pending),
    )
    if (!late) return
    if (late.isWanted) {
      const why = `it took more than ${this.#most(late) / 1000} seconds`
      this.#lost({ reason: "time", why }, late)
    } else {
      const why = "it went on with an order whose asker had left"
      this.#lost({ reason: "unwanted", why }, late)
    }
  }

  #most({ milliseconds, isWanted }: Pick<Pending, "milliseconds" | "isWanted">): number {
    const { unwantedMilliseconds = milliseconds } = this.#options
    return isWanted ? milliseconds : Math.min(unwantedMilliseconds, milliseconds)
  }

  #letGo(): Host | undefined {
    const host = this.#host
    this.#rest()
    this.#host = undefined
    return host
  }

  /** @param culprit the order that it was lost over, where that is known */
  #lost(ending: Ending, culprit?: Pending): void {
    const { name, onLoss, afterLoss, isParallel } = this.#options
    const { why, words } = ending
    void this.#letGo()?.end()
    this.#losses++
    this.log?.warn({ worker: name, why, ...(words && { words }) }, "a worker was lost")
    const lost = new WorkerLost(name, ending, false)
    onLoss?.(ending)
    if (afterLoss === "end") this.#over = lost
    const orders = this.#posted.splice(0)
    if (orders[0]?.isOpening) {
      // It would be lost again, whoever asks.
      for (const { reject } of [...orders, ...this.#held.splice(0)]) reject(lost)
      return
    }
    const suspects = culprit ? [culprit] : isParallel ? orders : orders.slice(0, 1)
    if (suspects.length === 1) suspects[0]!.reject(lost)
    const others = orders.filter((each) => suspects.length > 1 || each !== suspects[0])
    const beside = new WorkerLost(name, ending, afterLoss === "reset")
    if (afterLoss === "resume") this.#resume(others, suspects.length > 1)
    else for (const { reject } of others) reject(beside)
  }

  /** Another worker takes them over; suspects are asked again one at a time, so that the next loss has one culprit. */
  #resume(others: readonly Pending[], areSuspects: boolean): void {
    const wanted = others.filter(({ isWanted }) => isWanted)
    for (const order of wanted) order.since = undefined
    if (areSuspects || this.#held.length > 0) {
      this.#held.unshift(...wanted)
      this.#postHeld()
    } else for (const order of wanted) this.#post(order)
  }
}

function newPending(
  id: number,
  message: ToWorker,
  resolve: (value: unknown) => void,
  reject: (error: Error) => void,
  milliseconds: number,
): Pending {
  const since = undefined
  return { id, message, isOpening: false, milliseconds, since, isWanted: true, resolve, reject }
}

function nothing(): void {}

function drop<Item>(from: Item[], item: Item): void {
  const at = from.indexOf(item)
  if (at >= 0) from.splice(at, 1)
}
