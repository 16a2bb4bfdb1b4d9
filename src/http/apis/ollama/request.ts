// Bodies of Ollama's API become the requests that the chat room takes. Its messages become chat completions' own first, as they
// differ in names alone: calls without ids get some, and results without ids go to the calls before them in order.

import type { ChatRequest, CompletionRequest, ResponseFormat } from "../../../chat/conversation.ts"
import { fault, mustBe } from "../../check.ts"
import type { Service } from "../../service.ts"
import type { Work } from "../../turns.ts"
import { readingMessages } from "../chat/messages.ts"
import { type Origin, readTemplateArguments } from "../chat/request.ts"
import type { ChatCompletionMessage } from "../chat/schema.ts"
import { readTools } from "../chat/tools.ts"
import { readingFormat } from "../format.ts"
import { readingImages, withImages } from "../media.ts"
import { readEnds, readSampling } from "../sampling.ts"
import type { OllamaChatRequest, OllamaGenerateRequest, OllamaMessage } from "./schema.ts"

/** Yields what it has read, as much as a body may hold. */
export function* readingOllamaChat(
  body: OllamaChatRequest,
  service: Service,
  origin: Origin,
): Work<ChatRequest> {
  const messages = yield* readingMessages(renamed(body.messages ?? []), service.model)
  const { tools = null, tool_choice = null } = body
  const common = yield* readingCommon(body, service)
  const templateArguments = readThink(body)
  return { ...origin, ...common, messages, templateArguments, ...readTools({ tools, tool_choice }) }
}

/** A prompt as the only message. */
export function* readingOllamaText(
  body: OllamaGenerateRequest,
  service: Service,
  origin: Origin,
): Work<ChatRequest> {
  const { system, prompt } = body
  const common = yield* readingCommon(body, service)
  const images = yield* readingImages(body.images ?? [], "images", service.model)
  const user = { role: "user" as const, ...withImages(images, { content: prompt ?? "" }) }
  const messages = system ? [{ role: "system" as const, content: system }, user] : [user]
  return { ...origin, ...common, messages, templateArguments: readThink(body) }
}

/** A prompt as it is, without a template. */
export function* readingOllamaRaw(
  body: OllamaGenerateRequest,
  service: Service,
  { id, scope }: Origin,
): Work<CompletionRequest> {
  if (body.images?.length) throw fault("images", "stand in no raw text; leave raw and suffix out")
  const common = yield* readingCommon(body, service)
  const { prompt, suffix } = body
  return { id, scope, ...common, prompt: prompt ?? "", echo: false, ...(suffix && { suffix }) }
}

type Common = Pick<OllamaChatRequest, "options" | "format" | "think" | "logprobs" | "top_logprobs">

function* readingCommon(body: Common, { model, defaults }: Service) {
  const { options, format: given, logprobs, top_logprobs: top } = body
  if (top && !logprobs) throw fault("top_logprobs", "needs logprobs to be true")
  const { num_predict: most, seed, stop, repeat_penalty, ...sampled } = options ?? {}
  const repetition_penalty = repeat_penalty ?? null
  const fields = { ...sampled, repetition_penalty, seed: seed === -1 ? null : (seed ?? null) }
  const format = yield* readingOllamaFormat(given)
  return {
    choices: 1,
    maxTokens: most && most > 0 ? most : undefined,
    ...readEnds({ stop: stop ?? null }, model),
    sampling: {
      ...readSampling(fields, model, defaults),
      topLogprobs: logprobs ? (top ?? 0) : undefined,
    },
    ...(format && { format }),
  }
}

function* readingOllamaFormat(given: Common["format"]): Work<ResponseFormat | undefined> {
  if (!given) return undefined
  if (given === "json") return { schema: undefined, field: "format" }
  if (typeof given === "string") throw mustBe("format", '"json" or a JSON Schema', given)
  const format = yield* readingFormat({ type: "json_schema", schema: given })
  return format && { ...format, field: "format" }
}

function readThink({ think }: Common) {
  if (think === undefined || think === null) return {}
  if (typeof think === "string") return readTemplateArguments({ reasoning_effort: think })
  if (think) return { enable_thinking: true }
  return readTemplateArguments({ reasoning_effort: "none" })
}

function renamed(messages: readonly OllamaMessage[]): ChatCompletionMessage[] {
  const waiting: Waiting[] = []
  return messages.map((message, index) => {
    const { role, content, thinking, images, tool_calls } = message
    const calls = (tool_calls ?? []).map((call, at) => ({
      ...call,
      id: call.id ?? `call_${index}_${at}`,
    }))
    waiting.push(...calls.map(({ id, function: { name } }) => ({ id, name })))
    return {
      role,
      content: content ?? null,
      ...(images && { images }),
      ...(thinking && { reasoning_content: thinking }),
      ...(calls.length > 0 && { tool_calls: calls }),
      ...(role === "tool" && { tool_call_id: answered(message, waiting) }),
    }
  })
}

/** A call without a result. */
interface Waiting {
  id: string
  name: string
}

/** The call that a result names, by its id or its tool; else the first that has none. */
function answered(
  { tool_call_id: id, tool_name: tool }: OllamaMessage,
  waiting: Waiting[],
): string | null {
  const at = waiting.findIndex((call) => (id ? call.id === id : call.name === tool))
  if (!id) return waiting.splice(Math.max(at, 0), 1)[0]?.id ?? null
  if (at >= 0) waiting.splice(at, 1)
  return id
}
