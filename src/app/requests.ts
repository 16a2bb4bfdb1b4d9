// Requests of a program that runs the server inside itself: only what is asked has to be said, the rest is the API's defaults.
// What the types would refuse is refused here as well, in a sentence, because such programs may be plain JavaScript.

import { randomBytes, randomUUID } from "node:crypto"
import type { OpenChat } from "../chat/chat.ts"
import type {
  ChatMessage,
  ChatReply,
  ChatRequest,
  CompletionRequest,
} from "../chat/conversation.ts"
import { plainSampling, type SamplingParams } from "../engine/generation.ts"
import { problem } from "../errors.ts"
import { said } from "./defaults.ts"

/** A request of which all but `Field` may be left out. */
type Brief<Request extends { sampling: SamplingParams }, Field extends keyof Request> = Pick<
  Request,
  Field
> &
  Partial<Omit<Request, "sampling">> & { sampling?: Partial<SamplingParams> }

export type ChatCall = Brief<ChatRequest, "messages">
export type CompletionCall = Brief<CompletionRequest, "prompt">

export interface AppChat extends Omit<OpenChat, "reply" | "complete"> {
  /** @throws the problem that refuses the request; leaving the loop over its events ends it, as the signal does */
  reply(call: ChatCall, signal?: AbortSignal): Promise<ChatReply>
  complete(call: CompletionCall, signal?: AbortSignal): Promise<ChatReply>
}

/** @param advised how answers are drawn where a call does not say */
export function withDefaults(chat: OpenChat, advised: Partial<SamplingParams>): AppChat {
  return {
    ...chat,
    reply: async (call, signal = newSignal()) => chat.reply(chatRequest(call, advised), signal),
    complete: async (call, signal = newSignal()) =>
      chat.complete(completionRequest(call, advised), signal),
  }
}

/** Of one call: what all shared would collect whatever listens for their ends. */
const newSignal = () => new AbortController().signal

function chatRequest(call: ChatCall, advised: Partial<SamplingParams>): ChatRequest {
  const fields = { ...shared(), templateArguments: {}, reasoning: "split" } as const
  const tools = ["tools", "toolChoice", "parallelToolCalls"]
  checkNames("reply", call, ["messages", ...Object.keys(fields), ...OPTIONAL, ...tools])
  checkMessages(call.messages)
  return { ...fields, ...said(call), sampling: sampling(call.sampling, advised) }
}

/** @throws `invalid_value` of what is none */
function checkMessages(messages: unknown): asserts messages is readonly ChatMessage[] {
  if (!Array.isArray(messages)) throw wrong("messages", "must be a list of messages", messages)
  messages.forEach(checkMessage)
}

const ROLES = ["system", "user", "assistant", "tool"]

function checkMessage(message: ChatMessage, i: number): void {
  const at = `messages[${i}]`
  if (typeof message !== "object" || message === null)
    throw wrong(at, "must be a message, like { role, content }", message)
  const { role, content, parts } = message
  if (!ROLES.includes(role)) throw wrong(`${at}.role`, `must be one of ${ROLES.join(", ")}`, role)
  if (typeof content !== "string" && content !== null)
    throw wrong(`${at}.content`, "must be a text or null", content)
  if (parts !== undefined) checkParts(parts, role, `${at}.parts`)
}

function checkParts(parts: unknown, role: ChatMessage["role"], at: string): void {
  if (!Array.isArray(parts) || !parts.every(isPart))
    throw wrong(
      at,
      "must be a list of { text }, { image } and { audio }, the latter two with a Uint8Array",
    )
  if (role !== "user" && role !== "tool")
    throw wrong(at, "belongs to messages of the user or of tools")
}

function isPart(part: unknown): boolean {
  const { text, image, audio } = (part ?? {}) as Record<string, unknown>
  return typeof text === "string" || image instanceof Uint8Array || audio instanceof Uint8Array
}

function completionRequest(
  call: CompletionCall,
  advised: Partial<SamplingParams>,
): CompletionRequest {
  const fields = { ...shared(), echo: false }
  checkNames("complete", call, ["prompt", "suffix", ...Object.keys(fields), ...OPTIONAL])
  const { prompt } = call
  if (typeof prompt !== "string" && !(prompt instanceof Int32Array))
    throw wrong("prompt", "must be a text or an Int32Array of token ids", prompt)
  return { ...fields, ...said(call), sampling: sampling(call.sampling, advised) }
}

/** What both may say and has no default. */
const OPTIONAL = ["format", "minTokens", "stopTokens"]

const shared = () => ({
  id: randomUUID(),
  choices: 1,
  maxTokens: undefined,
  stop: [],
  ignoreEos: false,
  sampling: undefined,
  scope: "",
})

function sampling(
  given: Partial<SamplingParams> = {},
  advised: Partial<SamplingParams>,
): SamplingParams {
  const defaults: SamplingParams = { ...plainSampling, seed: randomBytes(8).readBigUInt64LE() }
  checkNames("sampling", given, Object.keys(defaults))
  return { ...defaults, ...advised, ...said(given) }
}

/** A typing error must not become a default. */
export function checkNames(what: string, given: object, known: readonly string[]): void {
  if (typeof given !== "object" || given === null) throw wrong(what, "must be an object", given)
  const unknown = Object.keys(given).find((name) => !known.includes(name))
  if (unknown !== undefined)
    throw wrong(unknown, `is no field of ${what}; known: ${known.join(", ")}`)
}

function wrong(field: string, needs: string, given?: unknown): Error {
  const got = given === undefined ? "" : `, not ${String(JSON.stringify(given)).slice(0, 100)}`
  return problem("invalid_value", { problem: `${field} ${needs}${got}.` }, field)
}
