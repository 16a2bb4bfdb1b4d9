// The other APIs against the embedded model: whole equals streamed, counts agree, and a reply is the one that chat gives.

import Anthropic from "@anthropic-ai/sdk"
import { Ollama } from "ollama"
import OpenAI from "openai"
import { beforeAll, describe, expect, test } from "vitest"
import { chat, messages, server } from "./server.ts"

const running = server()
const model = "models/tiny"
const settings = { temperature: 0, seed: 1 }
const parameters = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
}

const textOf = (role: string, part: object) => ({ type: "message", role, content: [part] })

async function said(): Promise<string> {
  const { choices } = await chat(running, { ...settings, max_tokens: 24 })
  return choices[0].message.content
}

describe("Responses, with the client openai", () => {
  let client: OpenAI
  beforeAll(() => {
    client = new OpenAI({ baseURL: `${running.url}/v1`, apiKey: "none", maxRetries: 0 })
  })

  test("whole, streamed and in chat it is the same text", async () => {
    const body = { model, input: messages, temperature: 0, max_output_tokens: 24 }
    const whole = await client.responses.create(body)
    expect(whole.output_text).toBe(await said())
    const streamed = await client.responses.stream(body).finalResponse()
    expect(streamed.output_text).toBe(whole.output_text)
    expect([streamed.status, streamed.usage!.output_tokens]).toEqual([
      whole.status,
      whole.usage!.output_tokens,
    ])
    const { input_tokens } = await client.responses.inputTokens.count(body)
    expect(input_tokens).toBe(whole.usage!.input_tokens)
  })

  test("log probabilities are those that chat tells, whole and streamed", async () => {
    const body = {
      ...{ model, input: messages, temperature: 0, max_output_tokens: 8, top_logprobs: 3 },
      include: ["message.output_text.logprobs" as const],
    }
    const partOf = ({ output }: OpenAI.Responses.Response) =>
      (output[0] as OpenAI.Responses.ResponseOutputMessage)
        .content[0] as OpenAI.Responses.ResponseOutputText
    const whole = partOf(await client.responses.create(body))
    const asked = { ...settings, max_tokens: 8, logprobs: true, top_logprobs: 3 }
    const { choices } = await chat(running, asked)
    expect(whole.logprobs).toEqual(choices[0].logprobs.content)
    const stream = client.responses.stream(body)
    const told: unknown[] = []
    stream.on("response.output_text.delta", ({ logprobs }) => told.push(...(logprobs ?? [])))
    expect(partOf(await stream.finalResponse()).logprobs).toEqual(whole.logprobs)
    expect(told).toEqual(whole.logprobs)
  })

  test("going on from a response is what its history written out is", async () => {
    const body = { model, temperature: 0, max_output_tokens: 8 }
    const first = await client.responses.create({ ...body, input: "Hello!" })
    const input = "And then?"
    const next = await client.responses.create({ ...body, input, previous_response_id: first.id })
    const written = await client.responses.create({
      ...body,
      input: [
        { role: "user", content: "Hello!" },
        ...first.output.map((item) => item as OpenAI.Responses.ResponseInputItem),
        { role: "user", content: input },
      ],
    })
    expect(next.output_text).toBe(written.output_text)
    expect(next.usage!.input_tokens).toBe(written.usage!.input_tokens)
    expect((await client.responses.retrieve(next.id)).output_text).toBe(next.output_text)
    await client.responses.delete(next.id)
    await expect(client.responses.retrieve(next.id)).rejects.toBeInstanceOf(OpenAI.NotFoundError)
  })

  // ResponseItemList of OpenAI's description: newest first, items with ids, texts in parts.
  test("what a response was asked is told in pages of items", async () => {
    const input: OpenAI.Responses.ResponseInputItem[] = [
      { role: "user", content: "Hello!" },
      { role: "assistant", content: "Yes?" },
      { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
      { type: "function_call_output", call_id: "c", output: "1" },
      { type: "message", role: "user", content: [{ type: "input_text", text: "And?" }] },
    ]
    const { id } = await client.responses.create({ model, input, max_output_tokens: 4 })
    const items = []
    for await (const item of client.responses.inputItems.list(id, { limit: 2, order: "asc" }))
      items.push(item)
    const told = { status: "completed", id: expect.stringMatching(/^[a-z]+_[0-9a-f]+i\d$/) }
    const output = { annotations: [], logprobs: [] }
    expect(items).toEqual([
      { ...told, ...textOf("user", { type: "input_text", text: "Hello!" }) },
      { ...told, ...textOf("assistant", { type: "output_text", text: "Yes?", ...output }) },
      { ...told, ...input[2] },
      { ...told, ...input[3] },
      { ...told, ...input[4] },
    ])
    const newest = await client.responses.inputItems.list(id)
    expect(newest.data).toEqual(items.toReversed())
    expect(newest.has_more).toBe(false)

    const said = { type: "item_reference" as const, id: items[0]!.id! }
    const { usage } = await client.responses.create({ model, input: [said], max_output_tokens: 4 })
    const written = await client.responses.create({ model, input: "Hello!", max_output_tokens: 4 })
    expect(usage!.input_tokens).toBe(written.usage!.input_tokens)
    for (const wrong of [{ limit: 0 }, { limit: 101 }, { after: "msg_nobody" }])
      await expect(client.responses.inputItems.list(id, wrong)).rejects.toThrow(
        new RegExp(Object.keys(wrong)[0]!),
      )
    await expect(client.responses.retrieve(id, { stream: true })).rejects.toMatchObject({
      ...{ status: 400, param: "stream" },
    })
  })

  test("functions, free-form tools by a pattern, and answers by a schema are held to", async () => {
    const body = { model, input: "Weather in Oslo?", temperature: 0, max_output_tokens: 200 }
    const weather = { type: "function" as const, name: "weather", parameters, strict: true }
    const called = await client.responses
      .stream({ ...body, tools: [weather], tool_choice: "required" })
      .finalResponse()
    const [call] = called.output
    if (call?.type !== "function_call") throw new Error(`no call: ${JSON.stringify(called.output)}`)
    expect(typeof JSON.parse(call.arguments).city).toBe("string")

    const format = { type: "grammar" as const, syntax: "regex" as const, definition: "[a-c]{3}" }
    const spell = { type: "custom" as const, name: "spell", format }
    const spelled = await client.responses.create({
      ...body,
      tools: [spell],
      tool_choice: { type: "custom", name: "spell" },
    })
    expect(spelled.output[0]).toMatchObject({
      type: "custom_tool_call",
      input: expect.stringMatching(/^[a-c]{3}$/),
    })
    const schema = { type: "json_schema" as const, name: "place", schema: parameters }
    const held = await client.responses.create({ ...body, text: { format: schema } })
    expect(Object.keys(JSON.parse(held.output_text))).toEqual(["city"])
  })
})

test("of texts to embed, the one that cannot be is named", async () => {
  const { embeddings } = new OpenAI({ baseURL: `${running.url}/v1`, apiKey: "none", maxRetries: 0 })
  const embed = (input: string[]) => embeddings.create({ model, input })
  for (const wrong of ["", "word ".repeat(5000)])
    await expect(embed(["one", "two", wrong, "four"])).rejects.toMatchObject({ param: "input[2]" })
  await expect(embed([""])).rejects.toMatchObject({ param: "input" })
})

describe("Messages, with Anthropic's client", () => {
  let client: Anthropic
  const body = { model, ...{ messages, temperature: 0, max_tokens: 24 } }
  const weather = { name: "weather", input_schema: { ...parameters, type: "object" as const } }
  beforeAll(() => {
    client = new Anthropic({ baseURL: running.url, apiKey: "none", maxRetries: 0 })
  })

  test("whole, streamed and in chat it is the same text", async () => {
    const { content, usage } = await client.messages.create(body)
    expect(content).toMatchObject([{ type: "text", text: await said() }])
    const streamed = await client.messages.stream(body).finalMessage()
    expect(streamed.content).toEqual(content)
    expect(streamed.usage.output_tokens).toBe(usage.output_tokens)
    const { data, has_more } = await client.models.list()
    expect([data[0]!.id, data[0]!.type, has_more]).toEqual([model, "model", false])
  })

  test("a call is held to its tool, and its result goes on the conversation", async () => {
    const forced = {
      ...{ ...body, max_tokens: 200, tools: [weather] },
      tool_choice: { type: "any" as const },
    }
    const { content, stop_reason, usage } = await client.messages.create(forced)
    expect(stop_reason).toBe("tool_use")
    const [call] = content
    if (call?.type !== "tool_use") throw new Error(`no call: ${JSON.stringify(content)}`)
    expect(typeof (call.input as { city: unknown }).city).toBe("string")
    const { model: _, max_tokens, temperature, ...counted } = forced
    const { input_tokens } = await client.messages.countTokens({ model, ...counted })
    expect(input_tokens).toBe(usage.input_tokens + (usage.cache_read_input_tokens ?? 0))
    const result = { type: "tool_result" as const, tool_use_id: call.id, content: "Sunny." }
    const next = await client.messages.create({
      ...{ ...forced, tool_choice: { type: "none" as const } },
      messages: [
        ...messages,
        { role: "assistant" as const, content },
        { role: "user" as const, content: [result] },
      ],
    })
    expect(next.stop_reason).not.toBe("tool_use")
    expect([max_tokens, temperature]).toEqual([200, 0])
  })

  // They continue a thread with its last messages alone, and with all of them once they are told that it is lost.
  test("a tool runner and a thread have their whole conversation answered", async () => {
    const given: string[] = []
    const adds = {
      name: "add",
      description: "Adds two numbers.",
      input_schema: {
        type: "object" as const,
        properties: { a: { type: "integer" }, b: { type: "integer" } },
        required: ["a", "b"],
      },
    }
    const run = { run: () => "5", parse: (input: unknown) => input }
    const question = { role: "user" as const, content: "Add 2 and 3" }
    const runner = client.beta.messages.toolRunner({
      ...{ model, temperature: 0, max_tokens: 60, messages: [question], max_iterations: 3 },
      tools: [{ type: "custom", ...adds, ...run }],
    })
    for await (const { content, usage } of runner) {
      given.push(JSON.stringify(content))
      const { messages: history } = runner.params
      if (history.length < 3) continue
      const counted = await client.messages.countTokens({
        ...{ model, tools: [adds] },
        messages: history.slice(0, 3) as Anthropic.MessageParam[],
      })
      expect(usage.input_tokens + (usage.cache_read_input_tokens ?? 0)).toBe(counted.input_tokens)
    }
    expect(given).toHaveLength(2)

    const thread = client.beta.messages.thread({ model, temperature: 0, max_tokens: 24 })
    const first = "My name is Bob."
    const second = "What is my name?"
    const reply = await thread.send({ role: "user", content: first })
    const next = await thread.send({ role: "user", content: second })
    const whole = await client.messages.create({
      ...body,
      messages: [
        { role: "user", content: first },
        { role: "assistant", content: reply.content as Anthropic.ContentBlockParam[] },
        { role: "user", content: second },
      ],
    })
    expect(next.content).toEqual(whole.content)
  })

  test("which stop sequence ended a reply is told", async () => {
    const word = (await said()).split(" ")[2]!
    const told = await client.messages.create({ ...body, stop_sequences: ["no such", word] })
    expect([told.stop_reason, told.stop_sequence]).toEqual(["stop_sequence", word])
    expect(JSON.stringify(told.content)).not.toContain(word)
  })

  // As the client's own types say: "Set to `0` to populate the prompt cache without generating a response."
  test("of no tokens the prompt is kept for the requests that begin with it", async () => {
    const system = "You are kind to everybody who asks you something. ".repeat(9)
    const warming = { ...body, system, max_tokens: 0 }
    const tool_choice = { type: "any" as const }
    const warm = await client.messages.create({ ...warming, tools: [weather], tool_choice })
    expect(warm.usage.cache_read_input_tokens).toBe(0)
    expect([warm.content, warm.stop_reason, warm.usage.output_tokens]).toEqual([
      [],
      "max_tokens",
      0,
    ])
    const streamed = await client.messages.stream(warming).finalMessage()
    expect([streamed.content, streamed.stop_reason]).toEqual([[], "max_tokens"])
    const { usage } = await client.messages.create({ ...body, system })
    expect(usage.cache_read_input_tokens).toBeGreaterThan(100)
  })

  test("errors come as its classes", async () => {
    const wrong = client.messages.create({ ...body, max_tokens: -1 })
    await expect(wrong).rejects.toBeInstanceOf(Anthropic.BadRequestError)
    const missing = client.messages.create({ ...body, model: "nobody" })
    await expect(missing).rejects.toBeInstanceOf(Anthropic.NotFoundError)
  })
})

describe("Ollama's API, with its client", () => {
  let client: Ollama
  const options = { ...settings, num_predict: 24 }
  beforeAll(() => {
    client = new Ollama({ host: running.url })
  })

  test("chat and generate, whole and streamed, say what chat says", async () => {
    const told = await client.chat({ model, messages, options })
    expect(told.message.content).toBe(await said())
    let text = ""
    for await (const part of await client.chat({ model, messages, options, stream: true }))
      text += part.message.content
    expect(text).toBe(told.message.content)
    const prompt = messages[0]!.content
    const generated = await client.generate({ model, prompt, options })
    expect(generated.response).toBe(told.message.content)
    const top = { logprobs: true, top_logprobs: 2 }
    const { logprobs } = await client.chat({ model, messages, options, ...top })
    const { choices } = await chat(running, { ...settings, ...top, max_tokens: 24 })
    expect(logprobs).toEqual(choices[0].logprobs.content)
    const format = { ...parameters }
    const held = await client.chat({
      model,
      messages: [{ role: "user", content: "Give me the city as JSON: Tom lives in Oslo." }],
      options: { ...options, num_predict: 99 },
      format,
    })
    expect(typeof JSON.parse(held.message.content).city).toBe("string")
    // As a class makes a schema: it does not say that there are no other names, and the model has some.
    const { additionalProperties: _, ...open } = parameters
    const closed = await client.chat({
      ...{ model, messages, format: open },
      options: { ...options, num_predict: 99 },
    })
    expect(Object.keys(JSON.parse(closed.message.content))).toEqual(["city"])
  })

  test("what there is, what of it runs, and embeddings", async () => {
    const { models } = await client.list()
    expect(models.map(({ name }) => name)).toContain(`${model}:latest`)
    expect((await client.ps()).models).toHaveLength(models.length)
    const { capabilities, template } = await client.show({ model })
    // LiteLLM hands tools to a model of Ollama's whose template speaks of them: OllamaModelInfo._supports_function_calling.
    expect(template.toLowerCase()).toContain("tools")
    expect(capabilities).toEqual(expect.arrayContaining(["tools", "embedding"]))
    const { embeddings } = await client.embed({ model, input: ["a", "b", "a"] })
    expect(embeddings[2]).toEqual(embeddings[0])
    expect(embeddings[1]).not.toEqual(embeddings[0])
    await expect(client.chat({ model: "nobody", messages })).rejects.toThrow(/not served here/)
  })
})

test("embeddings, with the client openai, as floats and as it asks for them", async () => {
  const client = new OpenAI({ baseURL: `${running.url}/v1`, apiKey: "none", maxRetries: 0 })
  const input = ["Hello!", "Good morning!"]
  const { data, usage } = await client.embeddings.create({ model, input })
  const floats = await client.embeddings.create({ model, input, encoding_format: "float" })
  for (const [index, { embedding }] of data.entries()) {
    expect(embedding).toEqual(floats.data[index]!.embedding.map(Math.fround))
    const length = Math.hypot(...embedding)
    expect(length).toBeCloseTo(1, 5)
  }
  expect(usage.total_tokens).toBe(floats.usage.total_tokens)
  const more = client.embeddings.create({ model, input, dimensions: 100_000 })
  await expect(more).rejects.toMatchObject({ status: 400, param: "dimensions" })
})
