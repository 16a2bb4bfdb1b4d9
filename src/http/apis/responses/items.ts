// Items become messages. What the assistant said, thought and called stands in neighbouring items and is one message, even where
// a text stands between a call and its output.

import type { ChatMessage, MessagePart, ToolCall } from "../../../chat/conversation.ts"
import { Problem, problem } from "../../../errors.ts"
import { fault, mustBe, show } from "../../check.ts"
import { isMembers, type Json, type Members, reading, writeJson } from "../../json.ts"
import type { Work } from "../../turns.ts"
import { contentOf, misplaced, readingAudio, readingImage, type Seeing, untaken } from "../media.ts"
import { joinedName, membersOf } from "./tools.ts"

const PIECE = 512 // items read between two turns

/** History of tools that others ran. */
const SKIPPED =
  /^(web_search_call|file_search_call|code_interpreter_call|image_generation_call|local_shell_call|tool_search_|mcp_)/

/** @param field where the items stand; those before `from` come from a kept response. */
export function* readingItems(
  items: readonly Json[],
  from: number,
  model: Seeing,
): Work<ChatMessage[]> {
  const messages: ChatMessage[] = []
  let said: Said | undefined
  const close = () => {
    if (said) messages.push(messageOf(said))
    said = undefined
  }
  for (const [index, item] of items.entries()) {
    if (index > 0 && index % PIECE === 0) yield PIECE
    const path = index < from ? "previous_response_id" : `input[${index - from}]`
    const members = membersOf(item, path)
    const other = yield* readingItem(members, path, model, () => (said ??= nothingSaid()))
    if (!other) continue
    close()
    messages.push(other)
  }
  close()
  return messages
}

/** What an assistant's items have said so far. */
interface Said {
  content: string
  hasContent: boolean
  /** Its last text was cut off. */
  isCut: boolean
  reasoning: string
  calls: ToolCall[]
}

function nothingSaid(): Said {
  return { content: "", hasContent: false, isCut: false, reasoning: "", calls: [] }
}

function messageOf({ content, hasContent, isCut, reasoning, calls }: Said): ChatMessage {
  return {
    role: "assistant",
    content: hasContent ? content : null,
    ...(!isCut && { isWhole: true }),
    ...(reasoning !== "" && { reasoning }),
    ...(calls.length > 0 && { toolCalls: calls }),
  }
}

/** The message that an item is, unless it is one of the assistant's, which is added to what that has said. */
function* readingItem(
  item: Members,
  path: string,
  model: Seeing,
  assistant: () => Said,
): Work<ChatMessage | undefined> {
  const type = item.type ?? ("role" in item ? "message" : null)
  switch (type) {
    case "message": {
      const role = roleOf(item, path)
      const place = `${path}.content`
      if (role === "user") return { role, ...(yield* readingContent(item.content, place, model)) }
      const content = textsIn(item.content, place, model)
      if (role === "system") return { role, content }
      const said = assistant()
      said.content += content
      said.hasContent = true
      said.isCut = item.status === "incomplete" || item.status === "in_progress"
      return undefined
    }
    case "reasoning":
      assistant().reasoning += thinkingOf(item, model)
      return undefined
    case "function_call":
      assistant().calls.push(yield* readingCall(item, path))
      return undefined
    case "custom_tool_call": {
      const input = textOf(item, "input", path)
      assistant().calls.push(callOf(item, writeJson({ input }), path))
      return undefined
    }
    case "function_call_output":
    case "custom_tool_call_output":
      return {
        role: "tool",
        ...(yield* readingContent(item.output, `${path}.output`, model)),
        toolCallId: textOf(item, "call_id", path),
      }
  }
  if (typeof type === "string" && SKIPPED.test(type)) return undefined
  const what = `${path}.type is ${show(type)}, an item that this server does not know.`
  const cure = type === "compaction_trigger" ? ` ${CODEX}` : ""
  throw problem("unsupported_value", { problem: what + cure }, `${path}.type`)
}

const CODEX =
  "Codex shortens a conversation itself where this server stands under model_providers in its config.toml, not under openai_base_url."

function roleOf({ role }: Members, path: string): "system" | "user" | "assistant" {
  if (role === "developer") return "system"
  if (role === "system" || role === "user" || role === "assistant") return role
  throw mustBe(`${path}.role`, 'one of "user", "assistant", "system", "developer"', role ?? null)
}

const TEXT_PARTS = ["input_text", "output_text", "text", "summary_text", "reasoning_text"]

function partsIn(content: Json | undefined, path: string): readonly Json[] {
  if (typeof content === "string") return [{ type: "text", text: content }]
  if (Array.isArray(content)) return content
  throw mustBe(path, "a string or a list of parts", content ?? null)
}

/** Of a user, or a tool: images and recordings may stand among the texts. */
function* readingContent(content: Json | undefined, path: string, model: Seeing) {
  const parts: MessagePart[] = []
  for (const [index, given] of partsIn(content, path).entries()) {
    const place = `${path}[${index}]`
    const part = membersOf(given, place)
    if (part.type === IMAGE && model.sees) parts.push(yield* readingImagePart(part, place))
    else if (part.type === AUDIO && model.hears) parts.push(yield* readingAudioPart(part, place))
    else parts.push({ text: textIn(part, place, model) })
  }
  return contentOf(parts)
}

const IMAGE = "input_image"
const AUDIO = "input_audio"

function* readingAudioPart({ input_audio: input }: Members, path: string) {
  const { data } = membersOf(input ?? null, `${path}.input_audio`)
  return yield* readingAudio(data ?? null, `${path}.input_audio.data`)
}

function* readingImagePart({ image_url: url, file_id }: Members, path: string) {
  if (typeof file_id === "string") {
    const what = `${path}.file_id names a file, and this server keeps none; send the image as image_url.`
    throw problem("unsupported_value", { problem: what }, `${path}.file_id`)
  }
  return yield* readingImage(url ?? null, `${path}.image_url`)
}

function textsIn(content: Json | undefined, path: string, model: Seeing): string {
  return partsIn(content, path)
    .map((part, index) => textIn(membersOf(part, `${path}[${index}]`), `${path}[${index}]`, model))
    .join("")
}

function textIn({ type = null, text, refusal }: Members, path: string, model: Seeing): string {
  if (type === "refusal" && typeof refusal === "string") return refusal
  if (type === IMAGE && model.sees) throw misplaced(path)
  if (type === AUDIO && model.hears) throw misplaced(path, "audio")
  if (!TEXT_PARTS.includes(type as string))
    throw untaken(path, `is a part of type ${show(type)}`, model)
  if (typeof text === "string") return text
  throw mustBe(`${path}.text`, "a string", text ?? null)
}

/** Whatever a client hands back of it: the text, else what was given it unread, else the summary. */
function thinkingOf(
  { content, encrypted_content: encrypted, summary }: Members,
  model: Seeing,
): string {
  if (Array.isArray(content) && content.length > 0) return textsIn(content, "content", model)
  if (typeof encrypted === "string" && encrypted.startsWith(MARK)) {
    return Buffer.from(encrypted.slice(MARK.length), "base64").toString("utf8")
  }
  return Array.isArray(summary) ? textsIn(summary, "summary", model) : ""
}

const MARK = "sinter:"

/** Thinking as a client carries it that keeps nothing of it but what it cannot read. */
export function unread(thinking: string): string {
  return MARK + Buffer.from(thinking).toString("base64")
}

function* readingCall(item: Members, path: string): Work<ToolCall> {
  const given = textOf(item, "arguments", path) || "{}"
  const place = `${path}.arguments`
  let value: Json
  try {
    value = yield* reading(given)
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    if (item.status === "incomplete") return callOf(item, "{}", path) // a reply's end cut it off
    throw fault(place, "is a string that holds no JSON")
  }
  if (isMembers(value)) return callOf(item, given, path)
  throw mustBe(place, "a string that holds an object as JSON", given)
}

function callOf(item: Members, json: string, path: string): ToolCall {
  const { namespace } = item
  const own = textOf(item, "name", path)
  const name = typeof namespace === "string" ? joinedName(namespace, own) : own
  return { id: textOf(item, "call_id", path), name, arguments: json }
}

function textOf(item: Members, name: string, path: string): string {
  const value = item[name] ?? null
  if (typeof value === "string") return value
  throw mustBe(`${path}.${name}`, "a string", value)
}
