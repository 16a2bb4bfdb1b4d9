// Ollama's endpoints, so that whatever looks for a local server finds one. A reply is a chat's or a text's as anywhere; what would
// change which models there are is refused in a sentence.

import { createHash } from "node:crypto"
import type { ChatReply, ChatRequest } from "../../../chat/conversation.ts"
import { problem } from "../../../errors.ts"
import {
  type Answer,
  bodyOf,
  type Exchange,
  json,
  modelOf,
  serviceOf,
  unnamed,
} from "../../exchange.ts"
import { type Json, writeJson } from "../../json.ts"
import type { ModelCard, ServedModel, Service } from "../../service.ts"
import { inTurns } from "../../turns.ts"
import { originOf } from "../chat/request.ts"
import { embedded, floats } from "../embeddings/endpoint.ts"
import { reportIgnored, reportUnenforced } from "../ignored.ts"
import { assertLogprobsFit, MAX_LOGPROBS_AT_ONCE } from "../logprob-budget.ts"
import { capabilitiesOf } from "../models/endpoint.ts"
import { stream } from "../stream.ts"
import { whole } from "../whole.ts"
import { ollamaApi } from "./api.ts"
import { emptyLine, loadedLine, replyLines, type Shape, shapes, wholeReply } from "./reply.ts"
import { readingOllamaChat, readingOllamaRaw, readingOllamaText } from "./request.ts"
import {
  NamedModel,
  OllamaChatRequest,
  OllamaEmbeddingRequest,
  OllamaEmbedRequest,
  OllamaGenerateRequest,
} from "./schema.ts"

/** Of Ollama's API; clients ask whether it is new enough for what they want. */
const SPOKEN = "0.13.5"

export function ollamaVersion(): Answer {
  return json(writeJson({ version: SPOKEN }))
}

export async function ollamaChat(exchange: Exchange): Promise<Answer> {
  const body = await bodyOf(exchange, OllamaChatRequest)
  const service = await serviceOf(exchange, body.model)
  reportIgnored(exchange, OllamaChatRequest)
  const shape = { model: body.model, write: shapes.chat }
  if (!body.messages?.length) return loaded(exchange, body, shape)
  const request = await inTurns(readingOllamaChat(body, service, originOf(exchange)))
  assertFits(request, body, service)
  tellSeed(exchange, request)
  const reply = await service.chat.reply(request, exchange.signal, exchange.client)
  return send(exchange, reply, shape, body)
}

export async function ollamaGenerate(exchange: Exchange): Promise<Answer> {
  const body = await bodyOf(exchange, OllamaGenerateRequest)
  const service = await serviceOf(exchange, body.model)
  reportIgnored(exchange, OllamaGenerateRequest)
  const shape = { model: body.model, write: shapes.generate }
  if (!body.prompt && !body.images?.length) return loaded(exchange, body, shape)
  const { chat } = service
  const origin = originOf(exchange)
  const { signal, client } = exchange
  if (body.raw || body.suffix) {
    const request = await inTurns(readingOllamaRaw(body, service, origin))
    assertFits(request, body, service)
    tellSeed(exchange, request)
    return send(exchange, await chat.complete(request, signal, client), shape, body)
  }
  const request = await inTurns(readingOllamaText(body, service, origin))
  assertFits(request, body, service)
  tellSeed(exchange, request)
  return send(exchange, await chat.reply(request, signal, client), shape, body)
}

/** Throws when a whole answer would hold more log probabilities than one JSON text does. */
function assertFits(
  { sampling, maxTokens }: Pick<ChatRequest, "sampling" | "maxTokens">,
  { stream: isStream }: Asked,
  { model: { contextLength } }: Service,
): void {
  const { topLogprobs: top } = sampling
  if (top === undefined) return
  assertLogprobsFit({
    field: top > 0 ? "top_logprobs" : "logprobs",
    top,
    choices: 1,
    tokens: Math.min(maxTokens ?? contextLength, contextLength),
    echoed: 0,
    stream: isStream !== false,
    most: MAX_LOGPROBS_AT_ONCE,
    cure: "or options.num_predict, or stream the answer",
  })
}

function tellSeed(exchange: Exchange, { sampling }: Pick<ChatRequest, "sampling">): void {
  exchange.setHeader("x-seed", String(sampling.seed))
}

export async function ollamaEmbed(exchange: Exchange): Promise<Answer> {
  const begun = performance.now()
  const body = await bodyOf(exchange, OllamaEmbedRequest)
  const { model, input, truncate, dimensions } = body
  reportIgnored(exchange, OllamaEmbedRequest)
  const texts = textsOf(input ?? "")
  const service = await serviceOf(exchange, model)
  const asked = {
    ...{ texts, field: "input", truncate: truncate ?? true },
    dimensions: dimensions ?? undefined,
  }
  const { vectors, tokens } = await embedded(exchange, service, asked)
  const load = Math.round((performance.now() - begun) * 1e6)
  const name = JSON.stringify(model)
  return whole(
    exchange,
    (async function* () {
      yield `{"model":${name},"embeddings":[`
      for (const [index, vector] of vectors.entries())
        yield `${index > 0 ? "," : ""}${floats(vector)}`
      yield `],"total_duration":${load},"load_duration":0,"prompt_eval_count":${tokens}}`
    })(),
  )
}

/** None in an empty text: in Ollama, that loads a model and embeds nothing. */
function textsOf(input: string | readonly string[]): readonly string[] {
  if (typeof input !== "string") return input
  return input === "" ? [] : [input]
}

export async function ollamaEmbedding(exchange: Exchange): Promise<Answer> {
  const { model, prompt } = await bodyOf(exchange, OllamaEmbeddingRequest)
  reportIgnored(exchange, OllamaEmbeddingRequest)
  const service = await serviceOf(exchange, model)
  if (!prompt) return json('{"embedding":[]}')
  const asked = { texts: [prompt], field: "prompt", truncate: true, dimensions: undefined }
  const { vectors } = await embedded(exchange, service, asked)
  return json(`{"embedding":${floats(vectors[0]!)}}`)
}

type Asked = Pick<OllamaChatRequest, "stream" | "keep_alive" | "logprobs">

function send(exchange: Exchange, reply: ChatReply, base: Shape, body: Asked): Promise<Answer> {
  const shape = body.logprobs ? { ...base, names: reply.names } : base
  reportUnenforced(exchange, reply.unenforced)
  const events = exchange.metrics.watch(reply.events, [reply], exchange.account)
  if (body.stream === false) return whole(exchange, wholeReply(events, shape))
  return stream(exchange, replyLines(events, shape), () => `${emptyLine(shape)}\n`)
}

/** A request that asks nothing loads a model in Ollama. */
function loaded({ api }: Exchange, { stream: isStream, keep_alive }: Asked, shape: Shape): Answer {
  const text = loadedLine(shape, keep_alive === 0 ? "unload" : "load")
  return isStream === false ? json(text) : lineOf(text, api)
}

function lineOf(text: string, { framing }: Exchange["api"]): Answer {
  return { type: framing!.type, text: framing!.write(text) }
}

export function listTags({ state }: Exchange): Answer {
  return json(writeJson({ models: entriesOf(state.models) }))
}

const NEVER = "2318-01-01T00:00:00Z"

export function listRunning({ state }: Exchange): Answer {
  const models = state.models.flatMap((each) => {
    if (!each.loaded) return []
    const { card, unloadsAt } = each
    const running = {
      expires_at: unloadsAt === undefined ? NEVER : new Date(unloadsAt).toISOString(),
      size_vram: 0,
      context_length: card.contextLength,
    }
    return entriesOf([each]).map((entry) => ({ ...entry, ...running }))
  })
  return json(writeJson({ models }))
}

const OF_OLLAMA = new Set(["completion", "tools", "insert", "thinking", "embedding", "vision"])

export async function showModelInfo(exchange: Exchange): Promise<Answer> {
  const name = await nameIn(exchange)
  const { card } = modelOf(exchange, name)
  const { details, contextLength, created, template = "" } = card
  const family = String(details.architecture ?? "unknown")
  return json(
    writeJson({
      license: "",
      modelfile: "",
      parameters: `num_ctx ${contextLength}`,
      template,
      details: detailsOf(card),
      model_info: {
        "general.architecture": family,
        "general.basename": name,
        "general.parameter_count": details.parameters ?? 0,
        [`${family}.context_length`]: contextLength,
        [`${family}.embedding_length`]: details.embedding_length ?? 0,
      },
      capabilities: capabilitiesOf(card).filter((each) => OF_OLLAMA.has(each)),
      modified_at: timeOf(created),
    }),
  )
}

/** What is served is here already; nothing else can be had while serving. */
export async function pull(exchange: Exchange): Promise<Answer> {
  modelOf(exchange, await nameIn(exchange))
  const text = writeJson({ status: "success" })
  const { stream: isStream } = exchange.body as { stream?: boolean }
  return isStream === false ? json(text) : lineOf(text, ollamaApi)
}

/** @param what nobody can do here, and what does it instead */
export function refusing(what: string): () => never {
  return () => {
    throw problem("unsupported_value", { problem: what })
  }
}

async function nameIn(exchange: Exchange): Promise<string> {
  const { model, name } = await bodyOf(exchange, NamedModel)
  const asked = model ?? name
  if (typeof asked === "string") return asked
  throw unnamed(exchange.state)
}

function entriesOf(models: readonly ServedModel[]) {
  const cards = models.flatMap(({ card }) => card.names.map((name) => ({ name, card })))
  return cards.map(({ name, card }) => {
    const model = tagged(name)
    return {
      name: model,
      model,
      modified_at: timeOf(card.created),
      size: 0, // of files, which HTTP knows nothing of
      digest: createHash("sha256").update(identityOf(card)).digest("hex"),
      details: detailsOf(card),
    }
  })
}

const tagged = (name: string) => (/:[^/]+$/.test(name) ? name : `${name}:latest`)

/** What is known of a model before it is loaded. */
function identityOf({ names, contextLength, details }: ModelCard): string {
  return JSON.stringify({ names, contextLength, details })
}

function detailsOf({ details, parent }: ModelCard): Json {
  const family = String(details.architecture ?? "unknown")
  const { parameters } = details
  return {
    parent_model: parent === undefined ? "" : tagged(parent), // of an adapter
    format: "sinter",
    family,
    families: [family],
    parameter_size: typeof parameters === "number" ? `${(parameters / 1e6).toFixed(1)}M` : "",
    quantization_level: String(details.format ?? ""),
  }
}

function timeOf(seconds: number): string {
  return new Date(seconds * 1000).toISOString()
}
