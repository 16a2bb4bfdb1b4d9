// How a sequence ends: what it computed is kept for others as far as it is worth something to them, all that it holds is free,
// and its constraint, its request and whoever waits for the last of all are told. Its reader hears the end last.

import { Problem, problem } from "../errors.ts"
import type { EndEvent } from "./generation.ts"
import type { Scheduler } from "./scheduler.ts"
import type { Sequence } from "./sequence.ts"
import type { Counts } from "./stats.ts"
import type { Trace } from "./trace.ts"

export interface EndingsParts {
  scheduler: Scheduler
  counts: Counts
  now: () => number
  trace: Trace | undefined
}

export class Endings {
  readonly #parts: EndingsParts
  readonly #onIdle: (() => void)[] = []
  #onFirst = () => {}
  /** Resolves when a request has ended, of all that come the first. */
  readonly first = new Promise<void>((resolve) => {
    this.#onFirst = resolve
  })

  constructor(parts: EndingsParts) {
    this.#parts = parts
  }

  /** Resolves when no request is left. */
  async idle(): Promise<void> {
    if (this.#parts.scheduler.sequenceGroups.length === 0) return
    await new Promise<void>((resolve) => this.#onIdle.push(resolve))
  }

  /** What the reader took stays findable for others; what was drawn past that does not. */
  letGo(sequence: Sequence): void {
    const wanted = sequence.sequenceGroup.promptTokens + sequence.outbox.read
    this.#parts.scheduler.memory.recycle(sequence, wanted)
    this.#remove(sequence, "left", sequence.length - wanted)
  }

  end(sequence: Sequence, end: EndEvent): void {
    this.#parts.scheduler.memory.recycle(sequence, sequence.length)
    this.#remove(sequence, end.reason, 0)
    sequence.outbox.put(end)
  }

  /** What a failed sequence computed is worth nothing to anybody. */
  fail(sequence: Sequence, reason: Problem): void {
    if (sequence.state === "ended") return
    this.#parts.counts.failures++
    this.#remove(sequence, "error", 0)
    sequence.outbox.put({ kind: "end", reason: "error", problem: reason })
  }

  /** @param unread tokens that were drawn and that nobody will ever read */
  #remove(sequence: Sequence, outcome: string, unread: number): void {
    const { sequenceGroup } = sequence
    this.#parts.trace?.span(
      sequenceGroup.request.id,
      "reply",
      sequence.firstAt ?? this.#parts.now(),
      {
        choice: sequence.choice,
        outcome,
        prompt: sequenceGroup.promptTokens,
        cached: sequenceGroup.cached,
        reply: sequence.replyTokens,
        unread,
        blocks: sequence.trail.blocks.length,
      },
    )
    this.#parts.scheduler.remove(sequence)
    sequence.constraint?.close?.()
    if (sequenceGroup.live.length === 0) {
      sequenceGroup.onEnd()
      this.#onFirst()
    }
    if (this.#parts.scheduler.sequenceGroups.length > 0) return
    for (const resolve of this.#onIdle.splice(0)) resolve()
  }
}

/** What a client is told of it. */
export function failure(error: unknown): Problem {
  if (error instanceof Problem && error.status > 0) return error // a constraint's own words
  const text = error instanceof Error ? error.message : String(error)
  return problem("generation_failed", { problem: text })
}
