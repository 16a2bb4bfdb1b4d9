// The other APIs against the embedded model: whole equals streamed, counts agree, and a reply is the one that chat gives.

import OpenAI from "openai"
import { beforeAll, describe, expect, test } from "vitest"
import { ask, chat, messages, server } from "./server.ts"

const running = server()
const model = "models/tiny"
const settings = { temperature: 0, seed: 1 }
const parameters = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
}

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

describe("Messages", () => {
  test("whole and in chat it is the same text, and tokens are counted alike, tools and all", async () => {
    const body = { ...settings, messages, max_tokens: 24 }
    const plain = await ask(running, "/v1/messages", body)
    expect(plain.content).toEqual([{ type: "text", text: await said() }])

    const tools = [{ name: "weather", input_schema: parameters }]
    const forced = { ...body, max_tokens: 200, tools, tool_choice: { type: "any" } }
    const { content, stop_reason, usage } = await ask(running, "/v1/messages", forced)
    expect(stop_reason).toBe("tool_use")
    expect(typeof content[0].input.city).toBe("string")
    const { input_tokens } = await ask(running, "/v1/messages/count_tokens", {
      messages,
      tools,
      tool_choice: { type: "any" },
    })
    expect(input_tokens).toBe(usage.input_tokens + usage.cache_read_input_tokens)
  })

  test("which stop sequence ended a reply is told", async () => {
    const word = (await said()).split(" ")[2]!
    const body = { ...settings, messages, max_tokens: 24, stop_sequences: ["no such", word] }
    const told = await ask(running, "/v1/messages", body)
    expect([told.stop_reason, told.stop_sequence]).toEqual(["stop_sequence", word])
    expect(told.content[0].text).not.toContain(word)
  })
})

test("Ollama's chat and generate say what chat says", async () => {
  const options = { ...settings, num_predict: 24 }
  const told = await ask(running, "/api/chat", { messages, options, stream: false })
  expect(told.message.content).toBe(await said())
  const prompt = messages[0]!.content
  const generated = await ask(running, "/api/generate", { prompt, options, stream: false })
  expect(generated.response).toBe(told.message.content)
  const { capabilities } = await ask(running, "/api/show", {})
  expect(capabilities).toContain("tools")
})
