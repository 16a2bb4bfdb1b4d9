// Transcriptions without a model: what reaches the chat room, what becomes of its events, and what is refused.

import OpenAI, { toFile } from "openai"
import { expect, test } from "vitest"
import { formOf } from "../../../../test/forms.ts"
import { eventsOf, logprob, parrot, type Script, served, usage } from "../../../../test/parrot.ts"
import type { ChatRequest } from "../../../chat/conversation.ts"
import { problem } from "../../../errors.ts"
import type { HttpOptions, OpenedTranscript } from "../../service.ts"

const bytes = Buffer.from("RIFF\0\0\0\0WAVE", "latin1")
const file = new Blob([bytes])
const url = "/v1/audio/transcriptions"

type Fields = Parameters<typeof formOf>[0]

function hearing(script?: Script, options: Partial<HttpOptions> = {}) {
  const open = parrot(script, options)
  Object.assign(open.service.model, { hears: true })
  const send = async (fields: Fields = {}) => {
    const { payload, headers } = await formOf({ model: "tiny", file, ...fields })
    return open.server.inject({ method: "POST", url, headers, payload })
  }
  return { ...open, send }
}

const INSTRUCTION = "Transcribe the input speech."

test.each<[string, Fields, string | undefined, string]>([
  ["nothing else", {}, undefined, INSTRUCTION],
  [
    "a model's own words",
    {},
    "Please transcribe this audio into text",
    "Please transcribe this audio into text",
  ],
  ["a language", { language: "de" }, undefined, `${INSTRUCTION} The language is German.`],
  [
    "one of a region",
    { language: "pt-BR" },
    undefined,
    `${INSTRUCTION} The language is Brazilian Portuguese.`,
  ],
  ["an empty one", { language: "" }, undefined, INSTRUCTION],
  [
    "a prompt",
    { prompt: "Ärzte, Öl" },
    undefined,
    `${INSTRUCTION} Follow the style and spelling of this text, or go on from it: Ärzte, Öl`,
  ],
  [
    "both behind a model's own words",
    { language: "en", prompt: "A" },
    "Write it down",
    "Write it down. The language is English. Follow the style and spelling of this text, or go on from it: A",
  ],
])("asked with %s", async (_, fields, transcription, content) => {
  const { send, service, asked } = hearing()
  Object.assign(service.model, { transcription })
  expect((await send(fields)).statusCode).toBe(200)
  const [request] = asked as [ChatRequest]
  expect(request).toMatchObject({ choices: 1, maxTokens: undefined, reasoning: "split" })
  expect(request.messages).toEqual([
    { role: "user", content, parts: [{ audio: bytes, field: "file" }, { text: content }] },
  ])
})

const taught: OpenedTranscript = {
  languages: { de: "German", en: "English" },
  opening: (language) => language && `language ${language}<asr_text>`,
  header: "<asr_text>",
  context: "system",
}

test.each<[string, Fields, Partial<ChatRequest>]>([
  ["nothing else", {}, {}],
  ["a language", { language: "de" }, { opening: "language German<asr_text>" }],
  ["one of a region", { language: "en-GB" }, { opening: "language English<asr_text>" }],
])("a model that was taught a form of its own is asked by it: %s", async (_, fields, request) => {
  const { send, service, asked } = hearing()
  Object.assign(service.model, { transcription: taught })
  expect((await send(fields)).statusCode).toBe(200)
  expect((await send({ ...fields, prompt: "Oslo" })).statusCode).toBe(200)
  const [first, second] = asked as [ChatRequest, ChatRequest]
  const user = { role: "user", content: "", parts: [{ audio: bytes, field: "file" }] }
  expect(first.messages).toEqual([user])
  expect(first.opening).toBe(request.opening)
  expect(second.messages).toEqual([{ role: "system", content: "Oslo" }, user])
})

test.each<[string, Partial<OpenedTranscript>, Fields, string, string]>([
  [
    "a language that it does not know",
    taught,
    { language: "sw" },
    "language",
    'language must be one that this model knows, not "sw": de, en.',
  ],
  [
    "no code",
    { opening: taught.opening },
    { language: "german" },
    "language",
    'language must be the code of a language, as en, not "german".',
  ],
  [
    "a code of three letters",
    { opening: taught.opening },
    { language: "yue" },
    "language",
    'language must be a code of two letters, as en, not "yue".',
  ],
  [
    "a text to follow",
    { opening: taught.opening },
    { prompt: "Oslo" },
    "prompt",
    "prompt is given to a model that was taught to transcribe without one; leave it out.",
  ],
])("of a form of its own is refused: %s", async (_, transcription, fields, param, message) => {
  const { send, service } = hearing()
  Object.assign(service.model, { transcription })
  const answer = await send(fields)
  expect(answer.statusCode).toBe(400)
  expect(answer.json().error).toMatchObject({ param, message })
})

/** A token for each piece. */
const saidSo = (...pieces: string[]): Script =>
  function* () {
    let offset = 0
    for (const text of pieces) {
      yield { kind: "content", choice: 0, text, logprobs: [{ ...logprob(text), offset }] }
      offset += Array.from(text).length
    }
    yield { kind: "finish", choice: 0, reason: "stop" }
    yield { kind: "usage", usage }
  }

test.each<[string, string[], string[]]>([
  ["stands ahead", ["language", " English", "<asr_text>", " Hel", "lo"], ["Hel", "lo"]],
  ["stands in one piece with it", ["language German<asr_text>Hal", "lo"], ["Hal", "lo"]],
  [
    "comes in halves, with blanks behind it",
    ["language", " None<asr", "_text>", " ", " A b"],
    ["A b"],
  ],
  ["is not there", ["lang", "uage"], ["lang", "uage"]],
  ["does not come soon", ["x".repeat(101), "<asr_text>y"], ["x".repeat(101), "<asr_text>y"]],
])("what a transcript is in is told apart where it %s", async (_, said, deltas) => {
  const { send, service } = hearing(saidSo(...said))
  Object.assign(service.model, { transcription: taught })
  const text = deltas.join("")
  expect((await send({ response_format: "text" })).body).toBe(text)
  const events = eventsOf((await send({ stream: "true" })).body)
  expect(events.filter(({ delta }) => delta).map(({ delta }) => delta)).toEqual(deltas)
  expect(events.at(-1)).toMatchObject({ type: "transcript.text.done", text })
  const told = (await send({ "include[]": "logprobs" })).json()
  const heard = said.slice(said.findIndex((piece) => piece.endsWith("_text>")) + 1)
  if (said.some((piece) => piece.endsWith("_text>")))
    expect(told.logprobs.map(({ token }: { token: string }) => token)).toEqual(heard)
})

test("where the language was told, what looks like a header is the transcript", async () => {
  const { send, service } = hearing(saidSo("A <asr_text>", "b"))
  Object.assign(service.model, { transcription: taught })
  expect((await send({ language: "en" })).json().text).toBe("A <asr_text>b")
})

test("what its model advises counts, but for the temperature", async () => {
  const { send, service, asked } = hearing()
  Object.assign(service.defaults, { temperature: 0.7, topP: 0.9, repetitionPenalty: 1.1 })
  await send()
  await send({ temperature: "0.25" })
  const advised = { topP: 0.9, repetitionPenalty: 1.1 }
  expect(asked.map(({ sampling }) => sampling)).toMatchObject([
    { ...advised, temperature: 0 },
    { ...advised, temperature: 0.25 },
  ])
})

const spent = {
  type: "tokens",
  input_tokens: 3,
  input_token_details: { audio_tokens: 0, text_tokens: 3 },
  output_tokens: 2,
  total_tokens: 5,
}

const thinking: Script = function* () {
  yield { kind: "reasoning", choice: 0, text: "Hm, ", logprobs: [logprob("Hm, ")] }
  yield { kind: "content", choice: 0, text: "Hel", logprobs: [logprob("Hel")] }
  yield { kind: "content", choice: 0, text: "lo", logprobs: [logprob("lo")] }
  yield { kind: "finish", choice: 0, reason: "stop" }
  yield { kind: "usage", usage }
}

test("thinking is no part of a transcript, nor are its tokens", async () => {
  const { send } = hearing(thinking)
  expect((await send()).json()).toEqual({ text: "Hello", usage: spent })
  expect((await send({ response_format: "text" })).body).toBe("Hello")
  const told = (text: string) => ({ token: text, logprob: -0.5, bytes: [...Buffer.from(text)] })
  const logprobs = [told("Hel"), told("lo")]
  expect((await send({ "include[]": "logprobs" })).json()).toEqual({
    text: "Hello",
    logprobs,
    usage: spent,
  })
  const { body } = await send({ stream: "true", include: "logprobs", response_format: "text" })
  expect(eventsOf(body)).toEqual([
    { type: "transcript.text.delta", delta: "Hel", logprobs: [told("Hel")] },
    { type: "transcript.text.delta", delta: "lo", logprobs: [told("lo")] },
    { type: "transcript.text.done", text: "Hello", logprobs, usage: spent },
  ])
})

test("a text is text/plain, a stream server-sent events", async () => {
  const { send } = hearing()
  const kinds = [{}, { response_format: "text" }, { stream: "true" }].map(send)
  expect((await Promise.all(kinds)).map(({ headers }) => headers["content-type"])).toEqual([
    "application/json; charset=utf-8",
    "text/plain; charset=utf-8",
    "text/event-stream; charset=utf-8",
  ])
})

test("a reply that fails is an error, in a stream an event", async () => {
  const { send } = hearing(function* () {
    yield { kind: "content", choice: 0, text: "Hel", logprobs: [] }
    const failed = problem("generation_failed", { problem: "it broke." })
    yield { kind: "finish", choice: 0, reason: "error", problem: failed }
  })
  for (const fields of [{}, { response_format: "text" }]) {
    const answer = await send(fields)
    expect(answer.statusCode).toBe(500)
    expect(answer.json().error.code).toBe("generation_failed")
  }
  const [delta, error] = eventsOf((await send({ stream: "true" })).body)
  expect(delta.delta).toBe("Hel")
  expect(error.error.code).toBe("generation_failed")
})

const LATER = "the model does not tell when something is said;"

test.each<[Fields, string, string]>([
  [
    { response_format: "srt" },
    "response_format",
    `response_format: ${LATER} ask for json or text.`,
  ],
  [
    { response_format: "vtt" },
    "response_format",
    `response_format: ${LATER} ask for json or text.`,
  ],
  [
    { response_format: "verbose_json" },
    "response_format",
    `response_format: ${LATER} ask for json or text.`,
  ],
  [
    { response_format: "diarized_json" },
    "response_format",
    "response_format: the model does not tell who speaks; ask for json or text.",
  ],
  [
    { response_format: "xml" },
    "response_format",
    'response_format must be one of "json", "text", "verbose_json", "srt", "vtt", not "xml".',
  ],
  [
    { "timestamp_granularities[]": ["word", "segment"] },
    "timestamp_granularities",
    `timestamp_granularities: ${LATER} leave it out.`,
  ],
  [
    { "timestamp_granularities[]": ["segment"] },
    "timestamp_granularities",
    `timestamp_granularities: ${LATER} leave it out.`,
  ],
  [
    { "known_speaker_names[]": "me" },
    "known_speaker_names",
    "known_speaker_names: the model does not tell who speaks; leave it out.",
  ],
  [
    { chunking_strategy: "auto" },
    "chunking_strategy",
    "chunking_strategy: a recording is heard as a whole; leave it out.",
  ],
  [
    { "chunking_strategy[type]": "server_vad" },
    "chunking_strategy",
    "chunking_strategy: a recording is heard as a whole; leave it out.",
  ],
  [{ "languages[]": ["en", "de"] }, "languages", "languages: name one, in language."],
  [{ "keywords[]": "sinter" }, "keywords", "keywords: write them in prompt."],
  [{ "include[]": "item" }, "include[0]", 'include[0] must be "logprobs", not "item".'],
  [
    { include: "logprobs", response_format: "text" },
    "include",
    "include needs the response_format json, as a text has no place for logprobs.",
  ],
  [{ temperature: "1.5" }, "temperature", "temperature must be a number from 0 to 1, not 1.5."],
  [{ temperature: "hot" }, "temperature", 'temperature must be a number from 0 to 1, not "hot".'],
  [{ stream: "1" }, "stream", 'stream must be true or false, not "1".'],
  [
    { language: "English" },
    "language",
    'language must be the code of a language, as en, not "English".',
  ],
  [
    { language: "en-abc" },
    "language",
    'language must be the code of a language, as en, not "en-abc".',
  ],
  [{ language: "xx" }, "language", 'language must be the code of a language, as en, not "xx".'],
  [
    { file: "speech.wav" },
    "file",
    'file must be a file (a part with a filename, as curl -F NAME=@PATH sends one), not "speech.wav".',
  ],
  [{ model: file }, "model", "model must be a string, not a file."],
  [{ model: "" }, "model", "model is required; served: tiny, models/tiny."],
])("%j is refused in a sentence", async (fields, param, message) => {
  const { send, asked } = hearing()
  const answer = await send(fields)
  expect(answer.statusCode).toBe(400)
  expect(answer.json().error).toMatchObject({ param, message })
  expect(asked).toEqual([])
})

test("a form without a file, and one with fields that nobody knows", async () => {
  const { server, send } = hearing()
  const { payload, headers } = await formOf({ model: "tiny" })
  const without = await server.inject({ method: "POST", url, headers, payload })
  expect(without.json().error).toMatchObject({ param: "file", message: "file is required." })
  const answer = await send({ "tokens[]": "1", ünter: file })
  expect(answer.headers["x-ignored-fields"]).toBe("tokens,%C3%BCnter")
})

test("where no model hears, a recording is not read; where another does, its model is not loaded", async () => {
  const deaf = parrot()
  const { payload, headers } = await formOf({ model: "tiny", file: new Blob([Buffer.alloc(3e6)]) })
  const none = await deaf.server.inject({ method: "POST", url, headers, payload })
  expect(none.statusCode).toBe(400)
  expect(none.json().error.message).toBe(
    "No model of this server hears, and a transcript takes one that does; serve one that does.",
  )
  const { service } = deaf
  const ears = { ...service, model: { ...service.model, names: ["ears"], hears: true } }
  const lease = () => Promise.reject(new Error("it was loaded"))
  deaf.open([served(ears), { ...served(service), loaded: undefined, lease }])
  const one = await deaf.server.inject({ method: "POST", url, headers, payload })
  expect(one.statusCode).toBe(400)
  expect(one.json().error.message).toBe(
    'The model "tiny" does not hear, and a transcript takes one that does; name one that has audio among its capabilities in GET /v1/models.',
  )
})

test("who leaves ends what was being written", async () => {
  const { port, signals } = hearing(async function* (_, signal) {
    yield { kind: "content", choice: 0, text: "Hel", logprobs: [] }
    await new Promise((resolve) => signal.addEventListener("abort", resolve))
    yield { kind: "finish", choice: 0, reason: "stop" }
  })
  const baseURL = `http://127.0.0.1:${await port()}/v1`
  const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 })
  const sent = { model: "tiny", file: await toFile(bytes, "speech.wav"), stream: true as const }
  const stream = await client.audio.transcriptions.create(sent)
  for await (const event of stream) {
    expect(event).toEqual({ type: "transcript.text.delta", delta: "Hel" })
    break
  }
  await expect.poll(() => signals[0]!.aborted).toBe(true)
})
