// A checked body becomes the request that the chat room takes. What a schema cannot say is held here: fields that need
// one another, ids inside the vocabulary, and which of two spellings wins.

import { randomBytes } from "node:crypto"
import type { ChatRequest } from "../chat/conversation.ts"
import type { SamplingParams } from "../engine/generation.ts"
import { problem } from "../errors.ts"
import { cut } from "./check.ts"
import { readMessages } from "./messages.ts"
import { readResponseFormat } from "./response-format.ts"
import type { ChatCompletionRequest } from "./schemas.ts"
import type { ModelCard, SamplingDefaults, Service } from "./service.ts"
import { readTools } from "./tools.ts"

/** What the request's surroundings say. */
export interface Origin {
  id: string
  scope: string
  reasoning: "split" | "inline"
}

export function readChatRequest(
  body: ChatCompletionRequest,
  { model, defaults }: Service,
  origin: Origin,
): ChatRequest {
  assertServed(body.model, model)
  assertStreamOptions(body)
  if (body.top_logprobs && !body.logprobs) {
    refuse("top_logprobs", "needs logprobs to be true")
  }
  const format = readResponseFormat(body.response_format)
  return {
    ...origin,
    messages: readMessages(body.messages),
    choices: body.n ?? 1,
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? undefined,
    stop: readStop(body.stop),
    ignoreEos: body.ignore_eos ?? false,
    sampling: {
      ...readSampling(body, model, defaults),
      topLogprobs: body.logprobs ? (body.top_logprobs ?? 0) : undefined,
    },
    templateArguments: readTemplateArguments(body),
    ...readTools(body),
    ...(format && { format }),
  }
}

/** The fields that chat and plain completions share. */
type SamplingFields = Pick<
  ChatCompletionRequest,
  | "frequency_penalty"
  | "presence_penalty"
  | "repetition_penalty"
  | "logit_bias"
  | "seed"
  | "temperature"
  | "top_p"
  | "top_k"
  | "min_p"
>

export function readSampling(
  body: SamplingFields,
  model: ModelCard,
  defaults: SamplingDefaults,
): Omit<SamplingParams, "topLogprobs"> {
  return {
    temperature: body.temperature ?? defaults.temperature ?? 1,
    topK: Math.max(0, body.top_k ?? defaults.topK ?? 0),
    topP: body.top_p ?? defaults.topP ?? 1,
    minP: body.min_p ?? defaults.minP ?? 0,
    presencePenalty: body.presence_penalty ?? 0,
    frequencyPenalty: body.frequency_penalty ?? 0,
    repetitionPenalty: body.repetition_penalty ?? defaults.repetitionPenalty ?? 1,
    logitBias: readLogitBias(body.logit_bias, model.vocabularySize),
    seed: readSeed(body.seed),
  }
}

/** The 64 bits of the seed, read as two's complement; a fresh one when none is given. */
function readSeed(given: number | bigint | null | undefined): bigint {
  if (given === null || given === undefined) return randomBytes(8).readBigUInt64LE()
  return BigInt.asUintN(64, BigInt(given))
}

function readLogitBias(
  given: Readonly<Record<string, number>> | null | undefined,
  vocabularySize: number,
): Map<number, number> {
  const bias = new Map<number, number>()
  for (const [key, value] of Object.entries(given ?? {})) {
    const token = /^(0|[1-9]\d{0,9})$/.test(key) ? Number(key) : Number.NaN
    if (!(token < vocabularySize)) {
      refuse("logit_bias", `must name token ids from 0 to ${vocabularySize - 1}`)
    }
    bias.set(token, value)
  }
  return bias
}

export function readStop(given: string | readonly string[] | null | undefined): readonly string[] {
  if (given === null || given === undefined) return []
  return typeof given === "string" ? [given] : given
}

export function assertServed(name: string, model: ModelCard): void {
  if (model.names.includes(name)) return
  const served = model.names.join(", ")
  throw problem("model_not_found", { model: JSON.stringify(cut(name, 100)), served }, "model")
}

export function assertStreamOptions(
  body: Pick<ChatCompletionRequest, "stream" | "stream_options">,
) {
  if (body.stream_options && !body.stream) refuse("stream_options", "needs stream to be true")
}

// What a template gets from the request's own fields; under these names nothing else would reach it.
const FROM_THE_REQUEST = ["messages", "tools", "add_generation_prompt"]

// Templates disagree on the switch: most look at enable_thinking, newer ones at reasoning_effort.
export function readTemplateArguments(
  body: Pick<ChatCompletionRequest, "reasoning_effort" | "chat_template_kwargs">,
): Record<string, unknown> {
  const { reasoning_effort: effort, chat_template_kwargs: given } = body
  const taken = FROM_THE_REQUEST.find((name) => Object.hasOwn(given ?? {}, name))
  if (taken) refuse(`chat_template_kwargs.${taken}`, "is set by the request itself")
  return {
    ...(effort && { reasoning_effort: effort }),
    ...(effort === "none" && { enable_thinking: false }),
    ...given,
  }
}

function refuse(param: string, what: string): never {
  throw problem("invalid_value", { problem: `${param} ${what}.` }, param)
}
