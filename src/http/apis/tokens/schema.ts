// Between texts and token ids.

import { Type } from "../../type.ts"
import { ChatCompletionMessage, ChatCompletionRequest } from "../chat/schema.ts"
import { anything, flag, optional, TokenId, text } from "../fields.ts"

const { tools, tool_choice, reasoning_effort } = ChatCompletionRequest.properties

export const TokenizeRequest = Type.Object(
  {
    model: optional(text, "One of the names that GET /v1/models lists."),
    prompt: optional(text, "A text to encode."),
    messages: optional(
      Type.Array(ChatCompletionMessage, { minItems: 1 }),
      "A conversation to encode as the model would read it; instead of prompt.",
    ),
    tools,
    tool_choice,
    reasoning_effort,
    chat_template_kwargs: optional(anything, "More variables for the model's template."),
    control_tokens: optional(
      flag,
      "Whether the names of control tokens in the prompt become those tokens.",
      false,
    ),
    add_special_tokens: optional(
      flag,
      "Whether the tokens stand before the prompt with which a completion of it begins; of messages the template writes them.",
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

export const TokenizeResponse = Type.Object(
  {
    tokens: Type.Array(Type.Integer()),
    count: Type.Integer(),
    max_model_len: Type.Integer({ description: "The context, prompt and reply together." }),
  },
  { title: "TokenizeResponse" },
)

export const DetokenizeResponse = Type.Object({ prompt: text }, { title: "DetokenizeResponse" })
