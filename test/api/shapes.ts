// The shapes that answers are held to, written from OpenAI's published contract and from the specification's tables, not
// from our own schemas: two independent descriptions of the same answers.

const string = { type: "string" }
const integer = { type: "integer" }
const nullable = (schema: object) => ({ anyOf: [schema, { type: "null" }] })

/** An object whose listed members are required and which has no others, but for the optional ones. */
function members(required: Record<string, object>, optional: Record<string, object> = {}) {
  return {
    type: "object",
    properties: { ...required, ...optional },
    required: Object.keys(required),
    additionalProperties: false,
  }
}

const token = {
  token: string,
  logprob: { type: "number", maximum: 0 },
  bytes: nullable({ type: "array", items: { type: "integer", minimum: 0, maximum: 255 } }),
}
const tokens = {
  type: "array",
  items: members({ ...token, top_logprobs: { type: "array", items: members(token) } }),
}
const logprobs = nullable(members({ content: nullable(tokens), refusal: nullable(tokens) }))

const usage = members(
  { prompt_tokens: integer, completion_tokens: integer, total_tokens: integer },
  {
    prompt_tokens_details: members({ cached_tokens: integer }),
    completion_tokens_details: members({ reasoning_tokens: integer }),
  },
)

const envelope = (object: string) => ({
  id: { type: "string", pattern: "^chatcmpl-" },
  object: { const: object },
  created: integer,
  model: string,
  system_fingerprint: { type: "string", pattern: "^fp_" },
})

const choices = (choice: object, least = 1) => ({ type: "array", items: choice, minItems: least })

const call = (given: object) => ({
  id: { type: "string", pattern: "^call_" },
  type: { const: "function" },
  function: members({ name: string, arguments: given }),
})
const calls = (item: object) => ({ type: "array", minItems: 1, items: item })

// OpenAI's contract.

const fragment = members(
  { index: integer, function: members({ arguments: string }, { name: string }) },
  { id: string, type: { const: "function" } },
)

export const openai = {
  whole: members({
    ...envelope("chat.completion"),
    choices: choices(
      members({
        index: integer,
        finish_reason: { enum: ["stop", "length", "tool_calls", "content_filter"] },
        logprobs,
        message: members(
          { role: { const: "assistant" }, content: nullable(string), refusal: nullable(string) },
          { tool_calls: calls(members(call(string))) },
        ),
      }),
    ),
    usage,
  }),
  chunk: members(
    {
      ...envelope("chat.completion.chunk"),
      choices: choices(
        members(
          {
            index: integer,
            delta: members(
              {},
              { role: { const: "assistant" }, content: string, tool_calls: calls(fragment) },
            ),
            finish_reason: nullable({ enum: ["stop", "length", "tool_calls", "content_filter"] }),
          },
          { logprobs },
        ),
        0,
      ),
    },
    { usage: nullable(usage) },
  ),
}

// The specification: 2.1 ChatCompletionMessage, 2.3 to 2.6. What may be absent is null.

const message = (content: object, call: object) =>
  members({
    role: { const: "assistant" },
    content,
    name: { type: "null" },
    tool_calls: nullable(calls(call)),
    tool_call_id: { type: "null" },
  })

export const native = {
  whole: members({
    ...envelope("chat.completion"),
    choices: choices(
      members({
        index: integer,
        message: message(nullable(string), members(call({ type: "object" }))),
        finish_reason: nullable({ enum: ["stop", "length", "tool_calls", "error"] }),
        logprobs,
      }),
    ),
    usage,
  }),
  chunk: members(
    {
      ...envelope("chat.completion.chunk"),
      choices: choices(
        members({
          index: integer,
          delta: message(string, members({ index: integer, ...call(string) })),
          finish_reason: nullable({ enum: ["stop", "length", "tool_calls"] }),
          logprobs,
        }),
        0,
      ),
    },
    { usage: nullable(usage) },
  ),
}

export const textCompletion = members(
  {
    id: { type: "string", pattern: "^cmpl-" },
    object: { const: "text_completion" },
    created: integer,
    model: string,
    system_fingerprint: string,
    choices: choices(
      members({
        index: integer,
        text: string,
        finish_reason: nullable({ enum: ["stop", "length", "content_filter"] }),
        logprobs: nullable(
          members({
            tokens: { type: "array", items: string },
            token_logprobs: { type: "array", items: { type: "number" } },
            top_logprobs: {
              type: "array",
              items: { type: "object", additionalProperties: { type: "number" } },
            },
            text_offset: { type: "array", items: integer },
          }),
        ),
      }),
      0,
    ),
  },
  { usage: nullable(usage) },
)

const model = members(
  { id: string, object: { const: "model" }, created: integer, owned_by: string },
  {},
)
export const modelList = members({
  object: { const: "list" },
  // Clients ignore what they do not know here; each entry says more of the model than OpenAI's does.
  data: { type: "array", minItems: 1, items: { ...model, additionalProperties: true } },
  // Anthropic's
  has_more: { const: false },
  first_id: string,
  last_id: string,
})

export const error = members({
  error: members({
    message: string,
    type: string,
    param: nullable(string),
    code: nullable(string),
  }),
  object: { const: "error" },
  message: string,
  code: integer,
})
