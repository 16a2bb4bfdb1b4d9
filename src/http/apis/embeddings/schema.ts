// Texts, and each as a row of numbers.

import type { Static } from "typebox"
import { Type } from "../../type.ts"
import { nullable, optional, TokenId, text } from "../fields.ts"

export const EmbeddingsRequest = Type.Object(
  {
    model: optional(text, "One of the names that GET /v1/models lists."),
    input: Type.Union([text, Type.Array(Type.Union([text, TokenId, Type.Array(TokenId)]))], {
      description: "A text, a list of texts, the token ids of one text, or a list of those.",
    }),
    encoding_format: optional(
      Type.Enum(["float", "base64"]),
      "Numbers, or the bytes of 32-bit floats, little end first, in base64.",
      "float",
    ),
    dimensions: optional(
      Type.Integer({ minimum: 1 }),
      "How many of the first numbers are kept, at unit length again; of use where the model was trained so.",
    ),
    prompt_name: optional(
      text,
      "Which of the prompts in the model's config_sentence_transformers.json stands before each text; otherwise none does.",
    ),
    user: optional(text, "Not used."),
  },
  { title: "EmbeddingsRequest" },
)
export type EmbeddingsRequest = Static<typeof EmbeddingsRequest>

export const EmbeddingsResponse = Type.Object(
  {
    object: Type.Literal("list"),
    data: Type.Array(
      Type.Object({
        object: Type.Literal("embedding"),
        index: Type.Integer(),
        embedding: Type.Union([Type.Array(Type.Number()), text]),
      }),
    ),
    model: nullable(text),
    usage: Type.Object({ prompt_tokens: Type.Integer(), total_tokens: Type.Integer() }),
  },
  { title: "EmbeddingsResponse" },
)
