// The way in: a conversation becomes tokens. Whatever can be refused is refused here, before anything is admitted.

import { createHash } from "node:crypto"
import { Problem, problem } from "../errors.ts"
import type { Caller } from "../worker/lane.ts"
import type { ChatMessage, ConversationRequest, Tool } from "./conversation.ts"
import { inPlainWords, type WordedFormat } from "./instructions.ts"
import type { Text } from "./jinja/text.ts"
import { FROM_LAST_MESSAGE, type Rendering } from "./rendering.ts"
import type { Template } from "./template.ts"

export interface Prompt {
  tokens: Int32Array
  /** The reply goes on with the last message instead of beginning one. */
  continues: boolean
  /** What of the reply stands in the prompt already: a header that may open the thinking, or the last message. */
  begun: string
}

export async function preparePrompt(
  request: ConversationRequest,
  template: Template,
  format: WordedFormat,
  encode: (text: Text) => Promise<Int32Array>,
  caller?: Caller,
): Promise<Prompt> {
  const { messages } = request
  if (messages.length === 0) {
    throw problem("invalid_value", { problem: "messages must not be empty." }, "messages")
  }
  const continues = isUnfinished(messages.at(-1)!)
  const rendering = renderingOf(request, template, format, continues)
  const rendered = await render(rendering, template, caller)
  const text = continues ? upToLastMessage(rendered) : rendered
  return {
    tokens: await encode(text),
    continues,
    begun: continues ? messages.at(-1)!.content! : lastHeader(text),
  }
}

/** The tools that the model is told of. */
export function visibleTools({ tools, toolChoice }: ConversationRequest): readonly Tool[] {
  return toolChoice?.mode === "none" ? [] : (tools ?? [])
}

/** A last message of the assistant is the beginning of the reply, unless it is said to be whole. */
function isUnfinished(last: ChatMessage): boolean {
  const { role, content, toolCalls, isWhole } = last
  return role === "assistant" && !toolCalls?.length && !isWhole && Boolean(content)
}

function renderingOf(
  request: ConversationRequest,
  template: Template,
  format: WordedFormat,
  continues: boolean,
): Rendering {
  const { messages, templateArguments: variables } = request
  const tools = visibleTools(request)
  const inWords = (tools.length > 0 && !template.knowsTools) || !template.knowsCalls
  const shown = tools.length > 0 && template.knowsTools
  const worded = { ...format, showsResults: Boolean(format.showsResults) && template.knowsTools }
  return {
    messages: inWords ? inPlainWords(messages, shown ? [] : tools, worded) : messages,
    tools: shown ? tools.map(({ definition }) => definition) : undefined,
    variables,
    generationPrompt: !continues,
  }
}

// Mistral's templates want call ids of nine letters and digits, and DeepSeek's arguments as text. Where a template refuses a
// conversation with calls, it is asked again with what it may have wanted: ids of that form, made from the given ones so that
// calls and results still meet, or arguments as they were written. Qwen's want one message of the system, ahead of all others.
async function render(
  rendering: Rendering,
  template: Template,
  caller: Caller | undefined,
): Promise<Text> {
  try {
    return await template.render(rendering, caller)
  } catch (refusal) {
    if (!(refusal instanceof Problem)) throw refusal
    for (const other of otherwise(rendering)) {
      try {
        return await template.render(other, caller)
      } catch {
        // then the first refusal says why
      }
    }
    throw refusal
  }
}

function otherwise(rendering: Rendering): Rendering[] {
  const ahead = withSystemAhead(rendering)
  return [...withOtherCalls(rendering), ...(ahead ? [ahead, ...withOtherCalls(ahead)] : [])]
}

function withOtherCalls(rendering: Rendering): Rendering[] {
  const short = withShortIds(rendering)
  const hasCalls = rendering.messages.some(({ toolCalls }) => toolCalls?.length)
  return [...(short ? [short] : []), ...(hasCalls ? [{ ...rendering, argumentsAsText: true }] : [])]
}

/** All that the system says as one message at the beginning. Undefined where it is. */
function withSystemAhead(rendering: Rendering): Rendering | undefined {
  const isOfSystem = ({ role }: Rendering["messages"][number]) => role === "system"
  if (!rendering.messages.slice(1).some(isOfSystem)) return undefined
  const texts = rendering.messages
    .filter(isOfSystem)
    .map(({ content }) => (typeof content === "string" ? content : ""))
  const others = rendering.messages.filter((message) => !isOfSystem(message))
  const system = { role: "system", content: texts.join("\n\n") }
  return { ...rendering, messages: [system, ...others] }
}

/** Undefined when no id would change. */
function withShortIds(rendering: Rendering): Rendering | undefined {
  let changed = false
  const shorten = (id: string) => {
    if (/^[A-Za-z0-9]{9}$/.test(id)) return id
    changed = true
    return createHash("sha256").update(id).digest("hex").slice(0, 9)
  }
  const messages = rendering.messages.map((message) => ({
    ...message,
    ...(message.toolCalls && {
      toolCalls: message.toolCalls.map((call) => ({ ...call, id: shorten(call.id) })),
    }),
    ...(message.toolCallId !== undefined && { toolCallId: shorten(message.toolCallId) }),
  }))
  return changed ? { ...rendering, messages } : undefined
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
