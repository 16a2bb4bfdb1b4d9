// Recordings in the bodies of both APIs that have them, without a model: what reaches the chat room, and what is refused.

import { expect, test } from "vitest"
import { parrot } from "../../../test/parrot.ts"
import type { ChatRequest } from "../../chat/conversation.ts"
import { MAX_AUDIO, mediumOf } from "../../chat/media.ts"

const bytes = Buffer.from("RIFF\0\0\0\0WAVE", "latin1")
const data = bytes.toString("base64")
const url = `data:audio/wav;base64,${data}`

function hearing(hears = true) {
  const open = parrot(undefined, { maxBody: 40 * 2 ** 20 })
  open.service.model = { ...open.service.model, hears }
  return open
}

const chat = "/v1/chat/completions"
const user = (...content: unknown[]) => ({ messages: [{ role: "user", content }] })

async function answerTo(path: string, body: object, hears = true) {
  const { post, asked } = hearing(hears)
  const answer = await post({ model: "tiny", ...body }, {}, path)
  return { answer, messages: (asked[0] as ChatRequest | undefined)?.messages }
}

const sent = { data, format: "wav" }
const at = "messages[0].content[1]"

test.each<[string, object, string]>([
  ["OpenAI's part", { type: "input_audio", input_audio: sent }, `${at}.input_audio.data`],
  [
    "a data: URL there",
    { type: "input_audio", input_audio: { data: url } },
    `${at}.input_audio.data`,
  ],
  [
    "the sound of a video",
    { type: "input_audio", input_audio: { data: url.replace("audio/wav", "video/mp4") } },
    `${at}.input_audio.data`,
  ],
  ["vLLM's part", { type: "audio_url", audio_url: { url } }, `${at}.audio_url.url`],
  ["a URL by itself", { type: "audio_url", audio_url: url }, `${at}.audio_url`],
  ["transformers' type", { type: "audio", audio: url }, `${at}.audio`],
])("chat takes a recording as %s", async (_, part, field) => {
  const { messages } = await answerTo(
    chat,
    user({ type: "text", text: "Say " }, part, { text: "this." }),
  )
  const [{ content, parts } = {}] = messages!
  expect(content).toBe("Say this.")
  expect(parts).toEqual([{ text: "Say " }, { audio: bytes, field }, { text: "this." }])
})

test("Responses takes input_audio", async () => {
  const content = [
    { type: "input_audio", input_audio: sent },
    { type: "input_text", text: "What?" },
  ]
  const { messages } = await answerTo("/v1/responses", { input: [{ role: "user", content }] })
  expect(messages![0]!.parts).toEqual([
    { audio: bytes, field: "input[0].content[0].input_audio.data" },
    { text: "What?" },
  ])
})

const part = (input_audio: unknown) => user({ type: "input_audio", input_audio })

test.each<[string, object, string]>([
  [
    "no data",
    part({ format: "wav" }),
    "messages[0].content[0].input_audio.data must be a data: URL, not null.",
  ],
  [
    "another kind of data",
    part({ data: "data:image/png;base64,AAAA" }),
    'messages[0].content[0].input_audio.data is data of the type "image/png", which is no audio.',
  ],
  [
    "an address",
    part({ data: "https://example.com/a.wav" }),
    "messages[0].content[0].input_audio.data is an address, and this server connects to nobody on a request's behalf; send the recording itself, as a data: URL.",
  ],
  [
    "no Base64",
    part({ data: "AA-A" }),
    'messages[0].content[0].input_audio.data is no Base64: character 3 is "-".',
  ],
  [
    "another who speaks",
    {
      messages: [
        { role: "assistant", content: [{ type: "input_audio", input_audio: sent }] },
        { role: "user", content: "?" },
      ],
    },
    "messages[0].content[0] is a recording, which belongs to messages of the user or results of tools.",
  ],
])("%s is refused in a sentence", async (_, body, words) => {
  const { answer } = await answerTo(chat, body)
  expect(answer.statusCode).toBe(400)
  expect(answer.json().error.message).toBe(words)
})

test("a recording that is too large is not decoded", async () => {
  const large = "A".repeat(4 * Math.ceil((MAX_AUDIO + 1) / 3))
  const { answer } = await answerTo(chat, part({ data: large }))
  const size = (large.length / 4) * 3
  expect(answer.json().error.message).toBe(
    `messages[0].content[0].input_audio.data has ${size} bytes; a recording may have at most ${MAX_AUDIO}.`,
  )
})

test("who hears nothing says what it takes", async () => {
  const { answer } = await answerTo(chat, part(sent), false)
  expect(answer.json().error.message).toBe(
    'messages[0].content[0] is a part of type "input_audio"; the model takes text only.',
  )
  const image = user({ type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } })
  const { answer: other } = await answerTo(chat, image)
  expect(other.json().error.message).toBe(
    'messages[0].content[0] is a part of type "image_url"; the model takes text and audio only.',
  )
  expect(mediumOf({ audio: bytes }).kind).toBe("audio")
})
