// Bodies, lines and lists against what Ollama's clients send and read, without a model.

import { expect, test } from "vitest"
import { logprob, parrot, type Script, saying, usage } from "../../../../test/parrot.ts"
import type { ChatRequest, CompletionRequest } from "../../../chat/conversation.ts"
import { problem } from "../../../errors.ts"

const hi = { model: "tiny:latest", messages: [{ role: "user", content: "hi" }] }

const thinksAndCalls: Script = function* () {
  yield { kind: "reasoning", choice: 0, text: "Hm.", logprobs: [] }
  yield { kind: "content", choice: 0, text: "Let me look.", logprobs: [] }
  yield { kind: "call", choice: 0, index: 0, id: "call_9", name: "weather" }
  yield { kind: "arguments", choice: 0, index: 0, text: '{"city":' }
  yield { kind: "arguments", choice: 0, index: 0, text: '"Oslo"}' }
  yield { kind: "finish", choice: 0, reason: "tool_calls" }
  yield { kind: "usage", usage }
}

const call = { id: "call_9", function: { index: 0, name: "weather", arguments: { city: "Oslo" } } }

test("a chat streams unless told not to: a line for each piece, and the whole is the last with all", async () => {
  const { post } = parrot(thinksAndCalls)
  const { payload, headers } = await post(hi, {}, "/api/chat")
  expect(headers["content-type"]).toBe("application/x-ndjson")
  const lines = linesOf(payload)
  expect(lines.map(({ message, done }) => ({ ...message, done }))).toEqual([
    { role: "assistant", content: "", thinking: "Hm.", done: false },
    { role: "assistant", content: "Let me look.", done: false },
    { role: "assistant", content: "", tool_calls: [call], done: false },
    { role: "assistant", content: "", done: true },
  ])
  const counts = { prompt_eval_count: 3, eval_count: 2, done_reason: "stop", model: "tiny:latest" }
  expect(lines.at(-1)).toMatchObject(counts)
  const durations = Object.entries(lines.at(-1)!).filter(([name]) => name.endsWith("_duration"))
  expect(durations).toHaveLength(4)
  for (const [, value] of durations) expect(Number.isSafeInteger(value)).toBe(true)

  const whole = (await post({ ...hi, stream: false }, {}, "/api/chat")).json()
  expect(whole).toMatchObject({ ...counts, done: true })
  const message = {
    role: "assistant",
    thinking: "Hm.",
    content: "Let me look.",
    tool_calls: [call],
  }
  expect(whole.message).toEqual(message)
})

// Ollama's docs/api.md, since 0.12.11: of each token its text, bytes and log probability, and as many of the likeliest as asked.
test.each([
  ["/api/chat", hi],
  ["/api/generate", { model: "tiny", prompt: "hi" }],
  ["/api/generate", { model: "tiny", prompt: "hi", raw: true }],
])("%s tells log probabilities line by line, and all of them at once: %j", async (path, body) => {
  const { post, asked } = parrot(function* () {
    yield { kind: "content", choice: 0, text: "It ", logprobs: [logprob("It"), logprob(" ")] }
    yield { kind: "content", choice: 0, text: "rains", logprobs: [logprob("rains")] }
    yield { kind: "finish", choice: 0, reason: "stop" }
    yield { kind: "usage", usage }
  })
  const wants = { ...body, logprobs: true, top_logprobs: 2 }
  const lines = linesOf((await post(wants, {}, path)).payload)
  const told = lines.map(({ logprobs }) => logprobs?.map(({ token }: { token: string }) => token))
  expect(told).toEqual([["It", " "], ["rains"], undefined])
  expect(lines[1].logprobs[0]).toEqual({
    token: "rains",
    logprob: -0.5,
    bytes: [...Buffer.from("rains")],
    top_logprobs: [
      { token: "rains", logprob: -0.5, bytes: [...Buffer.from("rains")] },
      { token: " no", logprob: -9999, bytes: [32, 110, 111] },
    ],
  })
  const whole = (await post({ ...wants, stream: false }, {}, path)).json()
  expect(whole.logprobs).toEqual(lines.flatMap(({ logprobs }) => logprobs ?? []))
  const without = (await post({ ...body, stream: false }, {}, path)).json()
  expect(without).not.toHaveProperty("logprobs")
  expect(asked.map(({ sampling }) => sampling.topLogprobs)).toEqual([2, 2, undefined])
})

test("a whole answer holds so many log probabilities, and a stream any number", async () => {
  const { post, service } = parrot()
  service.model = { ...service.model, contextLength: 2 ** 17 }
  const wants = { ...hi, logprobs: true, top_logprobs: 20 }
  const { error } = (await post({ ...wants, stream: false }, {}, "/api/chat")).json()
  expect(error).toMatch(/1048576; lower it, or options\.num_predict, or stream the answer\.$/)
  expect((await post(wants, {}, "/api/chat")).statusCode).toBe(200)
})

test("a text is answered through the template, or gone on from as it is", async () => {
  const { post, asked } = parrot(saying("Hel", "lo"))
  const body = { model: "tiny", prompt: "hi", system: "Be brief.", options: { num_predict: -1 } }
  const lines = linesOf((await post(body, {}, "/api/generate")).payload)
  expect(lines.map(({ response }) => response)).toEqual(["Hel", "lo", ""])
  expect((asked[0] as ChatRequest).messages.map(({ role }) => role)).toEqual(["system", "user"])
  expect(asked[0]!.maxTokens).toBeUndefined()
  const raw = await post({ ...body, raw: true, suffix: "x", stream: false }, {}, "/api/generate")
  expect(raw.json().response).toBe("Hello")
  expect(asked[1] as CompletionRequest).toMatchObject({ prompt: "hi", suffix: "x", echo: false })
})

test("messages, options and formats reach the chat room; results go to calls by order", async () => {
  const { post, asked } = parrot()
  const weather = (city: string) => ({ function: { name: "weather", arguments: { city } } })
  const messages = [
    { role: "user", content: "Oslo, Ulm?", images: null },
    { role: "assistant", content: "", tool_calls: [weather("Oslo"), weather("Ulm")] },
    { role: "tool", content: "rain", tool_name: "weather" },
    { role: "tool", content: "sun" },
  ]
  const options = {
    num_predict: 7,
    seed: -1,
    stop: ["END"],
    repeat_penalty: 1.5,
    num_ctx: 8,
    top_k: 3,
  }
  const format = { type: "object" }
  const tools = [{ type: "function", function: { name: "weather" } }]
  const body = { model: "tiny", messages, options, format, tools, think: false, keep_alive: -1 }
  expect((await post(body, {}, "/api/chat")).statusCode).toBe(200)
  const { messages: read, ...request } = asked[0] as ChatRequest
  expect(
    read.map(({ toolCalls, toolCallId }) => toolCalls?.map(({ id }) => id) ?? toolCallId),
  ).toEqual([undefined, ["call_1_0", "call_1_1"], "call_1_0", "call_1_1"])
  expect(request).toMatchObject({
    maxTokens: 7,
    stop: ["END"],
    sampling: { repetitionPenalty: 1.5, topK: 3 },
    format: { schema: format },
    tools: [{ name: "weather" }],
    templateArguments: { enable_thinking: false },
  })
})

test("a result that names its tool goes to the first call of it", async () => {
  const { post, asked } = parrot()
  const call = (name: string) => ({ function: { name, arguments: {} } })
  const messages = [
    { role: "assistant", content: "", tool_calls: [call("sun"), call("rain"), call("wind")] },
    { role: "tool", content: "1", tool_name: "rain" },
    { role: "tool", content: "2" },
    { role: "tool", content: "3", tool_call_id: "call_0_2", tool_name: "sun" },
    { role: "tool", content: "4" },
  ]
  const seed = 7
  const answer = await post({ model: "tiny", messages, options: { seed } }, {}, "/api/chat")
  const { messages: read } = asked[0] as ChatRequest
  const ids = read.slice(1).map(({ toolCallId }) => toolCallId)
  expect(ids).toEqual(["call_0_1", "call_0_0", "call_0_2", undefined])
  expect([answer.statusCode, answer.headers["x-seed"]]).toEqual([200, "7"])
})

test("a request that asks nothing is told that the model is here", async () => {
  const { post, asked } = parrot()
  const [line] = linesOf((await post({ model: "tiny" }, {}, "/api/chat")).payload)
  expect(line).toMatchObject({ done: true, done_reason: "load", message: { content: "" } })
  const unload = { model: "tiny", keep_alive: 0, stream: false }
  expect((await post(unload, {}, "/api/generate")).json().done_reason).toBe("unload")
  expect(asked).toEqual([])
})

test("one that fails ends with a line that says why", async () => {
  const failed = problem("generation_failed", { problem: "nan." })
  const { post } = parrot(function* () {
    yield { kind: "content", choice: 0, text: "Hel", logprobs: [] }
    yield { kind: "finish", choice: 0, reason: "error", problem: failed }
    yield { kind: "usage", usage }
  })
  const lines = linesOf((await post(hi, {}, "/api/chat")).payload)
  expect(lines.at(-1)).toEqual({ error: failed.message })
})

test("what is served is listed and shown under its names", async () => {
  const { server, post } = parrot()
  const { models } = (await server.inject("/api/tags")).json()
  expect(models.map(({ name }: { name: string }) => name)).toEqual([
    "tiny:latest",
    "models/tiny:latest",
  ])
  expect(models[0].digest).toMatch(/^[0-9a-f]{64}$/)
  expect((await server.inject("/api/ps")).json().models[0]).toMatchObject({ context_length: 2048 })
  const shown = (await post({ name: "tiny" }, {}, "/api/show")).json()
  expect(shown).toMatchObject({
    capabilities: ["completion", "thinking"],
    model_info: {
      "general.basename": "tiny",
      "unknown.context_length": 2048,
      "unknown.embedding_length": 64,
    },
    parameters: "num_ctx 2048",
    template: "",
  })
  expect((await post({ model: "tiny", stream: false }, {}, "/api/pull")).json()).toEqual({
    status: "success",
  })
})

test.each<[string, string, object, number]>([
  ["/api/chat", "the name", { ...hi, model: "nobody" }, 404],
  ["/api/pull", "the name", { model: "nobody" }, 404],
  [
    "/api/chat",
    "messages[0].images",
    { model: "tiny", messages: [{ role: "user", images: ["x"] }] },
    400,
  ],
  ["/api/chat", "format", { ...hi, format: "yaml" }, 400],
  ["/api/chat", "top_logprobs", { ...hi, logprobs: true, top_logprobs: 21 }, 400],
  ["/api/generate", "context", { model: "tiny", prompt: "x", context: [1] }, 400],
  ["/api/create", "models", { model: "x" }, 400],
  ["/api/experimental", "what it does not know", {}, 404],
])("%s refuses %s in a text", async (path, _what, body, status) => {
  const { post, asked } = parrot()
  const answer = await post(body, {}, path)
  expect([answer.statusCode, typeof answer.json().error]).toEqual([status, "string"])
  expect(asked).toEqual([])
})

test.each<[object, string | RegExp]>([
  [{ images: ["aGk="] }, "images is not supported; the model takes text only."],
  [
    { context: [1, 2] },
    "context must be an empty list, not a list of 2: nothing is remembered between requests.",
  ],
  [
    { template: "{{ x }}" },
    /^template must be an empty string, not .*: the model's own is used\.$/,
  ],
  [
    { top_logprobs: 2 }, // nobody is told of a wish that comes to nothing
    "top_logprobs needs logprobs to be true.",
  ],
])("%j is refused with its reason", async (field, sentence) => {
  const { post } = parrot()
  const answer = await post({ model: "tiny", prompt: "x", ...field }, {}, "/api/generate")
  expect(answer.json().error).toMatch(sentence)
})

// biome-ignore lint/suspicious/noExplicitAny: tests look wherever they like
function linesOf(text: string): any[] {
  const lines = text.split("\n")
  expect(lines.pop()).toBe("")
  return lines.map((line) => JSON.parse(line))
}
