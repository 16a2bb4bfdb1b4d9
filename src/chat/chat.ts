// The front door: a conversation in, one stream of events out. What stands between (template, tokenizer, thinking, stop
// strings) is put together here; the engine sees token ids only.

import type { Generation, GenerationRequest } from "../engine/generation.ts"
import { problem } from "../errors.ts"
import type { Chat, ChatReply, ChatRequest } from "./conversation.ts"
import { preparePrompt } from "./prompt.ts"
import { beginsInside, markersOf } from "./reasoning.ts"
import { type Reading, replyEvents } from "./reply.ts"
import type { Template } from "./template.ts"
import type { Tokenizer } from "./tokenizer.ts"

export interface ChatOptions {
  /** Admits a request or rejects with the Problem that refuses it. The signal ends all its choices. */
  engine: { generate(request: GenerationRequest, signal: AbortSignal): Promise<Generation> }
  tokenizer: Tokenizer
  /** Absent for models that were never taught to talk. */
  template: Template | undefined
  /** Tokens that end an answer. */
  endTokens: ReadonlySet<number>
}

export function createChat({ engine, tokenizer, template, endTokens }: ChatOptions): Chat {
  const markers = template && markersOf(template, tokenizer)

  async function reply(request: ChatRequest, signal: AbortSignal): Promise<ChatReply> {
    if (!template) {
      const words = "This model has no chat template; POST /v1/completions continues plain text."
      throw problem("unsupported_value", { problem: words }, "messages")
    }
    const prompt = await preparePrompt(request, template, tokenizer)
    signal.throwIfAborted()
    const reading: Reading = {
      tokenizer,
      stop: request.stop,
      logprobs: request.sampling.topLogprobs !== undefined,
      continues: prompt.continues,
      reasoning:
        markers && request.reasoning === "split"
          ? { markers, inside: beginsInside(prompt.begun, markers) }
          : undefined,
    }
    return admit(request, prompt.tokens, reading, signal)
  }

  async function admit(
    request: ChatRequest,
    tokens: Int32Array,
    reading: Reading,
    signal: AbortSignal,
  ): Promise<ChatReply> {
    const generation = await engine.generate(
      {
        id: request.id,
        prompt: tokens,
        choices: request.choices,
        maxTokens: request.maxTokens,
        stopTokens: request.ignoreEos ? new Set() : endTokens,
        sampling: request.sampling,
        scope: request.scope,
      },
      signal,
    )
    return { promptTokens: generation.promptTokens, events: replyEvents(generation, reading) }
  }

  return { reply }
}
