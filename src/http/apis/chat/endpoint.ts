// POST /v1/chat/completions. Whatever can be refused is refused before any header is sent.

import { type Answer, bodyOf, type Exchange, serviceOf } from "../../exchange.ts"
import { COMMENT, event } from "../../sse.ts"
import { inTurns } from "../../turns.ts"
import { asIds, newEnvelope } from "../collected.ts"
import { reportIgnored, reportUnenforced } from "../ignored.ts"
import { assertIdsFit, assertLogprobsFit } from "../logprob-budget.ts"
import { refuse } from "../refusals.ts"
import { stream } from "../stream.ts"
import { whole } from "../whole.ts"
import { dialects } from "./dialects/choose.ts"
import { chunks, emptyChunk, wholeAnswer } from "./reply.ts"
import { originOf, readingChat } from "./request.ts"
import { ChatCompletionRequest } from "./schema.ts"

export async function chatCompletions(exchange: Exchange): Promise<Answer> {
  refuse(exchange.body, "chat")
  const body = await bodyOf(exchange, ChatCompletionRequest)
  const service = await serviceOf(exchange, body.model)
  const request = await inTurns(readingChat(body, service, originOf(exchange)))
  const { topLogprobs } = request.sampling
  const { contextLength } = service.model
  const told = {
    choices: request.choices,
    tokens: Math.min(request.maxTokens ?? contextLength, contextLength),
    echoed: 0,
    stream: body.stream ?? false,
  }
  if (topLogprobs !== undefined) {
    const field = topLogprobs > 0 ? "top_logprobs" : "logprobs"
    assertLogprobsFit({ field, top: topLogprobs, ...told })
  }
  if (request.tellsTokens) assertIdsFit(told)
  reportIgnored(exchange, ChatCompletionRequest)
  exchange.setHeader("x-seed", String(body.seed ?? request.sampling.seed))
  const reply = await service.chat.reply(request, exchange.signal, exchange.client)
  reportUnenforced(exchange, reply.unenforced)
  const object = body.stream ? "chat.completion.chunk" : "chat.completion"
  const envelope = newEnvelope("chatcmpl", object, body.model, service.fingerprint)
  const shape = {
    dialect: dialects[exchange.dialect],
    toolText: exchange.options.toolText,
    names: body.return_tokens_as_token_ids ? asIds(reply.names) : reply.names,
    logprobs: body.logprobs ?? false,
    prompt: request.tellsTokens ? reply.prompt : undefined,
    usage: body.stream_options?.include_usage ?? false,
  }
  const events = exchange.metrics.watch(reply.events, [reply], exchange.account)
  if (!body.stream) return whole(exchange, wholeAnswer(events, envelope, shape))

  const isChunk = shape.dialect.signOfLife === "chunk"
  const signOfLife = () => (isChunk ? event(emptyChunk(envelope, shape)) : COMMENT)
  return stream(exchange, chunks(events, envelope, shape), signOfLife)
}
