// What a server writes of recordings with a decoder that attends to their rows is what transformers writes (test/golden/attending); what such a model was not
// made for is refused, and a compiled folder says the same.

import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { createApp } from "../../src/app.ts"
import { cutsOf } from "../../src/audio/cuts.ts"
import { PIECE_SECONDS } from "../../src/model/architectures/moonshine.ts"
import { compileFolder } from "../../src/model/compile-folder.ts"
import { openModel } from "../../src/model/model.ts"
import { formOf } from "../forms.ts"
import { goldenFolder } from "../model/golden.ts"
import { sound, wavOf } from "../model/recordings.ts"
import { post, server } from "./server.ts"

interface Golden {
  sound: { samples: number; seed: number }
  text: string
  ids: number[]
}

const RATE = 16_000
const folder = goldenFolder("attending", "moonshine")
const { recordings } = JSON.parse(readFileSync(join(folder, "golden.json"), "utf8"))
const goldens = (recordings as Golden[]).map((golden) => ({
  ...golden,
  bytes: wavOf(sound(golden.sound.samples, golden.sound.seed)),
}))
const [golden] = goldens as [(typeof goldens)[0]]
const running = server({ model: folder, servedName: "ears" })

async function send(
  bytes: Buffer,
  more: Record<string, string | string[]> = {},
  path = "transcriptions",
  { url }: { url: string } = running,
): Promise<Response> {
  const file = new Blob([Uint8Array.from(bytes)])
  const { payload, headers } = await formOf({ model: "ears", file, ...more })
  const body = Uint8Array.from(payload)
  return fetch(`${url}/v1/audio/${path}`, { method: "POST", headers, body })
}

const textOf = async (bytes: Buffer) => (await send(bytes, { response_format: "text" })).text()

test("texts are transformers', one after the other, at once and again", async () => {
  for (const { bytes, text } of goldens) expect(await textOf(bytes)).toBe(text)
  const both = [...goldens, ...goldens].map(async ({ bytes, text }) =>
    expect(await (await send(bytes)).json()).toEqual({
      text,
      usage: { type: "duration", seconds: expect.any(Number) },
    }),
  )
  await Promise.all(both)
})

test("a stream has the same words, token by token", async () => {
  const stream = await (await send(golden.bytes, { stream: "true" })).text()
  const deltas = [...stream.matchAll(/"delta":("(?:[^"\\]|\\.)*")/g)].map(([, text]) =>
    JSON.parse(text!),
  )
  expect(deltas.join("")).toBe(golden.text)
  expect(deltas.length).toBeGreaterThan(2)
})

test("a recording of several pieces has the words of each", async () => {
  const samples = sound((PIECE_SECONDS + 2) * RATE, 7)
  const heard = Float32Array.from(samples, (sample) => sample / 32768)
  const [cut] = cutsOf(heard, PIECE_SECONDS * RATE)
  const parts = [samples.subarray(0, cut), samples.subarray(cut)]
  const texts = await Promise.all(parts.map((part) => textOf(wavOf(part.slice()))))
  for (const text of texts) expect(text).not.toBe("")
  expect(await textOf(wavOf(samples))).toBe(texts.join(" "))
})

test.each([
  ["language", { language: "en" }, /made for the one that it writes/],
  ["prompt", { prompt: "Oslo" }, /goes on from no text/],
  ["response_format", { response_format: "srt" }, /does not tell when something is said/],
  ["response_format", { response_format: "verbose_json" }, /ask for json or text/],
  ["include", { include: ["logprobs"] }, /tokens are not told/],
])("%s is refused: %o", async (param, more, words) => {
  const response = await send(golden.bytes, more)
  expect(response.status).toBe(400)
  expect(await response.json()).toMatchObject({
    error: { param, message: expect.stringMatching(words) },
  })
})

test("translations and chats are refused", async () => {
  expect(await (await send(golden.bytes, {}, "translations")).text()).toMatch(/translates nothing/)
  const chat = { model: "ears", messages: [{ role: "user", content: "a" }] }
  expect((await post(running, "/v1/chat/completions", chat)).status).toBe(400)
})

test("a compiled folder says the same", async () => {
  const scratch = mkdtempSync(join(tmpdir(), "sinter-attending-"))
  onTestFinished(() => rmSync(scratch, { recursive: true }))
  const model = await openModel(folder, { sees: true })
  onTestFinished(() => model.close())
  await compileFolder(model, join(scratch, "compiled"), { format: "q0f32" })
  const app = await createApp({ model: join(scratch, "compiled"), servedName: "ears" })
  onTestFinished(() => app.close())
  const url = `http://127.0.0.1:${await app.listen(0)}`
  await app.ready
  const answer = await send(golden.bytes, { response_format: "text" }, undefined, { url })
  expect(await answer.text()).toBe(golden.text)
})
