// What a template that refuses a conversation may have wanted instead. Templates raise exceptions over what every client sends:
// a content of null beside calls, ids of another form, a user's text behind results. Each concession says the same in another
// way, or is undefined where it would change nothing. Agents send their whole history each turn, so that a conversation which
// is refused once is refused for good.

import { createHash } from "node:crypto"
import type { Rendering, TemplateMessage, TemplatePart } from "./rendering.ts"

/** From what nobody notices to what changes the most. */
const CONCESSIONS: readonly ((rendering: Rendering) => Rendering | undefined)[] = [
  withImagesInUser,
  withMarksInTexts,
  withShortIds,
  withContents,
  withWholeTools,
  withSystemInPlace,
  withSystemAhead,
  withResultsLast,
  withTurnsJoined,
  withCallsOneByOne,
  withSystemInUser,
]

/**
 * What to ask a template with: the concessions one by one, then more and more together; and once more each with arguments as the
 * text they are, which DeepSeek's templates want, and others would quote.
 * @param inWords the same with tools and calls told in plain words, where they are not
 */
export function* otherwise(rendering: Rendering, inWords?: () => Rendering): Generator<Rendering> {
  yield* conceding(rendering)
  if (rendering.messages.some(hasCalls)) {
    const textual = { ...rendering, argumentsAsText: true }
    yield textual
    yield* conceding(textual)
  }
  if (!inWords) return
  const plain = inWords()
  yield plain
  yield* conceding(plain)
  yield { ...plain, tools: [] } // Hermes' for tools alone go through them, whether there are any or not
}

function* conceding(rendering: Rendering): Generator<Rendering> {
  for (const concession of CONCESSIONS) {
    const alone = concession(rendering)
    if (alone) yield alone
  }
  let conceded = rendering
  let count = 0
  for (const concession of CONCESSIONS) {
    const more = concession(conceded)
    if (!more) continue
    conceded = more
    if (++count > 1) yield conceded
  }
}

const hasCalls = ({ toolCalls }: TemplateMessage) => Boolean(toolCalls?.length)
const textOf = ({ content }: TemplateMessage) => (typeof content === "string" ? content : "")
const partsOf = (message: TemplateMessage): readonly TemplatePart[] =>
  message.parts ?? [{ text: textOf(message) }]

/** What several messages say as one, with blank lines between them. */
function joined(...messages: TemplateMessage[]): Pick<TemplateMessage, "content" | "parts"> {
  const saying = messages.filter((message) => message.parts || textOf(message) !== "")
  const content = saying.map(textOf).filter(Boolean).join("\n\n")
  if (!saying.some(({ parts }) => parts)) return { content }
  const parts = saying.flatMap((message, index) => [
    ...(index > 0 ? [{ text: "\n\n" }] : []),
    ...partsOf(message),
  ])
  return { content, parts }
}

/** Undefined where no message is another. */
function withMessages(
  rendering: Rendering,
  messages: readonly TemplateMessage[],
): Rendering | undefined {
  const isSame =
    messages.length === rendering.messages.length &&
    messages.every((message, i) => message === rendering.messages[i])
  return isSame ? undefined : { ...rendering, messages }
}

/** Those of Qwen VL show images to the user alone: the images of results are shown behind them. */
function withImagesInUser(rendering: Rendering): Rendering | undefined {
  const messages: TemplateMessage[] = []
  let images: TemplatePart[] = []
  const show = (message?: TemplateMessage) => {
    if (images.length === 0) return message ? [message] : []
    const shown = { role: "user", content: "", parts: images }
    images = []
    if (message?.role !== "user") return message ? [shown, message] : [shown]
    return [{ ...message, parts: [...shown.parts, ...partsOf(message)] }]
  }
  for (const message of rendering.messages) {
    const { parts, ...told } = message
    if (message.role !== "tool") messages.push(...show(message))
    else messages.push(parts ? told : message)
    if (message.role === "tool") images.push(...(parts ?? []).filter((part) => "kind" in part))
  }
  messages.push(...show())
  return withMessages(rendering, messages)
}

/** Many know no parts: what they are given is all text. */
function withMarksInTexts(rendering: Rendering): Rendering | undefined {
  const isOfUse = rendering.marks !== undefined && !rendering.marksInTexts
  return isOfUse ? { ...rendering, marksInTexts: true } : undefined
}

/** Mistral's want ids of nine letters and digits: made from the given ones, so that calls and results still meet. */
function withShortIds(rendering: Rendering): Rendering | undefined {
  const isShort = (id: string) => /^[A-Za-z0-9]{9}$/.test(id)
  const shorten = (id: string) =>
    isShort(id) ? id : createHash("sha256").update(id).digest("hex").slice(0, 9)
  const messages = rendering.messages.map((message) => {
    const { toolCalls, toolCallId } = message
    const isFine = toolCalls?.every(({ id }) => isShort(id)) ?? true
    if (isFine && (toolCallId === undefined || isShort(toolCallId))) return message
    return {
      ...message,
      ...(toolCalls && { toolCalls: toolCalls.map((call) => ({ ...call, id: shorten(call.id) })) }),
      ...(toolCallId !== undefined && { toolCallId: shorten(toolCallId) }),
    }
  })
  return withMessages(rendering, messages)
}

/** Qwen 3's first and others search every content for something. */
function withContents(rendering: Rendering): Rendering | undefined {
  const messages = rendering.messages.map((message) =>
    message.content === null ? { ...message, content: "" } : message,
  )
  return withMessages(rendering, messages)
}

/** Hermes', Seed's and gpt-oss' read a description and properties of every tool, which OpenAI's may leave out. */
function withWholeTools(rendering: Rendering): Rendering | undefined {
  let isChanged = false
  const tools = rendering.tools?.map((tool) => {
    const own = (tool as { function?: unknown }).function
    if (typeof own !== "object" || own === null) return tool
    const { description, parameters } = own as Record<string, unknown>
    const isWhole = typeof description === "string" && hasProperties(parameters)
    if (isWhole) return tool
    isChanged = true
    const whole = {
      ...own,
      description: description ?? "",
      parameters: { type: "object", properties: {}, ...(parameters as object | undefined) },
    }
    return { ...(tool as object), function: whole }
  })
  return isChanged ? { ...rendering, tools } : undefined
}

const hasProperties = (schema: unknown) =>
  typeof schema === "object" && schema !== null && "properties" in schema

/**
 * Many take one message of the system alone, the first. What it says after others, as Claude Code's does in the middle of a
 * conversation, is said by the user then: where it stands, so that what was read before it need not be read again.
 */
export function withSystemInPlace(rendering: Rendering): Rendering | undefined {
  const { messages } = rendering
  const begin = messages.findIndex((message) => !isOfSystem(message))
  const first = messages.slice(0, begin < 0 ? messages.length : begin)
  const later = messages.slice(first.length)
  if (first.length < 2 && !later.some(isOfSystem)) return undefined
  const said = later.map((each) => (isOfSystem(each) ? { ...each, role: "user" } : each))
  const system = { role: "system", ...joined(...first) }
  return { ...rendering, messages: first.length > 0 ? [system, ...said] : said }
}

const MAX_SOUGHT = 16 // messages: each is sought in the whole text

/** How many of the system's messages, of the first of them, a template has left out of its text. */
export function leftOut(messages: readonly TemplateMessage[], text: string): number {
  const sought = messages.filter(isOfSystem).slice(0, MAX_SOUGHT)
  return sought.filter((message) => !text.includes(textOf(message).trim())).length
}

/** Qwen's want all that the system says as one message, ahead of all others. */
function withSystemAhead(rendering: Rendering): Rendering | undefined {
  const { system, others } = bySystem(rendering)
  if (!rendering.messages.slice(1).some(isOfSystem)) return undefined
  return { ...rendering, messages: [{ role: "system", ...joined(...system) }, ...others] }
}

/** Gemma 2's know no system. */
function withSystemInUser(rendering: Rendering): Rendering | undefined {
  const { system, others } = bySystem(rendering)
  if (system.length === 0) return undefined
  const first = others.findIndex(({ role }) => role === "user")
  const user = others[first] ?? { role: "user", content: "" }
  const messages = others.toSpliced(Math.max(0, first), first < 0 ? 0 : 1, {
    ...user,
    ...joined(...system, user),
  })
  return { ...rendering, messages }
}

const isOfSystem = ({ role }: TemplateMessage) => role === "system"

function bySystem({ messages }: Rendering) {
  return {
    system: messages.filter(isOfSystem),
    others: messages.filter((message) => !isOfSystem(message)),
  }
}

/** Those whose turns alternate take no user behind a result: what Claude Code says there belongs to it. */
function withResultsLast(rendering: Rendering): Rendering | undefined {
  return joining(rendering, (before, { role }) => before.role === "tool" && role === "user")
}

/** Neighbours of one role are one turn. */
function withTurnsJoined(rendering: Rendering): Rendering | undefined {
  return joining(
    rendering,
    (before, { role }) => before.role === role && role !== "tool" && !hasCalls(before),
  )
}

/** @param belongs whether a message is a part of the one before it */
function joining(
  rendering: Rendering,
  belongs: (before: TemplateMessage, message: TemplateMessage) => boolean,
): Rendering | undefined {
  const messages: TemplateMessage[] = []
  for (const message of rendering.messages) {
    const before = messages.at(-1)
    if (before && belongs(before, message))
      messages.splice(-1, 1, { ...message, ...before, ...joined(before, message) })
    else messages.push(message)
  }
  return withMessages(rendering, messages)
}

/** Llama 3's show one call in a message: each goes before its own result. */
function withCallsOneByOne(rendering: Rendering): Rendering | undefined {
  const messages: TemplateMessage[] = []
  const given = rendering.messages
  for (let i = 0; i < given.length; i++) {
    const message = given[i]!
    const { toolCalls = [] } = message
    if (toolCalls.length < 2) {
      messages.push(message)
      continue
    }
    const end = given.findIndex(({ role }, at) => at > i && role !== "tool")
    const results = given.slice(i + 1, end < 0 ? given.length : end)
    for (const [number, call] of toolCalls.entries()) {
      messages.push({
        ...(number === 0 ? message : { role: message.role, content: "" }),
        toolCalls: [call],
      })
      const named = results.findIndex(({ toolCallId }) => toolCallId === call.id)
      const unnamed = results.findIndex(({ toolCallId }) => toolCallId === undefined)
      const at = named < 0 ? unnamed : named
      if (at >= 0) messages.push(...results.splice(at, 1))
    }
    messages.push(...results)
    i = end < 0 ? given.length : end - 1
  }
  return withMessages(rendering, messages)
}
