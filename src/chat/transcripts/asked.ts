// Tokens of a reply by a model whose prompt begins with rows of a recording.

import type { EndEvent, GenerationRequest, TokenEvent } from "../../engine/generation.ts"
import type { ChatEngine } from "../admission.ts"
import type { CountedUsage } from "./reply.ts"

/** A token, and the one that ends a reply. */
export type Drawn = TokenEvent | EndEvent

/** A reply's tokens as they come, and the one that ends it. Leaving ends it. */
export async function* asked(
  engine: ChatEngine,
  request: GenerationRequest,
  { usage, signal }: { usage: CountedUsage; signal: AbortSignal },
): AsyncGenerator<Drawn> {
  const generation = await engine.generate(request, signal)
  usage.promptTokens += generation.promptTokens
  for await (const event of generation.choices[0]!) {
    if (event.kind === "token") {
      usage.completionTokens++
      yield event
      continue
    }
    usage.cachedTokens += generation.cachedTokens
    if (event.problem) throw event.problem
    signal.throwIfAborted()
    if (event.token !== undefined) yield event
    return
  }
  signal.throwIfAborted()
}
