// The shapes of the protocol. Each is three things at once: the check of a request (check.ts), its TypeScript type, and
// its page in /docs, /openapi.json and docs/api.md. Bounds are said here and nowhere else. A field that may be absent
// may be null as well; null means absent.

import type { Static, TSchema } from "typebox"
import { Type } from "./type.ts"

/** A field that may be left out or null. */
function optional<T extends TSchema>(schema: T, description: string, absent?: unknown) {
  const extra = absent === undefined ? { description } : { description, default: absent }
  return Type.Optional(Type.Union([schema, Type.Null()], extra))
}

const text = Type.String()
const flag = Type.Boolean()
const anything = Type.Record(Type.String(), Type.Unknown())

const ToolCallRecord = Type.Object(
  {
    id: optional(text, "The call's identifier."),
    type: optional(Type.Literal("function"), "Always function."),
    function: Type.Object({
      name: text,
      arguments: optional(
        Type.Union([text, anything]),
        "The arguments, as a map or as JSON text of one.",
      ),
    }),
  },
  { title: "ChatToolCall" },
)

export const ChatCompletionMessage = Type.Object(
  {
    role: Type.Enum(["system", "developer", "user", "assistant", "tool"], {
      description: "Who speaks; developer means system.",
    }),
    content: optional(
      Type.Union([text, Type.Array(anything)]),
      "The text, or a list of maps whose `text` members are joined; a tool's maps without `text` are handed on as JSON.",
    ),
    name: optional(text, "The speaker's name, for templates that use it."),
    tool_calls: optional(Type.Array(ToolCallRecord), "Calls an assistant made earlier."),
    tool_call_id: optional(text, "The call that a tool's message answers."),
    reasoning_content: optional(
      text,
      "An assistant's earlier thinking, for templates that use it.",
    ),
  },
  { title: "ChatCompletionMessage" },
)
export type ChatCompletionMessage = Static<typeof ChatCompletionMessage>

const Int64 = Type.Unsafe<number | bigint>({
  type: "integer",
  format: "int64",
  minimum: -(2n ** 63n),
  maximum: 2n ** 64n - 1n,
})

const ChatTool = Type.Object(
  {
    type: optional(Type.Literal("function"), "Always function."),
    function: Type.Object({
      name: Type.String({ description: "1 to 64 letters, digits, underscores, hyphens and dots." }),
      description: optional(text, "What it does, for the model to read."),
      parameters: optional(anything, "JSON Schema of the arguments; absent: it takes none."),
      strict: optional(
        flag,
        "Whether a keyword that cannot be enforced refuses the request; otherwise x-unenforced lists it.",
        false,
      ),
    }),
  },
  { title: "ChatTool" },
)

const NamedFunction = Type.Object({
  name: Type.String({ description: "The name of one of the tools." }),
})

const ToolChoiceMap = Type.Object(
  {
    type: Type.Enum(["function", "allowed_tools"], {
      description: "Which of the two that follow is given.",
    }),
    function: optional(NamedFunction, "The function that must be called."),
    allowed_tools: optional(
      Type.Object({
        mode: Type.Enum(["auto", "required"], {
          description: "Whether one of them may be called, or must be.",
        }),
        tools: Type.Array(Type.Object({ function: NamedFunction })),
      }),
      "The tools that may, or must, be called; the model still sees all.",
    ),
  },
  { title: "ToolChoice" },
)

const ResponseFormat = Type.Object(
  {
    type: Type.Enum(["text", "json_object", "json_schema"], {
      description:
        "Any text, any JSON object, or JSON by the schema; a schema is held to in json_object, too.",
    }),
    schema: optional(Type.Union([anything, text, flag]), "A JSON Schema, or its JSON text."),
    json_schema: optional(
      Type.Union([anything, text, flag]),
      "The same, or a map with the schema under `schema`. The type json_schema needs one of them.",
    ),
  },
  { title: "RequestResponseFormat" },
)

/** What both kinds of completion take. */
const sampling = {
  model: Type.String({ description: "One of the names that GET /v1/models lists." }),
  frequency_penalty: optional(
    Type.Number({ minimum: -2, maximum: 2 }),
    "Above 0 makes tokens less likely the more often the reply has used them.",
    0,
  ),
  presence_penalty: optional(
    Type.Number({ minimum: -2, maximum: 2 }),
    "Above 0 makes tokens less likely once the reply has used them.",
    0,
  ),
  repetition_penalty: optional(
    Type.Number({ minimum: 0.01, maximum: 10 }),
    "Above 1 divides the odds of tokens that the reply has used.",
    1,
  ),
  logit_bias: optional(
    Type.Record(Type.String(), Type.Number({ minimum: -100, maximum: 100 })),
    "Added to the logits of tokens, by token id.",
  ),
  max_tokens: optional(
    Type.Integer({ minimum: 1 }),
    "The most tokens to generate; otherwise as far as the context reaches.",
  ),
  n: optional(Type.Integer({ minimum: 1, maximum: 128 }), "How many replies to generate.", 1),
  seed: optional(
    Int64,
    "The same seed and request give the same reply; otherwise a fresh one, told in the x-seed header.",
  ),
  stop: optional(
    Type.Union([
      Type.String({ minLength: 1 }),
      Type.Array(Type.String({ minLength: 1 }), { maxItems: 64 }),
    ]),
    "The reply ends before any of these texts.",
  ),
  stream: optional(flag, "Whether to send the reply piece by piece, as server-sent events.", false),
  stream_options: optional(
    Type.Object({
      include_usage: optional(flag, "One more chunk at the end with the usage.", false),
      include_obfuscation: optional(flag, "Accepted; this server adds no padding."),
    }),
    "Only with stream.",
  ),
  temperature: optional(
    Type.Number({ minimum: 0, maximum: 2 }),
    "Lower is less random; 0 always takes the likeliest token.",
    1,
  ),
  top_p: optional(
    Type.Number({ minimum: 0, maximum: 1 }),
    "Draws from the likeliest tokens that together have this probability; 0 takes the likeliest.",
    1,
  ),
  top_k: optional(
    Type.Integer({ minimum: -1 }),
    "Draws from this many of the likeliest tokens; 0 and -1 set no limit.",
    0,
  ),
  min_p: optional(
    Type.Number({ minimum: 0, maximum: 1 }),
    "Leaves out tokens less likely than this share of the likeliest one's probability.",
    0,
  ),
  ignore_eos: optional(flag, "Goes on past the model's own end.", false),
  user: optional(text, "Whom the request is for; kept in no record."),
}

export const ChatCompletionRequest = Type.Object(
  {
    messages: Type.Array(ChatCompletionMessage, {
      minItems: 1,
      description:
        "The conversation so far. When its last message is the assistant's, that is continued.",
    }),
    ...sampling,
    max_completion_tokens: optional(
      Type.Integer({ minimum: 1 }),
      "The newer name of max_tokens; wins over it.",
    ),
    logprobs: optional(flag, "Whether to tell each token's log probability.", false),
    top_logprobs: optional(
      Type.Integer({ minimum: 0, maximum: 20 }),
      "How many of the likeliest tokens to tell for each position; above 0 only with logprobs.",
      0,
    ),
    tools: optional(Type.Array(ChatTool), "Tools the model may call."),
    tool_choice: optional(
      Type.Union([Type.Enum(["none", "auto", "required"]), ToolChoiceMap]),
      "none hides the tools, required makes the reply call one, a map names which.",
      "auto",
    ),
    parallel_tool_calls: optional(flag, "Whether one reply may make several calls.", true),
    response_format: optional(
      ResponseFormat,
      "What the reply must look like: text, any JSON object, or JSON by a schema, which is enforced while generating.",
    ),
    reasoning_effort: optional(
      Type.Enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"]),
      "Handed to the model's template; none switches thinking off.",
    ),
    chat_template_kwargs: optional(anything, "More variables for the model's template."),
    metadata: optional(Type.Record(Type.String(), text), "Accepted; kept in no record."),
    store: optional(Type.Literal(false), "Nothing is stored."),
    service_tier: optional(
      Type.Enum(["auto", "default", "flex", "scale", "priority", "fast"]),
      "Accepted; there is one tier.",
    ),
  },
  { title: "ChatCompletionRequest" },
)
export type ChatCompletionRequest = Static<typeof ChatCompletionRequest>

const TokenId = Type.Integer({ minimum: 0 })

export const CompletionRequest = Type.Object(
  {
    prompt: Type.Union(
      [text, Type.Array(Type.Union([text, TokenId, Type.Array(TokenId)]), { maxItems: 65_536 })],
      { description: "A text, a list of texts, the token ids of one prompt, or a list of those." },
    ),
    ...sampling,
    max_tokens: optional(
      Type.Integer({ minimum: 0 }),
      "The most tokens to generate; 0 only with echo, to have the prompt's log probabilities alone.",
      16,
    ),
    echo: optional(
      flag,
      "Whether each choice begins with its prompt; with logprobs, every token of both is told.",
      false,
    ),
    logprobs: optional(
      Type.Integer({ minimum: 0, maximum: 20 }),
      "How many of the likeliest tokens to tell for each position, beside the token itself.",
    ),
    suffix: optional(Type.Literal(""), "Only the empty text."),
    best_of: optional(Type.Integer(), "Only 1, or the same as n."),
  },
  { title: "CompletionRequest" },
)
export type CompletionRequest = Static<typeof CompletionRequest>

export const TokenizeRequest = Type.Object(
  {
    model: optional(text, "One of the names that GET /v1/models lists."),
    prompt: optional(text, "A text to encode."),
    messages: optional(
      Type.Array(ChatCompletionMessage, { minItems: 1 }),
      "A conversation to encode as the model would read it; instead of prompt.",
    ),
    chat_template_kwargs: optional(anything, "More variables for the model's template."),
    control_tokens: optional(
      flag,
      "Whether the names of control tokens in the prompt become those tokens.",
      false,
    ),
  },
  { title: "TokenizeRequest" },
)

export const DetokenizeRequest = Type.Object(
  {
    model: optional(text, "One of the names that GET /v1/models lists."),
    tokens: Type.Array(TokenId, { description: "Token ids." }),
  },
  { title: "DetokenizeRequest" },
)

export const SchemaCheckRequest = Type.Union([anything, text, flag], {
  title: "SchemaCheckRequest",
  description:
    "A JSON Schema, its JSON text, a response_format, an entry of tools, or a map with `response_format`, `tools` or `schema`.",
})

// Answers. Their schemas document; nothing is checked against them while serving, but tests hold every answer to them.

const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])

const TokenLogprob = {
  token: text,
  logprob: Type.Number({ description: "Of the model's own distribution, -9999 at the least." }),
  bytes: Type.Array(Type.Integer(), { description: "The token's true bytes." }),
}

const LogProbs = Type.Object(
  {
    content: Type.Array(
      Type.Object({ ...TokenLogprob, top_logprobs: Type.Array(Type.Object(TokenLogprob)) }),
    ),
    refusal: Type.Null(),
  },
  { title: "LogProbs" },
)

const UsageInfo = Type.Object(
  {
    prompt_tokens: Type.Integer(),
    completion_tokens: Type.Integer(),
    total_tokens: Type.Integer(),
    prompt_tokens_details: Type.Object({ cached_tokens: Type.Integer() }),
    completion_tokens_details: Type.Object({ reasoning_tokens: Type.Integer() }),
  },
  { title: "UsageInfo" },
)

const ReplyToolCall = Type.Object(
  {
    index: Type.Optional(Type.Integer({ description: "In streams: which of the calls goes on." })),
    id: Type.Optional(text),
    type: Type.Optional(Type.Literal("function")),
    function: Type.Object({
      name: Type.Optional(text),
      arguments: Type.Union([text, anything], {
        description:
          "JSON text of an object, or the next piece of it; the object itself in whole answers of the native dialect.",
      }),
    }),
  },
  { title: "ReplyToolCall" },
)

const ReplyMessage = Type.Object(
  {
    role: Type.Optional(Type.Literal("assistant")),
    content: Type.Optional(nullable(text)),
    tool_calls: Type.Optional(nullable(Type.Array(ReplyToolCall))),
    reasoning_content: Type.Optional(
      Type.String({ description: "The model's thinking, which stands nowhere else." }),
    ),
    reasoning: Type.Optional(Type.String({ description: "The same, in the openai dialect." })),
    refusal: Type.Optional(Type.Null()),
    name: Type.Optional(Type.Null()),
    tool_call_id: Type.Optional(Type.Null()),
  },
  { title: "ReplyMessage" },
)

const envelope = {
  id: text,
  created: Type.Integer({ description: "Unix time in seconds." }),
  model: Type.String({ description: "The name that the request used." }),
  system_fingerprint: Type.String({ description: "Of weights, configuration and library." }),
}

export const ChatCompletionResponse = Type.Object(
  {
    ...envelope,
    object: Type.Literal("chat.completion"),
    choices: Type.Array(
      Type.Object({
        index: Type.Integer(),
        message: ReplyMessage,
        finish_reason: Type.Enum(["stop", "length", "tool_calls", "error"]),
        logprobs: nullable(LogProbs),
      }),
    ),
    usage: UsageInfo,
  },
  { title: "ChatCompletionResponse" },
)

export const ChatCompletionStreamResponse = Type.Object(
  {
    ...envelope,
    object: Type.Literal("chat.completion.chunk"),
    choices: Type.Array(
      Type.Object({
        index: Type.Integer(),
        delta: ReplyMessage,
        finish_reason: nullable(Type.Enum(["stop", "length", "tool_calls"])),
        logprobs: nullable(LogProbs),
      }),
    ),
    usage: Type.Optional(nullable(UsageInfo)),
  },
  { title: "ChatCompletionStreamResponse" },
)

export const CompletionResponse = Type.Object(
  {
    ...envelope,
    object: Type.Literal("text_completion"),
    choices: Type.Array(
      Type.Object({
        index: Type.Integer(),
        text,
        finish_reason: nullable(Type.Enum(["stop", "length", "error"])),
        logprobs: nullable(
          Type.Object({
            tokens: Type.Array(text),
            token_logprobs: Type.Array(nullable(Type.Number()), {
              description: "Null for the first token of an echoed prompt.",
            }),
            top_logprobs: Type.Array(nullable(Type.Record(Type.String(), Type.Number()))),
            text_offset: Type.Array(Type.Integer()),
          }),
        ),
      }),
    ),
    usage: Type.Optional(nullable(UsageInfo)),
  },
  { title: "CompletionResponse" },
)

export const TokenizeResponse = Type.Object(
  {
    tokens: Type.Array(Type.Integer()),
    count: Type.Integer(),
    max_model_len: Type.Integer({ description: "The context, prompt and reply together." }),
  },
  { title: "TokenizeResponse" },
)

export const DetokenizeResponse = Type.Object({ prompt: text }, { title: "DetokenizeResponse" })

export const SchemaCheckResponse = Type.Object(
  {
    object: Type.Literal("schema.check"),
    enforceable: Type.Boolean({ description: "Whether every answer would satisfy it, exactly." }),
    unsatisfiable: Type.Boolean({ description: "Whether no value satisfies it." }),
    unenforced: Type.Array(
      Type.Object({
        tool: nullable(text),
        pointer: Type.String({ description: "JSON pointer of the schema that holds the keyword." }),
        keyword: text,
        reason: text,
      }),
      { description: "What a strict request is refused for, and x-unenforced lists for others." },
    ),
  },
  { title: "SchemaCheckResponse" },
)

export const Version = Type.Object({ version: text }, { title: "Version" })

export const Model = Type.Object(
  {
    id: text,
    object: Type.Literal("model"),
    created: Type.Integer(),
    owned_by: text,
    context_length: Type.Integer({ description: "Tokens, prompt and reply together." }),
    max_model_len: Type.Integer({ description: "The same, as vLLM's clients call it." }),
    capabilities: Type.Array(Type.Enum(["chat", "completion", "tools", "json_schema", "logprobs"])),
  },
  { title: "Model" },
)

export const ModelList = Type.Object(
  { object: Type.Literal("list"), data: Type.Array(Model) },
  { title: "ModelList" },
)

export const ErrorBody = Type.Object(
  {
    error: Type.Object({
      message: text,
      type: text,
      param: nullable(text),
      code: text,
    }),
    object: Type.Literal("error"),
    message: text,
    code: Type.Integer({ description: "The HTTP status." }),
  },
  { title: "ErrorBody" },
)

export const Health = Type.Object({ status: text }, { title: "Health" })
