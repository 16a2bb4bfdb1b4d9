// Constraints away from the event loop: schemas are compiled, and masks made, in one thread. A token that has been drawn
// is sent there, and the mask after it comes back in memory that both share. The thread takes orders one after the other;
// an order that takes too long or too much memory costs its own request alone. A new thread takes over what the others
// had: what a constraint says depends on its tokens alone, so the thread is told them again.

import { Worker } from "node:worker_threads"
import type { Constraint } from "../engine/generation.ts"
import { problem } from "../errors.ts"
import type { Arguments, ConstraintOptions, Held, Holding } from "./constraint.ts"
import type { ResponseFormat, SchemaVerdict } from "./conversation.ts"

export type Order =
  | { kind: "hold"; held: Held }
  | { kind: "check"; asked: ResponseFormat | Arguments }
  | { kind: "open"; sequence: number; held: Held; tokens: readonly number[]; shared: SharedMask }
  | { kind: "accept"; sequence: number; token: number }
  | { kind: "close"; sequence: number }

/** One when the thread has started, then one to each order but `close`, in their order. */
export type Answer =
  | { value: unknown }
  | { refusal: string; param: string | undefined } // a schema's
  | { failure: string }

export interface SharedMask {
  /** [1] of how many tokens the mask holds the next. */
  turn: Int32Array<SharedArrayBuffer>
  mask: Uint32Array<SharedArrayBuffer> // [ceil(tokens / 32)]
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
      open: (tokens, shared) => this.#order({ kind: "open", sequence, held, tokens, shared }),
      accept: (token) => this.#order({ kind: "accept", sequence, token }),
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
    const worker = startWorker(this.#options, this.#limits.megabytes)
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
    for (const [sequence, constraint] of this.#live) if (sequence !== culprit) constraint.open()
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
  open(tokens: readonly number[], shared: SharedMask): Promise<unknown>
  accept(token: number): Promise<unknown>
  close(): void
}

/** A constraint whose mask is made elsewhere. */
class DistantConstraint implements Constraint {
  readonly #line: Line
  readonly #tokens: number[] = []
  #shared: SharedMask
  #fault: Error | undefined
  #pending: Promise<void> | undefined
  #settle = () => {}

  constructor(words: number, line: Line) {
    this.#line = line
    this.#shared = newMask(words)
  }

  /** Begins, or begins again in another thread; what the old one may still write goes nowhere. */
  open(): void {
    this.#shared = newMask(this.#shared.mask.length)
    this.#expect(this.#line.open([...this.#tokens], this.#shared))
  }

  // The thread writes when it likes: whoever was told to wait must not find out, without being woken, that it is over.
  get pending(): Promise<void> | undefined {
    if (this.#pending) return this.#pending
    if (this.#fault || Atomics.load(this.#shared.turn, 0) === this.#tokens.length) return undefined
    this.#pending = new Promise((resolve) => {
      this.#settle = () => {
        this.#pending = undefined
        resolve()
      }
    })
    return this.#pending
  }

  mask(into: Uint32Array): void {
    if (this.#fault) throw this.#fault
    into.fill(0)
    into.set(this.#shared.mask)
  }

  accept(token: number): void {
    this.#tokens.push(token)
    this.#expect(this.#line.accept(token))
  }

  close(): void {
    this.#line.close()
    this.#settle()
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

function newMask(words: number): SharedMask {
  const turn = new Int32Array(new SharedArrayBuffer(4)).fill(-1)
  return { turn, mask: new Uint32Array(new SharedArrayBuffer(words * 4)) }
}

// The thread's own file stands beside this one. Run from the sources it is TypeScript, which a thread must be taught to read.
function startWorker(workerData: ConstraintOptions, megabytes: number): Worker {
  const options = { workerData, resourceLimits: { maxOldGenerationSizeMb: megabytes } }
  if (!import.meta.url.endsWith(".ts")) {
    return new Worker(new URL("./constraint-worker.js", import.meta.url), options)
  }
  const file = JSON.stringify(new URL("./constraint-worker.ts", import.meta.url))
  const script = `import("tsx/esm/api").then((tsx) => tsx.register() && import(${file}))`
  return new Worker(script, { ...options, eval: true })
}
