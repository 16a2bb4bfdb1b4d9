// Bodies, blocks and events against what Anthropic's published API says of them, without a model.

import { expect, test } from "vitest"
import { hi, parrot, type Script, usage } from "../../../../test/parrot.ts"
import type { ChatRequest } from "../../../chat/conversation.ts"
import { problem } from "../../../errors.ts"

const url = "/v1/messages"
const small = { ...hi, max_tokens: 9 }

const thinksAndCalls: Script = function* () {
  yield { kind: "reasoning", choice: 0, text: "Hm.", logprobs: [] }
  yield { kind: "content", choice: 0, text: "Let me ", logprobs: [] }
  yield { kind: "content", choice: 0, text: "look.", logprobs: [] }
  yield { kind: "call", choice: 0, index: 0, id: "call_9", name: "weather" }
  yield { kind: "arguments", choice: 0, index: 0, text: '{"city":' }
  yield { kind: "arguments", choice: 0, index: 0, text: '"Oslo","n":12345678901234567890}' }
  yield { kind: "finish", choice: 0, reason: "tool_calls" }
  yield { kind: "usage", usage }
}

test("a stream's events in their order, and the whole answer that they add up to", async () => {
  const { post } = parrot(thinksAndCalls)
  const { payload, headers } = await post({ ...small, stream: true }, {}, url)
  expect(headers["request-id"]).toBe(headers["x-request-id"])
  const events = namedEvents(payload)
  expect(events.map(({ type, index }) => [type, index].join(" ").trim())).toEqual([
    "message_start",
    "content_block_start 0",
    "content_block_delta 0",
    "content_block_delta 0",
    "content_block_stop 0",
    "content_block_start 1",
    "content_block_delta 1",
    "content_block_delta 1",
    "content_block_stop 1",
    "content_block_start 2",
    "content_block_delta 2",
    "content_block_delta 2",
    "content_block_stop 2",
    "message_delta",
    "message_stop",
  ])
  const { message } = events[0]!
  expect(message).toMatchObject({ content: [], stop_reason: null, model: "tiny" })
  expect(message.usage).toMatchObject({ input_tokens: 3, output_tokens: 0 })
  const told = usage.promptTokens - usage.cachedTokens
  const counts = { input_tokens: told, cache_read_input_tokens: 1, output_tokens: 2 }
  expect(events.at(-2)!.usage).toMatchObject(counts)

  const whole = await post(small, {}, url)
  expect(whole.payload).toContain('"n":12345678901234567890')
  expect({ ...whole.json(), id: "" }).toEqual({ ...gathered(events), id: "" })
  expect(whole.json().stop_reason).toBe("tool_use")
})

// Usage and MessageDeltaUsage of Anthropic's client.
test("how much of the output was thinking is told with the rest, whole and at a stream's end", async () => {
  const { post } = parrot(function* () {
    yield { kind: "reasoning", choice: 0, text: "Hm.", logprobs: [] }
    yield { kind: "finish", choice: 0, reason: "stop" }
    yield { kind: "usage", usage: { ...usage, reasoningTokens: 1 } }
  })
  const told = { output_tokens: 2, output_tokens_details: { thinking_tokens: 1 } }
  expect((await post(small, {}, url)).json().usage).toMatchObject(told)
  const events = namedEvents((await post({ ...small, stream: true }, {}, url)).payload)
  expect(events.at(-2)!.usage).toMatchObject(told)
})

test.each([
  [{ reason: "length" as const }, "max_tokens", null],
  [{ reason: "stop" as const }, "end_turn", null],
  [{ reason: "stop" as const, stop: "END" }, "stop_sequence", "END"],
])("%j is told as %s", async (finish, stop_reason, stop_sequence) => {
  const { post } = parrot(function* () {
    yield { kind: "content", choice: 0, text: "x", logprobs: [] }
    yield { kind: "finish", choice: 0, ...finish }
    yield { kind: "usage", usage }
  })
  expect((await post(small, {}, url)).json()).toMatchObject({ stop_reason, stop_sequence })
})

test("what was cut of a call is no input", async () => {
  const { post } = parrot(function* () {
    yield { kind: "call", choice: 0, index: 0, id: "call_9", name: "weather" }
    yield { kind: "arguments", choice: 0, index: 0, text: '{"ci' }
    yield { kind: "finish", choice: 0, reason: "length" }
    yield { kind: "usage", usage }
  })
  const { content } = (await post(small, {}, url)).json()
  expect(content).toEqual([{ type: "tool_use", id: "call_9", name: "weather", input: {} }])
})

test("one that fails ends with its error, and without an end", async () => {
  const failed = problem("generation_failed", { problem: "nan." })
  const { post } = parrot(function* () {
    yield { kind: "content", choice: 0, text: "Hel", logprobs: [] }
    yield { kind: "finish", choice: 0, reason: "error", problem: failed }
    yield { kind: "usage", usage }
  })
  const events = namedEvents((await post({ ...small, stream: true }, {}, url)).payload)
  expect(events.at(-1)).toEqual({
    type: "error",
    error: { type: "api_error", message: failed.message },
  })
  const whole = await post(small, {}, url)
  expect(whole.statusCode).toBe(500)
  expect(whole.json().error.type).toBe("api_error")
})

test("blocks become messages, results of tools ahead of what is said beside them", async () => {
  const { post, asked } = parrot()
  const weather = { name: "weather", input_schema: { type: "object", properties: {} } }
  const { statusCode } = await post(
    {
      ...small,
      system: [
        { type: "text", text: "x-anthropic-billing-header: cch=1;" },
        {
          type: "text",
          text: "x-anthropic-billing-header: cch=2;\nBe ",
          cache_control: { type: "ephemeral" },
        },
        { type: "text", text: "brief." },
      ],
      messages: [
        { role: "user", content: [{ type: "text", text: "Oslo?" }] },
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "Hm.", signature: "x" },
            { type: "text", text: "Let me look." },
            { type: "tool_use", id: "t1", name: "weather", input: { city: "Oslo" } },
          ],
        },
        {
          role: "user",
          content: [
            { type: "text", text: "And now?" },
            { type: "tool_result", tool_use_id: "t1", content: [{ type: "text", text: "rain" }] },
          ],
        },
      ],
      tools: [weather, { type: "web_search_20250305", name: "web_search" }],
      tool_choice: { type: "tool", name: "weather", disable_parallel_tool_use: true },
      thinking: { type: "disabled" },
      stop_sequences: ["END"],
      output_config: { format: { type: "json_schema", schema: { type: "object" } } },
    },
    {},
    url,
  )
  expect(statusCode).toBe(200)
  expect(asked[0] as ChatRequest).toMatchObject({
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Oslo?" },
      {
        role: "assistant",
        content: "Let me look.",
        reasoning: "Hm.",
        toolCalls: [{ id: "t1", name: "weather", arguments: '{"city":"Oslo"}' }],
      },
      { role: "tool", content: "rain", toolCallId: "t1" },
      { role: "user", content: "And now?" },
    ],
    maxTokens: 9,
    stop: ["END"],
    tools: [{ name: "weather" }],
    toolChoice: { mode: "required", names: ["weather"] },
    parallelToolCalls: false,
    templateArguments: { enable_thinking: false },
    format: { schema: { type: "object" } },
  })
})

const picture = { type: "image", source: { type: "base64", data: "" } }
const tool = { name: "f", input_schema: {} }

test.each<[string, object]>([
  [
    "messages[0].content[1].image",
    { messages: [{ role: "user", content: [{ type: "text", text: "" }, picture] }] },
  ],
  [
    "messages[0].content[0].tool_result.content[0].image",
    {
      messages: [
        { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: [picture] }] },
      ],
    },
  ],
  [
    "messages[0].content[0].tool_result.content[0]",
    {
      messages: [
        { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: [null] }] },
      ],
    },
  ],
  ...[{ type: "base64", media_type: "application/pdf", data: "" }, null].map(
    (source): [string, object] => [
      "messages[0].content[0].document.source",
      { messages: [{ role: "user", content: [{ type: "document", source }] }] },
    ],
  ),
  ["max_tokens", { max_tokens: -1 }],
  ["tools[0].type", { tools: [{ type: "bash_20250124", name: "bash" }] }],
  ["tools[0].type", { tools: [{ type: "web_search_20250305", name: "web_search" }] }],
  ["tools[1].name", { tools: [tool, tool] }],
  ["tool_choice", { tool_choice: { type: "any" } }],
  ["tool_choice.name", { tools: [tool], tool_choice: { type: "tool", name: "g" } }],
  ["mcp_servers", { mcp_servers: [{}] }],
  [
    "messages[0]",
    { messages: [{ role: "user", content: [{ type: "tool_use", id: "a", name: "f" }] }] },
  ],
])("%s is refused by name, in Anthropic's body", async (param, body) => {
  const { post, asked } = parrot()
  const answer = await post({ ...small, ...body }, {}, url)
  expect(answer.statusCode).toBe(400)
  const { type, error } = answer.json()
  expect([type, error.type]).toEqual(["error", "invalid_request_error"])
  expect(error.message.startsWith(`${param} `), error.message).toBe(true)
  expect(asked).toEqual([])
})

// The path by which Claude Code 2.1 finds the block that it takes out before it asks again, from its code.
test.each([
  [picture, "image"],
  [{ type: "document", source: { type: "base64", data: "" } }, "document"],
  [{ type: "tool_result", tool_use_id: "a", content: [picture] }, "image"],
])("Claude Code finds %j in what refuses it", async (block, kind) => {
  const { post } = parrot()
  const messages = [hi.messages[0], { role: "user", content: [block] }]
  const { error } = (await post({ ...small, messages }, {}, url)).json()
  const path =
    /messages[.[](\d+)[\].]+content[.[](\d+)[\].]+(?:tool_result[.[]content[.[]\d+[\].]+)?(image|document|pdf)/
  expect(path.exec(error.message)?.slice(1)).toEqual(["1", "0", kind])
})

// Sources of DocumentBlockParam and SearchResultBlockParam of Anthropic's client.
test("documents of text and results of a search are read, apart from what is said beside them", async () => {
  const { post, asked } = parrot()
  const text = (said: string) => ({ type: "text", text: said })
  const plain = { type: "text", media_type: "text/plain", data: "Grass is green." }
  const parts = { type: "content", content: [text("The sky"), text(" is blue.")] }
  const result = { type: "search_result", source: "a.org", title: "Sea", content: [text("Wet.")] }
  const content = [
    ...[text("Look"), text(" here:")],
    { type: "document", source: plain, title: "Facts", context: "Old.", citations: null },
    { type: "document", source: parts, title: null },
    text("And?"),
  ]
  const answer = [{ type: "tool_result", tool_use_id: "a", content: [result, text("End.")] }]
  const messages = [
    { role: "user", content },
    { role: "assistant", content: [{ type: "tool_use", id: "a", name: "f", input: {} }] },
    { role: "user", content: answer },
  ]
  expect((await post({ ...small, messages }, {}, url)).statusCode).toBe(200)
  expect((asked[0] as ChatRequest).messages.map((message) => message.content)).toEqual([
    "Look here:\n\nFacts\n\nOld.\n\nGrass is green.\n\nThe sky is blue.\n\nAnd?",
    "",
    "Sea\n\na.org\n\nWet.\n\nEnd.",
  ])
})

test("a thread may begin, and what goes on with one is told by Anthropic's code that it is lost", async () => {
  const { post, asked } = parrot()
  const thread = { type: "continue", previous_message_id: "msg_1" }
  const lost = await post({ ...small, thread }, {}, url)
  expect([lost.statusCode, lost.json().error]).toMatchObject([
    404,
    { type: "not_found_error", details: { error_code: "thread_not_found" } },
  ])
  expect(asked).toEqual([])
  for (const begun of [{ type: "create" }, null])
    expect((await post({ ...small, thread: begun }, {}, url)).statusCode).toBe(200)
})

test("its errors go by status, below its paths too, and its key is one of the server's", async () => {
  const { post, server } = parrot(thinksAndCalls, { apiKeys: ["k"] }, () =>
    problem("context_length_exceeded", { tokens: 6231, limit: 4096, cure: "" }),
  )
  expect((await post(small, {}, url)).json().error.type).toBe("authentication_error")
  const key = { "x-api-key": "k", "anthropic-version": "2023-06-01" }
  const { error } = (await post(small, key, `${url}?beta=true`)).json()
  expect(error.message).toMatch(/^prompt is too long: 6231 tokens > 4096 maximum/)
  const both = { ...key, authorization: "Bearer another" }
  expect((await post(small, both, url)).json().error.message).toBe(error.message)
  const other = (await post({ ...small, model: "claude-haiku" }, key, url)).json()
  expect(other.error.message).toMatch(/served: tiny.* ANTHROPIC_DEFAULT_HAIKU_MODEL name\.$/)
  const missing = await server.inject({ url: `${url}/batches`, headers: key })
  expect([missing.statusCode, missing.json().error.type]).toEqual([404, "not_found_error"])
})

/** Checks the framing, and that each event's name is its type. */
// biome-ignore lint/suspicious/noExplicitAny: tests look wherever they like
function namedEvents(stream: string): any[] {
  return stream
    .split("\n\n")
    .slice(0, -1)
    .map((event) => {
      const [, name, data = ""] = /^event: (\w+)\ndata: (.*)$/.exec(event) ?? []
      const value = JSON.parse(data)
      expect(value.type).toBe(name)
      return value
    })
}

/** As Anthropic's client puts a message together. */
// biome-ignore lint/suspicious/noExplicitAny: as above
function gathered(events: any[]) {
  const message = structuredClone(events[0].message)
  const json: string[] = []
  for (const { type, index, delta, content_block, usage } of events) {
    const block = message.content[index]
    if (type === "content_block_start") message.content.push(content_block)
    else if (type === "message_delta") Object.assign(message, delta, { usage })
    else if (delta?.type === "text_delta") block.text += delta.text
    else if (delta?.type === "thinking_delta") block.thinking += delta.thinking
    else if (delta?.type === "signature_delta") block.signature = delta.signature
    else if (delta) json[index] = (json[index] ?? "") + delta.partial_json
  }
  for (const [index, text] of json.entries()) {
    if (text !== undefined) message.content[index].input = JSON.parse(text)
  }
  return message
}
