// The shapes that OpenAI's clients are built for: the role once, and absent members left out but for those that OpenAI's
// contract requires. A second role would be read as "assistantassistant" by some of them.

import type { Dialect } from "./dialect.ts"

// Two names are in use for thinking; clients look for either.
const thinking = (reasoning: string | undefined) =>
  reasoning ? { reasoning_content: reasoning, reasoning } : {}

export const openai: Dialect = {
  message: ({ content, reasoning }) => ({
    role: "assistant",
    content,
    refusal: null,
    ...thinking(reasoning),
  }),
  opening: { role: "assistant", content: "" },
  delta: ({ content, reasoning }) => ({
    ...(content !== undefined && { content }),
    ...thinking(reasoning),
  }),
  closing: {},
  signOfLife: "comment",
}
