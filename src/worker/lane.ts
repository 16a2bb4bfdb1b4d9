// A queue before something that does one thing at a time. Turns follow self-clocked fair queueing (Golestani, 1994): each thing
// is due its own size after what its client asked for before, and whatever is due first comes next. So a client's crowd counts
// as one client, a small thing is not behind all the large ones that came before it, and nothing waits for ever.

import { problem } from "../errors.ts"

/** Whose turn something is. */
export interface Caller {
  /** Whoever shares turns: an API key, or a connection where there is none. */
  client: string
  /** Aborted when the client leaves. */
  signal?: AbortSignal | undefined
}

interface Waiting {
  client: string
  size: number
  due: number
  work: () => Promise<unknown>
  refuse: (error: Error) => void
}

export interface LaneLimits {
  /** What may wait: so many things, of so much size together. */
  count?: number
  size?: number
}

export class Lane {
  readonly #most: Required<LaneLimits>
  readonly #waiting: Waiting[] = []
  /** When the last thing of each client is due; what is over is forgotten. */
  readonly #due = new Map<string, number>()
  #now = 0 // what is being done was due then
  #isBusy = false
  #isClosed = false

  constructor({
    count = Number.POSITIVE_INFINITY,
    size = Number.POSITIVE_INFINITY,
  }: LaneLimits = {}) {
    this.#most = { count, size }
  }

  /**
   * Does `work` when its turn comes. Rejects with the signal's reason as soon as the client leaves, and what has not begun by
   * then never does; with `queue_full` when too much waits: the last of the client that has most waiting.
   */
  run<T>(work: () => Promise<T>, size: number, { client, signal }: Caller): Promise<T> {
    let leave = () => {}
    return new Promise<T>((resolve, reject) => {
      signal?.throwIfAborted()
      if (this.#isClosed) throw problem("server_closing", {})
      const due = Math.max(this.#now, this.#due.get(client) ?? 0) + size
      const begin = () => work().then(resolve, reject)
      const waiting: Waiting = { client, size, due, work: begin, refuse: reject }
      leave = () => {
        this.#drop(waiting)
        reject(signal!.reason)
      }
      signal?.addEventListener("abort", leave, { once: true })
      this.#due.set(client, due)
      this.#waiting.push(waiting)
      if (!this.#isBusy) void this.#serve()
      this.#refuseBeyond()
    }).finally(() => signal?.removeEventListener("abort", leave))
  }

  /** Whoever waits is told `server_closing`; what has begun goes on. */
  close(): void {
    this.#isClosed = true
    for (const { refuse } of this.#waiting.splice(0)) refuse(problem("server_closing", {}))
  }

  async #serve(): Promise<void> {
    this.#isBusy = true
    for (;;) {
      const next = lowest(this.#waiting, ({ due }) => due)
      if (!next) break
      this.#waiting.splice(this.#waiting.indexOf(next), 1)
      this.#now = next.due
      for (const [client, due] of this.#due) if (due <= this.#now) this.#due.delete(client)
      await next.work()
    }
    this.#isBusy = false
  }

  /** As if it had never been asked for. */
  #drop(waiting: Waiting): void {
    const at = this.#waiting.indexOf(waiting)
    if (at < 0) return
    this.#waiting.splice(at, 1)
    const { client, due, size } = waiting
    if (this.#due.get(client) === due) this.#due.set(client, due - size)
  }

  #refuseBeyond(): void {
    const { count, size: most } = this.#most
    for (;;) {
      const sizes = new Map<string, number>()
      for (const { client, size } of this.#waiting) {
        sizes.set(client, (sizes.get(client) ?? 0) + size)
      }
      const total = [...sizes.values()].reduce((sum, size) => sum + size, 0)
      const isOne = this.#waiting.length === 1 // however large it is
      if (this.#waiting.length <= count && (total <= most || isOne)) return
      const [largest] = lowest([...sizes], ([, size]) => -size)!
      const last = this.#waiting.findLast(({ client }) => client === largest)!
      this.#drop(last)
      last.refuse(problem("queue_full", { waiting: this.#waiting.length }))
    }
  }
}

/** The first of those that have the least. */
function lowest<T>(of: readonly T[], measure: (each: T) => number): T | undefined {
  let [best] = of
  for (const each of of) if (measure(each) < measure(best!)) best = each
  return best
}
