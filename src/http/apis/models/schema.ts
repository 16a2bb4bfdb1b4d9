// What is served.

import { Type } from "../../type.ts"
import { text } from "../fields.ts"

export const Model = Type.Object(
  {
    id: text,
    object: Type.Literal("model"),
    type: Type.Literal("model", {
      description: "This and the next two: what Anthropic's clients read.",
    }),
    display_name: text,
    created_at: text,
    created: Type.Integer(),
    owned_by: text,
    context_length: Type.Integer({ description: "Tokens, prompt and reply together." }),
    max_model_len: Type.Integer({ description: "The same, as vLLM's clients call it." }),
    max_input_tokens: Type.Integer({
      description: "The same, and the next two: as Anthropic's clients read them.",
    }),
    max_tokens: Type.Integer(),
    lifecycle: Type.Literal("active"),
    capabilities: Type.Array(
      Type.Enum([
        ...["chat", "completion", "tools", "json_schema", "logprobs", "embedding", "rerank"],
        ...["thinking", "insert", "vision", "audio"],
      ]),
    ),
  },
  { title: "Model" },
)

export const ModelList = Type.Object(
  {
    object: Type.Literal("list"),
    data: Type.Array(Model),
    has_more: Type.Literal(false, {
      description: "This and the next two: as Anthropic's clients page.",
    }),
    first_id: text,
    last_id: text,
  },
  { title: "ModelList" },
)
