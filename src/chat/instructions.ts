// Tools for models whose templates know none: a plain block of instructions in the system turn, calls in the assistant's
// texts as the format writes them, results as turns of the user.

import type { ChatMessage, Tool } from "./conversation.ts"
import type { Format } from "./formats/formats.ts"

/** Of a format what prompts need of it. */
export type WordedFormat = Pick<Format, "written" | "showsResults" | "callId">

/** The same conversation for a template that shows no calls, and with `tools` where it shows none of these either. */
export function inPlainWords(
  messages: readonly ChatMessage[],
  tools: readonly Tool[],
  format: WordedFormat,
): ChatMessage[] {
  const plain = messages.map((message) => plainMessage(message, format))
  return tools.length === 0 ? plain : withInstructions(plain, blockFor(tools, format))
}

function plainMessage(message: ChatMessage, { written, showsResults }: WordedFormat): ChatMessage {
  if (message.role === "tool") {
    if (showsResults) return message
    const from = message.name === undefined ? "" : ` of ${message.name}`
    const head = `Result${from}:\n`
    const parts = message.parts && [{ text: head }, ...message.parts]
    return { role: "user", content: head + (message.content ?? ""), ...(parts && { parts }) }
  }
  const { toolCalls, ...rest } = message
  if (!toolCalls?.length) return message
  const said = message.content ? `${message.content}\n` : ""
  return { ...rest, content: said + written(toolCalls) }
}

function blockFor(tools: readonly Tool[], { written }: WordedFormat): string {
  const signatures = tools.map(({ definition }) => JSON.stringify(definition, inDoubles)).join("\n")
  const example = { name: "its_name", arguments: '{"an argument": "its value"}' }
  return `You can call these functions, one JSON signature per line:
${signatures}

To call a function, answer with nothing but the call, written like this:
${written([example])}
Several calls are written like this:
${written([example, example])}
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
