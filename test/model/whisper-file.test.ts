// Files of whisper.cpp (test/golden/whisper/ggml.py): what is found in them beside the weights is what OpenAI's program has, and a broken
// one is told of in a sentence. What their weights make of recordings: whisper.test.ts; what a server writes: test/api/whisper.test.ts.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeEach, describe, expect, onTestFinished, test } from "vitest"
import { alignmentOf } from "../../src/model/ggml/alignment.ts"
import { readVocabulary } from "../../src/model/ggml/vocabulary.ts"
import { locateModel } from "../../src/model/locate.ts"
import { openModel } from "../../src/model/model.ts"
import { processorTime } from "../processor-time.ts"
import { goldenFolder, whisperFile } from "./golden.ts"

const scratch = mkdtempSync(join(tmpdir(), "sinter-ggml-"))
afterAll(() => rmSync(scratch, { recursive: true }))

const english = whisperFile("english")
const path = join(scratch, "ggml-tiny.bin")

const open = async (bytes: Uint8Array) => {
  writeFileSync(path, bytes)
  const model = await openModel(path, { sees: true })
  onTestFinished(() => model.close())
  return model
}

test("what is never written is what OpenAI's program finds among the words", async () => {
  const golden = JSON.parse(
    readFileSync(join(goldenFolder("whisper", "ggml"), "golden.json"), "utf8"),
  )
  const { hearing, name } = await open(whisperFile("multilingual"))
  expect(name).toBe("ggml-tiny")
  const { suppressed, suppressedFirst, ...advice } = hearing!.speech!
  expect(suppressed).toEqual(golden.suppressed)
  expect(suppressedFirst).toEqual(golden.suppressed_first)
  expect(advice).toMatchObject({ mostInitial: 50, isMultilingual: true })
  expect(advice.alignment).toHaveProperty("why") // it is of no size that OpenAI's have
})

// g_aheads_… in src/whisper.cpp (commit 0146f98), by `n_text_layer`, `n_text_state` and `n_vocab` of the models.
test.each([
  [4, 384, 51864, "1,0 2,0 2,5 3,0 3,1 3,2 3,3 3,4"],
  [4, 384, 51865, "2,2 3,0 3,2 3,3 3,4 3,5"],
  [6, 512, 51864, "3,3 4,7 5,1 5,5 5,7"],
  [6, 512, 51865, "3,1 4,2 4,3 4,7 5,1 5,2 5,4 5,6"],
  [
    ...([12, 768, 51864] as const),
    "6,6 7,0 7,3 7,8 8,2 8,5 8,7 9,0 9,4 9,8 9,10 10,0 10,1 10,2 10,3 10,6 10,11 11,2 11,4",
  ],
  [12, 768, 51865, "5,3 5,9 8,0 8,4 8,7 8,8 9,0 9,7 9,9 10,5"],
  [
    ...([24, 1024, 51864] as const),
    "11,4 14,1 14,12 14,14 15,4 16,0 16,4 16,9 17,12 17,14 18,7 18,10 18,15 20,0 20,3 20,9 20,14 21,12",
  ],
  [24, 1024, 51865, "13,15 15,4 15,15 16,1 20,0 23,4"],
  [32, 1280, 51866, "7,0 10,17 12,18 13,12 16,1 17,14 19,11 21,4 24,1 25,6"],
  [4, 1280, 51866, "2,4 2,11 3,3 3,6 3,11 3,14"],
  [32, 1280, 51865, undefined], // large-v1 or large-v2
  [2, 1280, 51866, undefined], // distil-large-v3
])(
  "words of %i layers of %i columns with %i tokens are timed by %s",
  (layers, width, rows, told) => {
    const numbers = { n_text_layer: layers, n_text_state: width, n_vocab: rows }
    const found = alignmentOf({ ...NUMBERS, ...numbers, n_text_head: width / 64 })
    if (told === undefined) expect(found).toHaveProperty("why")
    else {
      const heads = told.split(" ").map((pair) => {
        const [layer, head] = pair.split(",").map(Number)
        return { layer, head }
      })
      expect(found).toEqual({ heads, smoothed: 7 })
    }
  },
)

/** Of a file, but for what its model's heads are known by. */
const NUMBERS = {
  ...{ n_audio_ctx: 1500, n_audio_state: 0, n_audio_head: 0, n_audio_layer: 0 },
  ...{ n_text_ctx: 448, n_mels: 80, ftype: 1 },
}

test("words, merges and control tokens are those of the folder that was converted", async () => {
  const told = JSON.parse((await open(english)).texts.tokenizer.json.toString())
  const file = join(goldenFolder("whisper", "english"), "tokenizer.json")
  const own = JSON.parse(readFileSync(file, "utf8"))
  const merges = (own.model.merges as [string, string][]).map((pair) => pair.join(" "))
  expect(told.model.merges).toEqual(merges)
  expect(told.model.vocab).toMatchObject(own.model.vocab)
  type Added = { id: number; content: string }[]
  const spelled = (added: Added) =>
    added.filter(({ id }) => id >= 320).map(({ id, content }) => [id, content])
  expect(spelled(told.added_tokens)).toEqual(spelled(own.added_tokens))
})

// Numbers of whisper_vocab in src/whisper.cpp, as whisper_model_load changes them.
test.each([
  { rows: 51864, listed: 50256, end: 50256, without: 50362, languages: 99, isMultilingual: false },
  { rows: 51864, listed: 50257, end: 50256, without: 50362, languages: 99, isMultilingual: false },
  { rows: 51865, listed: 50257, end: 50257, without: 50363, languages: 99, isMultilingual: true },
  { rows: 51866, listed: 50257, end: 50257, without: 50364, languages: 100, isMultilingual: true },
])("of $rows tokens, $listed of them listed, control tokens have whisper.cpp's numbers", (told) => {
  const words = Array.from({ length: told.listed }, (_, id) => `${id}`)
  if (told.listed > told.end) words[told.end] = "<|endoftext|>"
  const { json, end, advice } = readVocabulary(words, told.rows, (what) => {
    throw new Error(what)
  })
  const added = JSON.parse(json.toString()).added_tokens as { id: number; content: string }[]
  const ids = new Map(added.map(({ id, content }) => [content, id]))
  expect([end, ids.get("<|endoftext|>")]).toEqual([told.end, told.end])
  expect(ids.get("<|startoftranscript|>")).toBe(told.end + 1)
  expect(ids.get("<|en|>")).toBe(told.end + 2)
  expect(ids.get("<|su|>")).toBe(told.end + 2 + 98)
  expect(ids.has("<|yue|>")).toBe(told.languages === 100)
  expect(ids.get("<|notimestamps|>")).toBe(told.without)
  expect(advice.isMultilingual).toBe(told.isMultilingual)
})

test("a name finds it by its beginning, and a folder holds it", () => {
  const folder = mkdtempSync(join(scratch, "place-"))
  writeFileSync(join(folder, "ggml-tiny.bin"), english)
  writeFileSync(join(folder, "pytorch_model.bin"), "PK")
  const options = { cwd: folder, env: {}, packaged: folder }
  expect(locateModel("ggml-tiny.bin", options)).toBe(join(folder, "ggml-tiny.bin"))
  expect(locateModel(".", options)).toBe(folder)
  expect(() => locateModel("pytorch_model.bin", options)).toThrow("nor whisper.cpp's .bin")
})

test("an adapter is refused, and so is a file to hear with", async () => {
  writeFileSync(path, english)
  await expect(openModel(path, { sees: true, mmproj: path })).rejects.toThrow("--mmproj")
  const adapter = join(goldenFolder("adapters", "llama"))
  await expect(openModel(path, { adapters: [adapter] })).rejects.toThrow(/--lora.*whisper\.cpp/)
})

describe("broken files", () => {
  let bytes: Buffer
  beforeEach(() => {
    bytes = Buffer.from(english)
  })
  const NUMBERS = 4
  const [VOCABULARY, ROWS, , HEADS, LAYERS, TOKENS, WIDTH, , TEXT_LAYERS, BANDS, KIND] = Array.from(
    { length: 11 },
    (_, i) => NUMBERS + 4 * i,
  ) as [number, number, number, number, number, number, number, number, number, number, number]
  const FILTERS = NUMBERS + 4 * 11
  const words = FILTERS + 8 + 4 * 16 * 201

  test.each<[string, (bytes: Buffer) => Uint8Array | number, RegExp]>([
    ["the mark of another ggml", (bytes) => bytes.write("tjgg", "latin1"), /before GGUF/],
    ["no mark at all", (bytes) => bytes.write("what", "latin1"), /does not begin with GGUF/],
    [
      "a language model",
      (bytes) => bytes.writeInt32LE(4096, ROWS),
      /n_audio_ctx is 4096, and a Whisper's is 1500/,
    ],
    ["numbers alone", (bytes) => bytes.subarray(0, 20), /the file ends in its numbers/],
    [
      "half of its words",
      (bytes) => bytes.subarray(0, words + 200),
      /number of words is 320, and|ends in its words/,
    ],
    [
      "half of its tensors",
      (bytes) => bytes.subarray(0, bytes.length >> 1),
      /ends \d+ bytes behind the end of the file/,
    ],
    [
      "an entry that is cut",
      (bytes) => bytes.subarray(0, -(4 * 32) - 12),
      /the file ends in a tensor's entry/,
    ],
    [
      "fewer tokens",
      (bytes) => bytes.writeInt32LE(1828, VOCABULARY),
      /n_vocab is 1828, which leaves room for -1 languages/,
    ],
    [
      "more tokens",
      (bytes) => bytes.writeInt32LE(1830, VOCABULARY),
      /token_embedding\.weight has shape \[1829, 32\]/,
    ],
    [
      "an English vocabulary",
      (bytes) => bytes.writeInt32LE(51864, VOCABULARY),
      /lists 320 words; a Whisper of 51864 tokens has 50256/,
    ],
    ["fewer words", (bytes) => bytes.writeInt32LE(319, words), /where a tensor should begin/],
    [
      "more words than bytes",
      (bytes) => bytes.writeInt32LE(1 << 30, words),
      /number of words is 1073741824/,
    ],
    ["fewer than none", (bytes) => bytes.writeInt32LE(-1, words), /number of words is -1/],
    [
      "a word twice",
      (bytes) => bytes.write("!", words + 4 + 5 + 4, "latin1"),
      /words 0 and 1 are the same/,
    ],
    ["more layers", (bytes) => bytes.writeInt32LE(3, LAYERS), /no tensor encoder\.blocks\.2\./],
    [
      "no end of layers",
      (bytes) => bytes.writeInt32LE(1 << 30, TEXT_LAYERS),
      /n_text_layer is 1073741824, and the file holds/,
    ],
    [
      "fewer layers",
      (bytes) => bytes.writeInt32LE(1, LAYERS),
      /it holds tensor encoder\.blocks\.1\./,
    ],
    [
      "other positions",
      (bytes) => bytes.writeInt32LE(31, TOKENS),
      /decoder\.positional_embedding has shape \[32, 32\]/,
    ],
    ["too many positions", (bytes) => bytes.writeInt32LE(1501, TOKENS), /n_text_ctx is 1501/],
    [
      "two widths",
      (bytes) => bytes.writeInt32LE(64, WIDTH),
      /n_text_state is 64, and n_audio_state 32/,
    ],
    [
      "heads of unlike widths",
      (bytes) => bytes.writeInt32LE(3, HEADS),
      /n_audio_head is 3, which does not divide 32 columns/,
    ],
    ["no bands", (bytes) => bytes.writeInt32LE(0, BANDS), /n_mels is 0, not a number from 1 on/],
    [
      "other bands",
      (bytes) => bytes.writeInt32LE(80, BANDS),
      /has 16 mel filters, and n_mels is 80/,
    ],
    [
      "another filter",
      (bytes) => bytes.writeFloatLE(0.01, FILTERS + 8 + 4 * 201 * 3),
      /mel filter 3 is not one of Slaney's/,
    ],
    ["a million filters", manyFilters, /its mel filters are of 1 frequencies; 201 are known/],
    ["a million tensors", manyTensors, /it holds more than 10000 tensors/],
    [
      "older blocks",
      (bytes) => bytes.writeInt32LE(1008, KIND),
      /ftype is 1008: its blocks are of version 1/,
    ],
    [
      "a tensor of no Whisper",
      (bytes) => renamed(bytes, "encoder.ln_post.bias", "somewhere_post.bias"),
      /it holds tensor somewhere_post\.bias/,
    ],
    [
      "a tensor that is not known",
      (bytes) => renamed(bytes, "encoder.ln_post.bias", "encoder.ln_past.bias"),
      /encoder\.ln_p[ao]st\.bias/,
    ],
  ])("%s", async (_, change, why) => {
    const changed = change(bytes)
    const started = processorTime()
    await expect(open(typeof changed === "number" ? bytes : changed)).rejects.toThrow(why)
    expect(processorTime() - started).toBeLessThan(2000)
  })

  /** Computing as many takes a gigabyte and half a minute. */
  function manyFilters(bytes: Buffer): Buffer {
    const [bands, bins] = [3_000_000, 1]
    const head = bytes.subarray(0, FILTERS)
    head.writeInt32LE(bands, BANDS)
    const [counts, filters] = [Buffer.alloc(8), Buffer.alloc(4 * bands * bins)]
    counts.writeInt32LE(bands)
    counts.writeInt32LE(bins, 4)
    return Buffer.concat([head, counts, filters, bytes.subarray(words)])
  }

  /** Reading as many one by one takes half a minute. */
  function manyTensors(bytes: Buffer): Buffer {
    const NAME = 7
    const length = 4 * 4 + NAME + 4 // a float behind its entry
    const tensors = Buffer.alloc(1_000_000 * length)
    for (let i = 0; i < 1_000_000; i++) {
      tensors.writeInt32LE(1, i * length)
      tensors.writeInt32LE(NAME, i * length + 4)
      tensors.writeInt32LE(1, i * length + 12)
      tensors.write(String(i).padStart(NAME), i * length + 16, "latin1")
    }
    return Buffer.concat([bytes, tensors])
  }

  /** Names of one length. */
  function renamed(bytes: Buffer, name: string, other: string): Buffer {
    bytes.write(other, bytes.indexOf(name), "latin1")
    return bytes
  }
})
