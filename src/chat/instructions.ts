// Tools for models whose templates know none: a plain block of instructions in the system turn, calls in the assistant's
// texts in the spelling that is asked for, results as turns of the user.

import type { ChatMessage, Tool, ToolCall } from "./conversation.ts"
import type { Spelling } from "./formats/formats.ts"

/** The same conversation for a template that shows neither tools nor calls. */
export function inPlainWords(
  messages: readonly ChatMessage[],
  tools: readonly Tool[],
  spelling: Spelling,
): ChatMessage[] {
  const plain = messages.map((message) => plainMessage(message, spelling))
  return tools.length === 0 ? plain : withInstructions(plain, blockFor(tools, spelling))
}

function plainMessage(message: ChatMessage, spelling: Spelling): ChatMessage {
  if (message.role === "tool") {
    const from = message.name === undefined ? "" : ` of ${message.name}`
    return { role: "user", content: `Result${from}:\n${message.content ?? ""}` }
  }
  const { toolCalls, ...rest } = message
  if (!toolCalls?.length) return message
  const said = message.content ? `${message.content}\n` : ""
  return { ...rest, content: said + spelled(toolCalls, spelling) }
}

function spelled(calls: readonly Omit<ToolCall, "id">[], spelling: Spelling): string {
  const [before, after, end] = spelling.call
  const written = calls.map((call) => before + call.name + after + call.arguments + end)
  return spelling.open + written.join(spelling.between) + spelling.close
}

function blockFor(tools: readonly Tool[], spelling: Spelling): string {
  const signatures = tools.map(({ definition }) => JSON.stringify(definition, inDoubles)).join("\n")
  const example = { name: "its_name", arguments: '{"an argument": "its value"}' }
  return `You can call these functions, one JSON signature per line:
${signatures}

To call a function, answer with nothing but the call, written like this:
${spelled([example], spelling)}
Several calls are written like this:
${spelled([example, example], spelling)}
When no function is needed, answer in plain words.`
}

function inDoubles(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? Number(value) : value
}

function withInstructions(messages: readonly ChatMessage[], block: string): ChatMessage[] {
  const [first, ...rest] = messages
  if (first?.role !== "system") return [{ role: "system", content: block }, ...messages]
  return [{ ...first, content: [first.content, block].filter(Boolean).join("\n\n") }, ...rest]
}
