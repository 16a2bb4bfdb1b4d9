// The front door: a conversation in, one stream of events out; the same for plain text. What stands between (template,
// tokenizer, thinking, calls, stop strings) is put together here; the engine sees token ids only.

import { createHash } from "node:crypto"
import type { Generation, GenerationRequest } from "../engine/generation.ts"
import { problem } from "../errors.ts"
import type { Chat, ChatReply, ChatRequest, CompletionRequest, PlainText } from "./conversation.ts"
import { Detokenizer } from "./detokenizer.ts"
import { type FormatName, formatOf, formats } from "./formats/formats.ts"
import { foreign } from "./jinja/text.ts"
import { type Prompt, preparePrompt, visibleTools } from "./prompt.ts"
import { beginsInside, markersOf } from "./reasoning.ts"
import { FROM_REQUEST } from "./rendering.ts"
import { type CallReading, type Reading, replyEvents } from "./reply.ts"
import type { Template } from "./template.ts"
import type { Tokenizer } from "./tokenizer.ts"

export interface ChatOptions {
  /** Admits a request or rejects with the Problem that refuses it. The signal ends all its choices. */
  engine: { generate(request: GenerationRequest, signal: AbortSignal): Promise<Generation> }
  tokenizer: Tokenizer
  /** Absent for models that were never taught to talk. */
  template: Template | undefined
  /** Tokens that end an answer. */
  endTokens: ReadonlySet<number>
  /** How the model writes calls; undefined: as its template shows. */
  toolFormat?: FormatName | undefined
}

export function createChat(options: ChatOptions): Chat & PlainText {
  const { engine, tokenizer, endTokens } = options
  const markers = options.template && markersOf(options.template, tokenizer)

  return {
    reply: async (request, signal) => {
      const template = templateOf(options)
      const prompt = await preparePrompt(request, template, tokenizer)
      const reading = {
        ...readingOf(request),
        continues: prompt.continues,
        reasoning: reasoningOf(request, prompt),
        calls: callsOf(request, template),
      }
      return admit(request, prompt.tokens, reading, signal)
    },

    complete: async (request, signal) => {
      const tokens = await plainPrompt(request.prompt)
      return admit(request, tokens, { ...readingOf(request), continues: true }, signal)
    },

    tokenize: async (text, control) =>
      Int32Array.from(await tokenizer.encode(foreign(text, control ? 0 : FROM_REQUEST))),

    tokenizeChat: async (messages, templateArguments) => {
      const request = { messages, templateArguments }
      return (await preparePrompt(request, templateOf(options), tokenizer)).tokens
    },

    detokenize: (tokens) => {
      const text = new Detokenizer(tokenizer, false, tokenizer.special)
      return Array.from(tokens, (token) => text.push(token)).join("") + text.flush()
    },
  }

  function readingOf({ stop, sampling }: ChatRequest | CompletionRequest): Reading {
    const logprobs = sampling.topLogprobs !== undefined
    return { tokenizer, stop, logprobs, continues: false, reasoning: undefined, calls: undefined }
  }

  function reasoningOf(request: ChatRequest, { begun }: Prompt): Reading["reasoning"] {
    if (!markers || request.reasoning === "inline") return undefined
    return { markers, inside: beginsInside(begun, markers) }
  }

  function callsOf(request: ChatRequest, template: Template): CallReading | undefined {
    const tools = visibleTools(request)
    const { toolChoice: choice } = request
    if (tools.length === 0) return undefined
    const spoken = template.knowsTools ? formatOf(template) : "json"
    return {
      format: formats[options.toolFormat ?? spoken],
      names: new Set(
        choice && choice.mode !== "none" ? choice.names : tools.map(({ name }) => name),
      ),
      most: request.parallelToolCalls === false ? 1 : Number.POSITIVE_INFINITY,
      id: (choice, index) => callId(request.id, choice, index),
    }
  }

  async function plainPrompt(prompt: string | Int32Array): Promise<Int32Array> {
    const tokens =
      typeof prompt === "string"
        ? [...tokenizer.prefix, ...(await tokenizer.encode(foreign(prompt, FROM_REQUEST)))]
        : prompt
    if (tokens.length > 0) return Int32Array.from(tokens)
    throw problem("invalid_value", { problem: "prompt must hold at least one token." }, "prompt")
  }

  async function admit(
    request: ChatRequest | CompletionRequest,
    prompt: Int32Array,
    reading: Reading,
    signal: AbortSignal,
  ): Promise<ChatReply> {
    signal.throwIfAborted()
    const { id, choices, maxTokens, sampling, scope } = request
    const stopTokens = request.ignoreEos ? new Set<number>() : endTokens
    const generation = await engine.generate(
      { id, prompt, choices, maxTokens, stopTokens, sampling, scope },
      signal,
    )
    return { promptTokens: generation.promptTokens, events: replyEvents(generation, reading) }
  }
}

function templateOf({ template }: ChatOptions): Template {
  if (template) return template
  const words = "This model has no chat template; POST /v1/completions continues plain text."
  throw problem("unsupported_value", { problem: words }, "messages")
}

function callId(request: string, choice: number, index: number): string {
  const hash = createHash("sha256").update(`${request} ${choice} ${index}`)
  return `call_${hash.digest("hex").slice(0, 24)}`
}
