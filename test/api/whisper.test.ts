// What a server with a Whisper writes of recordings is what transformers' `generate` writes of them, token by token (test/golden/whisper),
// in every form, alone and together.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Ajv } from "ajv"
import OpenAI, { toFile } from "openai"
import { afterAll, describe, expect, onTestFinished, test } from "vitest"
import { createApp } from "../../src/app.ts"
import type { Transcripts } from "../../src/chat/conversation.ts"
import { plainSampling } from "../../src/engine/generation.ts"
import { TranscriptionResponse } from "../../src/http/apis/transcriptions/schema.ts"
import { compileFolder } from "../../src/model/compile-folder.ts"
import { openModel } from "../../src/model/model.ts"
import type { FormatName } from "../../src/runtime/format.ts"
import { formOf } from "../forms.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { goldenFolder, whisperFile } from "../model/golden.ts"
import { sound, wavOf } from "../model/recordings.ts"
import { eventsOf } from "../parrot.ts"
import { fromSources, run } from "../sinter.ts"
import { messages, post, server } from "./server.ts"

interface Golden {
  language?: string
  task?: "translate"
  prompt?: string
  timestamps?: true
  sound: { samples: number; seed: number }
  /** The language that was found, where none was named. */
  found: string | null
  segments: { start: number; end: number; tokens: number[]; text: string }[]
}

function goldens(name: string) {
  const file = join(goldenFolder("whisper", name), "golden.json")
  const { prompts } = JSON.parse(readFileSync(file, "utf8")) as { prompts: Golden[] }
  return prompts.map((prompt) => ({
    ...prompt,
    bytes: wavOf(sound(prompt.sound.samples, prompt.sound.seed)),
    text: prompt.segments
      .map(({ text }) => text)
      .join("")
      .trim(),
  }))
}

type Case = ReturnType<typeof goldens>[number]

/** The likeliest words, in one try: what random weights write is always doubtful. */
const ONE_TRY = 1e-6

const overrides = { kv_dtype: "f32", prefill_chunk_size: 640 } as const
const names = { de: "german", en: "english", fr: "french", zh: "chinese" } as Record<string, string>
const schema = new Ajv({ strict: false }).compile(TranscriptionResponse)
const TOKENS = 320 // words have lower numbers

describe.each(["multilingual", "english"])("%s", (name) => {
  const running = server({ model: goldenFolder("whisper", name), servedName: "ears", overrides })
  const cases = goldens(name)
  const [untimed, timed] = [false, true].map((is) =>
    cases.filter(({ timestamps = false }) => timestamps === is),
  ) as [Case[], Case[]]

  async function send({ bytes, language, prompt, task }: Case, more: Record<string, string> = {}) {
    const { payload, headers } = await formOf({
      ...{ model: "ears", file: new Blob([Uint8Array.from(bytes)]) },
      ...{ temperature: `${ONE_TRY}` },
      ...(language && { language }),
      ...(prompt && { prompt }),
      ...more,
    })
    const path = task === "translate" ? "translations" : "transcriptions"
    if (task) delete (more as { language?: string }).language
    const url = `${running.url}/v1/audio/${path}`
    return fetch(url, { method: "POST", headers, body: Uint8Array.from(payload) })
  }

  const secondsOf = ({ sound: { samples } }: Case) => samples / 16000

  test("texts are transformers', one after the other and all at once", async () => {
    const told = async (each: Case) => (await (await send(each)).json()) as object
    const wanted = untimed.map((each) => ({
      text: each.text,
      usage: { type: "duration", seconds: Math.ceil(secondsOf(each)) },
    }))
    for (const [i, each] of untimed.entries()) expect(await told(each)).toEqual(wanted[i])
    expect(await Promise.all(untimed.map(told))).toEqual(wanted)
  }, 240_000)

  test("segments, their times and the language are transformers'", async () => {
    const answers = await Promise.all(
      timed.map(async (each) => (await send(each, { response_format: "verbose_json" })).json()),
    )
    for (const [i, each] of timed.entries()) {
      const { segments, ...told } = answers[i] as {
        segments: (Record<string, number> & { text: string; tokens: number[] })[]
      }
      expect(schema(answers[i])).toBe(true)
      const language = names[each.language ?? each.found ?? "en"]
      expect(told).toMatchObject({
        task: "transcribe",
        language,
        duration: secondsOf(each),
        text: each.text,
      })
      const words = (tokens: number[]) => tokens.filter((token) => token < TOKENS)
      expect(
        segments.map(({ start, end, text, tokens }) => ({
          start,
          end,
          text,
          tokens: words(tokens),
        })),
      ).toEqual(each.segments.map((own) => ({ ...own, tokens: words(own.tokens) })))
      for (const { no_speech_prob, avg_logprob, compression_ratio, seek } of segments) {
        expect(no_speech_prob).toBeGreaterThan(0)
        expect(no_speech_prob).toBeLessThan(1)
        expect(avg_logprob).toBeLessThan(0)
        expect(compression_ratio).toBeGreaterThan(0)
        expect(Number.isInteger(seek)).toBe(true)
      }
    }
  }, 240_000)

  test("longer ones than a window are text, too", async () => {
    const long = timed.filter((each) => secondsOf(each) > 30)
    for (const each of long)
      expect(await (await send(each, { response_format: "text" })).text()).toBe(each.text)
  }, 240_000)

  test("a stream says the same, piece by piece", async () => {
    for (const each of [untimed[0]!, timed.at(-1)!]) {
      const events = eventsOf(await (await send(each, { stream: "true" })).text())
      const told = events as Record<string, string>[]
      const pieces = told.filter(({ type }) => type === "transcript.text.delta")
      expect(pieces.map(({ delta }) => delta).join("")).toBe(each.text)
      expect(pieces.length).toBeGreaterThan(1)
      expect(told.at(-1)).toMatchObject({ type: "transcript.text.done", text: each.text })
    }
  }, 240_000)

  test("subtitles have the segments' times", async () => {
    const each = timed.at(-1)!
    const two = (n: number) => String(n).padStart(2, "0")
    const clock = (seconds: number, mark: string) => {
      const ms = Math.round(seconds * 1000)
      return `00:${two(Math.floor(ms / 60_000))}:${two(Math.floor(ms / 1000) % 60)}${mark}${String(ms % 1000).padStart(3, "0")}`
    }
    const cues = (mark: string) =>
      each.segments
        .filter(({ text }) => text.trim() !== "")
        .map(
          ({ start, end, text }) =>
            `${clock(start, mark)} --> ${clock(end, mark)}\n${text.trim()}\n\n`,
        )
    const vtt = await (await send(each, { response_format: "vtt" })).text()
    expect(vtt).toBe(`WEBVTT\n\n${cues(".").join("")}`)
    const srt = await (await send(each, { response_format: "srt" })).text()
    expect(srt).toBe(
      cues(",")
        .map((cue, i) => `${i + 1}\n${cue}`)
        .join(""),
    )
  }, 240_000)

  test("of a long text to go on from the last half of a reply's length counts", async () => {
    const [first] = cases as [Case]
    const told = async (words: number, begin = "") => {
      const prompt = begin + "a ".repeat(words)
      return (await (await send({ ...first, prompt, language: "en" })).json()) as { text: string }
    }
    const { text } = await told(40)
    expect(await told(400, "Oslo, Bergen ")).toMatchObject({ text })
    expect((await told(2)).text).not.toBe(text)
  }, 120_000)

  test("what it was not made for is refused, and says what it was made for", async () => {
    const [first] = cases as [Case]
    const chat = await post(running, "/v1/chat/completions", { model: "ears", messages })
    expect([chat.status, await chat.text()]).toEqual([
      400,
      expect.stringContaining("/v1/audio/transcriptions"),
    ])
    const plain = await post(running, "/v1/completions", { model: "ears", prompt: "Hello" })
    expect([plain.status, await plain.text()]).toEqual([
      400,
      expect.stringContaining("/v1/audio/transcriptions"),
    ])
    const embedded = await post(running, "/v1/embeddings", { model: "ears", input: "Hello" })
    expect([embedded.status, await embedded.text()]).toEqual([
      400,
      expect.stringContaining("no embeddings"),
    ])
    const refusals: [Record<string, string>, RegExp][] = [
      [{ language: "tlh" }, /language must be one that this model knows/],
      [{ include: "logprobs" }, /include: the model's tokens are not told/],
      [{ "timestamp_granularities[]": "word" }, /needs the response_format verbose_json/],
      [{ "timestamp_granularities[]": "segment" }, /needs the response_format verbose_json/],
      [{ stream: "true", response_format: "srt" }, /stream sends text without times/],
    ]
    for (const [more, why] of refusals) {
      const answer = await send({ ...first, language: "en" }, more)
      expect([answer.status, await answer.text()]).toEqual([400, expect.stringMatching(why)])
    }
  })

  if (name === "multilingual")
    test("of a translation nothing is streamed, and no words are timed", async () => {
      const translated = cases.find(({ task }) => task)!
      const more = { response_format: "verbose_json", "timestamp_granularities[]": "word" }
      const answer = await send({ ...translated }, { ...more, stream: "true" })
      const told = (await answer.json()) as object
      expect(told).toMatchObject({ task: "translate", segments: expect.anything() })
      expect(told).not.toHaveProperty("words")
      expect(answer.headers.get("x-ignored-fields")).toBe("language,timestamp_granularities,stream")
    }, 120_000)

  if (name === "english")
    test("a model that knows English alone translates nothing", async () => {
      const answer = await send({ ...cases[0]!, task: "translate" })
      expect([answer.status, await answer.text()]).toEqual([
        400,
        expect.stringContaining("translates nothing"),
      ])
    })
  else
    test("languages may be called by their names, and OpenAI's client is understood", async () => {
      const client = new OpenAI({ baseURL: `${running.url}/v1`, apiKey: "none", maxRetries: 0 })
      const german = untimed.find(({ language }) => language === "de")!
      const file = await toFile(german.bytes, "speech.wav")
      for (const language of ["German", "de-AT"]) {
        const answer = await client.audio.transcriptions.create({
          ...{ model: "ears", file, language },
          temperature: ONE_TRY,
        })
        expect(answer.text).toBe(german.text)
      }
      const { data } = await client.models.list()
      expect((data[0] as unknown as { capabilities: string[] }).capabilities).toEqual([
        "transcription",
        "audio",
      ])
    }, 240_000)
})

const scratch = mkdtempSync(join(tmpdir(), "sinter-whisper-"))
afterAll(() => rmSync(scratch, { recursive: true }))

const { isSkipped, why } = lackOf("vulkan")

test.skipIf(isSkipped)(
  `a GPU writes the same, and draws again where logits say so${why}`,
  async () => {
    const model = goldenFolder("whisper", "multilingual")
    const device = { name: "vulkan", id: 0 } as const
    const app = await createApp({ model, device, overrides })
    onTestFinished(() => app.close())
    const { transcripts, summary } = await app.ready
    expect(summary.target).toBe("vulkan")
    const golden = goldens("multilingual").find(({ timestamps }) => timestamps)!
    expect(await transcript(transcripts!, golden)).toEqual({
      text: golden.text,
      times: golden.segments.map(({ start, end }) => [start, end]),
    })
  },
  GPU_MILLISECONDS,
)

/** By whoever runs a model in a program of its own. */
async function transcript(transcripts: Transcripts, { bytes, language, prompt, timestamps }: Case) {
  const reply = await transcripts.transcribe(
    {
      ...{ id: "1", scope: "", audio: bytes, field: "file", task: "transcribe" },
      ...{ language, prompt, timed: timestamps ?? false, worded: false, streamed: false },
      judged: false,
      sampling: { ...plainSampling, temperature: ONE_TRY, seed: 0n },
    },
    new AbortController().signal,
  )
  let text = ""
  for await (const event of reply.events) if (event.kind === "content") text += event.text
  return { text, times: reply.segments.map(({ start, end }) => [start, end]) }
}

describe("a file of whisper.cpp", () => {
  const cases = goldens("ggml")
  const path = join(scratch, "ggml-tiny.bin")
  writeFileSync(path, whisperFile("multilingual"))
  const textsOf = async (model: string, name = "ggml") => {
    const app = await createApp({ model, overrides })
    onTestFinished(() => app.close())
    const { transcripts } = await app.ready
    const told = []
    for (const each of goldens(name)) told.push(await transcript(transcripts!, each))
    return told
  }
  const compiled = async (source: string, format?: FormatName) => {
    const model = await openModel(source, { sees: true })
    onTestFinished(() => model.close())
    const output = mkdtempSync(join(scratch, "compiled-"))
    await compileFolder(model, output, { format: format ?? model.format })
    return output
  }

  test("writes what transformers writes with its weights and OpenAI's rules", async () => {
    const told = await textsOf(path)
    for (const [i, { text, timestamps, segments }] of cases.entries()) {
      expect(told[i]!.text).toBe(text)
      if (timestamps) expect(told[i]!.times).toEqual(segments.map(({ start, end }) => [start, end]))
    }
  }, 120_000)

  test("is compiled as it is, or packed anew, and writes the same", async () => {
    const texts = cases.map(({ text }) => text)
    const anew = await textsOf(await compiled(path, "q0f16"))
    expect(anew.map(({ text }) => text)).toEqual(texts)
    const blocks = join(scratch, "ggml-english.bin")
    writeFileSync(blocks, whisperFile("english"))
    const own = await textsOf(blocks, "english")
    expect(await textsOf(await compiled(blocks), "english")).toEqual(own)
    await expect(compiled(blocks, "q0f16")).rejects.toThrow("is packed as gguf already")
  }, 120_000)
})

describe("without a server", () => {
  const [golden] = goldens("multilingual") as [Case]
  const folder = goldenFolder("whisper", "multilingual")
  const recording = join(scratch, "speech.wav")
  writeFileSync(recording, golden.bytes)

  test("sinter run prints what is said, and what else it is told is refused", async () => {
    const found = goldens("multilingual").find((each) => each.found && !each.timestamps)!
    writeFileSync(recording, found.bytes)
    const how = ["--temperature", `${ONE_TRY}`]
    const { out, code } = await run(["run", folder, "--audio", recording, ...how], "", fromSources)
    expect([code, out]).toEqual([0, `${found.text}\n`])
    for (const [args, why] of [
      [["--max-tokens", "3", "--audio", recording], "all of it; leave it out"],
      [["Hello"], "--audio: this model writes down what is said in one recording"],
    ] as const) {
      const refused = await run(["run", folder, ...args], "", fromSources)
      expect([refused.code, refused.err]).toEqual([2, expect.stringContaining(why)])
    }
  }, 120_000)

  test("a compiled folder writes what its source does", async () => {
    const model = await openModel(folder, { sees: true })
    onTestFinished(() => model.close())
    const output = join(scratch, "compiled")
    await compileFolder(model, output, { format: model.format })
    const app = await createApp({ model: output, overrides })
    onTestFinished(() => app.close())
    const { transcripts } = await app.ready
    expect((await transcript(transcripts!, golden)).text).toBe(golden.text)
  }, 120_000)

  test.each<[string, (config: Record<string, unknown>) => void, RegExp]>([
    ["a scale", (config) => (config.scale_embedding = true), /scale_embedding is true/],
    [
      "more tokens than rows",
      (config) => (config.max_target_positions = 1600),
      /at most 1500 are known/,
    ],
    ["other rows", (config) => (config.max_source_positions = 750), /max_source_positions is 750/],
    [
      "more layers of an encoder",
      (config) => (config.encoder_layers = config.num_hidden_layers = 500),
      /makes 500 layers/,
    ],
    ["an activation", (config) => (config.activation_function = "mish"), /is "mish"/],
  ])("a Whisper of %s is refused by name", async (_, change, why) => {
    const changed = mkdtempSync(join(scratch, "changed-"))
    cpSync(folder, changed, { recursive: true })
    const file = join(changed, "config.json")
    const config = JSON.parse(readFileSync(file, "utf8"))
    change(config)
    writeFileSync(file, JSON.stringify(config))
    const refusal: Error = await openModel(changed, { sees: true }).catch((error) => error)
    expect(refusal.message).toMatch(why)
    expect(refusal.message.split(changed)).toHaveLength(2) // the file is named once
  })

  test("a tokenizer without a Whisper's tokens is refused by name", async () => {
    const changed = mkdtempSync(join(scratch, "tokens-"))
    cpSync(folder, changed, { recursive: true })
    for (const name of ["tokenizer.json", "tokenizer_config.json"]) {
      const file = join(changed, name)
      writeFileSync(file, readFileSync(file, "utf8").replaceAll("<|notimestamps|>", "<|without|>"))
    }
    const app = await createApp({ model: changed, overrides })
    onTestFinished(() => app.close())
    await expect(app.ready).rejects.toThrow("it has no token <|notimestamps|>")
  })

  test.each([
    ["suppress_tokens", [TOKENS], /json: suppress_tokens holds 320, <\|endoftext\|>, with which/],
    ["begin_suppress_tokens", [...Array(TOKENS + 1).keys()], undefined],
    ["begin_suppress_tokens", [...Array(400).keys()], /leave no token that may come first$/],
  ])("%s that leave nothing to write are refused by name", async (field, tokens, why) => {
    const changed = mkdtempSync(join(scratch, "suppressed-"))
    cpSync(folder, changed, { recursive: true })
    const file = join(changed, "generation_config.json")
    const advice = { ...JSON.parse(readFileSync(file, "utf8")), [field]: tokens }
    writeFileSync(file, JSON.stringify(advice))
    const app = await createApp({ model: changed, overrides })
    onTestFinished(() => app.close())
    const refusal = app.ready.then(
      () => undefined,
      (error: Error) => error.message,
    )
    if (why) expect(await refusal).toMatch(why)
    else expect(await refusal).toBeUndefined()
  })
})
