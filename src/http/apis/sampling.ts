// What chat and plain completions read alike: how tokens are drawn, and where a reply stops.

import { randomBytes } from "node:crypto"
import type { SamplingParams } from "../../engine/generation.ts"
import { fault, show } from "../check.ts"
import type { ModelCard, SamplingDefaults } from "../service.ts"
import type { ChatCompletionRequest } from "./chat/schema.ts"
import { MAX_STOP_LENGTH } from "./fields.ts"

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
    presencePenalty: body.presence_penalty ?? defaults.presencePenalty ?? 0,
    frequencyPenalty: body.frequency_penalty ?? defaults.frequencyPenalty ?? 0,
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
      const ids = `token ids from 0 to ${vocabularySize - 1}`
      throw fault("logit_bias", `must name ${ids}, not ${show(key)}`)
    }
    bias.set(token, value)
  }
  return bias
}

type EndFields = Pick<
  ChatCompletionRequest,
  "stop" | "stop_token_ids" | "min_tokens" | "ignore_eos" | "max_tokens" | "max_completion_tokens"
>

/** Where a reply ends, and where it may not. */
export function readEnds(body: EndFields, model: ModelCard) {
  const most = body.max_completion_tokens ?? body.max_tokens
  const minTokens = body.min_tokens ?? 0
  if (typeof most === "number" && minTokens > most) {
    throw fault("min_tokens", `must not be above max_tokens, which is ${most}`)
  }
  return {
    stop: readStop(body.stop),
    stopTokens: readStopTokens(body.stop_token_ids ?? [], model),
    minTokens,
    ignoreEos: body.ignore_eos ?? false,
  }
}

function readStopTokens(given: readonly number[], { vocabularySize }: ModelCard) {
  const foreign = given.find((token) => token >= vocabularySize)
  if (foreign === undefined) return given
  const ids = `token ids from 0 to ${vocabularySize - 1}`
  throw fault("stop_token_ids", `must hold ${ids}, not ${foreign}`)
}

function readStop(given: string | readonly string[] | null | undefined): readonly string[] {
  if (given === null || given === undefined) return []
  const stops = typeof given === "string" ? [given] : given
  const length = stops.reduce((sum, stop) => sum + stop.length, 0)
  if (length > MAX_STOP_LENGTH) {
    throw fault("stop", `may have ${MAX_STOP_LENGTH} characters in all, not ${length}`)
  }
  return stops
}

export function assertStreamOptions(
  body: Pick<ChatCompletionRequest, "stream" | "stream_options">,
) {
  if (body.stream_options && !body.stream) {
    throw fault("stream_options", "needs stream to be true")
  }
}
