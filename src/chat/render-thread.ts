// Renders conversations away from the event loop, one after the other. The thread starts with the first that needs it. One
// that makes it run out of memory costs that request alone: the others are given to a new thread.

import type { Worker } from "node:worker_threads"
import { TemplateError } from "./jinja/meter.ts"
import { type Span, Text } from "./jinja/text.ts"
import type { Rendering, TemplateOptions } from "./rendering.ts"
import { startThread } from "./thread.ts"

/** What the thread is opened with, asked and answers. */
export interface Opening {
  source: string
  options: TemplateOptions
}

export interface Order {
  id: number
  rendering: Rendering
  steps: number
}

export type Answer =
  | { id: number; value: string; spans: readonly Span[] }
  | { id: number; refusal: string }

interface Waiting {
  order: Order
  resolve: (text: Text) => void
  reject: (error: Error) => void
}

export class RenderThread {
  readonly #opening: Opening
  readonly #megabytes: number
  readonly #waiting = new Map<number, Waiting>() // in order
  #worker: Worker | undefined
  #orders = 0

  /** `megabytes`: how much memory the thread may take. */
  constructor(source: string, options: TemplateOptions, megabytes = 512) {
    this.#opening = { source, options }
    this.#megabytes = megabytes
  }

  /** Rejects with a TemplateError. */
  render(rendering: Rendering, steps: number): Promise<Text> {
    return new Promise((resolve, reject) => {
      const order = { id: this.#orders++, rendering, steps }
      this.#waiting.set(order.id, { order, resolve, reject })
      this.#worker ??= this.#start()
      this.#worker.ref()
      this.#worker.postMessage(order)
    })
  }

  #start(): Worker {
    const worker = startThread("render-worker", {
      workerData: this.#opening,
      resourceLimits: { maxOldGenerationSizeMb: this.#megabytes },
    })
    worker.on("message", (answer: Answer) => this.#answered(answer))
    worker.on("error", (error) => this.#failed(error))
    return worker
  }

  #answered(answer: Answer): void {
    const { resolve, reject } = this.#waiting.get(answer.id)!
    this.#waiting.delete(answer.id)
    if (this.#waiting.size === 0) this.#worker?.unref()
    if ("refusal" in answer) reject(new TemplateError(answer.refusal))
    else resolve(new Text(answer.value, answer.spans))
  }

  #failed(error: Error): void {
    const [first, ...others] = this.#waiting.values()
    this.#worker = undefined
    if (!first) return
    this.#waiting.delete(first.order.id)
    const outOfMemory = "code" in error && error.code === "ERR_WORKER_OUT_OF_MEMORY"
    first.reject(outOfMemory ? new TemplateError("it takes too much memory.") : error)
    if (others.length === 0) return
    this.#worker = this.#start()
    for (const { order } of others) this.#worker.postMessage(order)
  }
}
