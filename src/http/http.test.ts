import { afterAll, expect, test } from "vitest"
import type { Chat, ChatRequest, ReplyEvent } from "../chat/conversation.ts"
import { createLog } from "../log.ts"
import { createHttp } from "./http.ts"
import { defaultHttpOptions, type HttpOptions, type Service } from "./service.ts"

/** A chat that says what it is told to say, and remembers what it was asked. */
function parrot(events: (request: ChatRequest) => Iterable<ReplyEvent>) {
  const asked: ChatRequest[] = []
  const chat: Chat = {
    reply: async (request) => {
      asked.push(request)
      return {
        promptTokens: 3,
        events: (async function* () {
          yield* events(request)
        })(),
      }
    },
  }
  return { chat, asked }
}

const logprob = (token: string) => ({
  token,
  bytes: new TextEncoder().encode(token),
  logprob: -0.5,
  top: [{ token, bytes: new TextEncoder().encode(token), logprob: Number.NEGATIVE_INFINITY }],
})

function* hello({ choices, sampling }: ChatRequest): Iterable<ReplyEvent> {
  for (let choice = 0; choice < choices; choice++) {
    for (const text of ["Hel", "lo 😀"]) {
      const logprobs = sampling.topLogprobs === undefined ? [] : [logprob(text)]
      yield { kind: "content", choice, text, logprobs }
    }
    yield { kind: "finish", choice, reason: "stop" }
  }
  const usage = { promptTokens: 3, cachedTokens: 1, completionTokens: 2, reasoningTokens: 0 }
  yield { kind: "usage", usage }
}

const log = createLog("silent", false)

function serve(options: Partial<HttpOptions> = {}, events = hello) {
  const { chat, asked } = parrot(events)
  const service: Service = {
    chat,
    model: {
      names: ["tiny", "models/tiny"],
      created: 1_700_000_000,
      contextLength: 2048,
      vocabularySize: 1000,
      fingerprint: "fp_test",
      details: { format: "q0f32" },
    },
    defaults: {},
  }
  const http = createHttp({ ...defaultHttpOptions, version: "0.0.0", ...options }, log, service)
  afterAll(() => http.server.close())
  return { ...http, asked }
}

const post = (http: ReturnType<typeof serve>, body: object | string, headers: object = {}) =>
  http.server.inject({
    method: "POST",
    url: "/v1/chat/completions",
    headers: { "content-type": "application/json", ...headers },
    payload: typeof body === "string" ? body : JSON.stringify(body),
  })

const hi = { model: "tiny", messages: [{ role: "user", content: "hi" }] }

test("a whole answer, native", async () => {
  const answer = await post(serve(), { ...hi, seed: 5 })
  expect(answer.statusCode).toBe(200)
  expect(answer.headers["x-api-dialect"]).toBe("native")
  expect(answer.headers["x-seed"]).toBe("5")
  expect(answer.json()).toEqual({
    id: expect.stringMatching(/^chatcmpl-[0-9a-f]{24}$/),
    object: "chat.completion",
    created: expect.any(Number),
    model: "tiny",
    system_fingerprint: "fp_test",
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: "Hello 😀",
          name: null,
          tool_calls: null,
          tool_call_id: null,
        },
        logprobs: null,
        finish_reason: "stop",
      },
    ],
    usage: {
      prompt_tokens: 3,
      completion_tokens: 2,
      total_tokens: 5,
      prompt_tokens_details: { cached_tokens: 1 },
      completion_tokens_details: { reasoning_tokens: 0 },
    },
  })
})

test("a stream, openai", async () => {
  const answer = await post(
    serve(),
    {
      ...hi,
      stream: true,
      logprobs: true,
      top_logprobs: 1,
      stream_options: { include_usage: true },
    },
    { "user-agent": "OpenAI/JS 6.49.0" },
  )
  expect(answer.headers["content-type"]).toBe("text/event-stream; charset=utf-8")
  expect(answer.headers["x-api-dialect"]).toBe("openai")
  expect(answer.headers["x-request-id"]).toBeTruthy()
  const events = answer.body.split("\n\n")
  expect(events.pop()).toBe("")
  expect(events.pop()).toBe("data: [DONE]")
  const chunks = events.map((event) => JSON.parse(event.slice("data: ".length)))
  expect(chunks.map((chunk) => chunk.choices[0]?.delta)).toEqual([
    { role: "assistant", content: "" },
    { content: "Hel" },
    { content: "lo 😀" },
    {},
    undefined,
  ])
  expect(chunks[1].choices[0].logprobs).toEqual({
    content: [
      {
        token: "Hel",
        logprob: -0.5,
        bytes: [72, 101, 108],
        top_logprobs: [{ token: "Hel", logprob: -9999, bytes: [72, 101, 108] }],
      },
    ],
    refusal: null,
  })
  expect(chunks.map((chunk) => chunk.usage?.total_tokens ?? chunk.usage)).toEqual([
    null,
    null,
    null,
    null,
    5,
  ])
})

test("every endpoint of the table answers", async () => {
  const { server } = serve()
  for (const [url, status] of [
    ["/v1/models", 200],
    ["/openai/v1/models", 200],
    ["/v1/models/models/tiny", 200],
    ["/v1/models/models%2Ftiny", 200],
    ["/v1/models/nobody", 404],
    ["/health", 200],
    ["/live", 200],
    ["/docs", 200],
    ["/openapi.json", 200],
    ["/nothing", 404],
    ["/v1/chat/completions", 405],
  ] as const) {
    expect((await server.inject(url)).statusCode, url).toBe(status)
  }
})
