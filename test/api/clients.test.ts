// The clients people use, against the real server.

import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAI } from "@ai-sdk/openai"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai"
import { createParser } from "eventsource-parser"
import OpenAI from "openai"
import { beforeAll, describe, expect, test } from "vitest"
import { messages, post, server } from "./server.ts"

const running = server()
const model = "models/tiny"

describe("openai", () => {
  let client: OpenAI
  beforeAll(() => {
    client = new OpenAI({ baseURL: `${running.url}/v1`, apiKey: "none", maxRetries: 0 })
  })

  test("models", async () => {
    const { data } = await client.models.list()
    const ids = data.map(({ id }) => id)
    expect(ids).toContain(model)
    for (const id of ids) expect((await client.models.retrieve(id)).id).toBe(id)
  })

  test("its stream helper gathers what the whole answer says", async () => {
    const body = { model, messages, seed: 4, n: 2, logprobs: true, max_tokens: 20 }
    const whole = await client.chat.completions.create(body)
    const stream = client.chat.completions.stream(body)
    let deltas = 0
    stream.on("content", () => deltas++)
    const gathered = await stream.finalChatCompletion()
    expect(deltas).toBeGreaterThan(1)
    expect(gathered.choices.map(({ message }) => message.content)).toEqual(
      whole.choices.map(({ message }) => message.content),
    )
    expect(gathered.choices[0]!.message.role).toBe("assistant")
    expect(gathered.choices[0]!.logprobs).toEqual(whole.choices[0]!.logprobs)
  })

  test("errors come as its classes, with param, code, type and the request's id", async () => {
    const wrong = client.chat.completions.create({ model, messages, temperature: 9 })
    const error = await wrong.then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(OpenAI.BadRequestError)
    expect(error).toMatchObject({
      status: 400,
      param: "temperature",
      code: "invalid_value",
      type: "invalid_request_error",
      requestID: expect.any(String),
    })
    const missing = client.chat.completions.create({ model: "nobody", messages })
    await expect(missing).rejects.toBeInstanceOf(OpenAI.NotFoundError)
  })

  test("an aborted stream frees the server", async () => {
    const stream = await client.chat.completions.create({
      model,
      messages,
      stream: true,
      max_tokens: 1500,
      logit_bias: {},
    })
    for await (const _ of stream) {
      stream.controller.abort()
      break
    }
    const after = await client.chat.completions.create({ model, messages, max_tokens: 2 })
    expect(after.usage!.completion_tokens).toBeLessThanOrEqual(2)
  })

  test("plain completions", async () => {
    const { choices } = await client.completions.create({
      model,
      prompt: ["Hello", "Good"],
      max_tokens: 4,
      echo: true,
    })
    expect(choices.map(({ text }) => text.slice(0, 4))).toEqual(["Hell", "Good"])
  })
})

describe("the AI SDK", () => {
  const provider = () =>
    createOpenAICompatible({ name: "sinter", baseURL: `${running.url}/v1`, includeUsage: true })
  const openai = () => createOpenAI({ baseURL: `${running.url}/v1`, apiKey: "none" })
  const anthropic = () => createAnthropic({ baseURL: `${running.url}/v1`, apiKey: "none" })

  test.each([
    ["openai-compatible", () => provider()(model)],
    ["openai's chat", () => openai().chat(model)],
    ["openai's responses", () => openai().responses(model)],
    ["anthropic", () => anthropic()(model)],
  ])("%s: generateText and streamText agree, and count tokens", async (_, modelOf) => {
    const asked = { model: modelOf(), messages, temperature: 0, maxOutputTokens: 20 }
    const whole = await generateText(asked)
    expect(whole.text).toMatch(/\w/)
    expect(whole.usage.outputTokens).toBeGreaterThan(0)
    const stream = streamText(asked)
    let text = ""
    for await (const piece of stream.textStream) text += piece
    expect(text).toBe(whole.text)
    expect((await stream.usage).outputTokens).toBe(whole.usage.outputTokens)
    expect(await stream.finishReason).toBe(whole.finishReason)
  })

  test.each([
    ["openai-compatible", () => provider()(model)],
    ["openai's chat", () => openai().chat(model)],
    ["openai's responses", () => openai().responses(model)],
    ["anthropic", () => anthropic()(model)],
  ])("%s: a tool is called and its result answered", async (_, modelOf) => {
    const weather = tool({
      inputSchema: jsonSchema<{ city: string }>({
        type: "object",
        properties: { city: { type: "string", enum: ["Oslo"] } },
        required: ["city"],
        additionalProperties: false,
      }),
      execute: ({ city }) => `Rain in ${city}.`,
    })
    const { steps, text } = await generateText({
      model: modelOf(),
      messages,
      temperature: 0,
      tools: { weather },
      toolChoice: { type: "tool", toolName: "weather" },
      stopWhen: stepCountIs(2),
      maxOutputTokens: 60,
      prepareStep: ({ stepNumber }) => (stepNumber > 0 ? { toolChoice: "none" } : {}),
    })
    expect(steps[0]!.toolCalls[0]).toMatchObject({ toolName: "weather", input: { city: "Oslo" } })
    expect(steps[0]!.toolResults[0]!.output).toBe("Rain in Oslo.")
    expect(text).toMatch(/\w/)
  })

  test("an error keeps its sentence", async () => {
    const asked = generateText({ model: provider()("nobody"), messages, maxRetries: 0 })
    await expect(asked).rejects.toThrow(/"nobody" is not served/)
  })
})

test("eventsource-parser reads a stream event by event", async () => {
  const answer = await post(running, "/v1/chat/completions", { messages, stream: true, seed: 2 })
  const events: string[] = []
  const parser = createParser({
    onEvent: ({ data, event, id }) => {
      expect([event, id]).toEqual([undefined, undefined])
      events.push(data)
    },
    onError: (error) => {
      throw error
    },
  })
  for await (const bytes of answer.body!.pipeThrough(new TextDecoderStream())) parser.feed(bytes)
  expect(events.pop()).toBe("[DONE]")
  for (const data of events) expect(JSON.parse(data).object).toBe("chat.completion.chunk")
})
