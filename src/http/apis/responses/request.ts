// A body of the Responses API becomes the request that the chat room takes, with what the reply's writer and the store want to
// know of it.

import type { ChatMessage, ChatRequest, ConversationRequest } from "../../../chat/conversation.ts"
import { problem } from "../../../errors.ts"
import { fault, mustBe } from "../../check.ts"
import type { Json, Members } from "../../json.ts"
import type { Service } from "../../service.ts"
import type { Work } from "../../turns.ts"
import { type Origin, readTemplateArguments } from "../chat/request.ts"
import { readingFormat } from "../format.ts"
import type { Seeing } from "../media.ts"
import { readEnds, readSampling } from "../sampling.ts"
import { readingItems } from "./items.ts"
import type { ResponsesRequest } from "./schema.ts"
import type { Kept, ResponseStore } from "./store.ts"
import { type Callables, membersOf, readCallables, readChoice } from "./tools.ts"

/** What is asked, before it is known who answers. */
export interface Asked {
  conversation: ConversationRequest
  callables: Callables
  /** The items of this request, references found. */
  input: readonly Json[]
  previous: Kept | undefined
}

/** Yields what it has read, as much as a body may hold. */
export function* readingAsked(
  body: ResponsesRequest,
  store: ResponseStore,
  scope: string,
  model: Seeing,
): Work<Asked> {
  assertSupported(body)
  const previous = previousOf(body, store, scope)
  const { input, added } = readInput(body, store, scope)
  if (input.length === 0 && !previous) throw fault("input", "must not be empty")
  const callables = readCallables([...((body.tools ?? []) as Members[]), ...added])
  const before = previous?.history ?? []
  const items = yield* readingItems([...before, ...input], before.length, model)
  const messages = withInstructions(body.instructions, items)
  if (messages.length === 0) throw fault("input", "holds no message")
  const tools = callables.all.map(({ tool }) => tool)
  const toolChoice = readChoice(body.tool_choice as string | Members | null | undefined, callables)
  const templateArguments = readTemplateArguments({
    reasoning_effort: body.reasoning?.effort ?? null,
    chat_template_kwargs: body.chat_template_kwargs ?? null,
  })
  const conversation = {
    messages,
    templateArguments,
    ...(tools.length > 0 && { tools, toolChoice }),
  }
  return { conversation, callables, input, previous }
}

export function* readingResponse(
  body: ResponsesRequest,
  { conversation }: Asked,
  { model, defaults }: Service,
  origin: Origin,
): Work<ChatRequest> {
  return {
    ...origin,
    ...conversation,
    choices: 1,
    maxTokens: body.max_output_tokens ?? undefined,
    ...readEnds({ stop: body.stop ?? null, ignore_eos: body.ignore_eos ?? null }, model),
    sampling: { ...readSampling(body, model, defaults), topLogprobs: topLogprobsOf(body) },
    parallelToolCalls: body.parallel_tool_calls ?? true,
    ...(yield* readingTextFormat(body)),
  }
}

/** Fields that would change the answer, and that nobody here acts on. */
const UNSUPPORTED: Record<string, string> = {
  conversation: "conversations are not kept; use previous_response_id, or send all items.",
  prompt: "prompts are not kept; send instructions and input.",
  // chat's names of what has another one here
  messages: "send the conversation as input.",
  max_tokens: "use max_output_tokens.",
  max_completion_tokens: "use max_output_tokens.",
  response_format: "use text.format, which has name and schema beside type.",
  reasoning_effort: "use reasoning, as a map with effort.",
}

/** With what a developer says at the beginning they are one message: many templates know one of the system's alone. */
function withInstructions(
  instructions: string | null | undefined,
  messages: readonly ChatMessage[],
): ChatMessage[] {
  const first = messages.findIndex(({ role }) => role !== "system")
  const begin = messages.slice(0, first < 0 ? messages.length : first)
  const texts = [instructions, ...begin.map(({ content }) => content)].filter(Boolean)
  const rest = messages.slice(begin.length)
  return texts.length > 0 ? [{ role: "system", content: texts.join("\n\n") }, ...rest] : rest
}

function assertSupported(body: ResponsesRequest): void {
  for (const [param, because] of Object.entries(UNSUPPORTED)) {
    if ((body as Members)[param]) {
      throw problem("unsupported_value", { problem: `${param}: ${because}` }, param)
    }
  }
}

/** How many alternatives to each token are told; undefined: no log probabilities. */
function topLogprobsOf({ include, top_logprobs: top }: ResponsesRequest): number | undefined {
  return top || include?.includes("message.output_text.logprobs") ? (top ?? 0) : undefined
}

function previousOf(
  { previous_response_id: id }: ResponsesRequest,
  store: ResponseStore,
  scope: string,
): Kept | undefined {
  if (typeof id !== "string") return undefined
  const previous = store.find(id, scope)
  if (previous) return previous
  throw problem("previous_response_not_found", { id: JSON.stringify(id) }, "previous_response_id")
}

/** The items as they are meant, and tools that stand among them. */
function readInput({ input: given }: ResponsesRequest, store: ResponseStore, scope: string) {
  if (typeof given === "string") {
    return { input: given === "" ? [] : [{ role: "user", content: given }], added: [] }
  }
  const input: Json[] = []
  const added: Members[] = []
  for (const [index, item] of ((given ?? []) as Json[]).entries()) {
    const path = `input[${index}]`
    const { type, id, tools } = membersOf(item, path)
    if (type === "additional_tools") added.push(...toolsOf(tools ?? [], `${path}.tools`))
    else if (type === "item_reference") input.push(referred(id ?? null, path, store, scope))
    else input.push(item)
  }
  return { input, added }
}

function toolsOf(given: Json, path: string): Members[] {
  if (!Array.isArray(given)) throw mustBe(path, "a list of tools", given)
  return given.map((tool: Json, index) => membersOf(tool, `${path}[${index}]`))
}

function referred(id: Json, path: string, store: ResponseStore, scope: string): Json {
  const item = typeof id === "string" ? store.findItem(id, scope) : undefined
  if (item !== undefined) return item
  throw problem("response_not_found", { id: JSON.stringify(id) }, `${path}.id`)
}

function* readingTextFormat({ text }: ResponsesRequest): Work<Pick<ChatRequest, "format">> {
  const given = text?.format
  if (!given || given.type === "text") return {}
  const { type, schema = null } = given
  if (type === "json_schema" && !schema) throw fault("text.format.schema", "is required")
  const format = yield* readingFormat({ type, schema })
  return format ? { format: { ...format, field: "text.format.schema" } } : {}
}
