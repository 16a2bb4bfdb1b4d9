// A conversation as Anthropic's clients write it, and the reply to it.

import type { Static } from "typebox"
import { Type } from "../../type.ts"
import { anything, flag, nullable, optional, sampling, TOOL_NAME_HELP, text } from "../fields.ts"

const Blocks = Type.Union([text, Type.Array(anything)])

const Message = Type.Object(
  {
    role: Type.Enum(["user", "assistant", "system"], { description: "Who speaks." }),
    content: Type.Union([text, Type.Array(anything)], {
      description:
        "A text, or blocks: text, thinking, tool_use, tool_result, search_result, documents that are text, and images where the model sees. Other documents are refused.",
    }),
  },
  { title: "MessagesMessage" },
)

const Tool = Type.Object(
  {
    type: optional(
      text,
      "custom. Anthropic's own server tools are not offered to the model, and x-ignored-tools lists them.",
    ),
    name: Type.String({ description: `${TOOL_NAME_HELP}.` }),
    description: optional(text, "What it does, for the model to read."),
    input_schema: optional(anything, "JSON Schema of the input; absent: it takes none."),
    strict: optional(flag, "Whether a keyword that cannot be enforced refuses the request.", false),
  },
  { title: "MessagesTool" },
)

const OutputFormat = Type.Object({
  type: Type.Literal("json_schema"),
  schema: Type.Union([anything], { description: "The JSON Schema that the reply satisfies." }),
})

const conversation = {
  model: sampling.model,
  messages: Type.Array(Message, {
    minItems: 1,
    description:
      "The conversation so far. When its last message is the assistant's, that is continued.",
  }),
  system: optional(Blocks, "What the model is told first: a text, or text blocks."),
  tools: optional(Type.Array(Tool, { maxItems: 1024 }), "Tools the model may call."),
  tool_choice: optional(
    Type.Object({
      type: Type.Enum(["auto", "any", "tool", "none"], {
        description: "Whether a tool may be called, must be, the named one must be, or none is.",
      }),
      name: optional(text, "The tool that must be called."),
      disable_parallel_tool_use: optional(flag, "Whether the reply ends with its first call."),
    }),
    "Which tools may be called.",
  ),
  thinking: optional(
    Type.Object({
      type: Type.Enum(["enabled", "adaptive", "between_tools", "disabled"], {
        description: "enabled and adaptive switch thinking on, disabled off.",
      }),
    }),
    "Handed to the model's template.",
  ),
  output_config: optional(
    Type.Object({
      effort: optional(
        Type.Enum(["low", "medium", "high", "xhigh", "max"]),
        "Handed to the model's template.",
      ),
      format: optional(OutputFormat, "What the reply is held to."),
    }),
    "How much the model thinks, and what it answers in.",
  ),
  output_format: optional(OutputFormat, "The older place of output_config.format."),
  mcp_servers: optional(Type.Array(anything, { maxItems: 0 }), "This server calls no others."),
}

const Thread = Type.Object({
  type: Type.Enum(["create", "continue"], {
    description: "create is accepted; continue is 404, upon which clients send everything.",
  }),
  previous_message_id: optional(text, "The reply that continue goes on from."),
})

export const CountTokensRequest = Type.Object(conversation, { title: "CountTokensRequest" })
export type CountTokensRequest = Static<typeof CountTokensRequest>

export const MessagesRequest = Type.Object(
  {
    ...conversation,
    max_tokens: Type.Integer({
      minimum: 0,
      description:
        "The most tokens to generate; the context may end before. 0: the prompt is read and kept for requests that begin with it.",
    }),
    stop_sequences: optional(
      Type.Array(Type.String({ minLength: 1 }), { maxItems: 64 }),
      "The reply ends before any of these texts.",
    ),
    stream: sampling.stream,
    temperature: sampling.temperature,
    top_p: sampling.top_p,
    top_k: sampling.top_k,
    seed: sampling.seed,
    thread: optional(Thread, "No conversation is kept between requests."),
    metadata: optional(anything, "Accepted; kept in no record."),
    service_tier: optional(text, "Accepted; there is one tier."),
  },
  { title: "MessagesRequest" },
)
export type MessagesRequest = Static<typeof MessagesRequest>

const StopReason = Type.Enum(["end_turn", "max_tokens", "stop_sequence", "tool_use"])

const Usage = Type.Object(
  {
    input_tokens: Type.Integer({ description: "Without those that the prefix cache gave." }),
    cache_creation_input_tokens: Type.Integer(),
    cache_read_input_tokens: Type.Integer(),
    output_tokens: Type.Integer(),
    output_tokens_details: Type.Optional(Type.Object({ thinking_tokens: Type.Integer() })),
  },
  { title: "MessagesUsage" },
)

const Block = Type.Object(
  {
    type: Type.Enum(["text", "thinking", "tool_use"]),
    text: Type.Optional(text),
    thinking: Type.Optional(text),
    signature: Type.Optional(text),
    id: Type.Optional(text),
    name: Type.Optional(text),
    input: Type.Optional(anything),
  },
  { title: "MessagesBlock" },
)

export const MessagesResponse = Type.Object(
  {
    id: text,
    type: Type.Literal("message"),
    role: Type.Literal("assistant"),
    model: text,
    content: Type.Array(Block),
    stop_reason: nullable(StopReason),
    stop_sequence: nullable(text),
    usage: Usage,
  },
  { title: "MessagesResponse" },
)

export const MessagesEvent = Type.Object(
  {
    type: Type.Enum([
      "message_start",
      "content_block_start",
      "content_block_delta",
      "content_block_stop",
      "message_delta",
      "message_stop",
      "ping",
      "error",
    ]),
    message: Type.Optional(MessagesResponse),
    index: Type.Optional(Type.Integer()),
    content_block: Type.Optional(Block),
    delta: Type.Optional(anything),
    usage: Type.Optional(Usage),
    error: Type.Optional(anything),
  },
  { title: "MessagesEvent" },
)

export const CountTokensResponse = Type.Object(
  { input_tokens: Type.Integer() },
  { title: "CountTokensResponse" },
)
