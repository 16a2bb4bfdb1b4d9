// Images from the official clients through HTTP and chat to what the engine is asked. Rows come from a vision that computes none.

import { once } from "node:events"
import type { AddressInfo } from "node:net"
import Anthropic from "@anthropic-ai/sdk"
import { Ollama } from "ollama"
import OpenAI from "openai"
import { pino } from "pino"
import { expect, onTestFinished, test } from "vitest"
import { startChat } from "../../src/app/library-requests.ts"
import { createHttp } from "../../src/http/http.ts"
import { defaultHttpOptions, type Service } from "../../src/http/service.ts"
import { served } from "../parrot.ts"
import { HIDDEN, modelNamed, rowsOf, type Seeing, seeingChat } from "../seeing.ts"

const model = "seeing"
const cat = Uint8Array.of(137, 80, 78, 71)
const base64 = Buffer.from(cat).toString("base64")
const url = `data:image/png;base64,${base64}`
const golden = modelNamed("qwen")
const PROMPT = golden.cases.find(({ what }) => what === "an image ahead of its question")!
const [, question] = PROMPT.turns[0]!.parts as [string, string]

/** A server over a chat that sees. */
async function serving(seeing: Seeing = {}) {
  const open = await seeingChat(golden, seeing)
  const service: Service = {
    chat: open.chat,
    model: {
      names: [model],
      created: 1_700_000_000,
      capabilities: ["chat"],
      sees: true,
      hears: false,
      contextLength: 10_000,
      vocabularySize: 1000,
      details: {},
    },
    fingerprint: "fp_test",
    defaults: {},
  }
  const http = createHttp({ ...defaultHttpOptions, version: "1" }, pino({ level: "silent" }), {})
  onTestFinished(() => http.close())
  http.open([served(service)])
  await http.server.listen({ port: 0, host: "127.0.0.1" })
  if (!http.server.server.listening) await once(http.server.server, "listening")
  const { port } = http.server.server.address() as AddressInfo
  return { ...open, service, address: `http://127.0.0.1:${port}` }
}

/** That the engine was asked what the golden prompt is, with the cat's rows. */
function expectAsked({ asked }: Awaited<ReturnType<typeof serving>>): void {
  const [{ prompt, media }] = asked.splice(0) as [(typeof asked)[number]]
  expect([...prompt]).toEqual(PROMPT.ids)
  expect([...media!.at]).toEqual(PROMPT.at)
  expect([...media!.rows]).toEqual(rowsOf(cat, PROMPT.at.length))
  expect(media!.rows).toHaveLength(media!.keys.length * HIDDEN)
}

test("OpenAI's client: chat completions, whole and streamed, and responses", async () => {
  const running = await serving()
  const client = new OpenAI({ baseURL: `${running.address}/v1`, apiKey: "none", maxRetries: 0 })
  const content: OpenAI.ChatCompletionContentPart[] = [
    { type: "image_url", image_url: { url, detail: "low" } },
    { type: "text", text: question },
  ]
  const body = { model, messages: [{ role: "user" as const, content }] }
  const whole = await client.chat.completions.create(body)
  expect(whole.choices[0]!.message.content).toBe("A cat.")
  expect(whole.usage!.prompt_tokens).toBe(PROMPT.ids.length)
  expectAsked(running)
  let text = ""
  for await (const { choices } of await client.chat.completions.create({ ...body, stream: true }))
    text += choices[0]?.delta.content ?? ""
  expect(text).toBe("A cat.")
  expectAsked(running)
  const told = { ...body, return_token_ids: true }
  expect(await client.chat.completions.create(told)).toMatchObject({ prompt_token_ids: PROMPT.ids })
  expectAsked(running)

  const asked: OpenAI.Responses.ResponseInputItem[] = [
    {
      role: "user",
      content: [
        { type: "input_image", image_url: url, detail: "auto" },
        { type: "input_text", text: question },
      ],
    },
  ]
  const response = await client.responses.create({ model, input: asked })
  expect(response.output_text).toBe("A cat.")
  expect(response.usage!.input_tokens).toBe(PROMPT.ids.length)
  expectAsked(running)
  const { input_tokens } = await client.responses.inputTokens.count({ model, input: asked })
  expect(input_tokens).toBe(PROMPT.ids.length)
  expect(running.encoded).toHaveLength(4) // and none to count
})

test("Anthropic's client: messages and their count", async () => {
  const running = await serving()
  const client = new Anthropic({ baseURL: running.address, apiKey: "none", maxRetries: 0 })
  const source = { type: "base64" as const, media_type: "image/png" as const, data: base64 }
  const content: Anthropic.ContentBlockParam[] = [
    { type: "image", source },
    { type: "text", text: question },
  ]
  const messages = [{ role: "user" as const, content }]
  const reply = await client.messages.create({ model, messages, max_tokens: 20 })
  expect(reply.content).toMatchObject([{ type: "text", text: "A cat." }])
  expect(reply.usage.input_tokens).toBe(PROMPT.ids.length)
  expectAsked(running)
  const { input_tokens } = await client.messages.countTokens({ model, messages })
  expect(input_tokens).toBe(PROMPT.ids.length)
})

test("Ollama's client: chat and generate, and what it is told of the model", async () => {
  const running = await serving()
  const client = new Ollama({ host: running.address })
  const message = { role: "user", content: question, images: [cat] }
  const { message: said, prompt_eval_count } = await client.chat({ model, messages: [message] })
  expect([said.content, prompt_eval_count]).toEqual(["A cat.", PROMPT.ids.length])
  expectAsked(running)
  const { response } = await client.generate({ model, prompt: question, images: [base64] })
  expect(response).toBe("A cat.")
  expectAsked(running)
  expect((await client.show({ model })).capabilities).toContain("vision")
})

test("a program in the same process hands bytes over, or what HTTP takes", async () => {
  const running = await serving()
  for (const part of [
    { type: "image", image: cat },
    { type: "image_url", image_url: url },
  ]) {
    const content = [part, { type: "text", text: question }]
    await startChat(running.service, [{ role: "user", content }], {}, new AbortController().signal)
    expectAsked(running)
  }
})

test("a conversation's tokens are told with those of its images", async () => {
  const { address, encoded } = await serving()
  const content = [{ type: "image_url", image_url: url }, { text: question }]
  const answer = await fetch(`${address}/tokenize`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content }] }),
  })
  expect(await answer.json()).toMatchObject({ tokens: PROMPT.ids, count: PROMPT.ids.length })
  expect(encoded).toEqual([])
})

test("a client that leaves ends the encoding of its image", async () => {
  let begun = () => {}
  const encoding = new Promise<void>((resolve) => {
    begun = resolve
  })
  let ended = () => {}
  const given = new Promise<void>((resolve) => {
    ended = resolve
  })
  const { address, asked } = await serving({
    encoding: async (signal) => {
      begun()
      await once(signal, "abort")
      ended()
      signal.throwIfAborted()
    },
  })
  const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: "none", maxRetries: 0 })
  const leaving = new AbortController()
  const content = [{ type: "image_url" as const, image_url: { url } }]
  const body = { model, messages: [{ role: "user" as const, content }] }
  const reply = client.chat.completions.create(body, { signal: leaving.signal })
  await encoding
  leaving.abort()
  await expect(reply).rejects.toThrow()
  await given
  expect(asked).toEqual([])
})
