// Images in the bodies of all four APIs, without a model: what reaches the chat room, and what is refused.

import { expect, test } from "vitest"
import { type Parrot, parrot } from "../../../test/parrot.ts"
import type { ChatRequest, ImagePart, MessagePart } from "../../chat/conversation.ts"
import { MAX_IMAGE, mediumOf } from "../../chat/media.ts"
import { readingImage } from "./media.ts"

const bytes = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 255, 251])
const base64 = bytes.toString("base64")
const url = `data:image/png;base64,${base64}`

function seeing(): Parrot {
  const open = parrot()
  open.service.model = { ...open.service.model, sees: true }
  return open
}

/** In words: texts as they are, images as their bytes and fields. */
function told(parts: readonly MessagePart[] | undefined) {
  return parts?.map((part) => {
    if ("text" in part) return part.text
    return [...mediumOf(part).bytes, part.field]
  })
}

const own = (field: string) => [...bytes, field]

/** Posts a body, which must be answered, and gives the messages that it was read as. */
async function messagesOf(path: string, body: object) {
  const { post, asked } = seeing()
  const answer = await post({ model: "tiny", max_tokens: 9, ...body }, {}, path)
  expect(answer.statusCode, answer.payload).toBe(200)
  return (asked[0] as ChatRequest).messages.map(({ role, content, parts }) => ({
    ...{ role, content },
    parts: told(parts),
  }))
}

const chat = "/v1/chat/completions"
const user = (content: unknown, more: object = {}) => ({
  messages: [{ role: "user", content, ...more }],
})
const at = "messages[0].content[1]"

test.each<[string, object, string]>([
  ["a map", { type: "image_url", image_url: { url, detail: "high" } }, `${at}.image_url.url`],
  ["a text", { type: "image_url", image_url: url }, `${at}.image_url`],
  ["no type", { image_url: url }, `${at}.image_url`],
  ["Responses' type", { type: "input_image", image_url: url }, `${at}.image_url`],
  ["transformers' type", { type: "image", image: url }, `${at}.image`],
])("chat takes an image as %s", async (_, part, field) => {
  const content = [{ type: "text", text: "What " }, part, { text: "is it?" }]
  expect(await messagesOf(chat, user(content))).toEqual([
    { role: "user", content: "What is it?", parts: ["What ", own(field), "is it?"] },
  ])
})

test("chat takes images beside a text, and of tools", async () => {
  const [said] = await messagesOf(chat, user("What?", { images: [base64, url] }))
  const fields = ["messages[0].images[0]", "messages[0].images[1]"]
  expect(said!.parts).toEqual([...fields.map(own), "What?"])
  const result = [
    { type: "text", text: "Seen:" },
    { type: "image_url", image_url: { url } },
  ]
  const call = { id: "c", function: { name: "f" } }
  const [, , shown] = await messagesOf(chat, {
    messages: [
      { role: "user", content: "look" },
      { role: "assistant", tool_calls: [call] },
      { role: "tool", content: result, tool_call_id: "c" },
    ],
  })
  const field = "messages[2].content[1].image_url.url"
  expect(shown).toEqual({ role: "tool", content: "Seen:", parts: ["Seen:", own(field)] })
})

test("Responses takes input_image of users and of outputs", async () => {
  const content = [
    { type: "input_image", image_url: url, detail: "auto" },
    { type: "input_text", text: "What?" },
  ]
  const input = [
    { role: "user", content },
    { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c", output: content },
  ]
  const messages = await messagesOf("/v1/responses", { input, max_tokens: undefined })
  expect(messages.map(({ parts }) => parts)).toEqual([
    [own("input[0].content[0].image_url"), "What?"],
    undefined,
    [own("input[2].output[0].image_url"), "What?"],
  ])
})

test("Messages takes images in messages and in results", async () => {
  const source = { type: "base64", media_type: "image/png", data: base64 }
  const image = { type: "image", source }
  const messages = await messagesOf("/v1/messages", {
    messages: [
      { role: "user", content: [{ type: "text", text: "a" }, image, { type: "text", text: "b" }] },
      { role: "assistant", content: [{ type: "tool_use", id: "c", name: "f", input: {} }] },
      {
        role: "user",
        content: [
          {
            type: "tool_result",
            tool_use_id: "c",
            content: [{ type: "image", source: { type: "url", url } }],
          },
          { type: "text", text: "So?" },
          { type: "document", source: { type: "text", data: "doc" } },
        ],
      },
    ],
  })
  // A field is the place that Claude Code takes out when it is refused.
  const field = "messages[2].content[0].tool_result.content[0].image"
  expect(messages).toEqual([
    { role: "user", content: "ab", parts: ["a", own("messages[0].content[1].image"), "b"] },
    { role: "assistant", content: "", parts: undefined },
    { role: "tool", content: "", parts: [own(field)] },
    { role: "user", content: "So?\n\ndoc", parts: undefined },
  ])
})

test("Ollama takes images in messages and beside a prompt", async () => {
  const inChat = await messagesOf("/api/chat", { ...user("What?", { images: [base64] }) })
  expect(inChat[0]!.parts).toEqual([own("messages[0].images[0]"), "What?"])
  const inPrompt = await messagesOf("/api/generate", { prompt: "What?", images: [base64] })
  expect(inPrompt[0]!.parts).toEqual([own("images[0]"), "What?"])
  const alone = await messagesOf("/api/generate", { images: [base64] })
  expect(alone).toEqual([{ role: "user", content: "", parts: [own("images[0]")] }])
})

const showing = (given: unknown) => user([{ type: "image_url", image_url: given }])
const input = (item: object) => ({ input: [item] })
const source = (own: object) => ({
  messages: [{ role: "user", content: [{ type: "image", source: own }] }],
})
const where = "messages[0].content[0].image_url"

test.each<[string, string, object, string, RegExp]>([
  [
    "an address",
    chat,
    showing({ url: "https://a.example/b.png" }),
    `${where}.url`,
    /connects to nobody on a request's behalf; send the image itself, as a data: URL\.$/,
  ],
  ["a file", chat, showing("file:///etc/passwd"), where, /must be a data: URL .+, not "file:/],
  ["no URL", chat, showing({ detail: "low" }), `${where}.url`, /must be a data: URL, not null\.$/],
  [
    "another type",
    chat,
    showing("data:text/html;base64,aGk="),
    where,
    /"text\/html", which is no image\.$/,
  ],
  [
    "no Base64",
    chat,
    showing("data:image/svg+xml,<svg/>"),
    where,
    /must be in Base64 \(;base64\)\.$/,
  ],
  ["nothing", chat, showing("data:image/png;base64,"), where, /is empty\.$/],
  [
    "garbage",
    chat,
    showing(`${url.slice(0, -4)}a\nbc`),
    where,
    /no Base64: character 10 is "\\n"\.$/,
  ],
  [
    "URL's alphabet",
    chat,
    showing("data:image/png;base64,ab-_"),
    where,
    /no Base64: character 3 is "-"\.$/,
  ],
  [
    "a character whose lower byte is in the alphabet",
    chat,
    showing("data:image/png;base64,AA\u0141A"),
    where,
    /no Base64: character 3 is "\u0141"\.$/,
  ],
  [
    "no padding",
    chat,
    showing("data:image/png;base64,aGkhIQ"),
    where,
    /has 6 characters, which is no multiple of 4\.$/,
  ],
  [
    "padding in between",
    chat,
    showing("data:image/png;base64,aG==aGk="),
    where,
    /no Base64: character 3 is "="\.$/,
  ],
  [
    "padding alone",
    chat,
    showing("data:image/png;base64,===="),
    where,
    /no Base64: character 1 is "="\.$/,
  ],
  [
    "the system",
    chat,
    { messages: [{ role: "system", content: [{ type: "image_url", image_url: url }] }] },
    "messages[0].content[0]",
    /belongs to messages of the user/,
  ],
  [
    "an assistant",
    chat,
    { messages: [{ role: "assistant", content: "x", images: [base64] }] },
    "messages[0].images",
    /belongs to messages of the user/,
  ],
  [
    "sound",
    chat,
    user([{ type: "input_audio", input_audio: {} }]),
    "messages[0].content[0]",
    /"input_audio"; the model takes text and images only\.$/,
  ],
  [
    "a list of them",
    chat,
    { ...user("x"), images: [base64] },
    "images",
    /part of a message's content/,
  ],
  [
    "a file's id",
    "/v1/responses",
    input({ role: "user", content: [{ type: "input_image", file_id: "f" }] }),
    "input[0].content[0].file_id",
    /this server keeps none/,
  ],
  [
    "developers",
    "/v1/responses",
    input({ role: "developer", content: [{ type: "input_image", image_url: url }] }),
    "input[0].content[0]",
    /belongs to messages of the user/,
  ],
  [
    "a file of Anthropic's",
    "/v1/messages",
    source({ type: "file", file_id: "f" }),
    "messages[0].content[0].image",
    /source of type "file"; send the image itself, as base64\.$/,
  ],
  [
    "an address of Anthropic's",
    "/v1/messages",
    source({ type: "url", url: "http://a.example" }),
    "messages[0].content[0].image",
    /connects to nobody/,
  ],
  [
    "a system of Anthropic's",
    "/v1/messages",
    { ...user("x"), system: [{ type: "image", source: {} }] },
    "system[0].image",
    /belongs to messages of the user/,
  ],
  [
    "an assistant of Anthropic's",
    "/v1/messages",
    { messages: [{ role: "assistant", content: [{ type: "image", source: {} }] }] },
    "messages[0].content[0].image",
    /belongs to messages of the user/,
  ],
  [
    "PDF",
    "/v1/messages",
    user([{ type: "document", source: { type: "base64", data: "" } }]),
    "messages[0].content[0].document.source",
    /text and images only/,
  ],
  [
    "raw text",
    "/api/generate",
    { prompt: "x", raw: true, images: [base64] },
    "images",
    /stand in no raw text/,
  ],
  ["numbers", "/api/chat", user("x", { images: [5] }), "messages[0].images[0]", /must be a string/],
])("%s is refused where a model sees: %s", async (_, path, body, field, words) => {
  const { post, asked } = seeing()
  const given = { model: "tiny", ...(path === "/v1/messages" && { max_tokens: 9 }), ...body }
  const { statusCode, payload } = await post(given, {}, path)
  expect(statusCode, payload).toBe(400)
  const { error } = JSON.parse(payload)
  const message: string = error.message ?? error
  expect(message).toMatch(words)
  expect(message.startsWith(field) || error.param === field, message).toBe(true)
  expect(asked).toEqual([])
})

test("an image of the largest size is taken, and one byte more is refused", async () => {
  const { post, asked, service } = parrot(undefined, { maxBody: 32 * 2 ** 20 })
  service.model = { ...service.model, sees: true }
  const of = (size: number) => {
    const data = Buffer.alloc(size, 251).toString("base64")
    return { model: "tiny", ...showing(`data:image/jpeg;base64,${data}`) }
  }
  expect((await post(of(MAX_IMAGE + 1))).json().error.message).toBe(
    `${where} has ${MAX_IMAGE + 1} bytes; an image may have at most ${MAX_IMAGE}.`,
  )
  expect(asked).toEqual([])
  expect((await post(of(MAX_IMAGE))).statusCode).toBe(200)
  const [message] = (asked[0] as ChatRequest).messages
  const [{ image }] = message!.parts as [ImagePart]
  expect(image.length).toBe(MAX_IMAGE)
  expect(image.every((byte) => byte === 251)).toBe(true)
})

test("others have their turns while a large one is read", () => {
  const data = Buffer.alloc(2 ** 20).toString("base64")
  const work = readingImage(`data:image/png;base64,${data}`, "field")
  const pieces: number[] = []
  let step = work.next()
  for (; !step.done; step = work.next()) pieces.push(step.value)
  expect(step.value).toEqual({ image: Buffer.alloc(2 ** 20), field: "field" })
  expect(Math.max(...pieces)).toBeLessThanOrEqual(32 * 1024)
  expect(pieces.reduce((sum, size) => sum + size, 0)).toBeGreaterThan(data.length - 32 * 1024)
})

test("a body may have 32 MiB where a model sees", async () => {
  const { post, open, service } = parrot()
  const lease = async () => ({ service, release: () => {} })
  const size = 31 * 2 ** 20
  const body = { model: "tiny", ...user("x".repeat(size)) }
  expect((await post(body)).statusCode).toBe(413)
  const card = { ...service.model, sees: true }
  open([{ card, loaded: { ...service, model: card }, lease }])
  expect((await post(body)).statusCode).toBe(200)
})

test("models say whether they see", async () => {
  const { server, post, open, service } = parrot()
  const told = async () => {
    const list = (await server.inject({ url: "/v1/models" })).json()
    const info = (await post({ model: "tiny" }, {}, "/api/show")).json()
    return [list.data[0].capabilities, info.capabilities]
  }
  expect((await told()).flat()).not.toContain("vision")
  const card = { ...service.model, sees: true }
  open([{ card, loaded: service, lease: async () => ({ service, release: () => {} }) }])
  for (const capabilities of await told()) expect(capabilities).toContain("vision")
})

test("a response with images is kept and gone on from, and its items show them", async () => {
  const { post, asked, server } = seeing()
  const item = { role: "user", content: [{ type: "input_image", image_url: url }] }
  const first = (await post({ model: "tiny", input: [item] }, {}, "/v1/responses")).json()
  const next = { model: "tiny", input: "And?", previous_response_id: first.id }
  expect((await post(next, {}, "/v1/responses")).statusCode).toBe(200)
  const [shown] = (asked[1] as ChatRequest).messages
  expect(told(shown!.parts)).toEqual([own("previous_response_id.content[0].image_url")])
  const { data } = (await server.inject({ url: `/v1/responses/${first.id}/input_items` })).json()
  expect(data[0].content).toEqual(item.content)
})
