// What a server with a Parakeet writes of recordings, and when, is what transformers finds (test/golden/parakeet), in every form; what it was not made
// for is refused, and a compiled folder says the same.

import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Ajv } from "ajv"
import { pino } from "pino"
import { expect, onTestFinished, test } from "vitest"
import { createApp } from "../../src/app.ts"
import { TranscriptionResponse } from "../../src/http/apis/transcriptions/schema.ts"
import { compileFolder } from "../../src/model/compile-folder.ts"
import { openModel } from "../../src/model/model.ts"
import { formOf } from "../forms.ts"
import { goldenFolder } from "../model/golden.ts"
import { sound, wavOf } from "../model/recordings.ts"
import { post, server } from "./server.ts"

interface Golden {
  sound: { samples: number; seed: number }
  text: string
  /** Of each token. */
  times: { token: string; start: number; end: number }[]
}

const folder = goldenFolder("parakeet", "tdt")
const { recordings } = JSON.parse(readFileSync(join(folder, "golden.json"), "utf8"))
const goldens = (recordings as Golden[]).map((golden) => ({
  ...golden,
  bytes: wavOf(sound(golden.sound.samples, golden.sound.seed)),
}))
const [golden] = goldens as [(typeof goldens)[0]]
const lines: object[] = []
const log = pino({ level: "info" }, { write: (line) => void lines.push(JSON.parse(line)) })
const running = server({ model: folder, servedName: "ears", log })
const isAnswer = new Ajv({ strict: false }).compile(TranscriptionResponse)

async function send(
  { bytes }: { bytes: Buffer },
  more: Record<string, string | string[]> = {},
  path = "transcriptions",
  { url } = running,
): Promise<Response> {
  const file = new Blob([Uint8Array.from(bytes)])
  const { payload, headers } = await formOf({ model: "ears", file, ...more })
  const body = Uint8Array.from(payload)
  return fetch(`${url}/v1/audio/${path}`, { method: "POST", headers, body })
}

/** Tokens of one word are those up to a blank. */
function wordsIn({ times }: Golden) {
  const words: { word: string; start: number; end: number }[] = []
  for (const { token, start, end } of times) {
    const last = words.at(-1)
    if (!last || token.startsWith(" ")) words.push({ word: token.trim(), start, end })
    else Object.assign(last, { word: last.word + token, end })
  }
  return words
    .filter(({ word }) => word !== "")
    .map(({ word, start, end }) => ({
      word,
      start: expect.closeTo(start, 6),
      end: expect.closeTo(end, 6),
    }))
}

test("texts, words and their times are transformers', one after the other and at once", async () => {
  const worded = {
    response_format: "verbose_json",
    "timestamp_granularities[]": ["word", "segment"],
  }
  const told = async (each: (typeof goldens)[0]) => {
    const answer = (await (await send(each, worded)).json()) as {
      segments: { text: string; start: number; end: number }[]
    }
    expect(isAnswer(answer)).toBe(true)
    const words = wordsIn(each)
    const duration = each.sound.samples / 16_000
    expect(answer).toMatchObject({ text: each.text, words, task: "transcribe", duration })
    const { segments } = answer
    expect(
      segments
        .map(({ text }) => text)
        .join("")
        .trim(),
    ).toBe(each.text)
    expect(segments[0]!.start).toEqual(words[0]!.start)
    expect(segments.at(-1)!.end).toEqual(words.at(-1)!.end)
  }
  for (const each of goldens) await told(each)
  await Promise.all([...goldens, ...goldens].map(told))
  const counted = expect.objectContaining({ recordings: 1, prompt: 21, cached: 0, completion: 21 })
  await expect.poll(() => lines).toContainEqual(counted)
})

test("a text, subtitles and a stream have the same words", async () => {
  expect(await (await send(golden, { response_format: "text" })).text()).toBe(golden.text)
  const subtitles = await (await send(golden, { response_format: "srt" })).text()
  expect(subtitles).toMatch(/^1\n00:00:0\d,\d{3} --> 00:00:0\d,\d{3}\n/)
  const stream = await (await send(golden, { stream: "true" })).text()
  const deltas = [...stream.matchAll(/"delta":("(?:[^"\\]|\\.)*")/g)].map(([, text]) =>
    JSON.parse(text!),
  )
  expect(deltas.join("")).toBe(golden.text)
  expect(deltas.length).toBeGreaterThan(2)
})

test.each([
  ["language", { language: "en" }, /hears by itself which language is spoken/],
  ["prompt", { prompt: "Oslo" }, /goes on from no text/],
  ["temperature", { temperature: "0.5" }, /likeliest words are taken/],
  ["include", { include: ["logprobs"] }, /tokens are not told/],
])("%s is refused", async (param, more, words) => {
  const response = await send(golden, more)
  expect(response.status).toBe(400)
  expect(await response.json()).toMatchObject({
    error: { param, message: expect.stringMatching(words) },
  })
})

test("translations, chats and embeddings are refused, and the model says what it does", async () => {
  expect(await (await send(golden, {}, "translations")).text()).toMatch(/translates nothing/)
  for (const [path, body] of [
    ["chat/completions", { messages: [{ role: "user", content: "a" }] }],
    ["completions", { prompt: "a" }],
    ["embeddings", { input: "a" }],
  ] as const)
    expect((await post(running, `/v1/${path}`, { model: "ears", ...body })).status).toBe(400)
  const models = (await (await fetch(`${running.url}/v1/models`)).json()) as {
    data: { capabilities: string[] }[]
  }
  expect(models.data[0]!.capabilities).toEqual(["transcription", "audio"])
})

test("a compiled folder says the same", async () => {
  const scratch = mkdtempSync(join(tmpdir(), "sinter-parakeet-"))
  onTestFinished(() => rmSync(scratch, { recursive: true }))
  const model = await openModel(folder, { sees: true })
  onTestFinished(() => model.close())
  await compileFolder(model, join(scratch, "compiled"), { format: "q0f32" })
  const app = await createApp({ model: join(scratch, "compiled"), servedName: "ears" })
  onTestFinished(() => app.close())
  const url = `http://127.0.0.1:${await app.listen(0)}`
  await app.ready
  const answer = await send(golden, { response_format: "text" }, undefined, { app, url })
  expect(await answer.text()).toBe(golden.text)
})
