// From a function call's fields to the requests that HTTP makes of bodies, by the same checks.

import { randomUUID } from "node:crypto"
import type { ChatReply } from "../chat/conversation.ts"
import { readingChat } from "../http/apis/chat/request.ts"
import { ChatCompletionRequest } from "../http/apis/chat/schema.ts"
import { readingCompletion } from "../http/apis/completions/request.ts"
import { CompletionRequest } from "../http/apis/completions/schema.ts"
import { refuse } from "../http/apis/refusals.ts"
import { checking } from "../http/check.ts"
import type { Json } from "../http/json.ts"
import type { Service } from "../http/service.ts"
import { inTurns } from "../http/turns.ts"
import { checkNames } from "./requests.ts"

/** What of a request says where its answer goes, which a function call does not. */
type Transport = "model" | "stream" | "stream_options" | "n" | "best_of" | "user" | "store"

type Fields<Request, Own extends keyof Request> = Partial<Omit<Request, Own | Transport>> & {
  /** Ends the reply. */
  signal?: AbortSignal
}

/** The fields of POST /v1/chat/completions. */
export type ChatFields = Fields<ChatCompletionRequest, "messages">
/** The fields of POST /v1/completions, one prompt at a time. */
export type GenerateFields = Fields<CompletionRequest, "prompt" | "echo">

export interface EmbedFields {
  /** How many of the first numbers are kept, at unit length again. */
  dimensions?: number
  /** Which of the prompts of the model's folder stands before each text. */
  prompt_name?: string
  /** Ends it. */
  signal?: AbortSignal
}

const origin = () => ({ id: randomUUID(), scope: "", reasoning: "split" }) as const

/** @throws the problem that refuses it */
export async function startChat(
  service: Service,
  messages: ChatCompletionRequest["messages"],
  fields: Omit<ChatFields, "signal">,
  signal: AbortSignal,
): Promise<ChatReply> {
  checkNames("chat", fields, Object.keys(ChatCompletionRequest.properties))
  const given = { model: service.model.names[0]!, messages, ...fields } as unknown as Json
  refuse(given, "chat")
  const body = await inTurns(checking(ChatCompletionRequest, given))
  return service.chat.reply(await inTurns(readingChat(body, service, origin())), signal)
}

/** @throws the problem that refuses it */
export async function startText(
  service: Service,
  prompt: string,
  fields: Omit<GenerateFields, "signal">,
  signal: AbortSignal,
): Promise<ChatReply> {
  checkNames("generate", fields, Object.keys(CompletionRequest.properties))
  const given = { model: service.model.names[0]!, prompt, ...fields } as unknown as Json
  refuse(given, "completions")
  const body = await inTurns(checking(CompletionRequest, given))
  const { common } = await inTurns(readingCompletion(body, service, origin()))
  return service.chat.complete({ ...common, prompt: body.prompt as string }, signal)
}

/** @throws the problem that refuses it */
export async function embedTexts(
  { chat }: Service,
  texts: readonly string[],
  { dimensions, prompt_name, signal = new AbortController().signal, ...others }: EmbedFields,
): Promise<number[][]> {
  checkNames("embed", others, [])
  const { id, scope } = origin()
  const own = { texts, field: "texts", dimensions, promptName: prompt_name }
  const asked = { id, scope, truncate: false, ...own }
  const { vectors } = await chat.embed(asked, signal)
  return vectors.map((vector) => Array.from(vector))
}

/** @throws the problem that refuses it */
export async function rankTexts(
  { chat }: Service,
  query: string,
  documents: readonly string[],
): Promise<number[]> {
  const { id, scope } = origin()
  const asked = { id, scope, query, documents }
  const { scores } = await chat.rank(asked, new AbortController().signal)
  return [...scores]
}
