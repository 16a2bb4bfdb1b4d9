// Transcripts as models were taught them: prompts and replies of Qwen3-ASR are those of its processor in transformers
// (test/golden/hearing), prompts of Voxtral those of mistral-common (test/golden/tekken).

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest"
import { type App, createApp } from "../../src/app.ts"
import { formats } from "../../src/chat/formats/formats.ts"
import { Text, TextBuilder } from "../../src/chat/jinja/text.ts"
import { preparePrompt } from "../../src/chat/prompt.ts"
import { openTemplate } from "../../src/chat/template.ts"
import { openTokenizer } from "../../src/chat/tokenizer.ts"
import { readTranscription } from "../../src/http/apis/transcriptions/request.ts"
import type { Service } from "../../src/http/service.ts"
import { Fields } from "../../src/model/fields.ts"
import { Folder, type Json } from "../../src/model/folder.ts"
import { voxtral } from "../../src/model/hearing/transcripts.ts"
import { readTexts } from "../../src/model/texts.ts"
import { formOf } from "../forms.ts"
import { goldenFolder } from "./golden.ts"
import { goldenTranscripts } from "./recordings.ts"

describe.each([
  ["a folder", goldenFolder("hearing", "qwen3-asr")],
  ["a GGUF file", join(goldenFolder("gguf", "hearing"), "qwen3-asr")],
])("qwen3-asr, %s", (_, model) => {
  let app: App
  let url: string
  beforeAll(async () => {
    const overrides = { max_total_seq_length: 128, kv_dtype: "f32" } as const
    app = await createApp({ model, servedName: "golden", overrides })
    url = `http://127.0.0.1:${await app.listen(0)}/v1/audio/transcriptions`
    await app.ready
  }, 120_000)
  afterAll(() => app.close())

  test.each(goldenTranscripts("qwen3-asr"))(
    "in $language, of a prompt $prompt",
    async ({ bytes, language, prompt, ids, text }) => {
      const fields = { ...(language && { language }), ...(prompt && { prompt }) }
      const file = new Blob([new Uint8Array(bytes)])
      const asked = { model: "golden", file, "include[]": "logprobs", ...fields }
      const { payload, headers } = await formOf(asked)
      const answer = await fetch(url, { method: "POST", headers, body: new Uint8Array(payload) })
      const { usage, logprobs } = (await answer.json()) as {
        usage: { input_tokens: number }
        logprobs: { bytes: number[] }[]
      }
      expect(usage.input_tokens).toBe(ids.length)
      const first = logprobs.slice(0, 16).flatMap((token) => token.bytes)
      expect(Buffer.from(first).toString()).toBe(text)
    },
  )
})

/** Special tokens of Voxtral's file, by their places in mistral-common's. */
const HEARD: Readonly<Record<number, string>> = {
  24: "[AUDIO]",
  25: "[BEGIN_AUDIO]",
  35: "[TRANSCRIBE]",
}

interface Asked {
  language: string | null
  ids: number[]
}

const place = join(import.meta.dirname, "../golden/tekken")
const golden: { transcriptions: Asked[] } = JSON.parse(
  readFileSync(join(place, "golden.json"), "utf8"),
)

/** Five rows of a recording. */
function heard(prompt: Text): Text {
  const out = new TextBuilder()
  out.add(new Text(prompt.value.replace("[AUDIO]", `[BEGIN_AUDIO]${"[AUDIO]".repeat(5)}`)))
  return out.done()
}

test.each(golden.transcriptions)("voxtral, in $language", async ({ language, ids }) => {
  const folder = mkdtempSync(join(tmpdir(), "sinter-voxtral-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file: Json & { special_tokens: { rank: number }[]; config: Json } = JSON.parse(
    readFileSync(join(place, "tekken.json"), "utf8"),
  )
  const special_tokens = file.special_tokens.map((token) =>
    Object.hasOwn(HEARD, token.rank) ? { ...token, token_str: HEARD[token.rank] } : token,
  )
  const tekken = { ...file, special_tokens, config: { ...file.config, version: "v7" } }
  writeFileSync(join(folder, "tekken.json"), JSON.stringify(tekken))
  const fields = new Fields({}, (what) => new Error(what) as never)
  const texts = await readTexts(new Folder(folder), fields, 568)
  const { text, file: from } = texts.templates.get("default")!
  const { specialTokens } = texts
  const template = openTemplate(text, from, { specialTokens, now: new Date(0) })
  onTestFinished(() => template.close())
  const tokenizer = await openTokenizer(texts.tokenizer.json, texts.tokenizer.file, 568)
  onTestFinished(() => tokenizer.close())
  const form = {
    model: "voxtral",
    file: new Uint8Array(4),
    language: language ?? "",
    response_format: "json" as const,
  }
  const service = { model: { transcription: voxtral }, defaults: {} } as unknown as Service
  const request = readTranscription(form, service, { id: "", scope: "" })
  const { tokens } = await preparePrompt(request, template, formats.json, (prompt) =>
    tokenizer.encode(heard(prompt)),
  )
  expect([...tokens]).toEqual(ids)
})
