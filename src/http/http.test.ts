// The room from outside, request by request, without a socket.

import { Ajv } from "ajv"
import { expect, test } from "vitest"
import { formOf } from "../../test/forms.ts"
import { eventsOf, hi, parrot, saying, served, usage } from "../../test/parrot.ts"
import type { ChatRequest, ReplyEvent } from "../chat/conversation.ts"
import { problem } from "../errors.ts"
import { routes } from "./routes.ts"

const stream = { ...hi, stream: true }

test("every endpoint of the table answers, under /openai too", async () => {
  const { server, service } = parrot()
  Object.assign(service.model, { hears: true })
  const form = await formOf({ model: "tiny", file: new Blob(["RIFF"]) })
  for (const { method, path, example, body, takes, refused } of routes) {
    const concrete = path.replace("{id}", "tiny")
    const prefixes = path.startsWith("/v1/") ? ["", "/openai"] : [""]
    for (const prefix of prefixes) {
      const payload = { model: "tiny", ...example, stream: false }
      const answer = await server.inject({
        method,
        url: prefix + concrete,
        ...(body && (takes === "form" ? form : { payload })),
      })
      const isKept = path === "/v1/responses/{id}" // and nothing is
      const isRefused = refused ?? path === "/v1/audio/translations" // of all but a Whisper
      expect(answer.statusCode, prefix + path).toBe(isRefused ? 400 : isKept ? 404 : 200)
      expect(answer.headers["x-request-id"]).toBeTruthy()
      if (prefix) expect(answer.headers["x-api-dialect"]).toBe("openai")
    }
  }
})

test("models are listed under every name, and found by it, slashes and all", async () => {
  const { server, post } = parrot()
  const { data, ...list } = (await server.inject("/v1/models")).json()
  expect(list).toEqual({
    object: "list",
    has_more: false,
    first_id: "tiny",
    last_id: "models/tiny",
  })
  expect(data.map((model: { id: string }) => model.id)).toEqual(["tiny", "models/tiny"])
  expect(data[0]).toEqual({
    id: "tiny",
    object: "model",
    type: "model",
    display_name: "tiny",
    created_at: "2023-11-14T22:13:20.000Z",
    created: 1_700_000_000,
    owned_by: "sinter",
    context_length: 2048,
    max_model_len: 2048,
    ...{ max_input_tokens: 2048, max_tokens: 2048, lifecycle: "active" },
    capabilities: ["chat", "completion", "thinking"],
    format: "q0f32",
    embedding_length: 64,
  })
  for (const path of ["models/tiny", "models%2Ftiny"]) {
    expect((await server.inject(`/v1/models/${path}`)).json()).toEqual(data[1])
  }
  expect((await server.inject("/v1/models/tiny:latest")).statusCode).toBe(200)
  expect((await post({ ...hi, model: "tiny:latest" })).statusCode).toBe(200)
  expect((await post({ ...hi, model: "tiny:newest" })).statusCode).toBe(404)
})

test.each([
  ["POST", "/chat/completions", "/v1/chat/completions"],
  ["POST", "/v1/v1/chat/completions", "/v1/chat/completions"],
  ["POST", "/v1/chat/completions/chat/completions", "/v1/chat/completions"],
  ["POST", "/api/v1/embeddings/", "/v1/embeddings"],
  ["POST", "/v1/messages/v1/messages", "/v1/messages"],
  ["POST", "/v1/api/chat", "/api/chat"],
  ["GET", "/v1/health", "/health"],
  ["GET", "/models", "/v1/models"],
  ["POST", "/models", undefined],
  ["POST", "/chat", undefined],
  ["GET", "/nothing/", undefined],
] as const)("%s %s is not there, and what is said of it", async (method, url, meant) => {
  const answer = await parrot().server.inject({ method, url })
  expect(answer.statusCode).toBe(404)
  const hint = meant ? `there is ${meant}, and ` : ""
  expect(answer.body).toContain(`${method} ${url}; ${hint}GET /docs lists what there is.`)
})

test("what the request says reaches the chat room", async () => {
  const { post, asked } = parrot()
  const body = `{"model":"models/tiny","messages":[
      {"role":"developer","content":"be kind"},
      {"role":"user","name":"ada","content":[{"type":"text","text":"a"},{"text":"b"}]},
      {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[
        {"id":"c1","type":"function","function":{"name":"f","arguments":{"x":9007199254740993}}},
        {"function":{"name":"g","arguments":"{\\"y\\":1.50}"}}, {"function":{"name":"h"}}]},
      {"role":"tool","tool_call_id":"c1","content":[{"city":"Ulm"}]}],
    "n":2,"max_tokens":9,"max_completion_tokens":8,"stop":"END","ignore_eos":true,"temperature":0,"top_p":0.5,
    "top_k":-1,"min_p":0.1,"presence_penalty":1,"frequency_penalty":-1,"repetition_penalty":1.1,
    "logit_bias":{"999":-100},"seed":-1,"logprobs":true,"reasoning_effort":"none",
    "chat_template_kwargs":{"date_string":"1 May"}}`
  const answer = await post(body, { "x-request-id": "mine" })
  expect(answer.statusCode).toBe(200)
  expect(answer.headers["x-request-id"]).toBe("mine")
  expect(answer.headers["x-seed"]).toBe("-1")
  expect(asked).toEqual([
    {
      id: "mine",
      scope: "",
      reasoning: "split",
      messages: [
        { role: "system", content: "be kind" },
        { role: "user", content: "ab", name: "ada" },
        {
          role: "assistant",
          content: null,
          reasoning: "hm",
          toolCalls: [
            { id: "c1", name: "f", arguments: '{"x":9007199254740993}' },
            { id: "call_1", name: "g", arguments: '{"y":1.50}' },
            { id: "call_2", name: "h", arguments: "{}" },
          ],
        },
        { role: "tool", content: '[{"city":"Ulm"}]', toolCallId: "c1" },
      ],
      choices: 2,
      maxTokens: 8,
      stop: ["END"],
      stopTokens: [],
      minTokens: 0,
      ignoreEos: true,
      sampling: {
        temperature: 0,
        topK: 0,
        topP: 0.5,
        minP: 0.1,
        presencePenalty: 1,
        frequencyPenalty: -1,
        repetitionPenalty: 1.1,
        logitBias: new Map([[999, -100]]),
        seed: 2n ** 64n - 1n,
        topLogprobs: 0,
      },
      templateArguments: { reasoning_effort: "none", enable_thinking: false, date_string: "1 May" },
    },
  ])
})

test.each([
  [[{ city: "Ulm" }, { text: "dry" }], '[{"city":"Ulm"},{"text":"dry"}]'],
  [[{ city: "Ulm", text: "dry" }], '[{"city":"Ulm","text":"dry"}]'],
  [[{ type: "weather", text: "dry" }], '[{"type":"weather","text":"dry"}]'],
  [[{ wind: { knots: 3 } }], '[{"wind":{"knots":3}}]'],
  [[{ text: "dry" }, { type: "text", text: " day", id: "7" }], "dry day"],
  [[], ""],
])("of a tool's maps %j the model reads %s", async (content, read) => {
  const { post, asked } = parrot()
  const answer = await post({ ...hi, messages: [...hi.messages, { role: "tool", content }] })
  expect([answer.statusCode, (asked[0] as ChatRequest).messages.at(-1)]).toEqual([
    200,
    { role: "tool", content: read },
  ])
})

// As vLLM's chat_utils.py reads messages: `reasoning` before `reasoning_content`, and parts of three types as texts.
test("thinking and texts of messages are read under their other names", async () => {
  const { post, asked } = parrot()
  const messages = [
    { role: "user", content: [{ type: "input_text", text: "a" }] },
    { role: "assistant", reasoning: "hm", content: [{ type: "output_text", text: "b" }] },
    { role: "assistant", reasoning: "first", reasoning_content: "second" },
    { role: "assistant", reasoning: null, reasoning_content: "second" },
    { role: "tool", content: [{ type: "input_text", text: "20" }] },
  ]
  expect((await post({ ...hi, messages })).statusCode).toBe(200)
  expect(asked[0]).toMatchObject({
    messages: [
      { role: "user", content: "a" },
      { role: "assistant", content: "b", reasoning: "hm" },
      { role: "assistant", content: null, reasoning: "first" },
      { role: "assistant", content: null, reasoning: "second" },
      { role: "tool", content: "20" },
    ],
  })
  const nothing = [{ role: "user", content: [{ type: "input_text" }] }]
  const refused = (await post({ ...hi, messages: nothing })).json()
  expect(refused.message).toBe("messages[0].content[0] must have a text, which must be a string.")
})

test("a request that leaves everything open gets the API's own defaults and a fresh seed", async () => {
  const { post, asked } = parrot()
  const seeds = await Promise.all([post(hi), post(hi)])
  expect(seeds[0].headers["x-seed"]).toMatch(/^\d+$/)
  expect(seeds[0].headers["x-seed"]).not.toBe(seeds[1].headers["x-seed"])
  const { maxTokens, stop, sampling } = asked[0] as ChatRequest
  expect({ maxTokens, stop }).toEqual({ maxTokens: undefined, stop: [] })
  expect({ ...sampling, seed: 0n }).toEqual({
    temperature: 1,
    topK: 0,
    topP: 1,
    minP: 0,
    presencePenalty: 0,
    frequencyPenalty: 0,
    repetitionPenalty: 1,
    logitBias: new Map(),
    seed: 0n,
    topLogprobs: undefined,
  })
})

test("a stream is the whole answer in pieces, for every choice, in both dialects", async () => {
  const { post } = parrot(saying("", "one ", "two", "\n\ndata: [DONE]\n\n", "é😀"))
  for (const dialect of ["native", "openai"]) {
    const headers = { "x-api-dialect": dialect }
    const body = { n: 3, logprobs: true, stream_options: { include_usage: true } }
    const events = eventsOf((await post({ ...stream, ...body }, headers)).body)
    const whole = (await post({ ...hi, n: 3, logprobs: true }, headers)).json()
    expect(whole.choices).toHaveLength(3)
    for (const choice of whole.choices) {
      const pieces = events
        .flatMap((event) => event.choices)
        .filter(({ index }) => index === choice.index)
      expect(pieces.map(({ delta }) => delta.content ?? "").join("")).toBe(choice.message.content)
      expect(pieces.flatMap(({ logprobs }) => logprobs?.content ?? [])).toEqual(
        choice.logprobs.content,
      )
      expect(pieces.map((piece) => piece.finish_reason).filter(Boolean)).toEqual(["stop"])
      expect(pieces.at(-1)?.finish_reason).toBe("stop")
    }
    expect(events.at(-1)).toMatchObject({ choices: [], usage: whole.usage })
    expect(new Set(events.map(({ id, created }) => id + created)).size).toBe(1)
  }
})

test("log probabilities: true bytes, and -9999 for never", async () => {
  const { post } = parrot(saying("é"))
  const { choices } = (await post({ ...hi, logprobs: true, top_logprobs: 2 })).json()
  expect(choices[0].logprobs).toEqual({
    content: [
      {
        token: "é",
        logprob: -0.5,
        bytes: [195, 169],
        top_logprobs: [
          { token: "é", logprob: -0.5, bytes: [195, 169] },
          { token: " no", logprob: -9999, bytes: [32, 110, 111] },
        ],
      },
    ],
    refusal: null,
  })
})

test("usage is in every whole answer, and in streams only when asked for", async () => {
  const { post } = parrot()
  expect((await post(hi)).json().usage).toEqual({
    prompt_tokens: 3,
    completion_tokens: 2,
    total_tokens: 5,
    prompt_tokens_details: { cached_tokens: 1 },
    completion_tokens_details: { reasoning_tokens: 0 },
  })
  for (const event of eventsOf((await post(stream)).body)) expect(event).not.toHaveProperty("usage")
})

function* failing({ choices }: { choices: number }, from = 0): Iterable<ReplyEvent> {
  for (let choice = 0; choice < choices; choice++) {
    yield { kind: "content", choice, text: "so far", logprobs: [] }
    if (choice < from) yield { kind: "finish", choice, reason: "stop" }
    else {
      const failed = problem("generation_failed", { problem: "numbers overflowed." })
      yield { kind: "finish", choice, reason: "error", problem: failed }
    }
  }
  yield { kind: "usage", usage }
}

test.each([
  ["/v1/chat/completions", { ...hi, n: 128, max_tokens: 1600, logprobs: true, top_logprobs: 20 }],
  ["/v1/chat/completions", { ...hi, n: 128, logprobs: true, top_logprobs: 16 }],
  ["/v1/completions", { model: "tiny", prompt: "x", n: 128, max_tokens: 1600, logprobs: 20 }],
])(
  "more log probabilities than an answer holds are refused, but not in a stream: %s %j",
  async (url, body) => {
    const { post, asked } = parrot()
    const refused = await post(body, {}, url)
    expect(refused.statusCode).toBe(400)
    const { param, message } = refused.json().error
    expect(param).toMatch(/logprobs$/)
    expect(message).toMatch(
      /holds at most 4194304; lower it, n or max_tokens, or stream the answer/,
    )
    expect((await post({ ...body, stream: true }, {}, url)).statusCode).toBe(200)
    expect((await post({ ...body, n: 50 }, {}, url)).statusCode).toBe(200)
    expect(asked.length).toBeGreaterThanOrEqual(2)
  },
)

test("so are more ids of tokens, those of the prompts of a text for every choice", async () => {
  const { post, service } = parrot(saying("x"), {}, undefined, 40_000)
  service.model.contextLength = 40_000
  const chat = { ...hi, n: 128, max_tokens: 40_000, return_token_ids: true }
  const texts = { model: "tiny", prompt: "x", n: 128, max_tokens: 1, return_token_ids: true }
  for (const [url, body] of [
    ["/v1/chat/completions", chat],
    ["/v1/completions", texts],
  ] as const) {
    const { param, message } = (await post(body, {}, url)).json().error
    expect([param, message]).toEqual([
      "return_token_ids",
      expect.stringMatching(/asks for 512\d+ token ids .* at most 4194304; lower n or max_tokens/),
    ])
  }
  expect((await post({ ...chat, stream: true })).statusCode).toBe(200)
  const streamed = await post({ ...texts, stream: true }, {}, "/v1/completions")
  expect(streamed.json().error.message).toMatch(/at most 4194304; ask for fewer choices/)
})

test("a prompt that is echoed counts for every choice, in streams as well", async () => {
  const { post } = parrot(saying("x"), {}, undefined, 2000)
  const body = { model: "tiny", prompt: "x", n: 128, max_tokens: 0, echo: true, logprobs: 20 }
  for (const stream of [false, true]) {
    const { statusCode, body: text } = await post({ ...body, stream }, {}, "/v1/completions")
    expect(statusCode).toBe(400)
    expect(text).toContain("logprobs asks for 5376000 log probabilities")
    const fits = { ...body, stream, n: 32 }
    expect((await post(fits, {}, "/v1/completions")).statusCode).toBe(200)
  }
})

test("a choice that fails keeps the others; when all fail the answer is 500", async () => {
  const one = await parrot((asked) => failing(asked, 1)).post({ ...hi, n: 2 })
  expect(one.statusCode).toBe(200)
  expect(
    one.json().choices.map((choice: { finish_reason: string }) => choice.finish_reason),
  ).toEqual(["stop", "error"])
  const all = await parrot((asked) => failing(asked)).post({ ...hi, n: 2 })
  expect(all.statusCode).toBe(500)
  expect(all.json().error).toMatchObject({ code: "generation_failed", type: "server_error" })
})

test("a failure in a stream that has begun is one event with the error, then the end", async () => {
  for (const dialect of ["native", "openai"]) {
    const { post } = parrot((asked) => failing(asked))
    const { body, statusCode } = await post(stream, { "x-api-dialect": dialect })
    expect(statusCode).toBe(200)
    const [failure, end] = body.trimEnd().split("\n\n").slice(-2)
    expect(JSON.parse(failure!.slice("data: ".length)).error.message).toBe(
      "The model failed while generating: numbers overflowed.",
    )
    expect(end).toBe("data: [DONE]")
  }
})

test("an error of our own tells the client nothing of its insides", async () => {
  const { post } = parrot(() => {
    throw new Error("internal: /secret/path")
  })
  const whole = await post(hi, { "x-request-id": "r-1" })
  expect(whole.statusCode).toBe(500)
  expect(whole.json().error.message).toContain("under request r-1")
  const begun = await post(stream)
  expect(whole.body + begun.body).not.toContain("secret")
  expect(begun.body).toContain('"code":"internal_error"')
})

test("a refusal comes before any header, as JSON, for streams too", async () => {
  const { post } = parrot(saying("x"), {}, () => problem("queue_full", { waiting: 9 }))
  for (const body of [hi, stream]) {
    const answer = await post(body)
    expect(answer.statusCode).toBe(429)
    expect(answer.headers["retry-after"]).toBe("1")
    expect(answer.json()).toEqual({
      error: {
        message: expect.stringMatching(/^9 requests are waiting/),
        type: "rate_limit_error",
        param: null,
        code: "queue_full",
      },
      object: "error",
      message: expect.stringMatching(/^9 requests are waiting/),
      code: 429,
    })
  }
})

test.each([
  ["", "invalid_json", null, /it is empty/],
  ["{", "invalid_json", null, /name in double quotes is missing \(at character 2\)/],
  ['{"a":1, }', "invalid_json", null, /"," stands before the "}" .*\(at character 9\)/],
  ["[1,]", "invalid_json", null, /"," stands before the "]" .*\(at character 4\)/],
  ["'{}'", "invalid_json", null, /single quotes, not in double ones \(at character 1\)/],
  ["{'a':1}", "invalid_json", null, /name in double quotes is missing \(at character 2\)/],
  [`{"a":${"[".repeat(300)}`, "invalid_json", null, /256 levels/],
  ["[]", "invalid_value", null, /^The body must be an object, not an empty list/],
  ['"hi"', "invalid_value", null, /^The body must be an object/],
  [{ model: "tiny" }, "invalid_value", "messages", /^messages is required/],
  [{ ...hi, model: "gpt-9" }, "model_not_found", "model", /"gpt-9" is not served.*tiny/],
  [{ ...hi, top_logprobs: 2 }, "invalid_value", "top_logprobs", /needs logprobs/],
  [{ ...hi, stream_options: {} }, "invalid_value", "stream_options", /needs stream/],
  [
    { ...hi, chat_template_kwargs: { tools: [] } },
    "invalid_value",
    "chat_template_kwargs.tools",
    /by the request itself/,
  ],
  [
    { ...hi, stop: Array.from({ length: 64 }, () => "x".repeat(300)) },
    "invalid_value",
    "stop",
    /may have 16384 characters in all, not 19200/,
  ],
  [
    { ...hi, logit_bias: { 5: 1, 1000: 1 } },
    "invalid_value",
    "logit_bias",
    /0 to 999, not "1000"\.$/,
  ],
  [{ ...hi, logit_bias: { "1.0": 1 } }, "invalid_value", "logit_bias", /0 to 999, not "1\.0"\.$/],
  [
    { ...hi, stop: Array(65).fill("a") },
    "invalid_value",
    "stop",
    /at most 64 .*, not a list of 65\.$/,
  ],
  [
    { ...hi, messages: [{ role: "user", content: [{ type: "image_url", image_url: {} }] }] },
    "unsupported_value",
    "messages[0].content[0]",
    /"image_url"; the model takes text only/,
  ],
  [
    { ...hi, messages: [{ role: "user", content: "what is it?", images: ["iVBO"] }] },
    "unsupported_value",
    "messages[0].images",
    /takes text only/,
  ],
  [
    { ...hi, messages: [{ role: "user", content: [{ a: "b" }] }] },
    "invalid_value",
    "messages[0].content[0]",
    /must have a text/,
  ],
  [
    { ...hi, messages: [{ role: "user", tool_calls: [{ function: { name: "f" } }] }] },
    "invalid_value",
    "messages[0].tool_calls",
    /belongs to messages of the assistant/,
  ],
  [
    {
      ...hi,
      messages: [
        { role: "assistant", tool_calls: [{ function: { name: "f", arguments: "[1]" } }] },
      ],
    },
    "invalid_value",
    "messages[0].tool_calls[0].function.arguments",
    /must be a map, .*, not "\[1\]"\.$/,
  ],
])("%j is refused as %s", async (body, code, param, sentence) => {
  const { post, asked } = parrot()
  const answer = await post(body)
  expect(answer.statusCode).toBe(code === "model_not_found" ? 404 : 400)
  const { error, message, object } = answer.json()
  expect(error).toMatchObject({ code, param, type: "invalid_request_error" })
  expect(message).toMatch(sentence)
  expect(object).toBe("error")
  expect(asked).toEqual([])
})

test("unknown fields are ignored and told, encoded, at most twenty", async () => {
  const { post } = parrot()
  const odd = { "a\nb": 1, "😀": 2, ["x".repeat(5000)]: 3 }
  const few = await post({ ...hi, ...odd })
  expect(few.statusCode).toBe(200)
  expect(few.headers["x-ignored-fields"]).toMatch(/^a%0Ab,%F0%9F%98%80,x{100}%E2%80%A6$/)
  const many = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`ü${i}`.repeat(9), 1]))
  const told = (await post({ ...hi, ...many })).headers["x-ignored-fields"] as string
  expect(told.length).toBeLessThanOrEqual(1024)
  expect(told.split(",").length).toBeLessThanOrEqual(20)
  expect((await post(hi)).headers).not.toHaveProperty("x-ignored-fields")
})

test("unknown paths are 404, known paths with another method 405, OPTIONS says what goes", async () => {
  const { server } = parrot()
  const answers = async (method: string, url: string) => {
    const { statusCode, headers } = await server.inject({ method: method as "GET", url })
    return [statusCode, headers.allow]
  }
  expect(await answers("GET", "/v2/models")).toEqual([404, undefined])
  expect(await answers("POST", "/nothing")).toEqual([404, undefined])
  expect(await answers("OPTIONS", "/nothing")).toEqual([404, undefined])
  expect(await answers("DELETE", "/v1/models")).toEqual([405, "GET, HEAD, OPTIONS"])
  expect(await answers("GET", "/openai/v1/chat/completions")).toEqual([405, "POST, OPTIONS"])
  expect(await answers("PUT", "/v1/models/tiny")).toEqual([405, "GET, HEAD, OPTIONS"])
  expect(await answers("OPTIONS", "/v1/completions")).toEqual([204, "POST, OPTIONS"])
  expect(await answers("QUERY", "/v1/models")).toEqual([405, "GET, HEAD, OPTIONS"])
  expect(await answers("HEAD", "/v1/models")).toEqual([200, undefined])
  expect(await answers("HEAD", "/nothing")).toEqual([404, undefined])
  expect(await answers("GET", "/v1/models/")).toEqual([200, undefined])
  expect(await answers("GET", "/v1/models?x=%zz")).toEqual([200, undefined])
  expect(await answers("GET", "/v1/%zz")).toEqual([400, undefined])
  expect(await answers("GET", `/v1/models/${"a".repeat(5000)}`)).toEqual([404, undefined])
})

test.each([
  ["text/plain", 200, 415],
  ["application/x-www-form-urlencoded", 200, 415],
  ["nonsense", 415, 415],
  ["text/plain; charset=latin1", 415, 415],
  ["application/json; charset=latin1", 415, 415],
  ["application/json;charset=UTF-8", 200, 200],
  ["Application/JSON", 200, 200],
  ["application/vnd.api+json", 200, 200],
])("a body of kind %j is answered %i, and a page that posts it %i", async (kind, alone, page) => {
  const { post } = parrot()
  const asked = [{}, { origin: "null" }, { "sec-fetch-site": "cross-site" }].map((headers) =>
    post(hi, { ...headers, "content-type": kind }),
  )
  const answers = await Promise.all(asked)
  expect(answers.map(({ statusCode }) => statusCode)).toEqual([alone, page, page])
  for (const answer of answers.filter(({ statusCode }) => statusCode === 415)) {
    expect(answer.json().error.code).toBe("unsupported_media_type")
  }
})

test("a body of no kind is JSON, unless a page posts it; a compressed one is 415", async () => {
  const { server, post } = parrot()
  const ask = (headers: Record<string, string>) =>
    server.inject({
      method: "POST",
      url: "/v1/chat/completions",
      headers,
      payload: JSON.stringify(hi),
    })
  expect((await ask({})).statusCode).toBe(200)
  expect((await ask({ "sec-fetch-mode": "cors" })).statusCode).toBe(200)
  expect((await ask({ origin: "http://127.0.0.1" })).statusCode).toBe(415)
  expect((await post(hi, { "content-encoding": "gzip" })).statusCode).toBe(415)
})

test("a body beyond the limit is 413, and the limit grows with the context", async () => {
  const long = { ...hi, messages: [{ role: "user", content: "x".repeat(3000) }] }
  const { post } = parrot(saying("x"), { maxBody: 2000 })
  expect((await post(hi)).statusCode).toBe(200)
  expect((await post(long)).statusCode).toBe(413)
  expect((await parrot().post(long)).statusCode).toBe(200)
})

test("a body that is no UTF-8 is 400", async () => {
  const { server } = parrot()
  const answer = await server.inject({
    method: "POST",
    url: "/v1/chat/completions",
    headers: { "content-type": "application/json" },
    payload: Buffer.from([0x7b, 0xff, 0x7d]),
  })
  expect(answer.json().error).toMatchObject({ code: "invalid_json", message: /not UTF-8/ as never })
})

test("a loopback server answers loopback names and allowed ones only", async () => {
  const { server } = parrot(saying("x"), { allowedHosts: ["box.lan"] })
  for (const [host, status] of [
    ["localhost:8000", 200],
    ["127.0.0.1", 200],
    ["[::1]:8000", 200],
    ["api.localhost", 200],
    ["box.lan:8000", 200],
    ["BOX.lan", 200],
    ["evil.example", 403],
    ["localhost.evil.example", 403],
    ["127.0.0.1.evil.example", 403],
  ] as const) {
    const answer = await server.inject({ url: "/v1/models", headers: { host } })
    expect(answer.statusCode, host).toBe(status)
  }
  const open = parrot(saying("x"), { host: "0.0.0.0" })
  const answer = await open.server.inject({ url: "/v1/models", headers: { host: "any.example" } })
  expect(answer.statusCode).toBe(200)
})

test("with a key set, everything but health asks for it", async () => {
  const { server, post, asked, clients, signals } = parrot(saying("x"), {
    apiKeys: ["s3cret", "other"],
  })
  for (const { method, path, open } of routes) {
    const answer = await server.inject({ method, url: path.replace("{id}", "tiny") })
    expect(answer.statusCode, path).toBe(open === true ? 200 : 401)
  }
  expect((await server.inject("/nothing")).statusCode).toBe(401)
  expect((await post(hi, { authorization: "Bearer wrong" })).json().error).toMatchObject({
    code: "invalid_api_key",
    type: "authentication_error",
  })
  const basic = `Basic ${Buffer.from("me:s3cret").toString("base64")}`
  for (const authorization of ["Bearer s3cret", "bearer other", basic]) {
    expect((await post(hi, { authorization })).statusCode, authorization).toBe(200)
  }
  const [first, second, third] = asked.map(({ scope }) => scope)
  expect(first).toBe(third)
  expect(first).not.toBe(second)
  expect(first).not.toContain("s3cret")
  const basicAuth = { authorization: basic }
  await post({ prompt: "a" }, basicAuth, "/tokenize")
  expect(clients).toEqual([first, second, third, first])
  expect(signals).toHaveLength(4)
})

test("--open-metrics: /metrics asks for no key, and nothing else is open for it", async () => {
  const { server } = parrot(saying("x"), { apiKeys: ["s3cret"], openMetrics: true })
  for (const { method, path, open } of routes) {
    const answer = await server.inject({ method, url: path.replace("{id}", "tiny") })
    expect(answer.statusCode, path).toBe(open ? 200 : 401)
  }
})

// Header bytes are handed on as Latin-1: fetch and Python's requests write that, curl what its terminal does.
test("a key of other letters is right in Latin-1 and in UTF-8", async () => {
  const { post } = parrot(saying("x"), { apiKeys: ["clé"] })
  const given = ["clé", Buffer.from("clé").toString("latin1"), "cl\u00e8", "cle"]
  const answers = await Promise.all(given.map((key) => post(hi, { "x-api-key": key })))
  expect(answers.map(({ statusCode }) => statusCode)).toEqual([200, 200, 401, 401])
  const bearer = await post(hi, { authorization: `Bearer ${given[1]}` })
  expect(bearer.statusCode).toBe(200)
})

test("cross-origin headers stand on errors and streams too, and only when asked for", async () => {
  const cors = { credentials: false, origins: ["*"], methods: ["*"], headers: ["*"] }
  const { post, server } = parrot(saying("x"), { cors, apiKeys: ["k"] })
  const origin = { origin: "https://a.example" }
  for (const answer of [
    await post(hi, origin),
    await post("{", { ...origin, authorization: "Bearer k" }),
    await post(stream, { ...origin, authorization: "Bearer k" }),
    await server.inject({ url: "/nothing", headers: origin }),
  ]) {
    expect(answer.headers["access-control-allow-origin"], answer.body).toBe("*")
  }
  const preflight = await server.inject({
    method: "OPTIONS",
    url: "/v1/chat/completions",
    headers: { ...origin, "access-control-request-method": "POST" },
  })
  expect([preflight.statusCode, preflight.body]).toEqual([200, "OK"])
  const closed = await parrot().post(hi, origin)
  expect(Object.keys(closed.headers).filter((name) => name.startsWith("access"))).toEqual([])
})

// Fetch hides all headers but seven from pages of other origins. OpenAI's client reads x-request-id and retry-after, Anthropic's
// request-id; the others are what docs/api.md promises of an answer.
test("pages of other origins may read what answers tell in headers", async () => {
  const cors = { credentials: true, origins: ["https://a.example"], methods: ["*"], headers: ["*"] }
  const { post, server, drain } = parrot(saying("x"), { cors })
  const exposed = ({ headers }: { headers: Record<string, unknown> }) =>
    String(headers["access-control-expose-headers"]).split(", ")
  const origin = { origin: "https://a.example" }
  const answer = await post({ ...hi, unknown: 1 }, origin)
  expect(Object.keys(answer.headers)).toEqual(
    expect.arrayContaining(["x-request-id", "x-seed", "x-api-dialect", "x-ignored-fields"]),
  )
  const told = Object.keys(answer.headers).filter((name) => name.startsWith("x-"))
  expect(exposed(answer)).toEqual(
    expect.arrayContaining(told.filter((name) => name !== "x-content-type-options")),
  )
  const message = await post({}, origin, "/v1/messages")
  expect(message.headers).toHaveProperty("request-id")
  expect(exposed(message)).toContain("request-id")
  expect((await server.inject("/v1/models")).headers).not.toHaveProperty(
    "access-control-expose-headers",
  )
  await drain()
  const refused = await post(hi, origin)
  expect(refused.headers).toHaveProperty("retry-after")
  expect(exposed(refused)).toContain("retry-after")
})

test("of several models each answers to its own names, and whoever need not name one gets the first", async () => {
  const other = parrot(saying("the other")).service
  const server = parrot(saying("the first"))
  const { service } = server
  server.open([served(service), served({ ...other, model: { ...other.model, names: ["other"] } })])
  for (const [model, text] of [
    ["tiny", "the first"],
    ["models/tiny", "the first"],
    ["other", "the other"],
  ] as const) {
    const chat = (await server.post({ ...hi, model })).json()
    expect(chat.choices[0].message.content).toBe(text)
    const plain = await server.post({ model, prompt: "Hi" }, {}, "/v1/completions")
    expect(plain.json().choices[0].text).toBe(text)
    expect((await server.server.inject(`/v1/models/${model}`)).json().id).toBe(model)
  }
  const { data } = (await server.server.inject("/v1/models")).json()
  expect(data.map(({ id }: { id: string }) => id)).toEqual(["tiny", "models/tiny", "other"])
  const unknown = await server.post({ prompt: "Hi", model: "else" }, {}, "/tokenize")
  expect(unknown.json().error.message).toContain("tiny, models/tiny, other")
  expect((await server.post({ prompt: "Hi" }, {}, "/tokenize")).json().count).toBe(2)
  for (const [path, body] of [
    ["/v1/chat/completions", { messages: hi.messages }],
    ["/v1/completions", { prompt: "Hi" }],
    ["/v1/responses", { input: "Hi" }],
    ["/v1/messages", { messages: hi.messages, max_tokens: 1 }],
    ["/api/chat", { messages: hi.messages }],
    ["/api/show", {}],
  ] as const) {
    const unnamed = await server.post(body, {}, path)
    expect(unnamed.statusCode).toBe(400)
    expect(unnamed.payload).toContain("model is required; served: tiny, models/tiny, other.")
  }
  const wrong = await server.post({ ...hi, model: 5 })
  expect(wrong.json().message).toBe("model must be a string, not 5.")
})

test("until a model is there, and once the server drains, only health and metrics answer", async () => {
  const loading = parrot(undefined, { metricsCompat: "vllm" })
  loading.open([])
  const draining = parrot(undefined, { metricsCompat: "vllm" })
  await draining.drain()
  for (const { server, post } of [loading, draining]) {
    expect((await server.inject("/live")).statusCode).toBe(200)
    expect((await server.inject("/health")).statusCode).toBe(503)
    const refused = await post(hi)
    expect(refused.statusCode).toBe(503)
    expect(refused.headers["retry-after"]).toBe("1")
    expect(refused.json().error.code).toBe("not_ready")
    const { statusCode, body } = await server.inject("/metrics")
    expect(statusCode).toBe(200)
    // What a model would tell is not told as zeros before there is one.
    expect(body.includes("vllm:kv_cache_usage_perc")).toBe(server === draining.server)
    expect(body.includes("sinter_test_gauge")).toBe(server === draining.server)
  }
})

test("metrics count what happened, by the table's routes and no others", async () => {
  const { server, post } = parrot()
  await post(hi)
  await post("{")
  await server.inject("/v1/whatever/else")
  const page = (await server.inject("/metrics")).body
  expect(page).toContain('sinter_http_requests_total{route="/v1/chat/completions",status="200"} 1')
  expect(page).toContain('sinter_http_requests_total{route="/v1/chat/completions",status="400"} 1')
  expect(page).toContain('sinter_http_requests_total{route="other",status="404"} 1')
  expect(page).toContain('sinter_tokens_total{kind="completion"} 2')
  expect(page).toMatch(/sinter_time_to_first_token_seconds_count 1/)
  expect(page).toMatch(/# TYPE sinter_test_gauge gauge\nsinter_test_gauge 7/)
  expect(page).toMatch(/# TYPE sinter_test_total counter\nsinter_test_total 9/)
})

test("openapi.json describes every route, and every reference in it leads somewhere", async () => {
  const { server } = parrot()
  const api = (await server.inject("/openapi.json")).json()
  expect(Object.keys(api.paths)).toEqual([...new Set(routes.map(({ path }) => path))])
  expect(api.info.version).toBe("1.2.3")
  for (const [, name] of JSON.stringify(api).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
    expect(api.components.schemas).toHaveProperty(name!)
  }
})

// JSON Schema Validation 2020-12, 9.2: a default should be valid; OpenAPI 3.1, Media Type Object: so should an example.
test("openapi.json gives examples and defaults that its own schemas allow", async () => {
  const api = (await parrot().server.inject("/openapi.json")).json()
  const ajv = new Ajv({ strict: false, validateFormats: false }).addSchema(api, "api")
  const pointer = (path: string[]) =>
    path.map((name) => `/${encodeURIComponent(name.replaceAll("~", "~0").replaceAll("/", "~1"))}`)
  const refusals = (schema: string[], value: unknown) => {
    const isValid = ajv.compile({ $ref: `api#${pointer(schema).join("")}` })
    return isValid(value) ? [] : [`${schema.join(" ")}: ${ajv.errorsText(isValid.errors)}`]
  }
  const look = (value: unknown, path: string[]): string[] => {
    if (typeof value !== "object" || value === null) return []
    const isSchema = "anyOf" in value || "type" in value
    return [
      ...("default" in value && isSchema ? refusals(path, value.default) : []),
      ...("example" in value ? refusals([...path, "schema"], value.example) : []),
      ...Object.entries(value).flatMap(([name, inner]) => look(inner, [...path, name])),
    ]
  }
  expect(look(api, [])).toEqual([])
  const { example } = api.paths["/v1/messages"].post.requestBody.content["application/json"]
  expect(example.model).toBe("tiny")
})

test("the docs page loads nothing from elsewhere", async () => {
  const { body, headers } = await parrot().server.inject("/docs")
  expect(headers["content-type"]).toBe("text/html; charset=utf-8")
  expect(headers["content-security-policy"]).toContain("default-src 'none'")
  expect(body).not.toMatch(/(src|href)="(?!data:,")/)
})
