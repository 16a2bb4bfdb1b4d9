import { expect, test } from "vitest"
import { eventsOf, hi, parrot, usage } from "../../../../../test/parrot.ts"
import type { ReplyEvent } from "../../../../chat/conversation.ts"
import { chooseDialect } from "./choose.ts"

/** One generation: some thinking, some text, cut at the limit. */
function* thinking(): Iterable<ReplyEvent> {
  yield { kind: "reasoning", choice: 0, text: "hm", logprobs: [] }
  yield { kind: "content", choice: 0, text: "4", logprobs: [] }
  yield { kind: "content", choice: 0, text: "2", logprobs: [] }
  yield { kind: "finish", choice: 0, reason: "length" }
  yield { kind: "usage", usage }
}

const nothing = { name: null, tool_calls: null, tool_call_id: null }

const rendered = {
  native: {
    message: { role: "assistant", content: "42", ...nothing, reasoning_content: "hm" },
    deltas: [
      { role: "assistant", content: "", ...nothing, reasoning_content: "hm" },
      { role: "assistant", content: "4", ...nothing },
      { role: "assistant", content: "2", ...nothing },
      { role: "assistant", content: "", ...nothing },
    ],
  },
  openai: {
    message: {
      role: "assistant",
      content: "42",
      refusal: null,
      reasoning_content: "hm",
      reasoning: "hm",
    },
    deltas: [
      { role: "assistant", content: "" },
      { reasoning_content: "hm", reasoning: "hm" },
      { content: "4" },
      { content: "2" },
      {},
    ],
  },
}

test.each(Object.entries(rendered))(
  "one generation in %s",
  async (dialect, { message, deltas }) => {
    const { post } = parrot(thinking)
    const headers = { "x-api-dialect": dialect }
    const whole = await post(hi, headers)
    expect(whole.headers["x-api-dialect"]).toBe(dialect)
    expect(whole.json().choices).toEqual([
      { index: 0, message, logprobs: null, finish_reason: "length" },
    ])
    const events = eventsOf((await post({ ...hi, stream: true }, headers)).body)
    expect(events.map(({ choices }) => choices[0].delta)).toEqual(deltas)
    expect(events.map(({ choices }) => choices[0].finish_reason)).toEqual([
      ...deltas.slice(1).map(() => null),
      "length",
    ])
  },
)

const call = (given: unknown) => ({
  messages: [{ role: "assistant", tool_calls: [{ function: { name: "f", arguments: given } }] }],
})

test.each([
  [{}, {}, "native"],
  [{ "user-agent": "curl/8" }, {}, "native"],
  [{ "x-stainless-lang": "python" }, {}, "openai"],
  [{ "user-agent": "OpenAI/JS 6.49.0" }, {}, "openai"],
  [{ "user-agent": "AsyncOpenAI/Python 2.1" }, {}, "openai"],
  [{ "user-agent": "ai/6.0.326 ai-sdk/provider-utils/4 runtime/node.js/20" }, {}, "openai"],
  [{ "user-agent": "ai/7.0.173 ai-sdk-provider-utils/5.0.81 node.js/v20.20.2" }, {}, "openai"],
  [{ "user-agent": "litellm/1.80.0" }, {}, "openai"],
  [{ "user-agent": "python langchain-openai" }, {}, "openai"],
  [{}, { max_completion_tokens: 5 }, "openai"],
  [{}, { max_completion_tokens: null }, "native"],
  [{}, { parallel_tool_calls: false }, "openai"],
  [{}, { tools: [{ type: "function", function: { name: "f", strict: true } }] }, "openai"],
  [{}, { tools: [{ type: "function", function: { name: "f" } }] }, "native"],
  [{}, { response_format: { type: "json_schema", json_schema: { name: "x" } } }, "openai"],
  [{}, { response_format: { type: "json_object", schema: "{}" } }, "native"],
  [{}, call("{}"), "openai"],
  [{}, call({}), "native"],
  [{}, { stream_options: { include_usage: true } }, "openai"],
  [{}, { stream_options: null }, "native"],
  [{ authorization: "Bearer none", "user-agent": "curl/8" }, {}, "openai"],
  [{ "user-agent": "Go-http-client/1.1" }, {}, "openai"],
  [{ "user-agent": "Python/3.12 aiohttp/3.13.2" }, {}, "openai"],
  [{ "user-agent": "Java-http-client/21.0.5" }, {}, "openai"],
  [{ "user-agent": "okhttp/4.12.0" }, {}, "openai"],
  [{ "user-agent": "python-requests/2.32" }, {}, "native"],
  [{ "user-agent": "node" }, {}, "native"],
  [{ authorization: "Bearer none", "x-api-dialect": "native" }, {}, "native"],
  [{ "x-api-dialect": "native", "x-stainless-lang": "js" }, { max_completion_tokens: 1 }, "native"],
  [{ "x-api-dialect": "OpenAI" }, {}, "openai"],
  [{}, [], "native"],
  [{}, { messages: "x", tools: [null, 1], response_format: [] }, "native"],
] as const)("%j with %j speaks %s", (headers, body, dialect) => {
  expect(chooseDialect("/v1/chat/completions", headers, "auto", body as never)).toBe(dialect)
})

test("the path beats the header, the header the option, the option the guess", () => {
  const sdk = { "x-stainless-lang": "js" }
  const header = { "x-api-dialect": "native" }
  expect(chooseDialect("/openai/v1/models", header, "native", undefined)).toBe("openai")
  expect(chooseDialect("/v1/models", header, "openai", undefined)).toBe("native")
  expect(chooseDialect("/v1/models", sdk, "native", undefined)).toBe("native")
  expect(chooseDialect("/v1/models", { authorization: "Bearer x" }, "native", undefined)).toBe(
    "native",
  )
  expect(chooseDialect("/openai-ish", {}, "auto", undefined)).toBe("native")
})

test("an unknown dialect in the header is refused", async () => {
  const answer = await parrot().post(hi, { "x-api-dialect": "klingon" })
  expect(answer.statusCode).toBe(400)
  expect(answer.json().error.param).toBe("x-api-dialect")
  expect(answer.json().message).toMatch(/native or openai, not "klingon"\.$/)
})

/** A word, then two calls whose arguments come in pieces; numbers keep their spelling. */
function* calling(): Iterable<ReplyEvent> {
  yield { kind: "content", choice: 0, text: "Let me see. ", logprobs: [] }
  yield { kind: "call", choice: 0, index: 0, id: "call_a", name: "weather" }
  yield { kind: "arguments", choice: 0, index: 0, text: '{"place":"Pittsburgh, PA",' }
  yield { kind: "arguments", choice: 0, index: 0, text: '"days":1.50,"id":9007199254740993}' }
  yield { kind: "call", choice: 0, index: 1, id: "call_b", name: "now" }
  yield { kind: "arguments", choice: 0, index: 1, text: "{}" }
  yield { kind: "finish", choice: 0, reason: "tool_calls" }
  yield { kind: "usage", usage }
}

const weather = '{"place":"Pittsburgh, PA","days":1.50,"id":9007199254740993}'

test("calls in native: maps in whole answers; in streams the textual list, then OpenAI's form", async () => {
  const { post } = parrot(calling)
  const whole = await post(hi)
  expect(whole.body).toContain(`"arguments":${weather}`)
  expect(whole.json().choices[0].finish_reason).toBe("tool_calls")
  expect(whole.json().choices[0].message).toMatchObject({
    content: "Let me see. ",
    tool_calls: [
      { id: "call_a", type: "function", function: { name: "weather" } },
      { id: "call_b", type: "function", function: { name: "now", arguments: {} } },
    ],
  })
  const events = eventsOf((await post({ ...hi, stream: true })).body)
  const deltas = events.map(({ choices }) => choices[0].delta)
  expect(deltas.map(({ content }) => content)).toEqual([
    "Let me see. ",
    '[weather(place="Pittsburgh, PA", days=1.50, id=9007199254740993), now()]',
    "",
    "",
  ])
  expect(deltas.map((delta) => delta.tool_calls)).toEqual([
    null,
    null,
    [
      {
        index: 0,
        id: "call_a",
        type: "function",
        function: { name: "weather", arguments: weather },
      },
      { index: 1, id: "call_b", type: "function", function: { name: "now", arguments: "{}" } },
    ],
    null,
  ])
  expect(events.at(-1).choices[0].finish_reason).toBe("tool_calls")
})

test("the older form of the textual list, on request", async () => {
  const { post } = parrot(calling, { toolText: "quoted" })
  const events = eventsOf((await post({ ...hi, stream: true })).body)
  expect(events[1].choices[0].delta.content).toBe(
    `['weather(place="Pittsburgh, PA", days=1.50, id=9007199254740993)', 'now()']`,
  )
})

test("calls in openai: strings in whole answers, fragments in streams", async () => {
  const { post } = parrot(calling)
  const headers = { "x-api-dialect": "openai" }
  const whole = (await post(hi, headers)).json().choices[0]
  expect(whole.message.tool_calls[0].function.arguments).toBe(weather)
  const events = eventsOf((await post({ ...hi, stream: true }, headers)).body)
  const fragments = events.flatMap(({ choices }) => choices[0].delta.tool_calls ?? [])
  expect(fragments.map(({ index, id }) => [index, id])).toEqual([
    [0, "call_a"],
    [0, undefined],
    [0, undefined],
    [1, "call_b"],
    [1, undefined],
  ])
  for (const [index, { function: asked }] of whole.message.tool_calls.entries()) {
    const mine = fragments.filter((fragment) => fragment.index === index)
    expect(mine.map((fragment) => fragment.function.arguments).join("")).toBe(asked.arguments)
  }
})

test("what was to be a call and cannot be read is text, and an error only where the specification lists one", async () => {
  const { post } = parrot(function* () {
    yield { kind: "content", choice: 0, text: "[f(", logprobs: [] }
    yield { kind: "finish", choice: 0, reason: "error" }
    yield { kind: "usage", usage }
  })
  for (const [dialect, whole] of [
    ["native", "error"],
    ["openai", "stop"],
  ]) {
    const headers = { "x-api-dialect": dialect! }
    const { message, finish_reason } = (await post(hi, headers)).json().choices[0]
    expect([message.content, finish_reason]).toEqual(["[f(", whole])
    const events = eventsOf((await post({ ...hi, stream: true }, headers)).body)
    expect(events.at(-1).choices[0].finish_reason).toBe("stop")
  }
})

test("a call that was cut keeps the text that there is", async () => {
  const { post } = parrot(function* () {
    yield { kind: "call", choice: 0, index: 0, id: "call_a", name: "f" }
    yield { kind: "arguments", choice: 0, index: 0, text: '{"x":' }
    yield { kind: "finish", choice: 0, reason: "length" }
    yield { kind: "usage", usage }
  })
  const wholes = { native: { content: 'f({"x":', tool_calls: null }, openai: { content: null } }
  for (const [dialect, message] of Object.entries(wholes)) {
    const headers = { "x-api-dialect": dialect }
    expect((await post(hi, headers)).json().choices[0].message).toMatchObject(message)
    const events = eventsOf((await post({ ...hi, stream: true }, headers)).body)
    const deltas = events.map(({ choices }) => choices[0].delta)
    const fragments = deltas.flatMap((delta) => delta.tool_calls ?? [])
    expect(fragments.map((each) => each.function.arguments).join("")).toBe('{"x":')
    expect(events.at(-1).choices[0].finish_reason).toBe("length")
  }
})
