// What one choice has said and nobody has read yet. The engine puts events in, the reader takes them out as an async
// iterator; leaving the iterator is how a reader cancels. Nothing here waits for the reader: the scheduler looks at
// `unread` and gives no more steps to a choice whose reader is far behind.

import type { GenerationEvent } from "./generation.ts"

type Result = IteratorResult<GenerationEvent, number | undefined>

export class Outbox implements AsyncIterableIterator<GenerationEvent, number | undefined> {
  /** Tokens that the reader has taken, and had a use for. */
  read = 0
  readonly #events: GenerationEvent[] = []
  readonly #readers: ((result: Result) => void)[] = []
  readonly #onRead: () => void
  readonly #onLeave: () => void
  #closed = false

  constructor(onRead: () => void, onLeave: () => void) {
    this.#onRead = onRead
    this.#onLeave = onLeave
  }

  get unread(): number {
    return this.#events.length
  }

  put(event: GenerationEvent): void {
    if (this.#closed) return
    const reader = this.#readers.shift()
    if (reader) reader(this.#taken(event))
    else this.#events.push(event)
  }

  /** Ends the iterator without a word: nobody listens any more. */
  close(): void {
    this.#closed = true
    this.#events.length = 0
    for (const reader of this.#readers.splice(0)) reader(DONE)
  }

  next(): Promise<Result> {
    const event = this.#events.shift()
    if (event) {
      const result = this.#taken(event)
      this.#onRead()
      return Promise.resolve(result)
    }
    if (this.#closed) return Promise.resolve(DONE)
    return new Promise((resolve) => this.#readers.push(resolve))
  }

  /** Leaves. Tokens after the first `used` count as not read, even if all has been said by now. */
  return(used = this.read): Promise<Result> {
    const isEarly = !this.#closed || used < this.read
    this.read = used
    this.close()
    if (isEarly) this.#onLeave()
    return Promise.resolve(DONE)
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  #taken(event: GenerationEvent): Result {
    if (event.kind === "token") this.read++
    if (event.kind === "end") this.close()
    return { done: false, value: event }
  }
}

const DONE: Result = { done: true, value: undefined }
