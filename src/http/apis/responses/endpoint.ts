// POST /v1/responses, what is kept of them, and how many tokens one would read.

import type { ChatReply, ReplyEvent, TokenNames } from "../../../chat/conversation.ts"
import { Problem, problem } from "../../../errors.ts"
import { type Answer, bodyOf, type Exchange, json, problemOf, serviceOf } from "../../exchange.ts"
import { type Json, type Members, writeJson } from "../../json.ts"
import { inTurns } from "../../turns.ts"
import { originOf } from "../chat/request.ts"
import { reportIgnored, reportIgnoredTools, reportUnenforced } from "../ignored.ts"
import { assertLogprobsFit, MAX_LOGPROBS_AT_ONCE } from "../logprob-budget.ts"
import { stream } from "../stream.ts"
import { whole } from "../whole.ts"
import { inputItems, pageOf } from "./input-items.ts"
import {
  type Done,
  type Head,
  newStem,
  ResponseStream,
  responseId,
  wholeResponse,
} from "./reply.ts"
import { type Asked, readingAsked, readingResponse } from "./request.ts"
import { ResponsesRequest } from "./schema.ts"
import { type Kept, sizeOf } from "./store.ts"

export async function respond(exchange: Exchange): Promise<Answer> {
  const body = await bodyOf(exchange, ResponsesRequest)
  const service = await serviceOf(exchange, body.model)
  const { responses, scope } = exchange
  const asked = await inTurns(readingAsked(body, responses, scope, service.model))
  const request = await inTurns(readingResponse(body, asked, service, originOf(exchange)))
  const { temperature, topP, seed, topLogprobs } = request.sampling
  if (topLogprobs !== undefined) {
    const { contextLength } = service.model
    assertLogprobsFit({
      field: topLogprobs > 0 ? "top_logprobs" : "include",
      top: topLogprobs,
      choices: 1,
      tokens: Math.min(request.maxTokens ?? contextLength, contextLength),
      echoed: 0,
      stream: false, // its last event repeats them all
      most: MAX_LOGPROBS_AT_ONCE,
      cure: "or max_output_tokens",
    })
  }
  report(exchange, asked)
  exchange.setHeader("x-seed", String(body.seed ?? seed))
  const head: Head = {
    stem: newStem(),
    repeated: repeatedOf(body, { temperature, top_p: topP }),
    createdAt: Math.floor(Date.now() / 1000),
    callables: asked.callables,
    wantsSummary: Boolean(body.reasoning?.summary),
    wantsUnread: body.include?.includes("reasoning.encrypted_content") ?? false,
  }
  const done = keeping(exchange, body, asked, head)
  const written = (events: AsyncIterable<ReplyEvent>, names?: TokenNames) => {
    if (!body.stream) return whole(exchange, wholeResponse(events, { ...head, names }, done))
    const told = (error: unknown) => {
      if (exchange.signal.aborted) throw error
      return problemOf(error, exchange)
    }
    const response = new ResponseStream({ ...head, names })
    return stream(exchange, response.events(events, done, told), () => response.signOfLife())
  }
  let reply: ChatReply
  try {
    reply = await service.chat.reply(request, exchange.signal, exchange.client)
  } catch (given) {
    const error = ofInput(given)
    if (!isTooLong(error)) throw error
    // Whoever streams is told within the stream, as OpenAI does it: only there Codex knows that it has to compact.
    exchange.account.refused()
    return written(failing(error))
  }
  reportUnenforced(exchange, reply.unenforced)
  return written(exchange.metrics.watch(reply.events, [reply], exchange.account), reply.names)
}

/** What a chat says of its messages is said of the items that they were. */
function ofInput(error: unknown): unknown {
  const isOfMessages = error instanceof Problem && error.param === "messages"
  return isOfMessages ? problem(error.code, { ...error.values }, "input") : error
}

const isTooLong = (error: unknown): error is Problem =>
  error instanceof Problem && error.code === "context_length_exceeded"

/** The events of a reply that never began. */
function failing(error: Problem): AsyncIterable<ReplyEvent> {
  return { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(error) }) }
}

export async function countInput(exchange: Exchange): Promise<Answer> {
  const body = await bodyOf(exchange, ResponsesRequest)
  const { chat, model } = await serviceOf(exchange, body.model)
  const asked = await inTurns(readingAsked(body, exchange.responses, exchange.scope, model))
  report(exchange, asked)
  const { length } = await chat.tokenizeChat(asked.conversation, exchange)
  return json(writeJson({ object: "response.input_tokens", input_tokens: length }))
}

/** GET of a response, or of what it was asked. */
export function showResponse(exchange: Exchange): Answer {
  const [, id = "", rest] = /^([^/]*)(\/input_items\/?)?$/.exec(exchange.parameter) ?? []
  const { response, input } = keptOf(exchange, id)
  if (rest) return json(writeJson(pageOf(input, exchange.query)))
  if (exchange.query.stream === "true") {
    const what =
      "stream: only a response that was made in the background can be streamed again, and this server makes none; leave it out."
    throw problem("unsupported_value", { problem: what }, "stream")
  }
  return json(writeJson(response))
}

export function deleteResponse(exchange: Exchange): Answer {
  const { id } = keptOf(exchange, exchange.parameter)
  exchange.responses.delete(id)
  return json(writeJson({ id, object: "response", deleted: true }))
}

function keptOf({ responses, scope, parameter }: Exchange, id: string): Kept {
  const kept = responses.find(id, scope)
  if (kept) return kept
  throw problem("response_not_found", { id: JSON.stringify(parameter.slice(0, 100)) })
}

function report(exchange: Exchange, { callables }: Asked): void {
  reportIgnored(exchange, ResponsesRequest)
  reportIgnoredTools(exchange, callables.ignored)
}

function keeping(
  { responses, scope }: Exchange,
  { store }: ResponsesRequest,
  { input, previous }: Asked,
  head: Head,
): Done {
  return (response, output) => {
    if (store === false) return
    const items = inputItems(input, head.stem)
    const history = [...(previous?.history ?? []), ...items, ...output]
    const own = sizeOf([response, ...items])
    const size = own + (previous?.size ?? 0)
    responses.add({ id: responseId(head), scope, response, input: items, history, size })
  }
}

/** What a response says of its request, with what was left open filled in. */
function repeatedOf(body: ResponsesRequest, used: { temperature: number; top_p: number }): Members {
  const { effort = null, summary = null } = body.reasoning ?? {}
  return {
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    model: body.model,
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: body.previous_response_id ?? null,
    reasoning: { effort, summary },
    service_tier: "default",
    store: body.store ?? true,
    ...used,
    text: { format: (body.text?.format ?? { type: "text" }) as Json },
    tool_choice: (body.tool_choice ?? "auto") as Json,
    tools: (body.tools ?? []).map((tool) => filledIn(tool as Members)),
    top_logprobs: body.top_logprobs ?? 0,
    truncation: "disabled",
    metadata: body.metadata ?? {},
  }
}

/** Clients ask for these of a function. */
function filledIn(tool: Members): Json {
  return tool.type === "function" ? { parameters: null, strict: null, ...tool } : tool
}
