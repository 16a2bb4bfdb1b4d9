// A query and documents, and how well each answers it.

import type { Static } from "typebox"
import { Type } from "../../type.ts"
import { nullable, optional, text } from "../fields.ts"

const MAX_DOCUMENTS = 2048

const Document = Type.Object({ text })

export const RerankRequest = Type.Object(
  {
    model: optional(text, "One of the names that GET /v1/models lists."),
    query: Type.String({ description: "What is looked for." }),
    documents: Type.Array(Type.Union([text, Document]), {
      minItems: 1,
      maxItems: MAX_DOCUMENTS,
      description: "Texts, or maps with a `text`.",
    }),
    top_n: optional(Type.Integer({ minimum: 1 }), "How many of the best are told; otherwise all."),
    return_documents: optional(Type.Boolean(), "Whether their texts are told, too.", true),
  },
  { title: "RerankRequest" },
)
export type RerankRequest = Static<typeof RerankRequest>

export const RerankResponse = Type.Object(
  {
    object: Type.Literal("list"),
    model: nullable(text),
    results: Type.Array(
      Type.Object({
        index: Type.Integer({ description: "Among the documents asked about." }),
        relevance_score: Type.Number({ description: "From 0 to 1; the best comes first." }),
        document: Type.Optional(Document),
      }),
    ),
    usage: Type.Object({ prompt_tokens: Type.Integer(), total_tokens: Type.Integer() }),
  },
  { title: "RerankResponse" },
)
