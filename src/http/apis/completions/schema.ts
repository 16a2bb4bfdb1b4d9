// A plain text to go on with, and how it goes on.

import type { Static } from "typebox"
import { Type } from "../../type.ts"
import {
  choiceIds,
  envelope,
  flag,
  format,
  nullable,
  optional,
  promptIds,
  sampling,
  TokenId,
  text,
  UsageInfo,
} from "../fields.ts"

export const CompletionRequest = Type.Object(
  {
    prompt: Type.Union([text, Type.Array(Type.Union([text, TokenId, Type.Array(TokenId)]))], {
      description: "A text, a list of texts, the token ids of one prompt, or a list of those.",
    }),
    ...sampling,
    ...format,
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
    suffix: optional(
      text,
      "What follows the reply, which fills in between the prompt and this; for models with tokens of their own for that.",
    ),
    best_of: optional(Type.Integer(), "Only 1, or the same as n."),
  },
  { title: "CompletionRequest" },
)
export type CompletionRequest = Static<typeof CompletionRequest>

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
        ...promptIds,
        ...choiceIds,
      }),
    ),
    usage: Type.Optional(nullable(UsageInfo)),
  },
  { title: "CompletionResponse" },
)
