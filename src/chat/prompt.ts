// The way in: a conversation becomes tokens. Whatever can be refused is refused here, before anything is admitted.

import { setImmediate as breathe } from "node:timers/promises"
import { Problem, problem } from "../errors.ts"
import type { Caller } from "../worker/lane.ts"
import { withOwnIds } from "./call-ids.ts"
import { leftOut, otherwise, withSystemInPlace } from "./concessions.ts"
import type { ChatMessage, ConversationRequest, MessagePart, Tool } from "./conversation.ts"
import { inPlainWords, type WordedFormat } from "./instructions.ts"
import { OutOfSteps } from "./jinja/meter.ts"
import { Text, TextBuilder } from "./jinja/text.ts"
import { type Media, mediumOf, type PromptMedia } from "./media.ts"
import {
  FROM_LAST_MESSAGE,
  type Rendering,
  type TemplateMessage,
  type TemplatePart,
} from "./rendering.ts"
import type { Template } from "./template.ts"

export interface Prompt {
  tokens: Int32Array
  /** The reply goes on with the last message instead of beginning one. */
  continues: boolean
  /** What of the reply stands in the prompt already: a header that may open the thinking, or the last message. */
  begun: string
  /** Absent: it has none. */
  media?: PromptMedia
}

/** @param media of the conversation, where it has some */
export async function preparePrompt(
  request: ConversationRequest,
  template: Template,
  format: WordedFormat,
  encode: (text: Text) => Promise<Int32Array>,
  caller?: Caller,
  media?: Media,
): Promise<Prompt> {
  const { messages } = request
  if (messages.length === 0) {
    throw problem("invalid_value", { problem: "messages must not be empty." }, "messages")
  }
  const checked = media ? showing(template, media) : template
  const continues = isUnfinished(messages.at(-1)!)
  const renderingFor = (own: Template) => ({
    ...renderingOf(request, own, format, continues),
    ...(media && { marks: media.marks }),
  })
  const rendering = renderingFor(template)
  const inWords = rendering.tools && (() => renderingFor({ ...template, ...UNKNOWING }))
  const { shown, text: rendered } = await render(rendering, checked, caller, inWords)
  const written = continues ? upToLastMessage(rendered) : rendered
  const text = request.opening ? opened(written, request.opening) : written
  const begun = continues ? messages.at(-1)!.content! : lastHeader(text)
  if (!media) return { tokens: await encode(text), continues, begun }
  const { text: whole, media: prepared } = await media.shown(text, mediaOf(shown))
  const found = media.found(await encode(whole), prepared)
  return { tokens: found.tokens, continues, begun, media: found }
}

/** The same template, which refuses a conversation when it leaves out an image or a recording of it. */
function showing(template: Template, media: Media): Template {
  return {
    ...template,
    render: async (rendering, caller) => {
      const text = await template.render(rendering, caller)
      media.assertShown(text)
      return text
    },
  }
}

/** Which images or recordings a template was shown, in its order. */
function mediaOf({ messages }: Rendering): number[] {
  return messages.flatMap(({ parts = [] }) =>
    parts.flatMap((part) => ("text" in part ? [] : [part.number])),
  )
}

const UNKNOWING = { knowsTools: false, knowsCalls: false }

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
  const { templateArguments: variables } = request
  const messages = format.callId ? withOwnIds(request.messages, format.callId) : request.messages
  const tools = visibleTools(request)
  const inWords = (tools.length > 0 && !template.knowsTools) || !template.knowsCalls
  const shown = tools.length > 0 && template.knowsTools
  const worded = { ...format, showsResults: Boolean(format.showsResults) && template.knowsTools }
  return {
    messages: withNumbers(inWords ? inPlainWords(messages, shown ? [] : tools, worded) : messages),
    tools: shown ? tools.map(({ definition }) => definition) : undefined,
    variables,
    generationPrompt: !continues,
    ...(template.wantsLists && { contentsAsLists: true }),
  }
}

/** Images and recordings by their numbers: a template needs no bytes. */
function withNumbers(messages: readonly ChatMessage[]): readonly TemplateMessage[] {
  let count = 0
  return messages.map(({ parts, ...message }) =>
    parts ? { ...message, parts: parts.map((part) => numbered(part, () => count++)) } : message,
  )
}

function numbered(part: MessagePart, next: () => number): TemplatePart {
  return "text" in part ? part : { kind: mediumOf(part).kind, number: next() }
}

/** Templates that read one message of the system leave out the others without a word: they are given them in another way. */
async function render(
  rendering: Rendering,
  template: Template,
  caller: Caller | undefined,
  inWords: (() => Rendering) | undefined,
): Promise<Accepted> {
  const first = await accepted(rendering, template, caller, inWords)
  const { shown, text } = first
  const lost = leftOut(shown.messages, text.value)
  const other = lost > 0 ? withSystemInPlace(shown) : undefined
  if (!other) return first
  const again = await template.render(other, caller).catch((refusal: unknown) => {
    if (isOfTemplate(refusal)) return text
    throw refusal
  })
  return leftOut(shown.messages, again.value) < lost ? { shown: other, text: again } : first
}

interface Accepted {
  shown: Rendering
  text: Text
}

/** A template that refuses is asked again with what it may have wanted; if it wants nothing, its first refusal says why. */
async function accepted(
  rendering: Rendering,
  template: Template,
  caller: Caller | undefined,
  inWords: (() => Rendering) | undefined,
): Promise<Accepted> {
  try {
    return { shown: rendering, text: await template.render(rendering, caller) }
  } catch (refusal) {
    if (!isOfTemplate(refusal) || refusal.cause instanceof OutOfSteps) throw refusal
    for (const other of otherwise(rendering, inWords)) {
      await breathe() // each may take some milliseconds, and there are a few dozen
      caller?.signal?.throwIfAborted()
      try {
        return { shown: other, text: await template.render(other, caller) }
      } catch (again) {
        if (again instanceof Problem && again.cause instanceof OutOfSteps) break
      }
    }
    throw refusal
  }
}

const isOfTemplate = (refusal: unknown): refusal is Problem =>
  refusal instanceof Problem && refusal.code === "template_failed"

function opened(rendered: Text, opening: string): Text {
  const text = new TextBuilder()
  text.add(rendered)
  text.add(new Text(opening))
  return text.done()
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
