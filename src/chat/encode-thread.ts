// Encodes texts away from the event loop. The library does so by itself, but hands its tokens over one by one and frees what
// it remembers of each on the thread that asked: for 400 KB of text that is up to 100 ms.
//
// Two lanes, long texts and short ones, each in the order of arrival and one at a time: a short one never waits for a long
// one, and at most two of the few threads that also take the model's steps are ever busy here.

import type { Worker } from "node:worker_threads"
import { problem } from "../errors.ts"
import type { Encodable } from "./encoding.ts"
import { startThread } from "./thread.ts"
import type { TokenizerSource } from "./tokenizer-file.ts"
import { TokenBytes, type Vocabulary } from "./vocabulary.ts"

export interface Order {
  id: number
  text: Encodable
}

/** What the file says once it is read, or why it cannot be; then one to each order. */
export type Answer =
  | Opened
  | { failure: string }
  | { id: number; tokens: Int32Array<ArrayBuffer> }
  | { id: number; failure: string }

interface Opened {
  /** What stands before a text that is no chat. */
  prefix: readonly number[]
  vocabulary: Vocabulary
}

interface Waiting {
  order: Order
  resolve: (tokens: Int32Array) => void
  reject: (error: Error) => void
}

const LONG = 8 * 1024 // characters; a millisecond or two

/** A thread that has not been given its tokenizer yet, and loads its own code meanwhile, native parts included. */
export interface Started {
  worker: Worker
  /** What it says first, or why it cannot start. */
  first: Promise<Answer>
}

export function startEncoder(): Started {
  const worker = startThread("encode-worker", {})
  const first = new Promise<Answer>((resolve, reject) => {
    worker.once("message", resolve).once("error", reject)
  })
  first.catch(() => {}) // whoever opens it is told
  return { worker, first }
}

export class EncodeThread {
  readonly #source: TokenizerSource
  readonly #short: Waiting[] = [] // the first is being encoded
  readonly #long: Waiting[] = []
  #worker: Worker | undefined
  #orders = 0
  #closed = false

  /**
   * Rejects in words when the file cannot be read, the library's where it is the library's to say.
   * @param started the thread, when it was started before its tokenizer was known
   */
  static async open(
    source: TokenizerSource,
    started: Started = startEncoder(),
  ): Promise<Opened & { thread: EncodeThread }> {
    const { worker } = started
    worker.postMessage(source)
    const first = await started.first
    if ("vocabulary" in first) {
      const { data, offsets } = first.vocabulary.bytes // what it is does not survive the way here
      const vocabulary = { ...first.vocabulary, bytes: new TokenBytes(data, offsets) }
      return { prefix: first.prefix, vocabulary, thread: new EncodeThread(source, worker) }
    }
    await worker.terminate()
    throw new Error("failure" in first ? first.failure : "internal: an answer to no order")
  }

  private constructor(source: TokenizerSource, worker: Worker) {
    this.#source = source
    this.#worker = this.#watched(worker)
    worker.unref()
  }

  /** Rejects with the signal's reason as soon as its client leaves; what has not begun by then never does. */
  encode(text: Encodable, signal?: AbortSignal): Promise<Int32Array> {
    const lane = text.value.length > LONG ? this.#long : this.#short
    let leave = () => {}
    return new Promise<Int32Array>((resolve, reject) => {
      signal?.throwIfAborted()
      if (this.#closed) throw problem("server_closing", {})
      const waiting: Waiting = { order: { id: this.#orders++, text }, resolve, reject }
      leave = () => {
        const at = lane.indexOf(waiting)
        if (at > 0) lane.splice(at, 1) // the first has begun
        reject(signal!.reason)
      }
      signal?.addEventListener("abort", leave, { once: true })
      if (lane.push(waiting) === 1) this.#begin(lane)
    }).finally(() => signal?.removeEventListener("abort", leave))
  }

  async close(): Promise<void> {
    this.#closed = true
    const worker = this.#worker
    this.#fail(problem("server_closing", {}))
    worker?.removeAllListeners()
    await worker?.terminate()
  }

  #begin([first]: readonly Waiting[]): void {
    if (!first) return
    if (!this.#worker) {
      this.#worker = this.#watched(startThread("encode-worker", {}))
      this.#worker.postMessage(this.#source)
    }
    this.#worker.ref()
    this.#worker.postMessage(first.order)
  }

  #watched(worker: Worker): Worker {
    worker.on("message", (answer: Answer) => this.#answered(answer))
    worker.on("error", (error) => this.#fail(error))
    return worker
  }

  #answered(answer: Answer): void {
    if (!("id" in answer)) return // a new thread has started
    const lane = this.#short[0]?.order.id === answer.id ? this.#short : this.#long
    const { resolve, reject } = lane.shift()!
    if ("tokens" in answer) resolve(answer.tokens)
    else reject(new Error(`the tokenizer failed: ${answer.failure}`))
    this.#begin(lane)
    if (this.#short.length + this.#long.length === 0) this.#worker?.unref()
  }

  /** The thread is gone. Whoever comes next gets a new one. */
  #fail(error: Error): void {
    this.#worker = undefined
    for (const { reject } of [...this.#short.splice(0), ...this.#long.splice(0)]) reject(error)
  }
}
