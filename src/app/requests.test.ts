import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest"
import { type App, createApp } from "../app.ts"
import type { ChatReply } from "../index.ts"
import type { AppChat, ChatCall, CompletionCall } from "./requests.ts"

let app: App
let chat: AppChat
beforeAll(async () => {
  app = await createApp({ model: "tiny" })
  chat = (await app.ready).chat
})
afterAll(() => app.close())

const messages = [{ role: "user", content: "Hello!" }] as const

async function textOf(reply: Promise<ChatReply>): Promise<string> {
  let text = ""
  for await (const event of (await reply).events) if (event.kind === "content") text += event.text
  return text
}

test("a chat needs its messages, a completion its prompt", async () => {
  expect(await textOf(chat.reply({ messages }))).toMatch(/\w{2,}/)
  expect(await textOf(chat.complete({ prompt: "Hello", maxTokens: 8 }))).toMatch(/\w/)
})

test("calls without a signal of theirs share none, whose listeners Node would warn of", async () => {
  const warnings: Error[] = []
  const warned = (warning: Error) => warnings.push(warning)
  process.on("warning", warned)
  onTestFinished(() => void process.off("warning", warned))
  const calls = Array.from({ length: 12 }, () => chat.complete({ prompt: "Hello", maxTokens: 1 }))
  await Promise.all(calls.map(textOf))
  expect(warnings).toEqual([])
})

test("what is said counts, and what is undefined is as not said", async () => {
  const greedy = { messages, sampling: { temperature: 0 } }
  const answer = await textOf(chat.reply(greedy))
  const more = {
    stop: undefined,
    choices: undefined,
    sampling: { temperature: 0, topP: undefined },
  }
  expect(await textOf(chat.reply({ ...greedy, ...more } as unknown as ChatCall))).toBe(answer)
  const short = await textOf(chat.reply({ ...greedy, maxTokens: 2 }))
  expect(answer.startsWith(short) && short.length < answer.length).toBe(true)
})

test.each([
  [undefined, "reply must be an object."],
  [{}, "messages must be a list of messages."],
  [{ messages: "Hello!" }, 'messages must be a list of messages, not "Hello!".'],
  [
    { messages: ["Hello!"] },
    'messages[0] must be a message, like { role, content }, not "Hello!".',
  ],
  [{ messages: [{ role: "me", content: "" }] }, "messages[0].role must be one of system, user"],
  [{ messages: [{ role: "user" }] }, "messages[0].content must be a text or null."],
  [{ messages: [{ role: "user", content: "", parts: [1] }] }, "messages[0].parts must be a list"],
  [
    { messages: [{ role: "assistant", content: "", parts: [{ text: "" }] }] },
    "messages[0].parts belongs to messages of the user or of tools.",
  ],
  [
    { messages: [{ role: "user", content: "", parts: [{ image: Uint8Array.of(1) }] }] },
    "This model sees no images; leave them out, or ask one that does.",
  ],
  [
    { messages, max_tokens: 3 },
    "max_tokens is no field of reply; known: messages, id, choices, max",
  ],
  [{ messages, sampling: { top_p: 1 } }, "top_p is no field of sampling; known: temperature"],
])("reply(%j) is refused in a sentence", async (call, sentence) => {
  await expect(chat.reply(call as unknown as ChatCall)).rejects.toThrow(sentence)
})

test("so is a completion without a prompt", async () => {
  await expect(chat.complete({} as CompletionCall)).rejects.toThrow("prompt must be a text or an")
})
