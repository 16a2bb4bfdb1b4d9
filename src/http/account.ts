// What one request came to: counts, times and an outcome, gathered on its way for its line in the log, for the metrics and
// for the trace. Numbers and words of ours alone: no text of prompts or replies ever comes here.

import type { FinishReason, MediumKind, Usage } from "../chat/conversation.ts"

export interface Told extends Record<string, number | string> {
  outcome: "answered" | "refused" | "failed" | "left"
  /** Milliseconds from its arrival to its end. */
  ms: number
}

/** What is known of a request as soon as the engine has it. */
export interface Admitted {
  /** Tokens. */
  prompt: number
  media?: Readonly<Record<MediumKind, number>>
  /** Milliseconds from its arrival until then. */
  prepared?: number | undefined
  /** Milliseconds from then until its first step; undefined until there is one. */
  queued?: () => number | undefined
}

export class Account {
  readonly #arrived = performance.now()
  #admitted: Admitted | undefined
  #firstMs: number | undefined
  #usage: Usage | undefined
  #hasLeft = false
  #isRefused = false
  readonly #reasons: FinishReason[] = []

  /** Milliseconds since it arrived. */
  get age(): number {
    return performance.now() - this.#arrived
  }

  admitted(admitted: Admitted): void {
    this.#admitted = admitted
  }

  /** @returns the milliseconds from its arrival to its first piece, which is now. */
  firstPiece(): number {
    this.#firstMs = this.age
    return this.#firstMs
  }

  /** Whether any choice came to its end; a client that left earlier leaves it false. */
  get hasFinished(): boolean {
    return this.#reasons.length > 0
  }

  /** Whether its client left before it was answered: whatever is counted after that nobody was told of. */
  get hasLeft(): boolean {
    return this.#hasLeft
  }

  left(): void {
    this.#hasLeft = true
  }

  /** It is told so in a stream, whose status says nothing of it. */
  refused(): void {
    this.#isRefused = true
  }

  finished(reason: FinishReason): void {
    this.#reasons.push(reason)
  }

  ended(usage: Usage): void {
    this.#usage = usage
  }

  /** @param status the answer's; of one whose client left it is none */
  tell(status: number): Told {
    const usage = this.#usage
    const { prompt: admitted, media, prepared, queued } = this.#admitted ?? {}
    const prompt = usage?.promptTokens ?? admitted // a recording's windows are counted as they are heard
    const queueMs = queued?.()
    return {
      outcome: this.#outcome(status),
      ms: Math.round(this.age),
      ...(prompt !== undefined && { prompt }),
      ...(media?.image && { images: media.image }),
      ...(media?.audio && { recordings: media.audio }),
      ...(usage && { cached: usage.cachedTokens, completion: usage.completionTokens }),
      ...(this.#reasons.length > 0 && { finish: [...new Set(this.#reasons)].join(",") }),
      ...(prepared !== undefined && { preparedMs: Math.round(prepared) }),
      ...(queueMs !== undefined && { queueMs: Math.round(queueMs) }),
      ...(this.#firstMs !== undefined && { firstMs: Math.round(this.#firstMs) }),
    }
  }

  /** A stream has its status long before it ends, so that 200 alone says nothing of one. */
  #outcome(status: number): Told["outcome"] {
    if (this.#hasLeft) return "left"
    if (status >= 500) return "failed"
    if (status >= 400 || this.#isRefused) return "refused"
    return this.#admitted && !this.#usage ? "failed" : "answered"
  }
}
