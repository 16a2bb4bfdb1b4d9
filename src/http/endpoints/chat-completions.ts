// POST /v1/chat/completions. Whatever can be refused is refused before any header is sent.

import { readChatRequest } from "../chat-request.ts"
import { check } from "../check.ts"
import { newEnvelope } from "../collected.ts"
import { dialects } from "../dialects/choose.ts"
import { type Answer, type Exchange, json, serviceOf } from "../exchange.ts"
import { reportIgnored, reportUnenforced } from "../ignored.ts"
import { refuse } from "../refusals.ts"
import { chunks, emptyChunk, wholeAnswer } from "../reply.ts"
import { ChatCompletionRequest } from "../schemas.ts"
import { COMMENT, event } from "../sse.ts"
import { stream } from "./stream.ts"

export async function chatCompletions(exchange: Exchange): Promise<Answer> {
  const service = serviceOf(exchange)
  refuse(exchange.body)
  const body = check(ChatCompletionRequest, exchange.body)
  const request = readChatRequest(body, service, {
    id: exchange.id,
    scope: exchange.scope,
    reasoning: exchange.options.reasoning,
  })
  reportIgnored(exchange, ChatCompletionRequest)
  exchange.setHeader("x-seed", String(body.seed ?? request.sampling.seed))
  const reply = await service.chat.reply(request, exchange.signal)
  reportUnenforced(exchange, reply.unenforced)
  const object = body.stream ? "chat.completion.chunk" : "chat.completion"
  const envelope = newEnvelope("chatcmpl", object, body.model, service.model.fingerprint)
  const shape = {
    dialect: dialects[exchange.dialect],
    toolText: exchange.options.toolText,
    logprobs: body.logprobs ?? false,
    usage: body.stream_options?.include_usage ?? false,
  }
  const events = exchange.metrics.watch(reply.events, [reply], exchange.account)
  if (!body.stream) return json(await wholeAnswer(events, envelope, shape))

  const isChunk = shape.dialect.signOfLife === "chunk"
  const signOfLife = isChunk ? event(emptyChunk(envelope, shape)) : COMMENT
  return stream(exchange, chunks(events, envelope, shape), signOfLife)
}
