// POST /tokenize and /detokenize: between texts and the model's token ids, without generating.

import { problem } from "../../errors.ts"
import { assertServed, readTemplateArguments } from "../chat-request.ts"
import { check } from "../check.ts"
import { type Answer, type Exchange, json, serviceOf } from "../exchange.ts"
import { reportIgnored } from "../ignored.ts"
import { JsonText, writeJson } from "../json.ts"
import { readMessages } from "../messages.ts"
import { DetokenizeRequest, TokenizeRequest } from "../schemas.ts"
import { readTokens } from "./completions.ts"

export async function tokenize(exchange: Exchange): Promise<Answer> {
  const { chat, model } = serviceOf(exchange)
  const body = check(TokenizeRequest, exchange.body)
  const { prompt, messages } = body
  if (typeof body.model === "string") assertServed(body.model, model)
  reportIgnored(exchange, TokenizeRequest)
  let tokens: Int32Array
  if (typeof prompt === "string" && !messages) {
    tokens = await chat.tokenize(prompt, body.control_tokens ?? false)
  } else if (messages && typeof prompt !== "string") {
    tokens = await chat.tokenizeChat(readMessages(messages), readTemplateArguments(body))
  } else {
    throw problem("invalid_value", { problem: "Give either prompt or messages." }, "prompt")
  }
  return json(
    writeJson({
      tokens: new JsonText(`[${tokens.join(",")}]`),
      count: tokens.length,
      max_model_len: model.contextLength,
    }),
  )
}

export function detokenize(exchange: Exchange): Answer {
  const { chat, model } = serviceOf(exchange)
  const body = check(DetokenizeRequest, exchange.body)
  if (typeof body.model === "string") assertServed(body.model, model)
  reportIgnored(exchange, DetokenizeRequest)
  const tokens =
    body.tokens.length > 0 ? readTokens(body.tokens, model, "tokens") : new Int32Array()
  return json(writeJson({ prompt: chat.detokenize(tokens) }))
}
