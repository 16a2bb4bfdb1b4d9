// Items become messages. What the assistant said, thought and called stands in neighbouring items and is one message, even where
// a text stands between a call and its output.

import type { ChatMessage, ToolCall } from "../../../chat/conversation.ts"
import { Problem, problem } from "../../../errors.ts"
import { fault, mustBe, show } from "../../check.ts"
import { isMembers, type Json, type Members, reading, writeJson } from "../../json.ts"
import type { Work } from "../../turns.ts"
import { joinedName, membersOf } from "./tools.ts"

const PIECE = 512 // items read between two turns

/** History of tools that others ran. */
const SKIPPED =
  /^(web_search_call|file_search_call|code_interpreter_call|image_generation_call|local_shell_call|tool_search_|mcp_)/

/** @param field where the items stand; those before `from` come from a kept response. */
export function* readingItems(items: readonly Json[], from: number): Work<ChatMessage[]> {
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
    const other = yield* readingItem(members, path, () => (said ??= nothingSaid()))
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
  assistant: () => Said,
): Work<ChatMessage | undefined> {
  const type = item.type ?? ("role" in item ? "message" : null)
  switch (type) {
    case "message": {
      const role = roleOf(item, path)
      const content = contentOf(item.content, `${path}.content`)
      if (role !== "assistant") return { role, content }
      const said = assistant()
      said.content += content
      said.hasContent = true
      said.isCut = item.status === "incomplete" || item.status === "in_progress"
      return undefined
    }
    case "reasoning":
      assistant().reasoning += thinkingOf(item)
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
        content: contentOf(item.output, `${path}.output`),
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

function contentOf(content: Json | undefined, path: string): string {
  if (typeof content === "string") return content
  if (!Array.isArray(content)) throw mustBe(path, "a string or a list of parts", content ?? null)
  return content
    .map((part: Json, index) => {
      const place = `${path}[${index}]`
      const { type = null, text, refusal } = membersOf(part, place)
      if (type === "refusal" && typeof refusal === "string") return refusal
      if (!TEXT_PARTS.includes(type as string)) {
        const what = `${place} is a part of type ${show(type)}; the model takes text only.`
        throw problem("unsupported_value", { problem: what }, place)
      }
      if (typeof text !== "string") throw mustBe(`${place}.text`, "a string", text ?? null)
      return text
    })
    .join("")
}

/** Whatever a client hands back of it: the text, else what was given it unread, else the summary. */
function thinkingOf({ content, encrypted_content: encrypted, summary }: Members): string {
  if (Array.isArray(content) && content.length > 0) return contentOf(content, "content")
  if (typeof encrypted === "string" && encrypted.startsWith(MARK)) {
    return Buffer.from(encrypted.slice(MARK.length), "base64").toString("utf8")
  }
  return Array.isArray(summary) ? contentOf(summary, "summary") : ""
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
