// POST /v1/completions: goes on with plain texts. Each prompt is one generation; all are admitted before the first header.

import type { CompletionRequest as Completion } from "../../chat/conversation.ts"
import { problem } from "../../errors.ts"
import { assertServed, assertStreamOptions, readSampling, readStop } from "../chat-request.ts"
import { check } from "../check.ts"
import { newEnvelope } from "../collected.ts"
import { dialects } from "../dialects/choose.ts"
import { type Answer, type Exchange, json, serviceOf } from "../exchange.ts"
import { reportIgnored } from "../ignored.ts"
import { refuse } from "../refusals.ts"
import { CompletionRequest } from "../schemas.ts"
import type { ModelCard } from "../service.ts"
import { COMMENT, event } from "../sse.ts"
import { emptyTextChunk, sideBySide, textChunks, wholeText } from "../text-reply.ts"
import { stream } from "./stream.ts"

const MOST_CHOICES = 128 // of all prompts together

export async function completions(exchange: Exchange): Promise<Answer> {
  const { chat, model, defaults } = serviceOf(exchange)
  refuse(exchange.body)
  const body = check(CompletionRequest, exchange.body)
  assertServed(body.model, model)
  assertStreamOptions(body)
  if (body.max_tokens === 0 && !body.echo) {
    throw problem("invalid_value", { problem: "max_tokens may be 0 only with echo." }, "max_tokens")
  }
  const prompts = readPrompts(body.prompt, model)
  const choices = body.n ?? 1
  if (prompts.length * choices > MOST_CHOICES) {
    refusePrompt(`and n ask for ${prompts.length * choices} replies, more than ${MOST_CHOICES}`)
  }
  const common: Omit<Completion, "prompt"> = {
    id: exchange.id,
    scope: exchange.scope,
    choices,
    maxTokens: body.max_tokens ?? 16,
    echo: body.echo ?? false,
    stop: readStop(body.stop),
    ignoreEos: body.ignore_eos ?? false,
    sampling: {
      ...readSampling(body, model, defaults),
      topLogprobs: body.logprobs ?? undefined,
    },
  }
  reportIgnored(exchange, CompletionRequest)
  exchange.setHeader("x-seed", String(body.seed ?? common.sampling.seed))

  // One prompt that is refused refuses the request, and ends what was admitted of it.
  const ending = new AbortController()
  const signal = AbortSignal.any([exchange.signal, ending.signal])
  try {
    const replies = await Promise.all(
      prompts.map((prompt) => chat.complete({ ...common, prompt }, signal)),
    )
    const events = exchange.metrics.watch(sideBySide(replies, choices), replies, exchange.account)
    const envelope = newEnvelope("cmpl", "text_completion", body.model, model.fingerprint)
    const shape = {
      logprobs: typeof body.logprobs === "number",
      usage: body.stream_options?.include_usage ?? false,
    }
    if (!body.stream) return json(await wholeText(events, envelope, shape))

    const isChunk = dialects[exchange.dialect].signOfLife === "chunk"
    const signOfLife = isChunk ? event(emptyTextChunk(envelope, shape)) : COMMENT
    return await stream(exchange, textChunks(events, envelope, shape), signOfLife)
  } finally {
    ending.abort()
  }
}

function readPrompts(
  given: CompletionRequest["prompt"],
  model: ModelCard,
): readonly (string | Int32Array)[] {
  if (typeof given === "string") return [given]
  if (given.length === 0) refusePrompt("must not be an empty list")
  if (given.every((each) => typeof each === "string")) return given
  if (given.every((each) => typeof each === "number")) return [readTokens(given, model, "prompt")]
  if (given.every((each) => Array.isArray(each))) {
    return given.map((tokens, index) => readTokens(tokens, model, `prompt[${index}]`))
  }
  return refusePrompt("must hold texts, token ids or lists of token ids, not a mixture")
}

/** Token ids that the model has. */
export function readTokens(
  given: readonly number[],
  { vocabularySize }: ModelCard,
  path: string,
): Int32Array {
  const isKnown = given.every((token) => token < vocabularySize)
  if (given.length > 0 && isKnown) return Int32Array.from(given)
  const what = isKnown ? "must not be empty" : `must hold token ids below ${vocabularySize}`
  throw problem("invalid_value", { problem: `${path} ${what}.` }, path)
}

function refusePrompt(what: string): never {
  throw problem("invalid_value", { problem: `prompt ${what}.` }, "prompt")
}
