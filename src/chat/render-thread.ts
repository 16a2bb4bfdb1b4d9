// Renders conversations away from the event loop, one after the other, in fair turns. The thread starts with the first that
// needs it. One that takes too much time or memory costs that request alone.

import { codeRoot } from "../code-root.ts"
import { type Caller, Lane } from "../worker/lane.ts"
import { Worker, WorkerLost } from "../worker/worker.ts"
import { OutOfSteps, TemplateError } from "./jinja/meter.ts"
import { type Span, Text } from "./jinja/text.ts"
import type { Rendering, TemplateOptions } from "./rendering.ts"

export interface Opening {
  source: string
  options: TemplateOptions
}

export interface Order {
  rendering: Rendering
  steps: number
}

export type Answer =
  | { value: string; spans: readonly Span[] }
  | { refusal: string; isOutOfSteps: boolean }

interface Limits {
  milliseconds: number // for one conversation
  megabytes: number // of the thread
  /** Conversations that may wait. */
  queue: number
}

// A conversation that is rendered to its last step takes about a second.
const LIMITS: Limits = { milliseconds: 10_000, megabytes: 512, queue: 256 }

/** Milliseconds after which a conversation whose client has left is given up, and the thread with it. */
const UNWANTED = 1000

/** In its turn every conversation counts alike: the longest take the steps that all of them may take. */
const SIZE = 1

export class RenderThread {
  readonly #lane: Lane
  readonly #worker: Worker<Order, Answer>

  constructor(source: string, options: TemplateOptions, limits: Partial<Limits> = {}) {
    const { queue, ...bounds } = { ...LIMITS, ...limits }
    this.#lane = new Lane({ count: queue })
    this.#worker = new Worker({
      ...bounds,
      name: "chat template",
      file: new URL("chat/render-worker", codeRoot),
      host: "thread",
      nice: 5, // as for long texts
      afterLoss: "resume",
      opening: { source, options } satisfies Opening,
      unwantedMilliseconds: UNWANTED,
    })
  }

  /** Rejects with a TemplateError, WorkerLost, `queue_full`, or the signal's reason. */
  async render(rendering: Rendering, steps: number, caller: Caller): Promise<Text> {
    const { signal } = caller
    const work = () => this.#worker.ask({ rendering, steps }, { signal })
    const answer = await this.#lane.run(work, SIZE, caller).catch((error: unknown) => {
      throw refusalOf(error) ?? error
    })
    if ("refusal" in answer)
      throw new (answer.isOutOfSteps ? OutOfSteps : TemplateError)(answer.refusal)
    return new Text(answer.value, answer.spans)
  }

  async close(): Promise<void> {
    this.#lane.close()
    await this.#worker.close()
  }
}

/** What a conversation costs is the conversation's own fault. */
function refusalOf(error: unknown): OutOfSteps | undefined {
  if (!(error instanceof WorkerLost) || !error.isCost) return undefined
  return new OutOfSteps(`${error.why}.`)
}
