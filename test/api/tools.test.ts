// Tools and response formats over the embedded model, through the clients that depend on their shapes.

import { createOpenAI } from "@ai-sdk/openai"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai"
import { Ajv } from "ajv"
import OpenAI from "openai"
import { expect, test } from "vitest"
import { eventsOf } from "../parrot.ts"
import { ask, chat, post, server } from "./server.ts"

const running = server()
const model = "models/tiny"

const parameters = {
  type: "object" as const,
  properties: {
    city: { type: "string" as const },
    days: { type: "integer" as const, minimum: 1, maximum: 5 },
  },
  required: ["city"],
  additionalProperties: false,
}
const weather = {
  type: "function" as const,
  function: { name: "get_weather", description: "The weather of a city", parameters },
}
const clock = { type: "function" as const, function: { name: "now", description: "The time" } }
const messages = [{ role: "user" as const, content: "What is the weather in Paris?" }]
const isValid = new Ajv().compile(parameters)

test("native: a map in the whole answer, the textual list and then the calls in a stream", async () => {
  const body = { messages, tools: [weather], tool_choice: "required", temperature: 0 }
  const whole = await chat(running, body)
  const [call] = whole.choices[0].message.tool_calls
  expect(whole.choices[0].finish_reason).toBe("tool_calls")
  expect(call).toMatchObject({ id: expect.stringMatching(/^call_/), type: "function" })
  expect(isValid(call.function.arguments)).toBe(true)

  const stream = await post(running, "/v1/chat/completions", { ...body, stream: true })
  const deltas = eventsOf(await stream.text()).map(({ choices }) => choices[0].delta)
  const list = deltas.map(({ content }) => content).join("")
  expect(list).toMatch(/^\[get_weather\(city=".*\)\]$/)
  const [structured] = deltas.flatMap((delta) => delta.tool_calls ?? [])
  expect(JSON.parse(structured.function.arguments)).toEqual(call.function.arguments)
})

test("native: the deltas of a stream, joined and sent back, are the whole answer sent back", async () => {
  const body = { messages, tools: [weather, clock], tool_choice: "required", temperature: 0 }
  const { message } = (await chat(running, body)).choices[0]
  const stream = await post(running, "/v1/chat/completions", { ...body, stream: true })
  const deltas = eventsOf(await stream.text()).map(({ choices }) => choices[0].delta)
  const joined = {
    role: "assistant",
    content: deltas.map(({ content }) => content).join(""),
    tool_calls: deltas.flatMap((delta) => delta.tool_calls ?? []),
  }
  expect(joined.content).toMatch(/^\[get_weather\(/)
  const promptOf = async (earlier: object) => {
    const result = { role: "tool", content: "sunny" }
    const body = { model, messages: [...messages, earlier, result], tools: [weather, clock] }
    const answer = await post(running, "/tokenize", body)
    expect(answer.status).toBe(200)
    return ((await answer.json()) as { tokens: number[] }).tokens
  }
  const tokens = await promptOf(message)
  expect(await promptOf(joined)).toEqual(tokens)
  const quoted = joined.content.replace(/^\[(.*)\]$/, "['$1']")
  expect(await promptOf({ ...joined, content: quoted })).toEqual(tokens)
  const spoken = { ...message, content: "Let me see. " }
  expect(await promptOf({ ...joined, content: `Let me see. ${joined.content}` })).toEqual(
    await promptOf(spoken),
  )
  expect(await promptOf({ ...joined, content: "[get_weather()]" })).not.toEqual(tokens)
})

test("required, named, allowed and none do what they say, at any temperature", async () => {
  const tools = [weather, clock]
  const called = async (tool_choice: unknown, seed: number) => {
    const body = { messages, tools, tool_choice, seed, temperature: 2, max_tokens: 200 }
    const { choices } = await chat(running, body)
    return (choices[0].message.tool_calls ?? []).map(
      (call: { function: { name: string } }) => call.function.name,
    )
  }
  for (let seed = 0; seed < 5; seed++) {
    expect((await called("required", seed)).length).toBeGreaterThan(0)
    const named = { type: "function", function: { name: "now" } }
    expect(new Set(await called(named, seed))).toEqual(new Set(["now"]))
    const allowed = { mode: "required", tools: [weather] }
    const names = await called({ type: "allowed_tools", allowed_tools: allowed }, seed)
    expect(names).not.toContain("now")
    expect(await called("none", seed)).toEqual([])
  }
})

test("no stop string ends a call that is required, not even one that is cut short", async () => {
  for (const max_tokens of [1, 2, 3, 5]) {
    const body = { messages, tools: [weather], tool_choice: "required", max_tokens }
    const { choices } = await chat(running, { ...body, stop: ['"', "{", "<", "["] })
    expect(choices[0].finish_reason).toBe("length")
  }
})

test("openai: the runner calls the tool and goes on with its result", async () => {
  const client = new OpenAI({ baseURL: `${running.url}/v1`, apiKey: "none", maxRetries: 0 })
  const asked: unknown[] = []
  const runner = client.chat.completions.runTools({
    model,
    messages,
    temperature: 0,
    tools: [
      {
        type: "function",
        function: {
          ...weather.function,
          function: (given: string) => {
            asked.push(JSON.parse(given))
            return "sunny, 21 degrees"
          },
        },
      },
    ],
  })
  const said = await runner.finalContent()
  expect(asked).toHaveLength(1)
  expect(isValid(asked[0])).toBe(true)
  expect(said).toMatch(/\w/)
})

test("the AI SDK: of a call alone a stream has the same parts as the whole answer", async () => {
  const provider = createOpenAI({ baseURL: `${running.url}/v1`, apiKey: "none" })
  const asked = {
    model: provider.chat(model),
    messages,
    temperature: 0,
    toolChoice: "required" as const,
    tools: {
      get_weather: tool({
        inputSchema: jsonSchema<{ city: string }>(parameters),
        execute: async ({ city }) => city,
      }),
    },
  }
  const whole = await generateText(asked)
  const streamed = await streamText(asked).content
  const kinds = (parts: readonly { type: string }[]) => parts.map(({ type }) => type)
  expect(kinds(whole.content)).toEqual(["tool-call", "tool-result"])
  expect(kinds(streamed)).toEqual(["tool-call", "tool-result"])
})

test("the AI SDK: a tool loop, whole and streamed", async () => {
  const provider = createOpenAICompatible({ name: "sinter", baseURL: `${running.url}/v1` })
  const asked = {
    model: provider(model),
    messages,
    temperature: 0,
    stopWhen: stepCountIs(2),
    tools: {
      get_weather: tool({
        description: weather.function.description,
        inputSchema: jsonSchema<{ city: string }>(parameters),
        execute: async ({ city }) => `sunny in ${city}`,
      }),
    },
  }
  const whole = await generateText(asked)
  expect(whole.steps[0]!.toolCalls[0]!.toolName).toBe("get_weather")
  expect(isValid(whole.steps[0]!.toolCalls[0]!.input)).toBe(true)
  const stream = streamText(asked)
  await stream.consumeStream()
  expect((await stream.steps)[0]!.toolCalls[0]!.input).toEqual(whole.steps[0]!.toolCalls[0]!.input)
})

test("response formats hold the whole answer, whole and streamed", async () => {
  const schema = {
    type: "object",
    properties: { name: { type: "string", maxLength: 12 }, age: { type: "integer", minimum: 0 } },
    required: ["name", "age"],
    additionalProperties: false,
  }
  const validate = new Ajv().compile(schema)
  for (const response_format of [
    { type: "json_object", schema },
    { type: "json_schema", json_schema: { name: "person", schema } },
    { type: "json_schema", schema: JSON.stringify(schema) },
  ]) {
    for (let seed = 0; seed < 3; seed++) {
      const body = { messages, response_format, seed, temperature: 1.5 }
      const { choices } = await chat(running, body)
      expect(choices[0].finish_reason).toBe("stop")
      expect(validate(JSON.parse(choices[0].message.content))).toBe(true)
      const stream = await post(running, "/v1/chat/completions", { ...body, stream: true })
      const deltas = eventsOf(await stream.text()).map((event) => event.choices[0].delta)
      const pieces = deltas.map((delta) => delta.content ?? "")
      expect(pieces.join("")).toBe(choices[0].message.content)
    }
  }
})

test("a schema that cannot be enforced: refused in formats and strict tools, told for others", async () => {
  const odd = { type: "string", pattern: "(?<=a)b\\1" }
  const format = { type: "json_schema", schema: odd }
  const { error } = await ask(running, "/v1/chat/completions", {
    messages,
    response_format: format,
  })
  expect(error).toMatchObject({ code: "unsupported_value", param: "response_format.schema" })
  expect(error.message).toContain("#/pattern: ")
  const given = { type: "object", properties: { x: odd } }
  const strict = { function: { name: "f", parameters: given, strict: true } }
  const refused = await ask(running, "/v1/chat/completions", { messages, tools: [strict] })
  expect(refused.error.param).toBe("tools[0].function.parameters")
  expect(refused.error.message).toContain("#/properties/x/pattern: ")
  const lenient = { function: { name: "f", parameters: given } }
  const answer = await post(running, "/v1/chat/completions", {
    messages,
    tools: [lenient],
    max_tokens: 2,
  })
  expect(answer.status).toBe(200)
  expect(answer.headers.get("x-unenforced")).toMatch(/^f%23/)
})
