// A checked body becomes the request that the chat room takes. What a schema cannot say is held here: fields that need
// one another, ids inside the vocabulary, and which of two spellings wins.

import type { ChatRequest } from "../../../chat/conversation.ts"
import { fault } from "../../check.ts"
import type { Exchange } from "../../exchange.ts"
import { type Json, withFloats } from "../../json.ts"
import type { Service } from "../../service.ts"
import type { Work } from "../../turns.ts"
import { readingFormats } from "../format.ts"
import { assertStreamOptions, readEnds, readSampling } from "../sampling.ts"
import { readingMessages } from "./messages.ts"
import type { ChatCompletionRequest } from "./schema.ts"
import { readTools } from "./tools.ts"

/** What the request's surroundings say. */
export interface Origin {
  id: string
  scope: string
  reasoning: "split" | "inline"
}

export function originOf({ id, scope, options }: Exchange): Origin {
  return { id, scope, reasoning: options.reasoning }
}

/** Yields what it has read, as much as a body may hold. */
export function* readingChat(
  body: ChatCompletionRequest,
  { model, defaults }: Service,
  origin: Origin,
): Work<ChatRequest> {
  assertStreamOptions(body)
  if (body.top_logprobs && !body.logprobs) {
    throw fault("top_logprobs", "needs logprobs to be true")
  }
  const format = yield* readingFormats(body)
  return {
    ...origin,
    messages: yield* readingMessages(body.messages, model),
    choices: body.n ?? 1,
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? undefined,
    ...readEnds(body, model),
    sampling: {
      ...readSampling(body, model, defaults),
      topLogprobs: body.logprobs ? (body.top_logprobs ?? 0) : undefined,
    },
    ...(body.return_token_ids && { tellsTokens: true }),
    templateArguments: readTemplateArguments(body),
    ...readTools(body),
    ...(format && { format }),
  }
}

// What a template gets from the request's own fields; under these names nothing else would reach it.
const FROM_THE_REQUEST = ["messages", "tools", "add_generation_prompt"]

// Templates disagree on the switch: most look at enable_thinking, newer ones at reasoning_effort.
export function readTemplateArguments(
  body: Pick<ChatCompletionRequest, "reasoning_effort" | "chat_template_kwargs">,
): Record<string, unknown> {
  const { reasoning_effort: effort, chat_template_kwargs: given } = body
  const taken = FROM_THE_REQUEST.find((name) => Object.hasOwn(given ?? {}, name))
  if (taken) throw fault(`chat_template_kwargs.${taken}`, "is set by the request itself")
  return {
    ...(effort && { reasoning_effort: effort }),
    ...(effort === "none" && { enable_thinking: false }),
    ...(given && (withFloats(given as Json) as object)),
  }
}
