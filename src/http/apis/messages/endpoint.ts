// POST /v1/messages and /v1/messages/count_tokens, as Anthropic's clients call them.

import { randomBytes } from "node:crypto"
import { type Answer, bodyOf, type Exchange, json, serviceOf } from "../../exchange.ts"
import { writeJson } from "../../json.ts"
import { event } from "../../sse.ts"
import { inTurns } from "../../turns.ts"
import { originOf } from "../chat/request.ts"
import { reportIgnored, reportIgnoredTools, reportUnenforced } from "../ignored.ts"
import { stream } from "../stream.ts"
import { whole } from "../whole.ts"
import { messageEvents, PING, wholeMessage } from "./reply.ts"
import { readingConversation, readingMessagesRequest, serverTools } from "./request.ts"
import { CountTokensRequest, MessagesRequest } from "./schema.ts"

export async function messages(exchange: Exchange): Promise<Answer> {
  const body = await bodyOf(exchange, MessagesRequest)
  const service = await serviceOf(exchange, body.model)
  const request = await inTurns(readingMessagesRequest(body, service, originOf(exchange)))
  reportIgnored(exchange, MessagesRequest)
  reportIgnoredTools(exchange, serverTools(body))
  exchange.setHeader("x-seed", String(body.seed ?? request.sampling.seed))
  const reply = await service.chat.reply(request, exchange.signal, exchange.client)
  reportUnenforced(exchange, reply.unenforced)
  const { promptTokens } = reply
  const head = { id: `msg_${randomBytes(12).toString("hex")}`, model: body.model, promptTokens }
  const events = exchange.metrics.watch(reply.events, [reply], exchange.account)
  if (!body.stream) return whole(exchange, wholeMessage(events, head))
  return stream(exchange, messageEvents(events, head), () => event(PING))
}

export async function countTokens(exchange: Exchange): Promise<Answer> {
  const body = await bodyOf(exchange, CountTokensRequest)
  const { chat, model } = await serviceOf(exchange, body.model)
  const conversation = await inTurns(readingConversation(body, model))
  reportIgnored(exchange, CountTokensRequest)
  reportIgnoredTools(exchange, serverTools(body))
  const tokens = await chat.tokenizeChat(conversation, exchange)
  return json(writeJson({ input_tokens: tokens.length }))
}
