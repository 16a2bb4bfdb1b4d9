// The conversation as clients write it, turned into our own messages: texts from strings, lists of maps or OpenAI's
// parts, calls with their arguments as a map or as text. The model takes text; pictures and sound are refused.

import type { ChatMessage, ToolCall } from "../chat/conversation.ts"
import { problem } from "../errors.ts"
import { type Json, readJson, writeJson } from "./json.ts"
import type { ChatCompletionMessage } from "./schemas.ts"

export function readMessages(given: readonly ChatCompletionMessage[]): ChatMessage[] {
  return given.map((message, index) => readMessage(message, `messages[${index}]`))
}

function readMessage(given: ChatCompletionMessage, path: string): ChatMessage {
  const { role, content, name, tool_calls, tool_call_id, reasoning_content } = given
  if (tool_calls?.length && role !== "assistant") {
    refuse(`${path}.tool_calls`, "belongs to messages of the assistant")
  }
  if (typeof tool_call_id === "string" && role !== "tool") {
    refuse(`${path}.tool_call_id`, "belongs to messages of the tool role")
  }
  const message: ChatMessage = {
    role: role === "developer" ? "system" : role,
    content: Array.isArray(content)
      ? readParts(content as Part[], role, `${path}.content`)
      : (content ?? null),
  }
  if (typeof name === "string") message.name = name
  if (typeof reasoning_content === "string") message.reasoning = reasoning_content
  if (typeof tool_call_id === "string") message.toolCallId = tool_call_id
  if (tool_calls?.length) {
    message.toolCalls = tool_calls.map((call, index) =>
      readCall(call, `${path}.tool_calls[${index}]`, index),
    )
  }
  return message
}

type Part = Readonly<Record<string, Json>>

// Structured data of a tool has no `text` anywhere and reaches the template as its JSON.
function readParts(parts: readonly Part[], role: string, path: string): string {
  if (role === "tool" && parts.length > 0 && !parts.some((part) => "text" in part)) {
    return writeJson(parts)
  }
  return parts.map((part, index) => readPart(part, `${path}[${index}]`)).join("")
}

function readPart(part: Part, path: string): string {
  const { type = "text", text, refusal } = part
  if (type === "text" && typeof text === "string") return text
  if (type === "refusal" && typeof refusal === "string") return refusal
  if (type === "text") return refuse(path, "must have a text, which must be a string")
  const shown = typeof type === "string" ? writeJson(type.slice(0, 40)) : "one of that type"
  return problemOf(
    "unsupported_value",
    path,
    `is a part of type ${shown}; the model takes text only`,
  )
}

type Call = NonNullable<ChatCompletionMessage["tool_calls"]>[number]

function readCall(call: Call, path: string, index: number): ToolCall {
  const { name, arguments: given } = call.function
  return {
    id: call.id ?? `call_${index}`,
    name,
    arguments: readArguments(given, `${path}.function.arguments`),
  }
}

function readArguments(given: Call["function"]["arguments"], path: string): string {
  if (given === undefined || given === null || given === "") return "{}"
  if (typeof given !== "string") return writeJson(given as Json)
  try {
    const value = readJson(given)
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return given
  } catch {
    // Said below: to the client it is the same fault.
  }
  return refuse(path, "must be a map, or a string that holds one as JSON")
}

function refuse(path: string, what: string): never {
  return problemOf("invalid_value", path, what)
}

function problemOf(code: "invalid_value" | "unsupported_value", path: string, what: string): never {
  throw problem(code, { problem: `${path} ${what}.` }, path)
}
