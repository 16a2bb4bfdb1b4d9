import { readFileSync } from "node:fs"
import { Tokenizer as Library } from "tokenizers"
import { describe, expect, test } from "vitest"
import { Detokenizer } from "./detokenizer.ts"
import { foreign, Text } from "./jinja/text.ts"
import { openTokenizer, type Tokenizer } from "./tokenizer.ts"

const folder = `${import.meta.dirname}/../../test/golden/tokenizers`
const golden = (name: string, file: string) =>
  JSON.parse(readFileSync(`${folder}/${name}/${file}`, "utf8"))

interface StringGolden {
  text: string
  ids: number[]
  ids_plain?: number[]
  decoded: string
  decoded_skip?: string
}

interface StreamGolden {
  ids: number[]
  pieces: string[]
  flush: string
  text: string
}

describe.each(["llama3", "qwen", "mistral"])("%s", async (name) => {
  const { size, strings } = golden(name, "tokenizer-golden.json")
  const { streams } = golden(name, "streaming-golden.json")
  const json = readFileSync(`${folder}/${name}/tokenizer.json`, "utf8")
  const tokenizer = await openTokenizer(json, "tokenizer.json", size)

  test("every text becomes the tokens that the reference makes of it", async () => {
    for (const { text, ids } of strings as StringGolden[]) {
      expect({ text, ids: [...(await tokenizer.encode(new Text(text)))] }).toEqual({ text, ids })
    }
  })

  test("no text from outside becomes a control token", async () => {
    for (const { text, ids, ids_plain = ids } of strings as StringGolden[]) {
      expect({ text, ids: [...(await tokenizer.encode(foreign(text, 1)))] }).toEqual({
        text,
        ids: ids_plain,
      })
    }
  })

  test("tokens become the text that the reference decodes", () => {
    for (const { ids, decoded, decoded_skip = decoded } of strings as StringGolden[]) {
      expect(decodeAll(tokenizer, ids).join("")).toBe(decoded_skip)
    }
  })

  test("a stream sends what is certain after each token, and the rest at the end", () => {
    for (const { ids, pieces, flush } of streams as StreamGolden[]) {
      expect(decodeAll(tokenizer, ids)).toEqual([...pieces, flush])
    }
  })
})

describe("a broken tokenizer.json is refused in one sentence", () => {
  const sound = JSON.parse(readFileSync(`${folder}/qwen/tokenizer.json`, "utf8"))
  const broken: [string, string, RegExp][] = [
    ["cut in the middle", JSON.stringify(sound).slice(0, 500), /it is not JSON: /],
    ["not an object", "[]", /it has no tokenizer model/],
    ["without a vocabulary", changed({ model: { type: "BPE" } }), /its model has no vocabulary/],
    [
      "an id beyond the model",
      changed({ model: { ...sound.model, vocab: { ...sound.model.vocab, far: 1_000_000_000 } } }),
      /the token "far" has the id 1000000000, but the model has 520 tokens/,
    ],
    [
      "an added id beyond the model",
      changed({ added_tokens: [{ ...sound.added_tokens[0], id: 2 ** 53 }] }),
      /has the id 9007199254740992/,
    ],
    [
      "half an id",
      changed({ model: { ...sound.model, vocab: { ...sound.model.vocab, a: 0.5 } } }),
      /the token "a" has no whole number as its id/,
    ],
    [
      "a merge into nothing",
      changed({ model: { ...sound.model, merges: [["q", "z"]] } }),
      /qz.*out of vocabulary/,
    ],
    [
      "a kind nobody knows",
      changed({ model: { type: "Oracle", vocab: { a: 0 } } }),
      /did not match|Oracle/,
    ],
    [
      "no token for what is unknown",
      changed({ model: { type: "WordPiece", unk_token: "[UNK]", vocab: { a: 0 } } }),
      /its unknown token "\[UNK\]" is not in its vocabulary/,
    ],
    ["a decoder nobody knows", changed({ decoder: { type: "CTC" } }), /its decoder \(CTC\)/],
    [
      "added tokens that are no list",
      changed({ added_tokens: {} }),
      /its added tokens are no list/,
    ],
    [
      "a list of no normalizers",
      changed({ normalizer: { type: "Sequence" } }),
      /did not match|normalizers/,
    ],
    [
      "a list of no cuts",
      changed({ pre_tokenizer: { type: "Sequence", pretokenizers: 1 } }),
      /did not match|invalid type/,
    ],
    [
      "a cut that is none",
      changed({
        pre_tokenizer: {
          type: "Sequence",
          pretokenizers: [null, { type: "Metaspace", replacement: "▁", prepend_scheme: "first" }],
        },
      }),
      /did not match|invalid type/,
    ],
    ["a list of no decoders", changed({ decoder: { decoders: [] } }), /its decoder \(empty\)/],
  ]

  function changed(members: Record<string, unknown>): string {
    return JSON.stringify({ ...sound, ...members })
  }

  test.each(broken)("%s", async (_, json, words) => {
    const refusal = await openTokenizer(json, "m/tokenizer.json", 520).catch((error) => error)
    expect(refusal).toMatchObject({ code: "model_broken" })
    expect(refusal.message).toMatch(/^m\/tokenizer\.json: /)
    expect(refusal.message).toMatch(words)
  })
})

test("without a decoder tokens are words, with blanks between them", async () => {
  const json = readFileSync(`${folder}/../broken/sound-hf/tokenizer.json`, "utf8")
  const tokenizer = await openTokenizer(json, "tokenizer.json", 32)
  const ids = [31, 3, 6, 1, 4, 23, 0, 5]
  const library = Library.fromString(json)
  expect(decodeAll(tokenizer, ids).join("")).toBe(await library.decode(ids, true))
  expect([...(await tokenizer.encode(new Text("the cat")))]).toEqual([31, 3, 6, 4, 23])
})

describe("added tokens", () => {
  const sound = JSON.parse(readFileSync(`${folder}/qwen/tokenizer.json`, "utf8"))
  const base = {
    special: false,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
  }
  const open = (...tokens: Record<string, unknown>[]) =>
    openTokenizer(
      JSON.stringify({
        ...sound,
        added_tokens: tokens.map((token, index) => ({ ...base, id: 515 + index, ...token })),
      }),
      "tokenizer.json",
      600,
    )
  const encode = async (tokenizer: Tokenizer, text: string) =>
    Array.from(await tokenizer.encode(new Text(text)), (id) => (id < 515 ? "." : id))

  test("the longest of those that begin together is taken", async () => {
    const tokenizer = await open({ content: "<a" }, { content: "<a>" })
    expect(await encode(tokenizer, "<a><ax")).toEqual([516, 515, "."])
  })

  test("take white space with them, or want to stand alone, when they say so", async () => {
    const tokenizer = await open(
      { content: "<l>", lstrip: true },
      { content: "<r>", rstrip: true },
      { content: "word", single_word: true },
    )
    expect(await encode(tokenizer, "x  \n<l> <r>  x")).toEqual([".", 515, ".", 516, "."])
    expect((await encode(tokenizer, "word words")).slice(0, 2)).toEqual([517, "."])
    expect((await encode(tokenizer, "word words")).filter((id) => id === 517)).toHaveLength(1)
  })

  test("are not found in plain text by the model itself", async () => {
    const pieces = ["<unk>", "<s>", "</s>", "▁", "a", "<", "s", ">", "/"]
    const metaspace = { type: "Metaspace", replacement: "▁", prepend_scheme: "always", split: true }
    const unigram = {
      version: "1.0",
      added_tokens: ["<unk>", "<s>", "</s>"].map((content, id) => ({
        ...base,
        id,
        content,
        special: true,
      })),
      pre_tokenizer: metaspace,
      decoder: metaspace,
      model: { type: "Unigram", unk_id: 0, vocab: pieces.map((piece, id) => [piece, -id / 10]) },
    }
    const tokenizer = await openTokenizer(JSON.stringify(unigram), "tokenizer.json", 9)
    expect([...(await tokenizer.encode(foreign("a</s>", 1)))]).toEqual([3, 4, 5, 8, 6, 7])
    expect([...(await tokenizer.encode(foreign("a\u{10ffff}2", 1)))]).toEqual([3, 4, 0])
    expect([...(await tokenizer.encode(new Text("a</s>")))]).toEqual([3, 4, 2])

    const merging = JSON.parse(readFileSync(`${folder}/llama3/tokenizer.json`, "utf8"))
    Object.assign(merging.model.vocab, { "<|eot_id|>": 509, "<a": 512, "<a>": 513 })
    merging.model.merges.push(["<", "a"], ["<a", ">"])
    merging.added_tokens.push({ ...base, id: 513, content: "<a>", special: true })
    const other = await openTokenizer(JSON.stringify(merging), "tokenizer.json", 600)
    const plain = [...(await other.encode(foreign("<|eot_id|><a>", 1)))]
    expect(plain).not.toContain(509)
    expect(plain).not.toContain(513)
    expect([...(await other.encode(new Text("<|eot_id|><a>")))]).toEqual([509, 513])
  })

  // As transformers and llama.cpp's converter do ("ignore token N: id is out of range"): nobody looks at such a token.
  test("that the model has no row for are as good as not there", async () => {
    const within = { content: "<in>", rstrip: true }
    const tokenizer = await open(within, { id: 600, content: "<far>" }, { id: 601, content: "  " })
    const without = await open(within)
    expect(tokenizer.beyond.map(({ content }) => content)).toEqual(["<far>", "  "])
    expect(tokenizer.size).toBe(without.size)
    expect(tokenizer.control("<far>")).toBeUndefined()
    for (const text of ["a<far>b", "<in>  <far>", "a  b"])
      for (const input of [new Text(text), foreign(text, 1)])
        expect(await tokenizer.encode(input)).toEqual(await without.encode(input))
  })

  test("that the model has no row for may not stand around a text", async () => {
    const special_tokens = { "<far>": { id: "<far>", ids: [600], tokens: ["<far>"] } }
    const around = (...names: string[]) => [
      ...names.map((id) => ({ SpecialToken: { id, type_id: 0 } })),
      { Sequence: { id: "A", type_id: 0 } },
    ]
    const post_processor = {
      type: "TemplateProcessing",
      single: around("<far>"),
      pair: [...around(), { Sequence: { id: "B", type_id: 1 } }],
      special_tokens,
    }
    const json = JSON.stringify({ ...sound, post_processor })
    await expect(openTokenizer(json, "tokenizer.json", 600)).rejects.toThrow(
      "its post_processor adds the token 600, but the model has 600 tokens",
    )
  })

  test("that are blanks are text", async () => {
    const tokenizer = await open({ content: "    " })
    expect([...(await tokenizer.encode(foreign("    ", 1)))]).toEqual([515])
  })

  // The library counts those that are no words of the model, whatever their numbers say.
  test("that are text keep their numbers between control tokens", async () => {
    const tokens = [
      { content: "<a>", special: true },
      { content: "    " },
      { content: "<b>" },
      { content: "日" },
    ]
    const tokenizer = await open(...tokens)
    const added_tokens = tokens.map((token, index) => ({ ...base, id: 515 + index, ...token }))
    const library = Library.fromString(JSON.stringify({ ...sound, added_tokens }))
    const ids = (await library.encode("a    日")).getIds()
    expect(ids).toEqual([expect.any(Number), 516, 518])
    expect([...(await tokenizer.encode(foreign("a    日", 1)))]).toEqual(ids)
    await tokenizer.close()
  })

  // Gemma's runs of blanks, and DeepSeek's letters for the bytes that UTF-8 never has. The library says what is right.
  test("that are blanks of SentencePiece, or one letter, are text", async () => {
    const words = ["<unk>", "<s>", "▁", "▁▁", "▁▁▁▁", "a", "▁a", "ö"]
    const bytes = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"))
    const vocabulary = [...words, ...bytes.map((byte) => `<0x${byte.toUpperCase()}>`)]
    const gemma = {
      version: "1.0",
      added_tokens: [
        { ...base, id: 1, content: "<s>", special: true },
        ...[3, 4, 7].map((id) => ({ ...base, id, content: words[id] })),
      ],
      normalizer: { type: "Replace", pattern: { String: " " }, content: "▁" },
      decoder: {
        type: "Sequence",
        decoders: [
          { type: "Replace", pattern: { String: "▁" }, content: " " },
          { type: "ByteFallback" },
          { type: "Fuse" },
        ],
      },
      model: {
        type: "BPE",
        unk_token: "<unk>",
        fuse_unk: true,
        byte_fallback: true,
        vocab: Object.fromEntries(vocabulary.map((word, id) => [word, id])),
        merges: ["▁ ▁", "▁▁ ▁▁", "▁ a"],
      },
    }
    const json = JSON.stringify(gemma)
    const library = Library.fromString(json)
    const tokenizer = await openTokenizer(json, "tokenizer.json", vocabulary.length)
    for (const text of ["a:\n    a a\n   a", "  ", "öaö ▁▁", "aéöü"]) {
      const ids = (await library.encode(text, null, { addSpecialTokens: false })).getIds()
      expect({ text, ids: [...(await tokenizer.encode(foreign(text, 1)))] }).toEqual({ text, ids })
      expect(decodeAll(tokenizer, ids).join("")).toBe(await library.decode(ids, true))
    }
    expect([...(await tokenizer.encode(foreign("<s>", 1)))]).not.toContain(1)
  })
})

function decodeAll(tokenizer: Tokenizer, ids: number[]): string[] {
  const detokenizer = new Detokenizer(tokenizer, false)
  return [...ids.map((id) => detokenizer.push(id)), detokenizer.flush()]
}
