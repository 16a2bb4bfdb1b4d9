// POST /v1/chat/completions. Refusals come before any header is sent; from then on a stream can only say what went
// wrong in an event of its own.

import { readChatRequest } from "../chat-request.ts"
import { check } from "../check.ts"
import { dialects } from "../dialects/choose.ts"
import { errorBody, problemOf } from "../error-body.ts"
import { type Answer, type Exchange, json, serviceOf } from "../exchange.ts"
import { reportIgnored } from "../ignored.ts"
import { refuse } from "../refusals.ts"
import { chunks, emptyChunk, newEnvelope, wholeAnswer } from "../reply.ts"
import { ChatCompletionRequest } from "../schemas.ts"
import { EventStream, event } from "../sse.ts"

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
  const envelope = newEnvelope("chatcmpl", body.model, service.model.fingerprint)
  const shape = {
    dialect: dialects[exchange.dialect],
    logprobs: body.logprobs ?? false,
    usage: body.stream_options?.include_usage ?? false,
  }
  if (!body.stream) return json(await wholeAnswer(reply, envelope, shape))

  const isChunk = shape.dialect.signOfLife === "chunk"
  const signOfLife = isChunk ? event(emptyChunk(envelope, shape)) : ": waiting\n\n"
  return stream(exchange, chunks(reply, envelope, shape), signOfLife)
}

/** Sends the chunks and the end marker; a failure on the way becomes one event with the error. */
async function stream(
  exchange: Exchange,
  texts: AsyncIterable<string>,
  signOfLife: string,
): Promise<Answer> {
  const { raw, headers } = exchange.takeOver()
  const events = new EventStream(raw, headers, exchange.options.timeouts, signOfLife)
  try {
    for await (const text of texts) await events.send(text)
    await events.send("[DONE]")
  } catch (error) {
    if (!exchange.signal.aborted) await events.send(errorBody(problemOf(error, exchange)))
  }
  events.end()
  return "sent"
}
