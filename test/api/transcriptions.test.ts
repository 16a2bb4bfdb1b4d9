// Transcripts by a model that hears, as clients ask for them: each is the reply to the same conversation by /v1/chat/completions, of
// which test/model/hearing.test.ts holds the tokens to transformers'.

import { execFile } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { Ajv } from "ajv"
import OpenAI, { toFile } from "openai"
import { beforeAll, expect, onTestFinished, test } from "vitest"
import { FORMATS } from "../../src/audio/format.ts"
import { ModelList } from "../../src/http/apis/models/schema.ts"
import {
  TranscriptionEvent,
  TranscriptionResponse,
} from "../../src/http/apis/transcriptions/schema.ts"
import { formOf } from "../forms.ts"
import { isLeftOut } from "../left-out.ts"
import { goldenFolder } from "../model/golden.ts"
import { goldenHearing } from "../model/recordings.ts"
import { eventsOf } from "../parrot.ts"
import { server } from "./server.ts"

const overrides = { max_total_seq_length: 256 } as const
const running = server({
  model: goldenFolder("hearing", "qwen2-audio"),
  servedName: "ears",
  overrides,
})
const [
  {
    bytes: [recording],
    rows: [rows],
  },
] = goldenHearing("qwen2-audio") as [ReturnType<typeof goldenHearing>[number]]
const path = "/v1/audio/transcriptions"

let client: OpenAI
beforeAll(() => {
  client = new OpenAI({ baseURL: `${running.url}/v1`, apiKey: "none", maxRetries: 0 })
})

const speech = () => toFile(recording!, "speech.wav")

/** The reply to a recording and a text behind it. */
async function replyTo(text: string, logprobs = false) {
  const data = recording!.toString("base64")
  const content = [
    { type: "input_audio" as const, input_audio: { data, format: "wav" as const } },
    { type: "text" as const, text },
  ]
  const messages = [{ role: "user" as const, content }]
  const asked = { model: "ears", temperature: 0, messages, logprobs }
  const { choices, usage } = await client.chat.completions.create(asked)
  return {
    text: choices[0]!.message.content!,
    logprobs: choices[0]!.logprobs?.content,
    usage: usage!,
  }
}

test("OpenAI's client gets the reply to the recording and an instruction, whole and streamed", async () => {
  const { text, usage } = await replyTo("Transcribe the input speech.")
  expect(text.length).toBeGreaterThan(20)
  const whole = await client.audio.transcriptions.create({ model: "ears", file: await speech() })
  const told = {
    type: "tokens",
    input_tokens: usage.prompt_tokens,
    input_token_details: { audio_tokens: rows, text_tokens: usage.prompt_tokens - rows! },
    output_tokens: usage.completion_tokens,
    total_tokens: usage.total_tokens,
  }
  expect(whole).toEqual({ text, usage: told })
  const stream = await client.audio.transcriptions.create({
    model: "ears",
    file: await speech(),
    stream: true,
  })
  let joined = ""
  let last: object | undefined
  for await (const event of stream) {
    if (event.type === "transcript.text.delta") joined += event.delta
    last = event
  }
  expect(joined).toBe(text)
  expect(last).toEqual({ type: "transcript.text.done", text, usage: told })
})

test("a language and a prompt are sentences behind it", async () => {
  const { text } = await replyTo(
    "Transcribe the input speech. The language is French. Follow the style and spelling of this text, or go on from it: Ça va ?",
  )
  const asked = { model: "ears", file: await speech(), language: "fr", prompt: "Ça va ?" }
  expect((await client.audio.transcriptions.create(asked)).text).toBe(text)
})

test("as text, and with log probabilities", async () => {
  const { text, logprobs } = await replyTo("Transcribe the input speech.", true)
  const file = await speech()
  const plain = await client.audio.transcriptions.create({
    model: "ears",
    file,
    response_format: "text",
  })
  expect(plain).toBe(text)
  const told = await client.audio.transcriptions.create({
    model: "ears",
    file,
    include: ["logprobs"],
  })
  expect(told.logprobs).toEqual(
    logprobs!.map(({ token, logprob, bytes }) => ({ token, logprob, bytes })),
  )
})

test("whole and streamed answers are as /openapi.json promises", async () => {
  const ajv = new Ajv({ strict: false })
  const [isAnswer, isEvent] = [TranscriptionResponse, TranscriptionEvent].map((schema) =>
    ajv.compile(schema),
  )
  const send = async (fields: Record<string, string>) => {
    const file = new Blob([recording as Uint8Array<ArrayBuffer>])
    const { payload, headers } = await formOf({
      model: "ears",
      file,
      "include[]": "logprobs",
      ...fields,
    })
    return fetch(running.url + path, {
      method: "POST",
      headers,
      body: payload as Uint8Array<ArrayBuffer>,
    })
  }
  const answer = await (await send({})).json()
  expect(isAnswer!(answer), ajv.errorsText(isAnswer!.errors)).toBe(true)
  for (const event of eventsOf(await (await send({ stream: "true" })).text()))
    expect(isEvent!(event), ajv.errorsText(isEvent!.errors)).toBe(true)
})

const run = promisify(execFile)
const hasCurl = await run("curl", ["--version"]).then(
  () => true,
  () => false,
)

test.skipIf(isLeftOut(hasCurl))(
  `curl -F${hasCurl ? "" : ": no curl on this machine"}`,
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "sinter-transcripts-"))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const file = join(folder, 'a "b" ü.wav')
    writeFileSync(file, recording!)
    const quoted = `file=@"${file.replaceAll('"', '\\"')}"`
    const form = [
      "-F",
      quoted,
      "-F",
      "model=ears",
      "-F",
      "response_format=text",
      "-F",
      "temperature=0",
    ]
    const { stdout } = await run("curl", ["-sS", running.url + path, ...form])
    expect(stdout).toBe((await replyTo("Transcribe the input speech.")).text)
  },
)

test("what is no recording is refused by its field", async () => {
  const file = await toFile(Buffer.from("no sound"), "speech.wav")
  const refused = client.audio.transcriptions.create({ model: "ears", file })
  await expect(refused).rejects.toMatchObject({ status: 400, param: "file" })
  const empty = client.audio.transcriptions.create({
    model: "ears",
    file: await toFile(Buffer.alloc(0), "speech.wav"),
  })
  await expect(empty).rejects.toMatchObject({ status: 400, param: "file" })
})

test("metrics count requests and recordings", async () => {
  const counts = async () => {
    const page = await (await fetch(`${running.url}/metrics`)).text()
    const count = (name: string) =>
      Number(
        page
          .split("\n")
          .find((line) => line.startsWith(`${name} `))
          ?.split(" ")[1] ?? 0,
      )
    const route = `sinter_http_requests_total{route="${path}",status="200"}`
    return [count("sinter_recordings_total"), count(route)]
  }
  const [recordings, requests] = await counts()
  await client.audio.transcriptions.create({ model: "ears", file: await speech() })
  await expect.poll(counts).toEqual([recordings! + 1, requests! + 1])
})

test("a model that hears is listed as the document of the API says", async () => {
  const answer = await fetch(`${running.url}/v1/models`)
  const list = (await answer.json()) as { data: { capabilities: string[] }[] }
  expect(list.data[0]!.capabilities).toContain("audio")
  expect(new Ajv().validate(ModelList, list)).toBe(true)
})

test("the document of the API names the formats that are read", async () => {
  const document = await (await fetch(`${running.url}/openapi.json`)).text()
  expect(document).toContain(FORMATS)
  const manual = readFileSync(join(import.meta.dirname, "../../docs/api.md"), "utf8")
  expect(manual.match(/WAV, MP3[^.]*? of at most/gs)).toEqual(
    Array(3).fill(`${FORMATS} of at most`),
  )
})

test.each([
  ...["stereo-opus.ogg", "mono-vorbis.ogg", "recorded.webm"],
  ...["ffmpeg-mono.m4a", "pictures.mp4", "fdk-crc.aac"],
])("%s is heard", async (name) => {
  const bytes = readFileSync(join(import.meta.dirname, "../golden/audio", name))
  const { text, usage } = await client.audio.transcriptions.create({
    model: "ears",
    file: await toFile(bytes, name),
  })
  expect(text).not.toBe("")
  expect(usage).toMatchObject({ input_token_details: { audio_tokens: expect.any(Number) } })
})
