// A body of Anthropic's API becomes the request that the chat room takes. Its blocks become messages of ours: results of tools
// stand in messages of their own, ahead of what the user says beside them.

import type {
  ChatMessage,
  ChatRequest,
  ConversationRequest,
  ImagePart,
  MessagePart,
  Tool,
  ToolCall,
  ToolChoice,
} from "../../../chat/conversation.ts"
import { problem } from "../../../errors.ts"
import { fault, mustBe, show } from "../../check.ts"
import { isMembers, type Json, withFloats, writing } from "../../json.ts"
import type { Service } from "../../service.ts"
import type { Work } from "../../turns.ts"
import { type Origin, readTemplateArguments } from "../chat/request.ts"
import { assertNames, assertOfObjects, known } from "../chat/tools.ts"
import { readingFormat } from "../format.ts"
import {
  contentOf,
  misplaced,
  readingBase64,
  readingImage,
  type Seeing,
  untaken,
} from "../media.ts"
import { readEnds, readSampling } from "../sampling.ts"
import type { CountTokensRequest, MessagesRequest } from "./schema.ts"

/** Yields what it has read, as much as a body may hold. */
export function* readingMessagesRequest(
  body: MessagesRequest,
  { model, defaults }: Service,
  origin: Origin,
): Work<ChatRequest> {
  assertWhole(body)
  return {
    ...origin,
    ...(yield* readingConversation(body, model)),
    choices: 1,
    maxTokens: body.max_tokens,
    ...readEnds({ stop: body.stop_sequences ?? null }, model),
    sampling: { ...readSampling(body, model, defaults), topLogprobs: undefined },
    parallelToolCalls: !(body.tool_choice?.disable_parallel_tool_use ?? false),
    ...(yield* readingOutputFormat(body)),
  }
}

/**
 * What goes on from a kept conversation is the last of its messages alone, without its tools, and no answer to it. Anthropic's
 * clients send all of it once they are told that the thread is lost.
 */
function assertWhole({ thread }: MessagesRequest): void {
  if (thread?.type !== "continue") return
  const id = show(thread.previous_message_id ?? null)
  throw problem("thread_not_found", { id }, "thread.previous_message_id")
}

/** What becomes the prompt, the same for a reply and for a count. */
export function* readingConversation(
  body: CountTokensRequest,
  model: Seeing,
): Work<ConversationRequest> {
  const messages = readSystem(body.system, model)
  for (const [index, message] of body.messages.entries()) {
    messages.push(...(yield* readingMessage(message, `messages[${index}]`, model)))
  }
  return { messages, templateArguments: readThinking(body), ...readTools(body) }
}

/** Server tools, which Anthropic runs and nobody does here. */
export function serverTools({ tools }: Pick<CountTokensRequest, "tools">): readonly string[] {
  return (tools ?? []).filter(isServerTool).map(({ name }) => name)
}

type Block = Readonly<Record<string, Json | undefined>>
type Content = CountTokensRequest["messages"][number]["content"]

// Claude Code's first block is a line for Anthropic's accounts, another in each request: no prefix would ever be found again.
const BILLING = /^x-anthropic-billing-header:.*(\n|$)/

function readSystem(given: CountTokensRequest["system"], model: Seeing): ChatMessage[] {
  const texts = blocksOf(given ?? []).map((block, index) =>
    textOf(block, `system[${index}]`, model),
  )
  const content = texts.map((text) => text.replace(BILLING, "")).join("")
  return content === "" ? [] : [{ role: "system", content }]
}

function blocksOf(content: Content): readonly Block[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : (content as Block[])
}

function* readingMessage(
  { role, content }: CountTokensRequest["messages"][number],
  path: string,
  model: Seeing,
): Work<ChatMessage[]> {
  const results: ChatMessage[] = []
  const calls: ToolCall[] = []
  const pieces: Piece[] = []
  let thought = ""
  for (const [index, block] of blocksOf(content).entries()) {
    const place = `${path}.content[${index}]`
    switch (block.type) {
      case "thinking":
        thought += member(block, "thinking", place)
        break
      case "tool_use":
        calls.push(yield* readingCall(block, place))
        break
      case "tool_result":
        results.push(yield* readingResult(block, place, model))
        break
      case "redacted_thinking":
      case "server_tool_use":
        break
      default:
        if (block.type === "image" && model.sees && role !== "user")
          throw misplaced(mediaPath(block, place))
        if (!isServerResult(block)) pieces.push(yield* readingPiece(block, place, model))
    }
  }
  if (calls.length > 0 && role !== "assistant") {
    throw fault(path, "has a tool_use block, which belongs to messages of the assistant")
  }
  if (results.length > 0 && role !== "user") {
    throw fault(path, "has a tool_result block, which belongs to messages of the user")
  }
  if (results.length > 0 && pieces.length === 0) return results
  const message: ChatMessage = { role, ...contentOf(partsOf(pieces)) }
  if (thought !== "") message.reasoning = thought
  if (calls.length > 0) message.toolCalls = calls
  return [...results, message]
}

/** Of a tool that ran elsewhere: web_search_tool_result and its like. */
function isServerResult({ type }: Block): boolean {
  return typeof type === "string" && type.endsWith("_tool_result")
}

/** What a block says. */
interface Text {
  text: string
  /** Between blank lines, where something else is said beside it. */
  isApart: boolean
}

type Piece = Text | ImagePart

function* readingPiece(block: Block, path: string, model: Seeing): Work<Piece> {
  if (block.type === "image" && model.sees)
    return yield* readingSource(block.source ?? null, mediaPath(block, path))
  switch (block.type) {
    case "document": {
      const { title, context, source } = block
      return titled(
        [title, context],
        documentText(source ?? null, `${mediaPath(block, path)}.source`, model),
      )
    }
    case "search_result":
      return titled([block.title, block.source], textsIn(block.content, `${path}.content`, model))
    default:
      return { text: textOf(block, path, model), isApart: false }
  }
}

/** @param path of the image's block: its place is what clients take out and go on without */
function* readingSource(source: Json, path: string): Work<ImagePart> {
  if (!isMembers(source)) throw mustBe(`${path}.source`, "an object", source)
  const { type = null, data = null, url = null } = source
  if (type === "url") return yield* readingImage(url, path)
  if (type !== "base64") {
    const what = `is a source of type ${show(type)}; send the image itself, as base64`
    throw problem("unsupported_value", { problem: `${path} ${what}.` }, path)
  }
  if (typeof data !== "string") throw mustBe(`${path}.source.data`, "a string", data)
  return { image: yield* readingBase64(data, 0, path, "image"), field: path }
}

/** Media with its type behind its place, as in Anthropic's errors: Claude Code takes out the block of such a place, and goes on. */
function mediaPath({ type }: Block, path: string): string {
  return type === "image" || type === "document" ? `${path}.${type}` : path
}

function titled(heads: readonly (Json | undefined)[], text: string): Text {
  const said = [...heads, text].flatMap((each) => (typeof each === "string" && each ? [each] : []))
  return { text: said.join("\n\n"), isApart: true }
}

/** Texts that no image stands between are one. */
function partsOf(pieces: readonly Piece[]): MessagePart[] {
  const parts: ({ text: string } | ImagePart)[] = []
  for (const [index, piece] of pieces.entries()) {
    const [last, before] = [parts.at(-1), pieces[index - 1]]
    if ("image" in piece) parts.push(piece)
    else if (!last || !before || "image" in last || "image" in before)
      parts.push({ text: piece.text })
    else {
      const stands = piece.isApart || before.isApart
      parts.splice(-1, 1, { text: last.text + (stands ? "\n\n" : "") + piece.text })
    }
  }
  return parts
}

/** Of a document that is text, whole or in blocks. */
function documentText(source: Json, path: string, model: Seeing): string {
  if (typeof source !== "object" || source === null) throw mustBe(path, "an object", source)
  const { type = null, content } = source as Block
  if (type === "text") return member(source as Block, "data", path)
  if (type === "content") return textsIn(content, `${path}.content`, model)
  throw untaken(path, `is a source of type ${show(type)}`, model)
}

/** A text, or blocks of texts. */
function textsIn(content: Json | undefined, path: string, model: Seeing): string {
  if (typeof content === "string") return content
  if (!Array.isArray(content)) throw mustBe(path, "a string or a list of blocks", content ?? null)
  return content
    .map((block: Json, index) => {
      const place = `${path}[${index}]`
      return textOf(blockAt(block, place), place, model)
    })
    .join("")
}

function blockAt(block: Json, path: string): Block {
  if (typeof block === "object" && block !== null) return block as Block
  throw mustBe(path, "an object", block)
}

function textOf(block: Block, path: string, model: Seeing): string {
  if (block.type === "text") return member(block, "text", path)
  const place = mediaPath(block, path)
  if (block.type === "image" && model.sees) throw misplaced(place)
  throw untaken(place, `is a block of type ${show(block.type ?? null)}`, model)
}

function member(block: Block, name: string, path: string): string {
  const value = block[name] ?? null
  if (typeof value === "string") return value
  throw mustBe(`${path}.${name}`, "a string", value)
}

function* readingCall(block: Block, path: string): Work<ToolCall> {
  const input = block.input ?? {}
  if (!isMembers(input)) throw mustBe(`${path}.input`, "an object", input)
  return {
    id: member(block, "id", path),
    name: member(block, "name", path),
    arguments: yield* writing(input),
  }
}

function* readingResult(block: Block, path: string, model: Seeing): Work<ChatMessage> {
  const content = block.content ?? ""
  if (typeof content !== "string" && !Array.isArray(content)) {
    throw mustBe(`${path}.content`, "a string or a list of blocks", content)
  }
  const pieces: Piece[] = []
  for (const [index, given] of blocksOf(content as Content).entries()) {
    const place = `${path}.tool_result.content[${index}]`
    const inner = blockAt(given as Json, place)
    if (inner.type !== "tool_reference") pieces.push(yield* readingPiece(inner, place, model))
    else pieces.push({ text: member(inner, "tool_name", place), isApart: false })
  }
  const toolCallId = member(block, "tool_use_id", path)
  return { role: "tool", ...contentOf(partsOf(pieces)), toolCallId }
}

function readThinking({ thinking, output_config }: CountTokensRequest) {
  const isOff = thinking?.type === "disabled"
  const isOn = thinking?.type === "enabled" || thinking?.type === "adaptive"
  return readTemplateArguments({
    reasoning_effort: isOff ? "none" : (output_config?.effort ?? null),
    ...(isOn && { chat_template_kwargs: { enable_thinking: true } }),
  })
}

function* readingOutputFormat({ output_config, output_format }: CountTokensRequest) {
  const given = output_config?.format ?? output_format
  if (!given) return {}
  const field = output_config?.format ? "output_config.format" : "output_format"
  const format = yield* readingFormat(given)
  return format && { format: { ...format, field: `${field}.schema` } }
}

type GivenTool = NonNullable<CountTokensRequest["tools"]>[number]

const SERVER_TOOLS = /^(web_search|web_fetch|code_execution|tool_search_tool)_/

function isServerTool({ type }: GivenTool): boolean {
  return SERVER_TOOLS.test(type ?? "")
}

function readTools(body: CountTokensRequest): Pick<ConversationRequest, "tools" | "toolChoice"> {
  const given = (body.tools ?? []).map((tool, index) => ({ tool, field: `tools[${index}]` }))
  const own = given.filter(({ tool }) => !isServerTool(tool))
  const [server] = given.filter(({ tool }) => isServerTool(tool))
  if (server && own.length === 0) {
    const what = `${server.field}.type is ${show(server.tool.type!)}, a tool that Anthropic runs; this server has none.`
    throw problem("unsupported_value", { problem: what }, `${server.field}.type`)
  }
  const tools = own.map(({ tool, field }) => readTool(tool, field))
  assertNames(tools, "name")
  const toolChoice = readChoice(
    body.tool_choice,
    tools.map(({ name }) => name),
  )
  return tools.length === 0 ? {} : { tools, toolChoice }
}

function readTool(
  { type, name, description, input_schema, strict }: GivenTool,
  field: string,
): Tool {
  if (typeof type === "string" && type !== "custom") {
    const what = `${field}.type is ${show(type)}; only tools of the type custom are supported.`
    throw problem("unsupported_value", { problem: what }, `${field}.type`)
  }
  assertOfObjects(input_schema, `${field}.input_schema`)
  const described = typeof description === "string" && { description }
  const parameters = input_schema ?? undefined
  return {
    name,
    definition: {
      type: "function",
      function: {
        name,
        ...described,
        ...(parameters && { parameters: withFloats(parameters as Json) }),
      },
    },
    parameters,
    field: `${field}.input_schema`,
    strict: strict ?? false,
  }
}

function readChoice(
  given: CountTokensRequest["tool_choice"],
  names: readonly string[],
): ToolChoice {
  if (given?.type === "none") return { mode: "none" }
  if (!given || given.type === "auto") return { mode: "auto", names }
  if (names.length === 0) throw fault("tool_choice", "asks for a call, but there are no tools")
  if (given.type === "any") return { mode: "required", names }
  if (typeof given.name !== "string") throw fault("tool_choice.name", "is required")
  return { mode: "required", names: known([given.name], names, "tool_choice.name") }
}
