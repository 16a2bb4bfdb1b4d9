// POST /v1/completions: goes on with plain texts. Each prompt is one generation; all are admitted before the first header.

import { setMaxListeners } from "node:events"
import { type Answer, bodyOf, type Exchange, serviceOf } from "../../exchange.ts"
import { COMMENT, event } from "../../sse.ts"
import { inTurns } from "../../turns.ts"
import { dialects } from "../chat/dialects/choose.ts"
import { asIds, newEnvelope } from "../collected.ts"
import { reportIgnored } from "../ignored.ts"
import { assertIdsFit, assertLogprobsFit } from "../logprob-budget.ts"
import { refuse } from "../refusals.ts"
import { stream } from "../stream.ts"
import { whole } from "../whole.ts"
import { emptyTextChunk, sideBySide, textChunks, wholeText } from "./reply.ts"
import { readingCompletion } from "./request.ts"
import { CompletionRequest } from "./schema.ts"

export async function completions(exchange: Exchange): Promise<Answer> {
  refuse(exchange.body, "completions")
  const body = await bodyOf(exchange, CompletionRequest)
  const service = await serviceOf(exchange, body.model)
  const { chat, model, fingerprint } = service
  const { prompts, common } = await inTurns(readingCompletion(body, service, exchange))
  const { choices } = common
  reportIgnored(exchange, CompletionRequest)
  exchange.setHeader("x-seed", String(body.seed ?? common.sampling.seed))

  // One prompt that is refused refuses the request, and ends what was admitted of it.
  const ending = new AbortController()
  const signal = AbortSignal.any([exchange.signal, ending.signal])
  setMaxListeners(0, signal) // each prompt has a few, and there may be more than Node takes for a leak
  try {
    const replies = await Promise.all(
      prompts.map((prompt) => chat.complete({ ...common, prompt }, signal, exchange.client)),
    )
    const { topLogprobs } = common.sampling
    const read = replies.reduce((sum, { promptTokens }) => sum + promptTokens, 0)
    const told = {
      choices: prompts.length * choices,
      tokens: Math.min(common.maxTokens!, model.contextLength),
      stream: body.stream ?? false,
    }
    if (topLogprobs !== undefined) {
      const echoed = common.echo ? read * choices : 0
      assertLogprobsFit({ field: "logprobs", top: topLogprobs, ...told, echoed })
    }
    if (common.tellsTokens) assertIdsFit({ ...told, echoed: read * choices })
    const events = exchange.metrics.watch(sideBySide(replies, choices), replies, exchange.account)
    const envelope = newEnvelope("cmpl", "text_completion", body.model, fingerprint)
    const shape = {
      names: body.return_tokens_as_token_ids ? asIds(replies[0]!.names) : replies[0]!.names,
      logprobs: topLogprobs !== undefined,
      promptOf: common.tellsTokens
        ? (choice: number) => replies[Math.floor(choice / choices)]!.prompt
        : undefined,
      usage: body.stream_options?.include_usage ?? false,
    }
    if (!body.stream) return await whole(exchange, wholeText(events, envelope, shape))

    const isChunk = dialects[exchange.dialect].signOfLife === "chunk"
    const signOfLife = () => (isChunk ? event(emptyTextChunk(envelope, shape)) : COMMENT)
    return await stream(exchange, textChunks(events, envelope, shape), signOfLife)
  } finally {
    ending.abort()
  }
}
