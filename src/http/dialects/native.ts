// The specification's own shapes: every delta is a whole message, with a role and a text, and what is absent is null.

import type { Dialect } from "./dialect.ts"

const message = (content: string, reasoning: string | undefined) => ({
  role: "assistant",
  content,
  name: null,
  tool_calls: null,
  tool_call_id: null,
  ...(reasoning && { reasoning_content: reasoning }),
})

export const native: Dialect = {
  message: ({ content, reasoning }) => message(content, reasoning),
  opening: undefined,
  delta: ({ content = "", reasoning }) => message(content, reasoning),
  closing: message("", undefined),
  signOfLife: "chunk",
}
