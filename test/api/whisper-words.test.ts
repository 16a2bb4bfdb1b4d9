// When each word is said, and what is tried again, by what transformers says of the same windows (test/golden/whisper/words.py).

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Ajv } from "ajv"
import { afterAll, describe, expect, onTestFinished, test } from "vitest"
import { createApp } from "../../src/app.ts"
import type { TranscriptRequest } from "../../src/chat/conversation.ts"
import { plainSampling } from "../../src/engine/generation.ts"
import { TranscriptionResponse } from "../../src/http/apis/transcriptions/schema.ts"
import { compileFolder } from "../../src/model/compile-folder.ts"
import { openModel } from "../../src/model/model.ts"
import { formOf } from "../forms.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { goldenFolder, whisperFile } from "../model/golden.ts"
import { sound, wavOf } from "../model/recordings.ts"
import { eventsOf } from "../parrot.ts"
import { server } from "./server.ts"

interface Golden {
  language?: string
  prompt?: string
  sound: { samples: number; seed: number }
  texts: string[]
  words: { word: string; start: number; end: number }[]
  windows: Judged[]
}

interface Judged {
  avg_logprob: number
  no_speech_prob: number
  compression_ratio: number // by Python's zlib
}

interface Verbose {
  text: string
  words?: Golden["words"]
  segments?: (Judged & { text: string; temperature: number; seek: number })[]
}

const scratch = mkdtempSync(join(tmpdir(), "sinter-words-"))
afterAll(() => rmSync(scratch, { recursive: true }))

/** Random weights, whose words are always doubtful, in one try. */
const ONE_TRY = 1e-6

const overrides = { kv_dtype: "f32", prefill_chunk_size: 640 } as const
const schema = new Ajv({ strict: false }).compile(TranscriptionResponse)

function goldensOf(name: string) {
  const file = join(goldenFolder("whisper", name), "words.json")
  return JSON.parse(readFileSync(file, "utf8")) as { alignment_heads: unknown; prompts: Golden[] }
}

/** The model with something else in its generation_config.json. */
function changed(name: string, fields: Record<string, unknown>): string {
  const folder = mkdtempSync(join(scratch, `${name}-`))
  cpSync(goldenFolder("whisper", name), folder, { recursive: true })
  const file = join(folder, "generation_config.json")
  const told = JSON.parse(readFileSync(file, "utf8"))
  writeFileSync(file, JSON.stringify({ ...told, ...fields }))
  return folder
}

const recording = ({ sound: { samples, seed } }: Golden) => wavOf(sound(samples, seed))

interface Wanted {
  timed: boolean
  worded: boolean
}

const request = (each: Golden, wanted: Wanted): TranscriptRequest => ({
  ...{ id: "1", scope: "", audio: recording(each), field: "file", task: "transcribe" },
  ...{ language: each.language, prompt: each.prompt, streamed: false, judged: false, ...wanted },
  sampling: { ...plainSampling, temperature: ONE_TRY, seed: 0n },
})

/** As a program of its own asks for it. */
async function wordsBy(
  model: string,
  each: Golden,
  device?: Parameters<typeof createApp>[0]["device"],
  wanted: Wanted = { timed: true, worded: true },
) {
  const app = await createApp({ model, overrides, ...(device && { device }) })
  onTestFinished(() => app.close())
  const { transcripts } = await app.ready
  const asked = request(each, wanted)
  const reply = await transcripts!.transcribe(asked, new AbortController().signal)
  for await (const event of reply.events) if (event.kind === "finish") break
  return reply.words.map(({ text: word, start, end }) => ({ word, start, end }))
}

describe.each(["english", "multilingual"])("%s", (name) => {
  const { alignment_heads, prompts } = goldensOf(name)
  const model = changed(name, { alignment_heads })
  const running = server({ model, servedName: "ears", overrides })

  async function send(each: Golden, more: Record<string, unknown> = {}) {
    const { payload, headers } = await formOf({
      ...{ model: "ears", file: new Blob([Uint8Array.from(recording(each))]) },
      ...{ response_format: "verbose_json", temperature: `${ONE_TRY}` },
      ...(each.language && { language: each.language }),
      ...(each.prompt && { prompt: each.prompt }),
      ...more,
    })
    const url = `${running.url}/v1/audio/transcriptions`
    const answer = await fetch(url, { method: "POST", headers, body: Uint8Array.from(payload) })
    return { status: answer.status, body: (await answer.json()) as Verbose }
  }

  test("words are said when transformers says so, alone and all at once", async () => {
    const both = { "timestamp_granularities[]": ["word", "segment"] }
    const told = await Promise.all(prompts.map((each) => send(each, both)))
    for (const [i, { body }] of told.entries()) {
      expect(schema(body)).toBe(true)
      expect(body.words).toEqual(prompts[i]!.words)
      expect(body.segments!.map(({ text }) => text)).toEqual(prompts[i]!.texts)
    }
    const alone = await send(prompts[0]!, { "timestamp_granularities[]": "word" })
    const { segments: _, ...rest } = told[0]!.body
    expect(alone.body).toEqual(rest)
    const plain = await send(prompts[0]!)
    const { words: __, ...segments } = told[0]!.body
    expect(plain.body).toEqual(segments)
  }, 240_000)

  test("what is thought of a window is what transformers thinks", async () => {
    for (const each of prompts) {
      const { segments } = (await send(each)).body
      const windows = [...new Map(segments!.map((segment) => [segment.seek, segment])).values()]
      expect(windows.length).toBe(each.windows.length)
      for (const [i, { avg_logprob, no_speech_prob, compression_ratio }] of windows.entries()) {
        const golden = each.windows[i]!
        expect(avg_logprob).toBeCloseTo(golden.avg_logprob, 3)
        expect(no_speech_prob).toBeCloseTo(golden.no_speech_prob, 4)
        // Node's zlib finds no repeats of three bytes, which such texts are full of.
        expect(compression_ratio / golden.compression_ratio).toBeGreaterThan(0.85)
        expect(compression_ratio / golden.compression_ratio).toBeLessThan(1.02)
      }
    }
  }, 240_000)
})

const { isSkipped, why } = lackOf("vulkan")

test.skipIf(isSkipped)(
  `a GPU tells the same times${why}`,
  async () => {
    const { alignment_heads, prompts } = goldensOf("multilingual")
    const model = changed("multilingual", { alignment_heads })
    const told = await wordsBy(model, prompts[0]!, { name: "vulkan", id: 0 })
    expect(told).toEqual(prompts[0]!.words)
  },
  GPU_MILLISECONDS,
)

describe("without transformers' word", () => {
  const { alignment_heads, prompts } = goldensOf("english")
  const [golden] = prompts as [Golden]

  test("a compiled folder tells the same times", async () => {
    const model = await openModel(changed("english", { alignment_heads }), { sees: true })
    onTestFinished(() => model.close())
    const output = join(scratch, "compiled")
    await compileFolder(model, output, { format: model.format })
    expect(await wordsBy(output, golden)).toEqual(golden.words)
  }, 120_000)

  test.each<[string, () => string, RegExp]>([
    [
      "no heads",
      () => changed("english", { alignment_heads: null }),
      /since generation_config\.json has no alignment_heads; ask for segment/,
    ],
    [
      "heads of another model",
      () => changed("english", { alignment_heads: [[7, 0]] }),
      /names head 0 of layer 7, which it does not have/,
    ],
    [
      "heads that are none",
      () => changed("english", { alignment_heads: [0, 1] }),
      /is no list of layers and heads/,
    ],
    [
      "a file of a size that nobody knows",
      () => {
        const file = join(scratch, "ggml-tiny.bin")
        writeFileSync(file, whisperFile("english"))
        return file
      },
      /its file names no alignment heads, and a model of 1 layers of 32 columns/,
    ],
  ])("with %s it is refused in a sentence, and segments are told", async (_, made, sentence) => {
    const model = made()
    await expect(wordsBy(model, golden)).rejects.toThrow(sentence)
    const both = { timed: true, worded: false }
    expect(await wordsBy(model, golden, undefined, both)).toEqual([])
  })
})

describe("a window that is doubtful", () => {
  const { prompts } = goldensOf("english")
  const [golden] = prompts as [Golden]
  const running = server({
    model: goldenFolder("whisper", "english"),
    servedName: "ears",
    overrides,
  })

  async function send(more: Record<string, unknown>) {
    const file = new Blob([Uint8Array.from(recording(golden))])
    const { payload, headers } = await formOf({ model: "ears", file, ...more })
    const url = `${running.url}/v1/audio/transcriptions`
    return (await fetch(url, { method: "POST", headers, body: Uint8Array.from(payload) })).text()
  }

  test("is tried again, warmer and warmer, and what is asked again is answered alike", async () => {
    const text = await send({ response_format: "verbose_json" })
    expect(await send({ response_format: "verbose_json" })).toBe(text)
    const { segments } = JSON.parse(text) as Verbose
    for (const { temperature, avg_logprob, compression_ratio } of segments!) {
      expect(temperature).toBeGreaterThan(0) // what it says at 0 is unlikely
      if (temperature < 1) {
        expect(avg_logprob).toBeGreaterThanOrEqual(-1)
        expect(compression_ratio).toBeLessThanOrEqual(2.4)
      }
    }
    const plain = await send({})
    expect(await send({})).toBe(plain)
    const once = await send({ temperature: `${ONE_TRY}` })
    expect(plain).not.toBe(once)
    const stream = eventsOf(await send({ stream: "true" })) as { text?: string }[]
    expect(stream.at(-1)!.text).toBe((JSON.parse(once) as Verbose).text)
  }, 120_000)

  test("is left out where most likely nobody speaks", async () => {
    const folder = changed("english", {})
    const file = join(folder, "model.safetensors")
    writeFileSync(file, louder(readFileSync(file), "model.decoder.embed_tokens.weight", NOBODY))
    const app = await createApp({ model: folder, overrides })
    onTestFinished(() => app.close())
    const { transcripts } = await app.ready
    for (const timed of [false, true]) {
      const asked = request(golden, { timed, worded: false })
      const reply = await transcripts!.transcribe(asked, new AbortController().signal)
      let text = ""
      for await (const event of reply.events) if (event.kind === "content") text += event.text
      expect([text, reply.segments]).toEqual(["", []])
    }
  }, 120_000)
})

/** The number of <|nospeech|>. */
const NOBODY = 326

/** A table of bf16 with one row that is many times as large. */
function louder(file: Buffer, table: string, row: number): Buffer {
  const begin = 8 + Number(file.readBigUInt64LE())
  const { [table]: entry } = JSON.parse(file.toString("utf8", 8, begin))
  const [, columns] = entry.shape
  const loud = Buffer.from(file)
  for (let column = 0; column < columns; column++) {
    const at = begin + entry.data_offsets[0] + 2 * (row * columns + column)
    const words = new Uint32Array([loud.readUInt16LE(at) << 16])
    const value = new Float32Array(words.buffer)
    value[0]! *= LOUDER
    loud.writeUInt16LE(words[0]! >>> 16, at)
  }
  return loud
}

const LOUDER = 16
