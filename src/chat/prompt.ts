// The way in: a conversation becomes tokens. Whatever can be refused is refused here, before anything is admitted.

import { problem } from "../errors.ts"
import type { ChatMessage, ChatRequest } from "./conversation.ts"
import type { Text } from "./jinja/text.ts"
import { FROM_LAST_MESSAGE, type Template } from "./template.ts"
import type { Tokenizer } from "./tokenizer.ts"

export interface Prompt {
  tokens: Int32Array
  /** The reply goes on with the last message instead of beginning one. */
  continues: boolean
  /** What of the reply stands in the prompt already: a header that may open the thinking, or the last message. */
  begun: string
}

export async function preparePrompt(
  request: ChatRequest,
  template: Template,
  tokenizer: Tokenizer,
): Promise<Prompt> {
  const { messages } = request
  if (messages.length === 0) {
    throw problem("invalid_value", { problem: "messages must not be empty." }, "messages")
  }
  const continues = isUnfinished(messages.at(-1)!)
  const rendered = template.render({
    messages,
    tools: undefined,
    variables: request.templateArguments,
    generationPrompt: !continues,
  })
  const text = continues ? upToLastMessage(rendered) : rendered
  return {
    tokens: Int32Array.from(await tokenizer.encode(text)),
    continues,
    begun: continues ? messages.at(-1)!.content! : lastHeader(text),
  }
}

/** A last message of the assistant is the beginning of the reply. */
function isUnfinished(last: ChatMessage): boolean {
  return last.role === "assistant" && !last.toolCalls?.length && Boolean(last.content)
}

/** What the template wrote after everything that came with the request. */
function lastHeader(rendered: Text): string {
  return rendered.value.slice(rendered.spans.at(-1)?.to ?? 0)
}

/** Without what the template writes after the last message's text. */
function upToLastMessage(rendered: Text): Text {
  const end = rendered.spans.findLast(({ source }) => source === FROM_LAST_MESSAGE)?.to
  if (end === undefined) {
    const words = "it leaves out the last message, which was to be continued."
    throw problem("template_failed", { problem: words }, "messages")
  }
  return rendered.slice(0, end)
}
