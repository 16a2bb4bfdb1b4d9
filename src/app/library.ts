// A model inside one's own process, without a server: load it, ask it, close it. What is asked are the API's own fields, read by
// the code that reads them from requests, so that there is one table of what can be asked and one way to refuse it.

import type { ChatReply, FinishReason, ReplyEvent, Usage } from "../chat/conversation.ts"
import { openWhole } from "../closing.ts"
import { problem } from "../errors.ts"
import type { ChatCompletionRequest } from "../http/apis/chat/schema.ts"
import type { ChatFields, EmbedFields, GenerateFields } from "./library-requests.ts"
import { loadModel } from "./loaded-model.ts"
import type { ModelOptions } from "./options.ts"
import { prepareModel } from "./prepared-model.ts"

export type { ChatFields, EmbedFields, GenerateFields }

/** Adapters that requests choose are a server's, which gives each a name: here `lora` changes the model. */
export type LoadOptions = Omit<ModelOptions, "model" | "choices">

/** A question, or the conversation so far. */
export type ChatInput = string | ChatCompletionRequest["messages"]

export interface Answer {
  text: string
  /** The model's thinking, where it thinks. */
  reasoning: string
  calls: { id: string; name: string; arguments: Record<string, unknown> }[]
  reason: FinishReason
  usage: Usage
}

export interface Model {
  /** Answers a question or a conversation. */
  chat(input: ChatInput, fields?: ChatFields): Reply
  /** Goes on with a text. */
  generate(prompt: string, fields?: GenerateFields): Reply
  /** Each text as a row of unit length, in order. */
  embed(texts: readonly string[], fields?: EmbedFields): Promise<number[][]>
  /** How well each document answers a query, from 0 to 1, of a model that ranks. */
  rank(query: string, documents: readonly string[]): Promise<number[]>
  /** Answers with a value that satisfies a JSON Schema. @throws when the reply was cut before the value was whole */
  schema<Value>(input: ChatInput, schema: object, fields?: ChatFields): Promise<Value>
  /** Ends what is running and frees what is held. */
  close(): Promise<void>
}

/** @param model what `sinter serve` takes. @throws the start-up problems: a model, a device, limits that cannot be had. */
export async function load(model: string, options: LoadOptions = {}): Promise<Model> {
  return openWhole(async (closing) => {
    const reading = import("./library-requests.ts") // a third of all modules
    const prepared = closing.add(await prepareModel({ ...options, model }))
    const surroundings = {
      now: new Date(),
      reasoning: "split",
      trace: undefined,
      onLost: () => {},
    } as const
    const loading = closing.add(loadModel(prepared, surroundings))
    const [{ embedTexts, rankTexts, startChat, startText }, { services }] = await Promise.all([
      reading,
      loading.loaded,
    ])
    const [service] = services
    const chat = (input: ChatInput, { signal, ...fields }: ChatFields = {}) =>
      new Reading(signal, (ending) => startChat(service, messagesOf(input), fields, ending))
    return {
      chat,
      generate: (prompt, { signal, ...fields } = {}) =>
        new Reading(signal, (ending) => startText(service, prompt, fields, ending)),
      schema: async (input, schema, fields = {}) => {
        const response_format = { type: "json_schema", schema: { ...schema } } as const
        return valueIn(await chat(input, { ...fields, response_format }).answer())
      },
      embed: (texts, fields = {}) => embedTexts(service, texts, fields),
      rank: (query, documents) => rankTexts(service, query, documents),
      close: () => closing.close(),
    }
  })
}

function messagesOf(input: ChatInput): ChatCompletionRequest["messages"] {
  return typeof input === "string" ? [{ role: "user", content: input }] : input
}

function valueIn<Value>({ text, reason }: Answer): Value {
  if (reason === "stop") return JSON.parse(text)
  const words =
    "the reply was cut before its value was whole; raise max_tokens or shorten the prompt"
  throw problem("generation_failed", { problem: words })
}

/** What a model says, as pieces of its text or whole. It begins when it is first read, and is read once. */
export interface Reply extends AsyncIterable<string> {
  text(): Promise<string>
  answer(): Promise<Answer>
  /** All that happens. Leaving the loop ends the reply. @throws the problem that refuses the request, or that it failed of */
  events(): AsyncIterable<ReplyEvent>
}

class Reading implements Reply {
  readonly #start: (signal: AbortSignal) => Promise<ChatReply>
  readonly #signal: AbortSignal
  #isRead = false

  constructor(signal: AbortSignal | undefined, start: (signal: AbortSignal) => Promise<ChatReply>) {
    this.#signal = signal ?? new AbortController().signal
    this.#start = start
  }

  async *events(): AsyncGenerator<ReplyEvent, void, undefined> {
    if (this.#isRead) throw new Error("A reply can be read once; ask again for another.")
    this.#isRead = true
    for await (const event of (await this.#start(this.#signal)).events) {
      if (event.kind === "finish" && event.problem) throw event.problem
      yield event
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string, void, undefined> {
    for await (const event of this.events()) if (event.kind === "content") yield event.text
  }

  async text(): Promise<string> {
    const { text } = await this.answer()
    return text
  }

  async answer(): Promise<Answer> {
    const answer = { text: "", reasoning: "", reason: "stop" as FinishReason }
    const calls: { id: string; name: string; text: string }[] = []
    let usage: Usage | undefined
    for await (const event of this.events()) {
      if (event.kind === "content") answer.text += event.text
      else if (event.kind === "reasoning") answer.reasoning += event.text
      else if (event.kind === "call") calls.push({ id: event.id, name: event.name, text: "" })
      else if (event.kind === "arguments") calls[event.index]!.text += event.text
      else if (event.kind === "finish") answer.reason = event.reason
      else if (event.kind === "usage") usage = event.usage
    }
    return { ...answer, calls: calls.flatMap(finished), usage: usage! }
  }
}

/** A call that was cut has no arguments that could be read. */
function finished({ id, name, text }: { id: string; name: string; text: string }) {
  try {
    return [{ id, name, arguments: JSON.parse(text) as Record<string, unknown> }]
  } catch {
    return []
  }
}
