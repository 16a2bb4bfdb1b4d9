// Tools for models whose templates know none: a plain block of instructions in the system turn, calls as JSON in the
// assistant's texts, results as turns of the user. The format `json` reads what such a model answers.

import type { ChatMessage, Tool } from "./conversation.ts"

/** The same conversation for a template that shows neither tools nor calls. */
export function inPlainWords(
  messages: readonly ChatMessage[],
  tools: readonly Tool[],
): ChatMessage[] {
  const plain = messages.map(plainMessage)
  return tools.length === 0 ? plain : withInstructions(plain, blockFor(tools))
}

function plainMessage(message: ChatMessage): ChatMessage {
  if (message.role === "tool") {
    const from = message.name === undefined ? "" : ` of ${message.name}`
    return { role: "user", content: `Result${from}:\n${message.content ?? ""}` }
  }
  const { toolCalls, ...rest } = message
  if (!toolCalls?.length) return message
  const calls = toolCalls.map(
    (call) => `{"name": ${JSON.stringify(call.name)}, "arguments": ${call.arguments}}`,
  )
  const said = message.content ? `${message.content}\n` : ""
  return { ...rest, content: `${said}[${calls.join(", ")}]` }
}

function blockFor(tools: readonly Tool[]): string {
  const signatures = tools.map(({ definition }) => JSON.stringify(definition, exactly)).join("\n")
  return `You can call these functions, one JSON signature per line:
${signatures}

To call functions, answer with a JSON list of calls and nothing else:
[{"name": "a function's name", "arguments": {"an argument's name": "its value"}}]
When no function is needed, answer in plain words.`
}

function exactly(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? Number(value) : value
}

function withInstructions(messages: readonly ChatMessage[], block: string): ChatMessage[] {
  const [first, ...rest] = messages
  if (first?.role !== "system") return [{ role: "system", content: block }, ...messages]
  return [{ ...first, content: [first.content, block].filter(Boolean).join("\n\n") }, ...rest]
}
