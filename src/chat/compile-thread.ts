// Schemas are compiled away from the event loop, and away from the thread that makes masks: one after the other, in fair turns.
// One that takes too long or too much memory is refused, and remembered: asked for again it is refused at once.

import { codeRoot } from "../code-root.ts"
import { problem } from "../errors.ts"
import type { Log } from "../log.ts"
import { type Caller, Lane } from "../worker/lane.ts"
import type { Ending } from "../worker/protocol.ts"
import { Worker, WorkerLost } from "../worker/worker.ts"
import { textOf } from "./compiled-schemas.ts"
import type { ResponseFormat, SchemaVerdict } from "./conversation.ts"
import type { Arguments, ConstraintSpec, GrammarOptions } from "./grammars.ts"

export interface Opening {
  options: GrammarOptions
  /** Why a schema cost too much, by the hash of its text. */
  costly: ReadonlyMap<string, string>
  /** The hash of what is being compiled; zeros: nothing is. It outlives the thread. */
  current: Uint8Array<SharedArrayBuffer>
}

export type Order =
  | { kind: "hold"; spec: ConstraintSpec }
  | { kind: "check"; asked: ResponseFormat | Arguments }

export type Answer =
  | { value: unknown; milliseconds: number }
  | { refusal: string; param: string | undefined } // a schema's

/** What compiling said about what a reply is held to. */
export interface Compiled {
  unenforced: readonly string[]
  milliseconds: number
}

export interface CompileLimits {
  milliseconds: number // for one order
  megabytes: number // of the thread
  /** Orders that may wait. */
  queue: number
  log?: Log | undefined
}

// Ten times what the costliest schema takes on an idle machine: what it may cost is counted, and this is for what is not.
const LIMITS: CompileLimits = { milliseconds: 15_000, megabytes: 1024, queue: 256 }

/** Milliseconds after which an order whose client has left is given up, and the thread with it. */
const UNWANTED = 1000

const HASH = 32 // bytes of SHA-256
const MAX_REMEMBERED = 256

export class CompileThread {
  readonly #lane: Lane
  readonly #worker: Worker<Order, Answer>
  readonly #costly = new Map<string, string>()
  readonly #current = new Uint8Array(new SharedArrayBuffer(HASH))

  constructor(options: GrammarOptions, limits: Partial<CompileLimits> = {}) {
    const { queue, ...bounds } = { ...LIMITS, ...limits }
    this.#lane = new Lane({ count: queue })
    this.#worker = new Worker({
      ...bounds,
      name: "schema compiler",
      file: new URL("chat/compile-worker", codeRoot),
      host: "thread",
      nice: 5, // whoever waits for a mask comes first
      afterLoss: "resume",
      opening: { options, costly: this.#costly, current: this.#current } satisfies Opening,
      unwantedMilliseconds: UNWANTED,
      onLoss: (ending) => this.#remember(ending),
    })
  }

  /** Before the first schema: it loads its code. */
  start(): void {
    this.#worker.start()
  }

  /**
   * Rejects with the problem that refuses a schema, `queue_full`, or the signal's reason.
   * @param size characters, for turns
   */
  async hold(spec: ConstraintSpec, size: number, caller: Caller): Promise<Compiled> {
    const { value, milliseconds } = await this.#ask({ kind: "hold", spec: spec }, size, caller)
    return { unenforced: value as readonly string[], milliseconds }
  }

  async check(schema: ResponseFormat | Arguments, caller: Caller): Promise<SchemaVerdict> {
    const { value } = await this.#ask(
      { kind: "check", asked: schema },
      textOf(schema).length,
      caller,
    )
    return value as SchemaVerdict
  }

  async close(): Promise<void> {
    this.#lane.close()
    await this.#worker.close()
  }

  async #ask(order: Order, size: number, caller: Caller) {
    const { signal } = caller
    const reply = this.#lane.run(() => this.#worker.ask(order, { signal }), size, caller)
    const answer = await reply.catch((error: unknown) => {
      // What a schema costs is the schema's own fault.
      throw error instanceof WorkerLost && error.isCost ? tooCostly(error.why) : error
    })
    if ("value" in answer) return answer
    throw problem("unsupported_value", { problem: answer.refusal }, answer.param)
  }

  /** What the thread was compiling when it took too much. */
  #remember({ reason, why }: Ending): void {
    const isCost = reason === "time" || reason === "memory"
    if (isCost && this.#current.some((byte) => byte !== 0))
      this.#costly.set(Buffer.from(this.#current).toString("hex"), why)
    this.#current.fill(0)
    if (this.#costly.size > MAX_REMEMBERED) {
      this.#costly.delete(this.#costly.keys().next().value!)
    }
  }
}

export function tooCostly(why: string): Error {
  return problem("unsupported_value", { problem: `The schema cannot be compiled: ${why}.` })
}
