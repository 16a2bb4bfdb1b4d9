// Items, events and what is kept, against OpenAI's published contract, without a model.

import { expect, test } from "vitest"
import {
  logprob,
  type Parrot,
  parrot,
  type Script,
  saying,
  usage,
} from "../../../../test/parrot.ts"
import type { ChatRequest, ReplyEvent } from "../../../chat/conversation.ts"
import { problem } from "../../../errors.ts"
import type { Json } from "../../json.ts"
import { COMMENT, event } from "../../sse.ts"
import { ResponseStream } from "./reply.ts"
import { ResponseStore } from "./store.ts"
import { readCallables } from "./tools.ts"
import { Unwrapped } from "./unwrapped.ts"

const url = "/v1/responses"
const hello = { model: "tiny", input: "hi" }

const thinksAndCalls: Script = function* () {
  yield { kind: "reasoning", choice: 0, text: "Hm.", logprobs: [] }
  yield { kind: "content", choice: 0, text: "Let me ", logprobs: [] }
  yield { kind: "content", choice: 0, text: "look.", logprobs: [] }
  yield { kind: "call", choice: 0, index: 0, id: "call_1", name: "maps__find" }
  yield { kind: "arguments", choice: 0, index: 0, text: '{"city":' }
  yield { kind: "arguments", choice: 0, index: 0, text: '"Oslo"}' }
  yield { kind: "call", choice: 0, index: 1, id: "call_2", name: "patch" }
  yield { kind: "arguments", choice: 0, index: 1, text: '{"input": "a\\u00' }
  yield { kind: "arguments", choice: 0, index: 1, text: 'e9\\n"}' }
  yield { kind: "finish", choice: 0, reason: "tool_calls" }
  yield { kind: "usage", usage }
}

const lark = { type: "grammar", syntax: "lark", definition: "start: /a/" }
const tools = [
  { type: "namespace", name: "maps", tools: [{ type: "function", name: "find" }] },
  { type: "custom", name: "patch", format: lark },
  { type: "web_search" },
]

test("a stream's events in their order, and the whole response that they end with", async () => {
  const { post } = parrot(thinksAndCalls)
  const extra = {
    tools,
    reasoning: { summary: "auto" },
    include: ["reasoning.encrypted_content"],
  }
  const { payload, headers } = await post({ ...hello, ...extra, stream: true }, {}, url)
  expect(headers["x-ignored-tools"]).toBe("web_search")
  expect(headers["x-unenforced"]).toBeUndefined()
  const events = numbered(payload)
  const names = events.map(({ type, output_index: at = "" }) => `${type.slice(9)} ${at}`.trim())
  expect(names).toEqual([
    "created",
    "in_progress",
    "output_item.added 0",
    "content_part.added 0",
    "reasoning_text.delta 0",
    "reasoning_text.done 0",
    "content_part.done 0",
    "reasoning_summary_part.added 0",
    "reasoning_summary_text.delta 0",
    "reasoning_summary_text.done 0",
    "reasoning_summary_part.done 0",
    "output_item.done 0",
    "output_item.added 1",
    "content_part.added 1",
    "output_text.delta 1",
    "output_text.delta 1",
    "output_text.done 1",
    "content_part.done 1",
    "output_item.done 1",
    "output_item.added 2",
    "function_call_arguments.delta 2",
    "function_call_arguments.delta 2",
    "function_call_arguments.done 2",
    "output_item.done 2",
    "output_item.added 3",
    "custom_tool_call_input.delta 3",
    "custom_tool_call_input.delta 3",
    "custom_tool_call_input.done 3",
    "output_item.done 3",
    "completed",
  ])
  const last = events.at(-1)!.response
  const items = events.filter(({ type }) => type === "response.output_item.done")
  expect(last.output).toEqual(items.map(({ item }) => item))
  expect(last.output).toMatchObject([
    { type: "reasoning", summary: [{ text: "Hm." }], content: [{ text: "Hm." }] },
    { type: "message", content: [{ type: "output_text", text: "Let me look.", annotations: [] }] },
    { type: "function_call", call_id: "call_1", namespace: "maps", name: "find" },
    { type: "custom_tool_call", call_id: "call_2", name: "patch", input: "aé\n" },
  ])
  const inputs = events.filter(({ type }) => type.endsWith("input.delta"))
  expect(inputs.map(({ delta }) => delta)).toEqual(["a", "é\n"])
  expect(last.usage).toMatchObject({ input_tokens: 3, output_tokens: 2, total_tokens: 5 })

  const whole = (await post({ ...hello, ...extra }, {}, url)).json()
  expect(plain(whole)).toEqual(plain(last))
})

// OpenAI's reference: output_text.logprobs, and the logprobs of response.output_text.delta and .done.
test("log probabilities are told of a text where include or top_logprobs asks for them", async () => {
  const running = parrot(function* () {
    yield { kind: "reasoning", choice: 0, text: "Hm.", logprobs: [logprob("Hm.")] }
    yield { kind: "content", choice: 0, text: "", logprobs: [logprob("I")] }
    yield {
      kind: "content",
      choice: 0,
      text: "It rains",
      logprobs: [logprob("It"), logprob("rains")],
    }
    yield { kind: "content", choice: 0, text: "", logprobs: [logprob(".")] }
    yield { kind: "call", choice: 0, index: 0, id: "call_1", name: "f" }
    yield { kind: "content", choice: 0, text: "", logprobs: [logprob("{")] }
    yield { kind: "arguments", choice: 0, index: 0, text: "{}" }
    yield { kind: "finish", choice: 0, reason: "tool_calls" }
    yield { kind: "usage", usage }
  })
  const { post, asked } = running
  const withTool = { ...hello, tools: [{ type: "function", name: "f" }] }
  const wants = { ...withTool, top_logprobs: 2, include: ["message.output_text.logprobs"] }
  const { payload } = await post({ ...wants, stream: true }, {}, url)
  const events = numbered(payload)
  const deltas = events.filter(({ type }) => type === "response.output_text.delta")
  const told = deltas.flatMap(({ logprobs }) => logprobs)
  expect(told.map(({ token }) => token)).toEqual(["I", "It", "rains", "."])
  expect(told[1]).toEqual({
    token: "It",
    logprob: -0.5,
    bytes: [73, 116],
    top_logprobs: [
      { token: "It", logprob: -0.5, bytes: [73, 116] },
      { token: " no", logprob: -9999, bytes: [32, 110, 111] },
    ],
  })
  const done = events.find(({ type }) => type === "response.output_text.done")
  expect(done.logprobs).toEqual(told)
  const { response } = events.at(-1)!
  expect(response.top_logprobs).toBe(2)
  expect(response.output[1].content[0].logprobs).toEqual(told)
  const whole = JSON.parse((await post(wants, {}, url)).payload)
  expect(whole.output[1].content[0].logprobs).toEqual(told)
  const kept = (await get(running, whole.id)).json()
  expect(kept.output[1].content[0].logprobs).toEqual(told)
  for (const body of [{ ...hello, include: wants.include }, { ...hello, top_logprobs: 2 }, hello])
    await post(body, {}, url)
  expect(asked.slice(-3).map(({ sampling }) => sampling.topLogprobs)).toEqual([0, 2, undefined])
})

test("more log probabilities than a response holds are refused, streamed or not", async () => {
  const { post, service } = parrot()
  service.model = { ...service.model, contextLength: 2 ** 17 }
  for (const stream of [false, true]) {
    const asked = { ...hello, stream, top_logprobs: 20 }
    const { error } = (await post(asked, {}, url)).json()
    expect(error.param).toBe("top_logprobs")
    expect(error.message).toMatch(/holds at most 1048576; lower it, or max_output_tokens\.$/)
    expect((await post({ ...asked, max_output_tokens: 9999 }, {}, url)).statusCode).toBe(200)
  }
})

test("what is cut is incomplete, and what says nothing is an empty message", async () => {
  const { post } = parrot(function* () {
    yield { kind: "finish", choice: 0, reason: "length" }
    yield { kind: "usage", usage }
  })
  const { payload } = await post({ ...hello, stream: true }, {}, url)
  const last = numbered(payload).at(-1)!
  expect(last.type).toBe("response.incomplete")
  expect(last.response).toMatchObject({
    status: "incomplete",
    incomplete_details: { reason: "max_output_tokens" },
    output: [{ type: "message", status: "incomplete", content: [{ text: "" }] }],
  })
  expect(plain((await post(hello, {}, url)).json())).toEqual(plain(last.response))
})

test("one that fails ends with an error and a failed response", async () => {
  const failed = problem("generation_failed", { problem: "nan." })
  const { post } = parrot(function* () {
    yield { kind: "content", choice: 0, text: "Hel", logprobs: [] }
    yield { kind: "finish", choice: 0, reason: "error", problem: failed }
    yield { kind: "usage", usage }
  })
  const events = numbered((await post({ ...hello, stream: true }, {}, url)).payload)
  const { message } = failed
  expect(events.at(-2)).toMatchObject({ type: "error", message, error: { message } })
  expect(events.at(-1)).toMatchObject({
    type: "response.failed",
    response: { status: "failed", error: { code: "server_error", message } },
  })
  expect((await post(hello, {}, url)).statusCode).toBe(500)
})

test("a streamed prompt that is too long is told in the stream, where clients look for it", async () => {
  const tooLong = problem("context_length_exceeded", { tokens: 9, limit: 8, cure: "" }, "messages")
  const { post, server } = parrot(saying("Hi"), {}, () => tooLong)
  const { payload, statusCode } = await post({ ...hello, stream: true }, {}, url)
  expect(statusCode).toBe(200)
  const events = numbered(payload)
  expect(events.map(({ type }) => type)).toEqual([
    ...["response.created", "response.in_progress", "error", "response.failed"],
  ])
  const error = { code: "context_length_exceeded", message: tooLong.message }
  expect(events.at(-2)).toMatchObject({ ...error, param: "input" })
  expect(events.at(-1)!.response).toMatchObject({ status: "failed", error })
  const { traceEvents } = (await server.inject("/debug/trace")).json()
  const finished = traceEvents.find(({ name }: { name: string }) => name === "finished")
  expect(finished.args).toMatchObject({ status: 200, outcome: "refused" })
  const whole = await post(hello, {}, url)
  expect([whole.statusCode, whole.json().error.param]).toEqual([400, "input"])
})

test("a sign of life is an event with the next number, but a comment within an item", async () => {
  const response = new ResponseStream({
    ...{ stem: "1", repeated: {}, createdAt: 0, callables: readCallables([]) },
    ...{ wantsSummary: false, wantsUnread: false },
  })
  const sent: string[] = []
  const silent = () => sent.push(response.signOfLife())
  const reply = (async function* (): AsyncGenerator<ReplyEvent> {
    silent()
    silent()
    yield { kind: "content", choice: 0, text: "Hi", logprobs: [] }
    silent()
    yield { kind: "finish", choice: 0, reason: "stop" }
    yield { kind: "usage", usage }
  })()
  const told = (error: unknown) => {
    throw error
  }
  for await (const own of response.events(reply, () => {}, told)) sent.push(event(own))
  expect(sent.filter((text) => text === COMMENT)).toHaveLength(1)
  expect(sent[7]).toBe(COMMENT)
  const events = numbered(sent.filter((text) => text !== COMMENT).join(""))
  expect(events.map(({ type }) => type.slice(9))).toEqual([
    ...["created", "in_progress", "in_progress", "in_progress"],
    ...["output_item.added", "content_part.added", "output_text.delta"],
    ...["output_text.done", "content_part.done", "output_item.done", "completed"],
  ])
})

test("items become messages: what the assistant said, thought and called is one", async () => {
  const { post, asked } = parrot()
  const input = [
    { role: "developer", content: "Be brief." },
    { type: "message", role: "user", content: [{ type: "input_text", text: "Oslo?" }] },
    { type: "reasoning", summary: [], content: null, encrypted_content: "sinter:SG0u" },
    { type: "function_call", call_id: "c1", namespace: "maps", name: "find", arguments: "{}" },
    { role: "assistant", content: [{ type: "output_text", text: "I look." }] },
    { type: "web_search_call", id: "ws_1" },
    { type: "custom_tool_call", call_id: "c2", name: "patch", input: 'a"' },
    { type: "function_call_output", call_id: "c1", output: [{ type: "input_text", text: "1" }] },
    { type: "custom_tool_call_output", call_id: "c2", output: "2" },
  ]
  const format = { type: "json_schema", name: "x", schema: { type: "object" }, strict: true }
  const more = {
    instructions: "You help.",
    tools,
    tool_choice: { type: "custom", name: "patch" },
    text: { format },
    reasoning: { effort: "low" },
    max_output_tokens: 7,
  }
  expect((await post({ model: "tiny", input, ...more }, {}, url)).statusCode).toBe(200)
  expect(asked[0] as ChatRequest).toMatchObject({
    messages: [
      { role: "system", content: "You help.\n\nBe brief." },
      { role: "user", content: "Oslo?" },
      {
        role: "assistant",
        content: "I look.",
        reasoning: "Hm.",
        toolCalls: [
          { id: "c1", name: "maps__find", arguments: "{}" },
          { id: "c2", name: "patch", arguments: '{"input":"a\\""}' },
        ],
      },
      { role: "tool", content: "1", toolCallId: "c1" },
      { role: "tool", content: "2", toolCallId: "c2" },
    ],
    maxTokens: 7,
    tools: [{ name: "maps__find" }, { name: "patch" }],
    toolChoice: { mode: "required", names: ["patch"] },
    templateArguments: { reasoning_effort: "low" },
    format: { schema: { type: "object" } },
  })
})

test("a call that a reply's end cut off may come back, and no other that holds no JSON", async () => {
  const { post, asked } = parrot()
  const ask = (status: string) => {
    const call = { type: "function_call", call_id: "c1", name: "find", arguments: '{"city":"Os' }
    return post(
      {
        model: "tiny",
        input: [
          { ...call, status },
          { role: "user", content: "hi" },
        ],
      },
      {},
      url,
    )
  }
  const answers = [await ask("incomplete"), await ask("completed")]
  expect(answers.map(({ statusCode }) => statusCode)).toEqual([200, 400])
  expect((asked[0] as ChatRequest).messages[0]).toMatchObject({
    toolCalls: [{ id: "c1", name: "find", arguments: "{}" }],
  })
})

test("a last message is gone on with where it was cut off, and else answered", async () => {
  const { post, asked } = parrot()
  for (const status of ["incomplete", "in_progress", "completed", undefined]) {
    const input = [
      { role: "user", content: "hi" },
      { role: "assistant", content: "On", status },
    ]
    await post({ model: "tiny", input }, {}, url)
  }
  const last = asked.map((request) => (request as ChatRequest).messages.at(-1)!)
  expect(last.map(({ isWhole }) => isWhole)).toEqual([undefined, undefined, true, true])
})

test("a response is gone on from, shown and forgotten; of another key nobody sees it", async () => {
  const running = parrot(saying("One."), { apiKeys: ["k", "other"] })
  const { post, asked } = running
  const key = { authorization: "Bearer k" }
  const first = (await post({ ...hello, instructions: "Count." }, key, url)).json()
  const goOn = { model: "tiny", previous_response_id: first.id, input: "And?" }
  const second = (await post({ ...goOn, stream: true }, key, url)).payload
  expect((asked[1] as ChatRequest).messages).toEqual([
    { role: "user", content: "hi" },
    { role: "assistant", content: "One.", isWhole: true },
    { role: "user", content: "And?" },
  ])
  const id = numbered(second)[0]!.response.id
  const third = { model: "tiny", previous_response_id: id, input: "And?" }
  await post(third, key, url)
  expect((asked[2] as ChatRequest).messages).toHaveLength(5)
  const referred = [
    { type: "item_reference", id: first.output[0].id },
    { role: "user", content: "?" },
  ]
  await post({ model: "tiny", input: referred }, key, url)
  expect((asked[3] as ChatRequest).messages[0]).toEqual({
    ...{ role: "assistant", content: "One.", isWhole: true },
  })

  const other = await post(goOn, { authorization: "Bearer other" }, url)
  expect([other.statusCode, other.json().error.code]).toEqual([400, "previous_response_not_found"])
  expect((await get(running, first.id)).json()).toEqual(first)
  const { data } = (await get(running, `${first.id}/input_items`)).json()
  expect(data).toEqual([
    {
      ...{ type: "message", id: expect.stringMatching(/^msg_/), status: "completed" },
      ...{ role: "user", content: [{ type: "input_text", text: "hi" }] },
    },
  ])
  const one = `${url}/${first.id}`
  const deletion = await running.server.inject({ method: "DELETE", url: one, headers: key })
  expect(deletion.json()).toEqual({ id: first.id, object: "response", deleted: true })
  expect((await get(running, first.id)).statusCode).toBe(404)
  const unkept = (await post({ ...hello, store: false }, key, url)).json()
  expect([unkept.store, (await get(running, unkept.id)).statusCode]).toEqual([false, 404])
})

function get({ server }: Parrot, path: string) {
  return server.inject({ url: `${url}/${path}`, headers: { authorization: "Bearer k" } })
}

// Codex 0.171 asks a provider called OpenAI to compact, and compacts itself for any other.
test("Codex is told how it compacts where it asks the server to", async () => {
  const input = [{ role: "user", content: "hi" }, { type: "compaction_trigger" }]
  const { error } = (await parrot().post({ model: "tiny", input }, {}, url)).json()
  expect(error.param).toBe("input[1].type")
  expect(error.message).toContain("model_providers")
})

test.each<[string, object]>([
  ["input", { input: [] }],
  ["input[0].type", { input: [{ type: "computer_call" }] }],
  ["input[0].content[0]", { input: [{ role: "user", content: [{ type: "input_image" }] }] }],
  [
    "input[0].arguments",
    { input: [{ type: "function_call", call_id: "a", name: "f", arguments: "[" }] },
  ],
  ["tools[0].type", { tools: [{ type: "file_search" }] }],
  ["tools", { tools: [{ type: "web_search" }] }],
  ["input[0].tools", { input: [{ type: "additional_tools", tools: {} }] }],
  ["input[0].tools[0]", { input: [{ type: "additional_tools", tools: [null] }] }],
  [
    "tools[0].format.syntax",
    { tools: [{ type: "custom", name: "f", format: { ...lark, syntax: "x" } }] },
  ],
  ["tool_choice", { tool_choice: "required" }],
  ["tool_choice.type", { tools, tool_choice: { type: "web_search" } }],
  ["tool_choice.name", { tools, tool_choice: { type: "function", name: "g" } }],
  [
    "tool_choice.tools[0]",
    { tools, tool_choice: { type: "allowed_tools", mode: "auto", tools: [null] } },
  ],
  ["text.format.schema", { text: { format: { type: "json_schema" } } }],
  ["background", { background: true }],
  ["conversation", { conversation: "c" }],
  ["prompt", { prompt: { id: "p" } }],
  ["top_logprobs", { top_logprobs: 21 }],
  ["messages", { input: undefined, messages: [{ role: "user", content: "hi" }] }],
  ["max_tokens", { max_tokens: 9 }],
  ["max_completion_tokens", { max_completion_tokens: 9 }],
  ["response_format", { response_format: { type: "json_object" } }],
  ["reasoning_effort", { reasoning_effort: "low" }],
])("%s is refused by name", async (param, body) => {
  const { post, asked } = parrot()
  const answer = await post({ ...hello, ...body }, {}, url)
  expect([answer.statusCode, answer.json().error.param]).toEqual([400, param])
  expect(asked).toEqual([])
})

test("what is kept is bounded in age, in size, and in size for each key", () => {
  let now = 0
  const store = new ResponseStore(() => now)
  const add = (id: string, scope: string, megabytes: number) =>
    store.add({ id, scope, response: null, input: [], history: [], size: megabytes * 2 ** 20 })
  const kept = (ids: string, scope: string) =>
    ids
      .split("")
      .filter((id) => store.find(id, scope))
      .join("")
  add("a", "one", 16)
  add("b", "one", 16)
  add("c", "one", 1)
  expect(kept("abc", "one")).toBe("bc")
  add("d", "one", 33)
  expect(kept("abcd", "one")).toBe("bc")
  for (const scope of ["two", "three"]) add(`e${scope}`, scope, 32)
  add("f", "five", 16)
  expect(kept("bc", "one")).toBe("c")
  now = 3_600_000
  expect(store.find("f", "five")).toBeUndefined()
})

test("a free-form text is the same wherever its JSON is cut", () => {
  const text = 'a "b" \\ \n é 😀 x'
  const json = `{ "input" : ${JSON.stringify(text).replace("😀", "\\ud83d\\ude00")}}`
  for (let at = 0; at <= json.length; at++) {
    const reader = new Unwrapped()
    const pieces = [reader.take(json.slice(0, at)), reader.take(json.slice(at))]
    expect(pieces.join("")).toBe(text)
    for (const piece of pieces) expect(() => encodeURIComponent(piece)).not.toThrow()
  }
})

/** Checks names and numbers. */
// biome-ignore lint/suspicious/noExplicitAny: tests look wherever they like
function numbered(stream: string): any[] {
  const blocks = stream.split("\n\n").slice(0, -1)
  return blocks.map((block, index) => {
    const [, name, data = ""] = /^event: ([\w.]+)\ndata: (.*)$/.exec(block) ?? []
    const value = JSON.parse(data)
    expect([value.type, value.sequence_number]).toEqual([name, index])
    return value
  })
}

/** Without what differs from response to response. */
function plain(response: Json): Json {
  const text = JSON.stringify(response).replaceAll(/(resp|msg|rs|fc|ctc)_[0-9a-f]{24}/g, "$1_")
  return { ...JSON.parse(text), created_at: 0, completed_at: 0 }
}
