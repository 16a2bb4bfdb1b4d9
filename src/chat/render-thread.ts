// Renders conversations away from the event loop, one after the other. The thread starts with the first that needs it. One
// that takes too much time or memory costs that request alone.

import { Worker, WorkerLost } from "../worker/worker.ts"
import { TemplateError } from "./jinja/meter.ts"
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

export type Answer = { value: string; spans: readonly Span[] } | { refusal: string }

interface Limits {
  milliseconds: number // for one conversation
  megabytes: number // of the thread
}

// A conversation that is rendered to its last step takes about a second.
const LIMITS: Limits = { milliseconds: 10_000, megabytes: 512 }

export class RenderThread {
  readonly #worker: Worker<Order, Answer>

  constructor(source: string, options: TemplateOptions, limits: Partial<Limits> = {}) {
    this.#worker = new Worker({
      ...LIMITS,
      ...limits,
      name: "chat template",
      file: new URL("render-worker", import.meta.url),
      host: "thread",
      nice: 5, // as for long texts
      afterLoss: "resume",
      opening: { source, options } satisfies Opening,
    })
  }

  /** Rejects with a TemplateError, or WorkerLost. */
  async render(rendering: Rendering, steps: number): Promise<Text> {
    const answer = await this.#worker.ask({ rendering, steps }).catch((error: unknown) => {
      throw refusalOf(error) ?? error
    })
    if ("refusal" in answer) throw new TemplateError(answer.refusal)
    return new Text(answer.value, answer.spans)
  }

  close(): Promise<void> {
    return this.#worker.close()
  }
}

/** What a conversation costs is the conversation's own fault. */
function refusalOf(error: unknown): TemplateError | undefined {
  if (!(error instanceof WorkerLost) || !error.isCost) return undefined
  return new TemplateError(`${error.why}.`)
}
