// POST /tokenize and /detokenize: between texts and the model's token ids, without generating.

import { problem } from "../../../errors.ts"
import { fault } from "../../check.ts"
import { type Answer, bodyOf, type Exchange, json, serviceOf } from "../../exchange.ts"
import { JsonText, writeJson } from "../../json.ts"
import { inTurns, type Work } from "../../turns.ts"
import { readingMessages } from "../chat/messages.ts"
import { readTemplateArguments } from "../chat/request.ts"
import { readTools } from "../chat/tools.ts"
import { readingTokens } from "../completions/request.ts"
import { reportIgnored } from "../ignored.ts"
import { refuse } from "../refusals.ts"
import { DetokenizeRequest, TokenizeRequest } from "./schema.ts"

export async function tokenize(exchange: Exchange): Promise<Answer> {
  const body = await bodyOf(exchange, TokenizeRequest)
  const { chat, model } = await serviceOf(exchange, body.model)
  const { prompt, messages } = body
  reportIgnored(exchange, TokenizeRequest)
  let tokens: Int32Array
  if (typeof prompt === "string" && !messages) {
    const how = { control: body.control_tokens ?? false, isBegun: body.add_special_tokens ?? false }
    tokens = await chat.tokenize(prompt, how, exchange)
  } else if (messages && typeof prompt !== "string") {
    refuse(exchange.body, "chat")
    const conversation = {
      messages: await inTurns(readingMessages(messages, model)),
      templateArguments: readTemplateArguments(body),
      ...readTools(body),
    }
    tokens = await chat.tokenizeChat(conversation, exchange)
  } else {
    throw problem("invalid_value", { problem: "Give either prompt or messages." }, "prompt")
  }
  return json(
    writeJson({
      tokens: new JsonText(await inTurns(listing(tokens))),
      count: tokens.length,
      max_model_len: model.contextLength,
    }),
  )
}

export async function detokenize(exchange: Exchange): Promise<Answer> {
  const body = await bodyOf(exchange, DetokenizeRequest)
  const { chat, model } = await serviceOf(exchange, body.model)
  reportIgnored(exchange, DetokenizeRequest)
  const isEmpty = body.tokens.length === 0
  const tokens = isEmpty
    ? new Int32Array()
    : await inTurns(readingTokens(body.tokens, model, "tokens"))
  return json(`{"prompt":"${await inTurns(spelling(chat.detokenize(tokens)))}"}`)
}

const PIECE = 4096 // token ids written between two turns

function* listing(tokens: Int32Array): Work<string> {
  let text = ""
  for (let at = 0; at < tokens.length; at += PIECE) {
    if (at > 0) yield PIECE
    text += `${at > 0 ? "," : ""}${tokens.subarray(at, at + PIECE).join(",")}`
  }
  return `[${text}]`
}

const MAX_TEXT = 16 * 1024 * 1024 // characters: a token may be long, and an id is short

/** What stands between the quotes of a JSON text. */
function* spelling(pieces: Iterable<string>): Work<string> {
  let text = ""
  for (const piece of pieces) {
    text += JSON.stringify(piece).slice(1, -1)
    if (text.length > MAX_TEXT) throw fault("tokens", `spell more than ${MAX_TEXT} characters`)
    yield piece.length
  }
  return text
}
