// Ollama's API: conversations, texts and what is served, as its clients ask for them.

import type { Static } from "typebox"
import { Type } from "../../type.ts"
import { ChatCompletionRequest } from "../chat/schema.ts"
import { anything, flag, optional, sampling, text } from "../fields.ts"

const model = Type.String({
  description: "One of the names that GET /api/tags lists, with :latest or without.",
})

const Options = Type.Object({
  num_predict: optional(
    Type.Integer(),
    "The most tokens to generate; below 1, as far as the context reaches.",
  ),
  temperature: sampling.temperature,
  top_k: sampling.top_k,
  top_p: sampling.top_p,
  min_p: sampling.min_p,
  seed: optional(Type.Integer({ minimum: -1 }), "See /v1/chat/completions; -1 takes a fresh one."),
  stop: sampling.stop,
  repeat_penalty: sampling.repetition_penalty,
  presence_penalty: sampling.presence_penalty,
  frequency_penalty: sampling.frequency_penalty,
})

const duration = Type.Union([text, Type.Number()])

const common = {
  model,
  stream: optional(flag, "Whether to send the reply line by line.", true),
  format: optional(
    Type.Union([text, anything]),
    '"json" for any JSON object, or a JSON Schema that the reply satisfies.',
  ),
  options: optional(
    Options,
    "How tokens are drawn. The context, num_ctx, is the server's, and other options have no effect.",
  ),
  think: optional(
    Type.Union([flag, Type.Enum(["low", "medium", "high", "max"])]),
    "Whether, or how much, the model thinks first.",
  ),
  keep_alive: optional(duration, "Accepted; the model stays in memory."),
  logprobs: optional(
    flag,
    "Whether each line tells the log probability of its tokens, and a whole answer of all.",
    false,
  ),
  top_logprobs: ChatCompletionRequest.properties.top_logprobs,
}

const Message = Type.Object(
  {
    role: Type.Enum(["system", "user", "assistant", "tool"], { description: "Who speaks." }),
    content: optional(text, "The text."),
    thinking: optional(text, "An assistant's earlier thinking."),
    images: optional(
      Type.Array(text),
      "Images that the text is about, in Base64, where the model sees; of users and tools.",
    ),
    tool_calls: optional(
      Type.Array(
        Type.Object({
          id: optional(text, "The call's identifier."),
          function: Type.Object({
            name: text,
            arguments: optional(anything, "The arguments, as a map."),
          }),
        }),
      ),
      "Calls an assistant made earlier.",
    ),
    tool_name: optional(text, "The tool that a result is of."),
    tool_call_id: optional(text, "The call that a result answers; otherwise they go by order."),
  },
  { title: "OllamaMessage" },
)
export type OllamaMessage = Static<typeof Message>

export const OllamaChatRequest = Type.Object(
  {
    ...common,
    messages: optional(Type.Array(Message), "The conversation so far."),
    tools: ChatCompletionRequest.properties.tools,
    tool_choice: ChatCompletionRequest.properties.tool_choice,
  },
  { title: "OllamaChatRequest" },
)
export type OllamaChatRequest = Static<typeof OllamaChatRequest>

export const OllamaGenerateRequest = Type.Object(
  {
    ...common,
    prompt: optional(text, "What to answer, or with raw to go on from."),
    system: optional(text, "What the model is told first."),
    suffix: optional(text, "What stands behind the reply, where the model can fill in."),
    raw: optional(
      flag,
      "Whether the prompt is taken as it is, without the model's template.",
      false,
    ),
    images: optional(
      Type.Array(text),
      "Images that the prompt is about, in Base64, where the model sees; not with raw.",
    ),
    context: optional(
      Type.Array(anything, { maxItems: 0 }),
      "Nothing is remembered between requests.",
    ),
    template: optional(Type.String({ maxLength: 0 }), "The model's own is used."),
  },
  { title: "OllamaGenerateRequest" },
)
export type OllamaGenerateRequest = Static<typeof OllamaGenerateRequest>

const timing = {
  total_duration: Type.Optional(Type.Integer({ description: "Nanoseconds, as the others." })),
  load_duration: Type.Optional(Type.Integer()),
  prompt_eval_count: Type.Optional(Type.Integer({ description: "Tokens of the prompt." })),
  prompt_eval_duration: Type.Optional(Type.Integer()),
  eval_count: Type.Optional(Type.Integer({ description: "Tokens of the reply." })),
  eval_duration: Type.Optional(Type.Integer()),
}

const line = {
  model: text,
  created_at: text,
  done: flag,
  done_reason: Type.Optional(Type.Enum(["stop", "length", "load", "unload"])),
  logprobs: Type.Optional(Type.Array(anything)),
  ...timing,
}

const ReplyMessage = Type.Object(
  {
    role: Type.Literal("assistant"),
    content: text,
    thinking: Type.Optional(text),
    tool_calls: Type.Optional(
      Type.Array(
        Type.Object({
          id: text,
          function: Type.Object({ index: Type.Integer(), name: text, arguments: anything }),
        }),
      ),
    ),
  },
  { title: "OllamaReplyMessage" },
)

export const OllamaChatResponse = Type.Object(
  { ...line, message: ReplyMessage },
  { title: "OllamaChatResponse" },
)

export const OllamaGenerateResponse = Type.Object(
  { ...line, response: text, thinking: Type.Optional(text) },
  { title: "OllamaGenerateResponse" },
)

const ignoredByEmbedding = {
  keep_alive: optional(duration, "Not used: a model stays loaded as the server was told."),
  options: optional(anything, "Not used."),
}

export const OllamaEmbedRequest = Type.Object(
  {
    model: text,
    input: optional(
      Type.Union([text, Type.Array(text)]),
      "A text, or a list of texts; without one the model is loaded.",
    ),
    truncate: optional(flag, "Whether a text that is too long is cut instead of refused.", true),
    dimensions: optional(
      Type.Integer({ minimum: 1 }),
      "How many of the first numbers are kept, at unit length again.",
    ),
    ...ignoredByEmbedding,
  },
  { title: "OllamaEmbedRequest" },
)
export type OllamaEmbedRequest = Static<typeof OllamaEmbedRequest>

export const OllamaEmbedResponse = Type.Object(
  {
    model: text,
    embeddings: Type.Array(Type.Array(Type.Number())),
    total_duration: Type.Integer({ description: "Nanoseconds." }),
    load_duration: Type.Integer(),
    prompt_eval_count: Type.Integer(),
  },
  { title: "OllamaEmbedResponse" },
)

export const OllamaEmbeddingRequest = Type.Object(
  {
    model: text,
    prompt: optional(text, "A text; without one the model is loaded."),
    ...ignoredByEmbedding,
  },
  { title: "OllamaEmbeddingRequest" },
)

export const OllamaEmbeddingResponse = Type.Object(
  { embedding: Type.Array(Type.Number()) },
  { title: "OllamaEmbeddingResponse" },
)

export const NamedModel = Type.Object(
  {
    model: optional(text, "A name that GET /api/tags lists."),
    name: optional(text, "The older name of model."),
    stream: optional(flag, "Whether the answer is a line of a stream.", true),
  },
  { title: "OllamaNamedModel" },
)

const entry = {
  name: text,
  model: text,
  modified_at: text,
  size: Type.Integer(),
  digest: text,
  details: anything,
}

export const OllamaModels = Type.Object(
  { models: Type.Array(Type.Object(entry, { title: "OllamaModel" })) },
  { title: "OllamaModels" },
)

export const OllamaRunning = Type.Object(
  {
    models: Type.Array(
      Type.Object({
        ...entry,
        expires_at: text,
        size_vram: Type.Integer(),
        context_length: Type.Integer(),
      }),
    ),
  },
  { title: "OllamaRunning" },
)

export const OllamaModelInfo = Type.Object(
  {
    license: text,
    modelfile: text,
    parameters: text,
    template: Type.String({ description: "The model's own, in Jinja." }),
    details: anything,
    model_info: anything,
    capabilities: Type.Array(text),
    modified_at: text,
  },
  { title: "OllamaModelInfo" },
)

export const OllamaStatus = Type.Object({ status: text }, { title: "OllamaStatus" })

export const OllamaVersion = Type.Object(
  { version: Type.String({ description: "Of Ollama's API that is spoken." }) },
  { title: "OllamaVersion" },
)
