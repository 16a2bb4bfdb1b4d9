// The shapes that OpenAI's clients are built for: the role once, and absent members left out but for those that OpenAI's
// contract requires. A second role would be read as "assistantassistant" by some of them, and a repeated id or name of a
// call likewise, so each is sent once.

import type { Json } from "../../../json.ts"
import { callJson, type Dialect, type Said } from "./dialect.ts"

export const openai: Dialect = {
  message: ({ content, reasoning, calls }) => ({
    role: "assistant",
    content: content === "" && calls.length > 0 ? null : content,
    refusal: null,
    ...thinking(reasoning),
    ...(calls.length > 0 && { tool_calls: calls.map((call) => callJson(call, call.arguments)) }),
  }),
  unreadable: "stop",
  begin: () => {
    let isOpen = false
    const opened = (delta: Json, content: { content?: "" }) => {
      const opening = isOpen ? [] : [{ role: "assistant", ...content }]
      isOpen = true
      return [...opening, delta]
    }
    return {
      // Clients take "" for the beginning of a text, and what begins with a call is mostly calls alone.
      take: (event) => opened(deltaOf(event), event.kind === "call" ? {} : { content: "" }),
      end: () => opened({}, { content: "" }),
    }
  },
  signOfLife: "comment",
}

function deltaOf(event: Said): Json {
  switch (event.kind) {
    case "content":
      return { content: event.text }
    case "reasoning":
      return thinking(event.text)
    case "call":
      return { tool_calls: [{ index: event.index, ...callJson({ ...event, arguments: "" }, "") }] }
    case "arguments":
      return { tool_calls: [{ index: event.index, function: { arguments: event.text } }] }
  }
}

// Two names are in use for thinking; clients look for either.
function thinking(reasoning: string) {
  return reasoning === "" ? {} : { reasoning_content: reasoning, reasoning }
}
