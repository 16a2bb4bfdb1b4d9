// A conversation in items, as OpenAI's Responses API has it, and the response to it.

import type { Static } from "typebox"
import { Type } from "../../type.ts"
import { anything, flag, nullable, optional, sampling, text } from "../fields.ts"

export const ResponsesRequest = Type.Object(
  {
    model: sampling.model,
    input: optional(
      Type.Union([text, Type.Array(anything)]),
      "A text of the user, or items: messages (with input_image where the model sees, input_audio where it hears), reasoning, function_call and custom_tool_call with their outputs, item_reference.",
    ),
    instructions: optional(
      text,
      "What the model is told first; not carried on by previous_response_id.",
    ),
    previous_response_id: optional(
      text,
      "Goes on from a response that is kept: its input and output stand before this input.",
    ),
    store: optional(
      flag,
      "Whether the response is kept in memory for an hour, for whoever has the same key.",
      true,
    ),
    stream: sampling.stream,
    max_output_tokens: optional(
      Type.Integer({ minimum: 1 }),
      "The most tokens to generate, thinking included; otherwise as far as the context reaches.",
    ),
    tools: optional(
      Type.Array(anything, { maxItems: 1024 }),
      "Tools of the types function, custom and namespace. Those that OpenAI runs are not offered to the model, and x-ignored-tools lists them.",
    ),
    tool_choice: optional(
      Type.Union([Type.Enum(["none", "auto", "required"]), anything]),
      "none hides the tools, required makes the reply call one, a map of type function, custom or allowed_tools names which.",
      "auto",
    ),
    parallel_tool_calls: optional(flag, "Whether one reply may make several calls.", true),
    text: optional(
      Type.Object({
        format: optional(
          Type.Object({
            type: Type.Enum(["text", "json_object", "json_schema"], {
              description: "Any text, any JSON object, or JSON by the schema.",
            }),
            name: optional(text, "The schema's name."),
            schema: optional(anything, "The JSON Schema that the reply satisfies."),
            strict: optional(flag, "Accepted; the schema is always held to."),
          }),
          "What the reply is held to.",
        ),
      }),
      "What the reply looks like.",
    ),
    reasoning: optional(
      Type.Object({
        effort: optional(
          Type.Enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"]),
          "Handed to the model's template; none switches thinking off.",
        ),
        summary: optional(
          Type.Enum(["auto", "concise", "detailed"]),
          "Repeats the thinking as a summary; there is no summariser.",
        ),
      }),
      "How much the model thinks, and what is told of it.",
    ),
    include: optional(
      Type.Array(text),
      "reasoning.encrypted_content adds the thinking in a form that clients hand back unread, message.output_text.logprobs each token's log probability.",
    ),
    top_logprobs: optional(
      Type.Integer({ minimum: 0, maximum: 20 }),
      "How many of the likeliest tokens to tell for each position of a text; above 0 as if include asked for log probabilities.",
      0,
    ),
    truncation: optional(
      Type.Enum(["auto", "disabled"]),
      "Accepted; what does not fit is refused, never cut.",
    ),
    background: optional(Type.Literal(false), "Responses are answered while one waits."),
    temperature: sampling.temperature,
    top_p: sampling.top_p,
    top_k: sampling.top_k,
    min_p: sampling.min_p,
    frequency_penalty: sampling.frequency_penalty,
    presence_penalty: sampling.presence_penalty,
    repetition_penalty: sampling.repetition_penalty,
    logit_bias: sampling.logit_bias,
    seed: sampling.seed,
    stop: sampling.stop,
    ignore_eos: sampling.ignore_eos,
    chat_template_kwargs: optional(anything, "More variables for the model's template."),
    metadata: optional(Type.Record(Type.String(), text), "Repeated in the response."),
    user: sampling.user,
    service_tier: optional(text, "Accepted; there is one tier."),
  },
  { title: "ResponsesRequest" },
)
export type ResponsesRequest = Static<typeof ResponsesRequest>

const Usage = Type.Object(
  {
    input_tokens: Type.Integer(),
    input_tokens_details: Type.Object({
      cached_tokens: Type.Integer(),
      cache_write_tokens: Type.Integer(),
    }),
    output_tokens: Type.Integer(),
    output_tokens_details: Type.Object({ reasoning_tokens: Type.Integer() }),
    total_tokens: Type.Integer(),
  },
  { title: "ResponsesUsage" },
)

const Item = Type.Object(
  {
    type: Type.Enum(["message", "reasoning", "function_call", "custom_tool_call"]),
    id: text,
    status: Type.Enum(["in_progress", "completed", "incomplete"]),
    role: Type.Optional(Type.Literal("assistant")),
    content: Type.Optional(Type.Array(anything)),
    summary: Type.Optional(Type.Array(anything)),
    encrypted_content: Type.Optional(text),
    call_id: Type.Optional(text),
    namespace: Type.Optional(text),
    name: Type.Optional(text),
    arguments: Type.Optional(text),
    input: Type.Optional(text),
  },
  { title: "ResponsesItem" },
)

export const ResponsesResponse = Type.Object(
  {
    id: text,
    object: Type.Literal("response"),
    created_at: Type.Integer({ description: "Unix time in seconds." }),
    completed_at: nullable(Type.Integer()),
    status: Type.Enum(["in_progress", "completed", "incomplete", "failed"]),
    background: flag,
    error: nullable(Type.Object({ code: text, message: text })),
    incomplete_details: nullable(Type.Object({ reason: Type.Literal("max_output_tokens") })),
    instructions: nullable(text),
    max_output_tokens: nullable(Type.Integer()),
    model: text,
    output: Type.Array(Item),
    parallel_tool_calls: flag,
    previous_response_id: nullable(text),
    reasoning: Type.Object({ effort: nullable(text), summary: nullable(text) }),
    service_tier: text,
    store: flag,
    temperature: Type.Number(),
    text: Type.Object({ format: anything }),
    tool_choice: Type.Union([text, anything]),
    tools: Type.Array(anything),
    top_logprobs: Type.Integer(),
    top_p: Type.Number(),
    truncation: text,
    metadata: anything,
    usage: Type.Optional(Usage),
  },
  { title: "ResponsesResponse" },
)

export const ResponsesEvent = Type.Object(
  {
    type: Type.String({ description: "response.created, response.output_text.delta, …" }),
    sequence_number: Type.Integer(),
    response: Type.Optional(ResponsesResponse),
    output_index: Type.Optional(Type.Integer()),
    item_id: Type.Optional(text),
    content_index: Type.Optional(Type.Integer()),
    summary_index: Type.Optional(Type.Integer()),
    item: Type.Optional(Item),
    part: Type.Optional(anything),
    delta: Type.Optional(text),
    text: Type.Optional(text),
    name: Type.Optional(text),
    arguments: Type.Optional(text),
    input: Type.Optional(text),
    logprobs: Type.Optional(Type.Array(anything)),
  },
  { title: "ResponsesEvent" },
)

export const InputTokens = Type.Object(
  { object: Type.Literal("response.input_tokens"), input_tokens: Type.Integer() },
  { title: "InputTokens" },
)

export const Deleted = Type.Object(
  { id: text, object: Type.Literal("response"), deleted: Type.Literal(true) },
  { title: "DeletedResponse" },
)
