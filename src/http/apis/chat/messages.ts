// The conversation as clients write it, turned into our own messages: texts from strings, lists of maps or OpenAI's
// parts, images as parts or beside the text, recordings as parts, calls with their arguments as a map or as text. Images are refused
// where a model does not see, and recordings where it does not hear.

import type { ChatMessage, MediumKind, MessagePart, ToolCall } from "../../../chat/conversation.ts"
import { writeCallList } from "../../../chat/formats/call-list.ts"
import { fault, mustBe, show } from "../../check.ts"
import { isMembers, type Json, type Members, reading, writing } from "../../json.ts"
import type { Work } from "../../turns.ts"
import {
  contentOf,
  misplaced,
  readingAudio,
  readingImage,
  readingImages,
  type Seeing,
  untaken,
  withImages,
} from "../media.ts"
import type { ChatCompletionMessage } from "./schema.ts"

const PIECE = 512 // messages read between two turns

/** Yields what it has read: messages, or of what is longer than those as much as a piece of JSON holds. */
export function* readingMessages(
  given: readonly ChatCompletionMessage[],
  model: Seeing,
): Work<ChatMessage[]> {
  const messages: ChatMessage[] = []
  for (const [index, message] of given.entries()) {
    if (index > 0 && index % PIECE === 0) yield PIECE
    messages.push(yield* readingMessage(message, `messages[${index}]`, model))
  }
  return messages
}

function* readingMessage(
  given: ChatCompletionMessage,
  path: string,
  model: Seeing,
): Work<ChatMessage> {
  const { role, content, name, tool_calls, tool_call_id } = given
  if (tool_calls?.length && role !== "assistant") {
    throw fault(`${path}.tool_calls`, "belongs to messages of the assistant")
  }
  if (typeof tool_call_id === "string" && role !== "tool") {
    throw fault(`${path}.tool_call_id`, "belongs to messages of the tool role")
  }
  const said = Array.isArray(content)
    ? yield* readingParts(content as Part[], role, `${path}.content`, model)
    : { content: content ?? null }
  const images = yield* readingImages((given as Part).images, `${path}.images`, model)
  if (images.length > 0 && !MAY_SHOW.has(role)) throw misplaced(`${path}.images`)
  const message: ChatMessage = {
    role: role === "developer" ? "system" : role,
    ...withImages(images, said),
  }
  if (typeof name === "string") message.name = name
  const reasoning = given.reasoning || given.reasoning_content
  if (typeof reasoning === "string") message.reasoning = reasoning
  if (typeof tool_call_id === "string") message.toolCallId = tool_call_id
  if (tool_calls?.length) {
    const toolCalls: ToolCall[] = []
    for (const [index, call] of tool_calls.entries()) {
      toolCalls.push(yield* readingCall(call, `${path}.tool_calls[${index}]`, index))
    }
    message.toolCalls = toolCalls
    message.content = withoutList(message.content, toolCalls)
  }
  return message
}

const MAX_LISTED = 64 * 1024 // characters of arguments: writing more of them anew would hold others up

/** Native streams say calls twice, as a list in the text and in `tool_calls`; a client that joins them sends both back. */
function withoutList(content: string | null, calls: readonly ToolCall[]): string | null {
  const length = calls.reduce((sum, call) => sum + call.arguments.length, 0)
  if (!content?.endsWith("]") || length > MAX_LISTED) return content
  const lists = (["plain", "quoted"] as const).map((style) => writeCallList(calls, style))
  const list = lists.find((each) => content.endsWith(each)) ?? ""
  return content.slice(0, content.length - list.length) || null
}

type Part = Members

// Structured data of a tool reaches the template as its JSON, with all that it says.
function* readingParts(
  given: readonly Part[],
  role: string,
  path: string,
  model: Seeing,
): Work<Pick<ChatMessage, "content" | "parts">> {
  const kindOf = (part: Part) => mediumIn(part, model)
  if (role === "tool" && !given.some(kindOf) && isStructured(given))
    return { content: yield* writing(given) }
  const parts: MessagePart[] = []
  for (const [index, part] of given.entries()) {
    const place = `${path}[${index}]`
    const kind = kindOf(part)
    if (!kind) parts.push({ text: readPart(part, place, model) })
    else if (!MAY_SHOW.has(role)) throw misplaced(place, kind)
    else if (kind === "image") parts.push(yield* readingImage(...imageIn(part, place)))
    else parts.push(yield* readingAudio(...audioIn(part, place)))
  }
  return contentOf(parts)
}

/** Whose messages hold images and recordings. */
const MAY_SHOW: ReadonlySet<string> = new Set(["user", "tool"])

/** Types of parts that are images: this API's own, that of Responses, and that of transformers' templates. */
const IMAGES: ReadonlySet<unknown> = new Set(["image_url", "input_image", "image"])

/** Types of parts that are recordings: OpenAI's, vLLM's, and that of transformers' templates. */
const AUDIO: ReadonlySet<unknown> = new Set(["input_audio", "audio_url", "audio"])

/** What of a part the model takes beside text. */
function mediumIn(part: Part, { sees, hears }: Seeing): MediumKind | undefined {
  const isImage = IMAGES.has(part.type) || (part.type === undefined && "image_url" in part)
  if (sees && isImage) return "image"
  return hears && AUDIO.has(part.type) ? "audio" : undefined
}

/** The same of a recording; what it is called there (`format`) its first bytes say better. */
function audioIn(
  { input_audio: input, audio_url: url, audio }: Part,
  path: string,
): [audio: Json, field: string] {
  if (isMembers(input)) return [input.data ?? null, `${path}.input_audio.data`]
  if (isMembers(url)) return [url.url ?? null, `${path}.audio_url.url`]
  if (url !== undefined) return [url, `${path}.audio_url`]
  return audio === undefined ? [input ?? null, `${path}.input_audio`] : [audio, `${path}.audio`]
}

/** Where a part has its image, and what the request calls that place. */
function imageIn({ image_url: url, image }: Part, path: string): [image: Json, field: string] {
  if (url === undefined && image !== undefined) return [image, `${path}.image`]
  if (isMembers(url)) return [url.url ?? null, `${path}.image_url.url`]
  return [url ?? null, `${path}.image_url`]
}

/** Maps of which none has a `text`; or maps of strings, as long as one of them is more than a text. */
function isStructured(parts: readonly Part[]): boolean {
  if (parts.length === 0 || parts.every(isText)) return false
  const isOfStrings = (part: Part) => Object.values(part).every((own) => typeof own === "string")
  return parts.every((part) => !("text" in part)) || parts.every(isOfStrings)
}

/** Types of parts that have a `text`: this API's own, and those of Responses, which vLLM reads here, too. */
const TEXTS: ReadonlySet<unknown> = new Set(["text", "input_text", "output_text"])

function isText(part: Part): boolean {
  return typeof part.text === "string" && (TEXTS.has(part.type) || Object.keys(part).length === 1)
}

function readPart(part: Part, path: string, model: Seeing): string {
  const { type = "text", text, refusal } = part
  if (TEXTS.has(type) && typeof text === "string") return text
  if (type === "refusal" && typeof refusal === "string") return refusal
  if (TEXTS.has(type)) throw fault(path, "must have a text, which must be a string")
  throw untaken(path, `is a part of type ${show(type)}`, model)
}

type Call = NonNullable<ChatCompletionMessage["tool_calls"]>[number]

function* readingCall(call: Call, path: string, index: number): Work<ToolCall> {
  const { name, arguments: given } = call.function
  return {
    id: call.id ?? `call_${index}`,
    name,
    arguments: yield* readingArguments(given, `${path}.function.arguments`),
  }
}

function* readingArguments(given: Call["function"]["arguments"], path: string): Work<string> {
  if (given === undefined || given === null || given === "") return "{}"
  if (typeof given !== "string") return yield* writing(given as Json)
  try {
    if (isMembers(yield* reading(given))) return given
  } catch {
    // Said below: to the client it is the same fault.
  }
  throw mustBe(path, "a map, or a string that holds one as JSON", given)
}
