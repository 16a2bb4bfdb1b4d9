// A model that sees, through HTTP as clients reach it: what test/golden/vision/smolvlm was asked of its pictures by transformers'
// processor and model is asked here, whole and streamed, with choices, turns and several pictures, with every drafter there is.

import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import OpenAI from "openai"
import { afterAll, describe, expect, test } from "vitest"
import { writeEagle, writeMedusa } from "../heads.ts"
import { goldenFolder } from "../model/golden.ts"
import { type Server, server } from "./server.ts"

const model = goldenFolder("vision", "smolvlm")
const golden = <Value>(file: string): Value => JSON.parse(readFileSync(join(model, file), "utf8"))

interface Conversation {
  /** Of the user and of the model, in turn; what ends in .png is a picture. */
  turns: string[][]
  prompt: number[]
  reply: number[]
}

const asked = golden<{ question: string; prompt: number[]; reply: number[]; text: string }>(
  "reply.json",
)
const { conversations } = golden<{ conversations: Conversation[] }>("conversations.json")
const first: Conversation = { ...asked, turns: [["image.png", asked.question]] }

const urlOf = (file: string) =>
  `data:image/png;base64,${readFileSync(join(model, file)).toString("base64")}`

function messagesOf({ turns }: Conversation): OpenAI.ChatCompletionMessageParam[] {
  return turns.map((parts, i) =>
    i % 2 === 0
      ? {
          role: "user",
          content: parts.map((part) =>
            part.endsWith(".png")
              ? { type: "image_url", image_url: { url: urlOf(part) } }
              : { type: "text", text: part },
          ),
        }
      : { role: "assistant", content: parts.join("") },
  )
}

function bodyOf(conversation: Conversation) {
  const { length } = conversation.reply
  const messages = messagesOf(conversation)
  return { model, messages, temperature: 0, max_tokens: length, ignore_eos: true }
}

interface Told {
  prompt_token_ids: number[]
  choices: { token_ids: number[]; message: { content: string } }[]
  usage: { prompt_tokens: number; prompt_tokens_details: { cached_tokens: number } }
}

async function ask({ url }: Server, conversation: Conversation, wishes = {}): Promise<Told> {
  const body = JSON.stringify({ ...bodyOf(conversation), return_token_ids: true, ...wishes })
  const headers = { "content-type": "application/json" }
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body })
  const told = (await response.json()) as Told
  expect({ status: response.status, told }).toMatchObject({ status: 200 })
  return told
}

const running = server({ model })

test("a picture's question has transformers' prompt and reply", async () => {
  const told = await ask(running, first)
  expect(told.prompt_token_ids).toEqual(asked.prompt)
  expect(told.choices[0]!.token_ids).toEqual(asked.reply)
  expect(told.choices[0]!.message.content).toBe(asked.text)
  expect(told.usage.prompt_tokens).toBe(asked.prompt.length)
})

test("the same whole and streamed through OpenAI's client", async () => {
  const client = new OpenAI({ baseURL: `${running.url}/v1`, apiKey: "none", maxRetries: 0 })
  const { choices } = await client.chat.completions.create(bodyOf(first))
  expect(choices[0]!.message.content).toBe(asked.text)
  const stream = await client.chat.completions.create({ ...bodyOf(first), stream: true })
  let text = ""
  for await (const { choices } of stream) text += choices[0]?.delta.content ?? ""
  expect(text).toBe(asked.text)
})

test("both of two choices", async () => {
  const { choices } = await ask(running, first, { n: 2 })
  expect(choices.map(({ token_ids }) => token_ids)).toEqual([asked.reply, asked.reply])
})

test.each(conversations)("$turns", async (conversation) => {
  const told = await ask(running, conversation)
  expect(told.prompt_token_ids).toEqual(conversation.prompt)
  expect(told.choices[0]!.token_ids).toEqual(conversation.reply)
})

test("all at once, one beside the other", async () => {
  const all = [first, ...conversations, first]
  const told = await Promise.all(all.map((each) => ask(running, each)))
  expect(told.map(({ choices }) => choices[0]!.token_ids)).toEqual(all.map(({ reply }) => reply))
})

test("a second turn finds what was computed of its picture", async () => {
  const turns = [...first.turns, ["A bird."], ["Why?"]]
  const { length } = asked.prompt
  await ask(running, first)
  const { usage } = await ask(running, { ...first, turns })
  const block = 16
  expect(usage.prompt_tokens_details.cached_tokens).toBe(block * Math.floor(length / block))
})

test("metrics count its pictures, and those that the tower had to read", async () => {
  const counts = async () => {
    const page = await (await fetch(`${running.url}/metrics`)).text()
    const count = (name: string) => Number(page.match(new RegExp(`^${name} (.*)$`, "m"))![1])
    return ["sinter_images_total", "sinter_tower_images_total"].map(count)
  }
  await ask(running, first)
  const [images, read] = await counts()
  expect(read).toBeGreaterThan(0)
  await ask(running, { ...first, turns: [...first.turns, ["A bird."], first.turns[0]!] })
  expect(await counts()).toEqual([images! + 2, read])
})

const scratch = mkdtempSync(join(tmpdir(), "sinter-seeing-"))
afterAll(() => rmSync(scratch, { recursive: true }))
const [eagle, medusa] = [join(scratch, "eagle"), join(scratch, "medusa")]
const shape = { hidden: 40, vocabulary: 336, headDim: 10 }
writeEagle(eagle, shape)
writeMedusa(medusa, shape)

describe.each([
  { mode: "lookup" },
  { mode: "small_draft", models: model }, // its text model, which takes images for their tokens
  { mode: "eagle", models: eagle },
  { mode: "medusa", models: medusa },
] as const)("with drafts of $mode", (drafting) => {
  const beside = server({ model, drafting, overrides: { spec_draft_length: 3 } })

  test("the replies are the same, alone and at once", async () => {
    const all = [first, ...conversations]
    const told = []
    for (const each of all) told.push(await ask(beside, each))
    told.push(...(await Promise.all(all.map((each) => ask(beside, each)))))
    const replies = all.map(({ reply }) => reply)
    expect(told.map(({ choices }) => choices[0]!.token_ids)).toEqual([...replies, ...replies])
    const metrics = await (await fetch(`${beside.url}/metrics`)).text()
    const counts = [...metrics.matchAll(/^sinter_drafted_tokens_total\{.*\} (\d+)$/gm)]
    if (drafting.mode !== "lookup") expect(Number(counts[0]![1])).toBeGreaterThan(0)
  })
})
