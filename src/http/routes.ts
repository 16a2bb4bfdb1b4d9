// Every endpoint, in one table: a path, a schema, a sentence, a handler. Routing, 405s, /openapi.json, /docs and
// docs/api.md are made from it. Paths under /v1 are served under /openai/v1 as well, in the openai dialect.

import { chatCompletions } from "./apis/chat/endpoint.ts"
import {
  ChatCompletionRequest,
  ChatCompletionResponse,
  ChatCompletionStreamResponse,
} from "./apis/chat/schema.ts"
import { completions } from "./apis/completions/endpoint.ts"
import { CompletionRequest, CompletionResponse } from "./apis/completions/schema.ts"
import { embeddings } from "./apis/embeddings/endpoint.ts"
import { EmbeddingsRequest, EmbeddingsResponse } from "./apis/embeddings/schema.ts"
import { messagesApi } from "./apis/messages/api.ts"
import { countTokens, messages } from "./apis/messages/endpoint.ts"
import {
  CountTokensRequest,
  CountTokensResponse,
  MessagesEvent,
  MessagesRequest,
  MessagesResponse,
} from "./apis/messages/schema.ts"
import { listModels, showModel } from "./apis/models/endpoint.ts"
import { Model, ModelList } from "./apis/models/schema.ts"
import { ollamaApi } from "./apis/ollama/api.ts"
import {
  listRunning,
  listTags,
  ollamaChat,
  ollamaEmbed,
  ollamaEmbedding,
  ollamaGenerate,
  ollamaVersion,
  pull,
  refusing,
  showModelInfo,
} from "./apis/ollama/endpoint.ts"
import {
  NamedModel,
  OllamaChatRequest,
  OllamaChatResponse,
  OllamaEmbeddingRequest,
  OllamaEmbeddingResponse,
  OllamaEmbedRequest,
  OllamaEmbedResponse,
  OllamaGenerateRequest,
  OllamaGenerateResponse,
  OllamaModelInfo,
  OllamaModels,
  OllamaRunning,
  OllamaStatus,
  OllamaVersion,
} from "./apis/ollama/schema.ts"
import { rerank } from "./apis/rerank/endpoint.ts"
import { RerankRequest, RerankResponse } from "./apis/rerank/schema.ts"
import { responsesApi } from "./apis/responses/api.ts"
import { countInput, deleteResponse, respond, showResponse } from "./apis/responses/endpoint.ts"
import {
  Deleted,
  InputTokens,
  ResponsesEvent,
  ResponsesRequest,
  ResponsesResponse,
} from "./apis/responses/schema.ts"
import { checkSchema } from "./apis/schema-check/endpoint.ts"
import { SchemaCheckRequest, SchemaCheckResponse } from "./apis/schema-check/schema.ts"
import { chatPage, docsPage, health, live, metricsPage, version } from "./apis/server/about.ts"
import { Health, Version } from "./apis/server/schema.ts"
import { eventTrace } from "./apis/server/trace.ts"
import { detokenize, tokenize } from "./apis/tokens/endpoint.ts"
import {
  DetokenizeRequest,
  DetokenizeResponse,
  TokenizeRequest,
  TokenizeResponse,
} from "./apis/tokens/schema.ts"
import {
  assertSomebodyHears,
  transcriptions,
  translations,
} from "./apis/transcriptions/endpoint.ts"
import {
  TranscriptionEvent,
  TranscriptionRequest,
  TranscriptionResponse,
  TranslationRequest,
} from "./apis/transcriptions/schema.ts"
import { json } from "./exchange.ts"
import { writeJson } from "./json.ts"
import { openapiDocument } from "./openapi.ts"
import type { Route } from "./route.ts"
import { Type } from "./type.ts"

const NO_CHANGE =
  "The models that this server has are named when it starts; nothing is added, changed or removed while it serves."

/** What Ollama does and this server does not. */
const refusedByOllama: readonly Route[] = (
  [
    ["POST", "/api/create", NO_CHANGE],
    ["POST", "/api/copy", NO_CHANGE],
    ["POST", "/api/push", NO_CHANGE],
    ["DELETE", "/api/delete", NO_CHANGE],
  ] as const
).map(([method, path, because]) => ({
  api: ollamaApi,
  method,
  path,
  summary: `Refused: ${because[0]!.toLowerCase()}${because.slice(1)}`,
  refused: true,
  answer: Type.Unknown(),
  handle: refusing(because),
}))

const ranking: readonly Route[] = (
  [
    ["/v1/rerank", "How well documents answer a query."],
    ["/rerank", "The same, where clients of vLLM ask."],
    ["/v2/rerank", "The same, where Cohere's clients ask."],
  ] as const
).map(([path, summary]) => ({
  method: "POST",
  path,
  summary,
  body: RerankRequest,
  answer: RerankResponse,
  example: { query: "Where is the river?", documents: ["It flows to the sea.", "Hello!"] },
  handle: rerank,
}))

export const routes: readonly Route[] = [
  {
    method: "GET",
    path: "/v1/models",
    summary: "The models that are served, each under every name it answers to.",
    answer: ModelList,
    handle: listModels,
  },
  {
    method: "GET",
    path: "/v1/models/{id}",
    summary: "One of those entries.",
    answer: Model,
    handle: showModel,
  },
  {
    method: "POST",
    path: "/v1/chat/completions",
    summary: "A reply to a conversation, whole or as a stream.",
    body: ChatCompletionRequest,
    answer: ChatCompletionResponse,
    chunk: ChatCompletionStreamResponse,
    example: {
      messages: [{ role: "user", content: "Hello! Who are you?" }],
      stream: true,
      temperature: 0,
      max_tokens: 128,
    },
    handle: chatCompletions,
  },
  {
    method: "POST",
    path: "/v1/completions",
    summary: "Goes on with plain texts, whole or as a stream.",
    body: CompletionRequest,
    answer: CompletionResponse,
    chunk: CompletionResponse,
    example: { prompt: "Once upon a time", stream: true, max_tokens: 64 },
    handle: completions,
  },
  {
    method: "POST",
    path: "/v1/audio/transcriptions",
    summary: "What is said in a recording, whole or as a stream.",
    takes: "form",
    assertUseful: assertSomebodyHears,
    body: TranscriptionRequest,
    answer: TranscriptionResponse,
    chunk: TranscriptionEvent,
    handle: transcriptions,
  },
  {
    method: "POST",
    path: "/v1/audio/translations",
    summary: "What is said in a recording, in English.",
    takes: "form",
    assertUseful: assertSomebodyHears,
    body: TranslationRequest,
    answer: TranscriptionResponse,
    handle: translations,
  },
  {
    method: "POST",
    path: "/v1/embeddings",
    summary: "Texts as rows of numbers.",
    body: EmbeddingsRequest,
    answer: EmbeddingsResponse,
    example: { input: ["Hello!", "Good morning!"] },
    handle: embeddings,
  },
  ...ranking,
  {
    api: responsesApi,
    method: "POST",
    path: "/v1/responses",
    summary: "A response to items, whole or as a stream of events.",
    body: ResponsesRequest,
    answer: ResponsesResponse,
    chunk: ResponsesEvent,
    example: { input: "Hello! Who are you?", max_output_tokens: 128, store: false },
    handle: respond,
  },
  {
    api: responsesApi,
    method: "POST",
    path: "/v1/responses/input_tokens",
    summary: "How many tokens the prompt of such a response has.",
    body: ResponsesRequest,
    answer: InputTokens,
    example: { input: "Hello! Who are you?" },
    handle: countInput,
  },
  {
    api: responsesApi,
    method: "GET",
    path: "/v1/responses/{id}",
    summary: "A response that is kept; with /input_items behind it, what it was asked.",
    answer: ResponsesResponse,
    handle: showResponse,
  },
  {
    api: responsesApi,
    method: "DELETE",
    path: "/v1/responses/{id}",
    summary: "Forgets it.",
    answer: Deleted,
    handle: deleteResponse,
  },
  {
    api: messagesApi,
    method: "POST",
    path: "/v1/messages",
    summary: "A reply to a conversation, as Anthropic's clients ask for it.",
    body: MessagesRequest,
    answer: MessagesResponse,
    chunk: MessagesEvent,
    example: { max_tokens: 128, messages: [{ role: "user", content: "Hello! Who are you?" }] },
    handle: messages,
  },
  {
    api: messagesApi,
    method: "POST",
    path: "/v1/messages/count_tokens",
    summary: "How many tokens the prompt of such a reply has.",
    body: CountTokensRequest,
    answer: CountTokensResponse,
    example: { messages: [{ role: "user", content: "Hello! Who are you?" }] },
    handle: countTokens,
  },
  {
    api: ollamaApi,
    method: "POST",
    path: "/api/chat",
    summary: "A reply to a conversation, as Ollama's clients ask for it.",
    body: OllamaChatRequest,
    answer: OllamaChatResponse,
    chunk: OllamaChatResponse,
    example: { messages: [{ role: "user", content: "Hello! Who are you?" }] },
    handle: ollamaChat,
  },
  {
    api: ollamaApi,
    method: "POST",
    path: "/api/generate",
    summary: "The same of one text.",
    body: OllamaGenerateRequest,
    answer: OllamaGenerateResponse,
    chunk: OllamaGenerateResponse,
    example: { prompt: "Hello! Who are you?" },
    handle: ollamaGenerate,
  },
  {
    api: ollamaApi,
    method: "POST",
    path: "/api/embed",
    summary: "Texts as rows of numbers.",
    body: OllamaEmbedRequest,
    answer: OllamaEmbedResponse,
    example: { input: ["Hello!"] },
    handle: ollamaEmbed,
  },
  {
    api: ollamaApi,
    method: "POST",
    path: "/api/embeddings",
    summary: "One text, as older clients ask.",
    body: OllamaEmbeddingRequest,
    answer: OllamaEmbeddingResponse,
    example: { prompt: "Hello!" },
    handle: ollamaEmbedding,
  },
  {
    api: ollamaApi,
    method: "GET",
    path: "/api/tags",
    summary: "What is served, as Ollama lists it.",
    answer: OllamaModels,
    handle: listTags,
  },
  {
    api: ollamaApi,
    method: "GET",
    path: "/api/ps",
    summary: "What of it is loaded.",
    probe: true,
    answer: OllamaRunning,
    handle: listRunning,
  },
  {
    api: ollamaApi,
    method: "POST",
    path: "/api/show",
    summary: "What there is to know of a model.",
    body: NamedModel,
    answer: OllamaModelInfo,
    handle: showModelInfo,
  },
  {
    api: ollamaApi,
    method: "GET",
    path: "/api/version",
    summary: "The version of Ollama's API that is spoken.",
    answer: OllamaVersion,
    handle: ollamaVersion,
  },
  {
    api: ollamaApi,
    method: "POST",
    path: "/api/pull",
    summary: "Succeeds for what is served.",
    body: NamedModel,
    answer: OllamaStatus,
    handle: pull,
  },
  ...refusedByOllama,
  {
    method: "POST",
    path: "/v1/schema/check",
    summary: "Whether replies can be held to a JSON Schema, and which of its keywords cannot.",
    body: SchemaCheckRequest,
    answer: SchemaCheckResponse,
    example: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    handle: checkSchema,
  },
  {
    method: "POST",
    path: "/tokenize",
    summary: "The tokens of a text or a conversation.",
    body: TokenizeRequest,
    answer: TokenizeResponse,
    example: { prompt: "Hello!" },
    handle: tokenize,
  },
  {
    method: "POST",
    path: "/detokenize",
    summary: "The text of tokens.",
    body: DetokenizeRequest,
    answer: DetokenizeResponse,
    example: { tokens: [1, 2, 3] },
    handle: detokenize,
  },
  {
    method: "GET",
    path: "/health",
    summary: "200 when requests are answered; 503 while loading and while shutting down.",
    open: true,
    early: true,
    probe: true,
    answer: Health,
    handle: health,
  },
  {
    method: "GET",
    path: "/live",
    summary: "200 as long as the process runs.",
    open: true,
    early: true,
    probe: true,
    answer: Health,
    handle: live,
  },
  {
    method: "GET",
    path: "/metrics",
    summary: "Counters and times, for Prometheus.",
    open: "metrics",
    early: true,
    probe: true,
    answer: "text",
    handle: metricsPage,
  },
  {
    method: "GET",
    path: "/debug/trace",
    summary:
      "The last events of requests and steps as a Chrome trace, for ui.perfetto.dev; with --enable-tracing.",
    answer: Type.Unknown(),
    handle: eventTrace,
  },
  {
    method: "POST",
    path: "/debug/dump_event_trace",
    summary: "The same.",
    answer: Type.Unknown(),
    handle: eventTrace,
  },
  {
    method: "GET",
    path: "/version",
    summary: "This server's version.",
    answer: Version,
    handle: version,
  },
  {
    method: "GET",
    path: "/",
    summary:
      "A page to chat on, also about images and recordings; conversations stay in the browser.",
    early: true,
    answer: "html",
    handle: chatPage,
  },
  {
    method: "GET",
    path: "/docs",
    summary: "A page that lists these endpoints and tries them.",
    answer: "html",
    handle: docsPage,
  },
  {
    method: "GET",
    path: "/openapi.json",
    summary: "This API as an OpenAPI 3.1 document.",
    answer: Type.Unknown(),
    handle: ({ options, state }) => json(openapi(options.version, state.models[0]!.card.names[0]!)),
  },
]

const printed = new Map<string, string>()

/** Printed once, as it takes milliseconds. */
function openapi(version: string, model: string): string {
  const key = `${version} ${model}`
  const known = printed.get(key) ?? writeJson(openapiDocument(routes, version, model))
  printed.set(key, known)
  return known
}
