// A conversation as it is asked for, and the reply to it.

import type { Static } from "typebox"
import { Type } from "../../type.ts"
import {
  anything,
  choiceIds,
  envelope,
  flag,
  format,
  nullable,
  optional,
  promptIds,
  sampling,
  TOOL_NAME_HELP,
  text,
  UsageInfo,
} from "../fields.ts"

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
      "The text, or a list of maps whose `text` members are joined, and whose `image_url` is an image where the model sees, `input_audio` a recording where it hears; a tool's maps that are more than that are handed on as JSON.",
    ),
    name: optional(text, "The speaker's name, for templates that use it."),
    tool_calls: optional(Type.Array(ToolCallRecord), "Calls an assistant made earlier."),
    tool_call_id: optional(text, "The call that a tool's message answers."),
    reasoning_content: optional(
      text,
      "An assistant's earlier thinking, for templates that use it.",
    ),
    reasoning: optional(text, "The same under its other name; where both are given, this one."),
  },
  { title: "ChatCompletionMessage" },
)
export type ChatCompletionMessage = Static<typeof ChatCompletionMessage>

const ChatTool = Type.Object(
  {
    type: optional(Type.Literal("function"), "Always function."),
    function: Type.Object({
      name: Type.String({ description: `${TOOL_NAME_HELP}.` }),
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
    tools: optional(Type.Array(ChatTool, { maxItems: 1024 }), "Tools the model may call."),
    tool_choice: optional(
      Type.Union([Type.Enum(["none", "auto", "required"]), ToolChoiceMap]),
      "none hides the tools, required makes the reply call one, a map names which.",
      "auto",
    ),
    parallel_tool_calls: optional(flag, "Whether one reply may make several calls.", true),
    ...format,
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

const TokenLogprob = {
  token: text,
  logprob: Type.Number({ description: "Of the model's own distribution, -9999 at the least." }),
  bytes: Type.Array(Type.Integer(), {
    description: "The token's true bytes; none of a token that shows as nothing.",
  }),
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

export const ChatCompletionResponse = Type.Object(
  {
    ...envelope,
    ...promptIds,
    object: Type.Literal("chat.completion"),
    choices: Type.Array(
      Type.Object({
        index: Type.Integer(),
        message: ReplyMessage,
        finish_reason: Type.Enum(["stop", "length", "tool_calls", "error"]),
        logprobs: nullable(LogProbs),
        ...choiceIds,
      }),
    ),
    usage: UsageInfo,
  },
  { title: "ChatCompletionResponse" },
)

export const ChatCompletionStreamResponse = Type.Object(
  {
    ...envelope,
    ...promptIds,
    object: Type.Literal("chat.completion.chunk"),
    choices: Type.Array(
      Type.Object({
        index: Type.Integer(),
        delta: ReplyMessage,
        finish_reason: nullable(Type.Enum(["stop", "length", "tool_calls"])),
        logprobs: nullable(LogProbs),
        ...choiceIds,
      }),
    ),
    usage: Type.Optional(nullable(UsageInfo)),
  },
  { title: "ChatCompletionStreamResponse" },
)
