// What one choice has said and nobody has read yet. The engine puts events in, the reader takes them out as an async
// iterator; leaving the iterator is how a reader cancels. Nothing here waits for the reader: the scheduler looks at
// `unread` and gives no more steps to a choice whose reader is far behind.

import type { GenerationEvent } from "./generation.ts"

type Result = IteratorResult<GenerationEvent, undefined>

export class Outbox implements AsyncIterableIterator<GenerationEvent, undefined> {
  /** Tokens that the reader has taken. */
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

  return(): Promise<Result> {
    if (!this.#closed) {
      this.close()
      this.#onLeave()
    }
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
