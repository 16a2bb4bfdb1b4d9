// A chat that says what it is told to say, for tests of HTTP alone: failures, pauses and odd tokens on demand, which no
// model gives. Whatever can be tested with the embedded model is tested with that, in test/api.

import { once } from "node:events"
import type { AddressInfo } from "node:net"
import type { LightMyRequestResponse } from "fastify"
import { pino } from "pino"
import { onTestFinished } from "vitest"
import type {
  ChatRequest,
  CompletionRequest,
  ReplyEvent,
  TokenLogprob,
  TokenNames,
} from "../src/chat/conversation.ts"
import { Trace } from "../src/engine/trace.ts"
import { createHttp, type Http } from "../src/http/http.ts"
import {
  defaultHttpOptions,
  type HttpOptions,
  type ServedModel,
  type Service,
} from "../src/http/service.ts"

export type Asked = ChatRequest | CompletionRequest
export type Script = (
  asked: Asked,
  signal: AbortSignal,
) => Iterable<ReplyEvent> | AsyncIterable<ReplyEvent>

export const usage = { promptTokens: 3, cachedTokens: 1, completionTokens: 2, reasoningTokens: 0 }

/** Says these pieces in every choice. */
export function saying(...pieces: string[]): Script {
  return function* ({ choices, sampling }) {
    for (let choice = 0; choice < choices; choice++) {
      for (const text of pieces) {
        const logprobs = sampling.topLogprobs === undefined ? [] : [logprob(text)]
        yield { kind: "content", choice, text, logprobs }
      }
      yield { kind: "finish", choice, reason: "stop" }
    }
    yield { kind: "usage", usage }
  }
}

/** Every token that a script has named, as bytes; its place is its id. */
const tokens: Uint8Array[] = []

const names: TokenNames = {
  text: (token) => new TextDecoder().decode(tokens[token]),
  bytes: (token) => tokens[token]!,
  isSilent: () => false,
}

/** The id of a token that is spelled so. */
function token(text: string | Uint8Array): number {
  return tokens.push(typeof text === "string" ? new TextEncoder().encode(text) : text) - 1
}

export function logprob(text: string | Uint8Array): TokenLogprob {
  const id = token(text)
  return {
    token: id,
    shows: true,
    offset: 0,
    logprob: -0.5,
    top: [
      { token: id, logprob: -0.5 },
      { token: token(" no"), logprob: Number.NEGATIVE_INFINITY },
    ],
  }
}

export interface Parrot extends Http {
  /** The model that it pretends to be. */
  service: Service
  /** Every request that reached it. */
  asked: Asked[]
  /** Every signal that came with them. */
  signals: AbortSignal[]
  /** Who asked each of them, as turns are shared. */
  clients: (string | undefined)[]
  /** Every line of its log. */
  lines: object[]
  /** Posts a body (as JSON unless it is text already) without a socket. */
  post: (
    body: object | string,
    headers?: Record<string, string>,
    url?: string,
  ) => Promise<LightMyRequestResponse>
  /** Listens on a free port and tells it. */
  port: () => Promise<number>
}

export function parrot(
  script: Script = saying("Hel", "lo 😀"),
  options: Partial<HttpOptions> = {},
  refusal: (asked: Asked) => Error | undefined = () => undefined,
  promptTokens = usage.promptTokens,
): Parrot {
  const asked: Asked[] = []
  const signals: AbortSignal[] = []
  const clients: (string | undefined)[] = []
  const answer = async (request: Asked, signal: AbortSignal, client?: string) => {
    asked.push(request)
    signals.push(signal)
    clients.push(client)
    const refused = refusal(request)
    if (refused) throw refused
    return {
      promptTokens,
      prompt: new Int32Array(promptTokens),
      names,
      events: (async function* () {
        yield* script(request, signal)
      })(),
    }
  }
  const chat: Service["chat"] = {
    reply: answer,
    complete: answer,
    tokenize: async (given, { isBegun }, caller) => {
      clients.push(caller?.client)
      if (caller?.signal) signals.push(caller.signal)
      return Int32Array.from([...(isBegun ? [1] : []), ...Buffer.from(given)])
    },
    tokenizeChat: async ({ messages }) => Int32Array.from(messages, (_, index) => index),
    detokenize: function* (tokens) {
      for (let at = 0; at < tokens.length; at += 1000) {
        yield Array.from(tokens.subarray(at, at + 1000), spelled).join("")
      }
    },
    embed: async ({ texts, dimensions }) => ({
      vectors: texts.map((text) => Float64Array.of(0.6, text.length, 0.8).subarray(0, dimensions)),
      tokens: texts.length,
    }),
    rank: async ({ documents }) => ({
      scores: documents.map((text) => text.length / 10),
      tokens: documents.length,
    }),
    checkSchema: async () => ({ isUnsatisfiable: false, unenforced: [] }),
  }
  const service: Service = {
    chat,
    model: {
      names: ["tiny", "models/tiny"],
      created: 1_700_000_000,
      capabilities: ["chat", "completion", "thinking"],
      sees: false,
      hears: false,
      contextLength: 2048,
      vocabularySize: 1000,
      details: { format: "q0f32", embedding_length: 64 },
    },
    fingerprint: "fp_test",
    defaults: {},
    samples: () => [
      { name: "sinter_test_gauge", help: "A number.", value: 7 },
      { name: "sinter_test_total", help: "A count.", value: 9 },
    ],
  }
  const lines: object[] = []
  const log = pino({ level: "debug" }, { write: (line) => void lines.push(JSON.parse(line)) })
  const trace = new Trace()
  const http = createHttp({ ...defaultHttpOptions, version: "1.2.3", ...options }, log, { trace })
  http.open([served(service)])
  onTestFinished(() => http.close())
  return {
    ...http,
    service,
    asked,
    signals,
    clients,
    lines,
    post: async (body, headers = {}, url = "/v1/chat/completions") =>
      http.server.inject({
        method: "POST",
        url,
        headers: { "content-type": "application/json", ...headers },
        payload: typeof body === "string" ? body : JSON.stringify(body),
      }),
    port: async () => {
      await http.server.listen({ port: 0, host: "127.0.0.1" })
      if (!http.server.server.listening) await once(http.server.server, "listening")
      return (http.server.server.address() as AddressInfo).port
    },
  }
}

/** A model that is always loaded. */
export function served(service: Service): ServedModel {
  const lease = async () => ({ service, release: () => {} })
  return { card: service.model, loaded: service, lease }
}

/** A token is the character of its number, but for one that is long. */
function spelled(token: number): string {
  return token === LONG_TOKEN ? " ".repeat(1000) : String.fromCharCode(token)
}

export const LONG_TOKEN = 999

/** The smallest good request. */
export const hi = { model: "tiny", messages: [{ role: "user", content: "hi" }] }

/** The JSON of a stream's events; checks the framing and that the end marker is last. */
// biome-ignore lint/suspicious/noExplicitAny: tests look wherever they like
export function eventsOf(stream: string): any[] {
  const events = stream.split("\n\n")
  if (events.pop() !== "") throw new Error("the stream does not end with a blank line")
  if (events.pop() !== "data: [DONE]") throw new Error("the stream does not end with [DONE]")
  return events
    .filter((event) => !event.startsWith(":"))
    .map((event) => {
      if (!event.startsWith("data: ") || event.includes("\n")) throw new Error(`not one: ${event}`)
      return JSON.parse(event.slice("data: ".length))
    })
}
