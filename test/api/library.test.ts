// A model inside one's own process: it says what the server says, and refuses what the server refuses.

import { afterAll, beforeAll, expect, test } from "vitest"
import { load, type Model } from "../../src/index.ts"
import { chat, server } from "./server.ts"

const running = server()
let model: Model
beforeAll(async () => {
  model = await load("models/tiny")
}, 60_000)
afterAll(() => model?.close())

const fields = { seed: 7, max_tokens: 30 }
const messages = [{ role: "user" as const, content: "Hello! Who are you?" }]

test("pieces, whole answers and the server's answers are the same", async () => {
  const told = await chat(running, { messages, ...fields })
  const [choice] = told.choices
  const pieces: string[] = []
  for await (const piece of model.chat("Hello! Who are you?", fields)) pieces.push(piece)
  expect(pieces.length).toBeGreaterThan(1)
  expect(pieces.join("")).toBe(choice.message.content)
  const answer = await model.chat(messages, fields).answer()
  expect(answer).toMatchObject({ text: choice.message.content, reason: choice.finish_reason })
  expect(answer.usage.completionTokens).toBe(told.usage.completion_tokens)
})

test("texts go on, values satisfy their schema, and calls are read", async () => {
  expect(await model.generate("1, 2, 3, ", { regex: "[4-9]{3}" }).text()).toMatch(/^[4-9]{3}$/)
  const schema = {
    type: "object",
    properties: { n: { type: "integer", minimum: 0, maximum: 99 } },
    required: ["n"],
    additionalProperties: false,
  }
  const { n } = await model.schema<{ n: number }>("A number as JSON.", schema)
  expect(Number.isInteger(n)).toBe(true)
  const cut = model.schema("A number as JSON.", schema, { max_tokens: 1 })
  await expect(cut).rejects.toThrow(/was cut before its value was whole/)
  const tool = { type: "function", function: { name: "add", parameters: schema } } as const
  const { calls } = await model
    .chat("Add.", { tools: [tool], tool_choice: "required", parallel_tool_calls: false })
    .answer()
  expect(calls).toMatchObject([{ name: "add", arguments: { n: expect.any(Number) } }])
})

test("what HTTP refuses is refused in the same words, and so is a typing error", async () => {
  const refused = (given: object) => model.chat("Hi", given).text()
  await expect(refused({ temperature: 9 })).rejects.toThrow(/^temperature must be/)
  await expect(refused({ functions: [{}] })).rejects.toThrow(/is no field of chat/)
  await expect(refused({ maxTokens: 3 })).rejects.toThrow(/^maxTokens is no field of chat/)
  const content = [{ type: "image", image: Uint8Array.of(137) }]
  await expect(model.chat([{ role: "user", content }]).text()).rejects.toThrow(/takes text only/)
  const parts = [{ type: "audio", audio: Uint8Array.of(1) }]
  await expect(model.chat([{ role: "user", content: parts }]).text()).rejects.toThrow(/text only/)
  await expect(model.generate("a", { suffix: "b" }).text()).rejects.toThrow(/^suffix: this model/)
  const reply = model.chat("Hi", fields)
  await reply.text()
  await expect(reply.text()).rejects.toThrow(/can be read once/)
})

test("a signal ends a reply, and leaving the loop as well", async () => {
  const ending = new AbortController()
  const pieces: string[] = []
  const reading = async () => {
    for await (const piece of model.chat("Tell me a long story.", {
      signal: ending.signal,
      ignore_eos: true,
    })) {
      pieces.push(piece)
      ending.abort()
    }
  }
  await reading().catch((error: Error) => expect(error.name).toBe("AbortError"))
  for await (const _ of model.chat("Hello!", { ignore_eos: true })) break
  expect(await model.chat("Hello! Who are you?", fields).text()).toMatch(/\w/)
})
