// Calls under the ids that a template wants. Those that clients send back are ours, or another server's; Kimi's models take the ids of
// earlier calls for the form of the next, and write calls that name no function behind others, and Solar's were taught one form as
// well. So the calls of a conversation are numbered, their ids made of that and of the function's name, and each result names the
// call that it belongs to, by its id and by its function.

import type { ChatMessage } from "./conversation.ts"

interface OpenCall {
  /** What the client calls it. */
  given: string
  id: string
  name: string
}

/** The same conversation, its calls and results under ids made of a function's name and the call's number. */
export function withOwnIds(
  messages: readonly ChatMessage[],
  idOf: (name: string, number: number) => string,
): ChatMessage[] {
  let count = 0
  const turns: OpenCall[][] = [] // of each message with calls those without a result so far, the latest first
  return messages.map((message) => {
    if (message.toolCalls) {
      const calls = message.toolCalls.map((call) => ({ ...call, id: idOf(call.name, count++) }))
      const given = message.toolCalls.map(({ id }) => id)
      turns.unshift(calls.map(({ id, name }, i) => ({ given: given[i]!, id, name })))
      return { ...message, toolCalls: calls }
    }
    if (message.role !== "tool") return message
    const turn = turns.find((open) => open.some((call) => belongs(message, call)))
    if (!turn) return message
    const at = turn.findIndex((call) => belongs(message, call))
    const [{ id, name }] = turn.splice(at, 1) as [OpenCall]
    return { name, ...message, toolCallId: id }
  })
}

/** Some clients name the function that a result is of instead of the call, or neither. */
function belongs({ toolCallId, name }: ChatMessage, call: OpenCall): boolean {
  if (toolCallId) return toolCallId === call.given
  return name === undefined || name === call.name
}
