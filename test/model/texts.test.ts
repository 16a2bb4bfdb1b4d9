// What a folder says about text: tokenizer, templates, special tokens, ends, advice on sampling; and MLC's conversation
// templates, rendered by the room that renders every template.

import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, test } from "vitest"
import { Encoder } from "../../src/chat/encoder.ts"
import { foreign, Text } from "../../src/chat/jinja/text.ts"
import { openTemplate } from "../../src/chat/template.ts"
import { openTokenizer, type Tokenizer } from "../../src/chat/tokenizer.ts"
import { Fields } from "../../src/model/fields.ts"
import { Folder, type Json } from "../../src/model/folder.ts"
import { type Model, openModel } from "../../src/model/model.ts"
import { readTexts } from "../../src/model/texts.ts"
import { readTiktokenModel } from "../../src/model/tiktoken-model.ts"
import { readTokenizerModel } from "../../src/model/tokenizer-model.ts"
import { goldenFolder } from "./golden.ts"

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "texts-"))
})
afterEach(() => rmSync(folder, { recursive: true }))

type Changes = Record<string, unknown>

/** A copy of a golden folder whose JSON files are changed; `undefined` removes a file. */
async function open(
  [kind, name]: ["models" | "mlc" | "broken", string],
  files: Record<string, Changes | string | undefined> = {},
): Promise<Model> {
  cpSync(goldenFolder(kind, name), folder, { recursive: true })
  for (const [file, changes] of Object.entries(files)) {
    const path = join(folder, file)
    if (changes === undefined) rmSync(path, { force: true })
    else if (typeof changes === "string") writeFileSync(path, changes)
    else {
      const json = JSON.parse(readFileSync(path, "utf8"))
      writeFileSync(path, JSON.stringify({ ...json, ...changes }))
    }
  }
  const model = await openModel(folder)
  await model.close()
  return model
}

describe("a plain folder", () => {
  test("says all of it", async () => {
    const { texts } = await open(["models", "llama-tied"])
    expect(texts.tokenizer.file).toBe(join(folder, "tokenizer.json"))
    expect(JSON.parse(texts.tokenizer.json.toString()).model.type).toBe("BPE")
    expect(texts.templates.get("default")!.text).toMatch(/^\{#- Role headers/)
    expect(texts.specialTokens).toMatchObject({
      bos_token: "<|begin_of_text|>",
      eos_token: "<|eot_id|>",
      pad_token: "<|eom_id|>",
    })
    expect(texts.endTokens).toEqual([509, 510])
    expect(texts.beginToken).toBe(506)
    expect(texts.sampling).toEqual({ temperature: 0.6, topP: 0.9 })
  })

  test("a template in a file of its own wins; a list of templates keeps their names", async () => {
    const list = [
      { name: "default", template: "plain" },
      { name: "tool_use", template: "tools" },
    ]
    const files = { "tokenizer_config.json": { chat_template: list } }
    const named = await open(["models", "llama-tied"], files)
    expect([...named.texts.templates].map(([name, { text }]) => [name, text])).toEqual([
      ["default", "plain"],
      ["tool_use", "tools"],
    ])
    const own = await open(["models", "llama-tied"], { ...files, "chat_template.jinja": "own" })
    expect(own.texts.templates.get("default")).toEqual({
      file: join(folder, "chat_template.jinja"),
      text: "own",
    })
  })

  // As save_chat_templates of tokenization_utils_base.py in transformers writes them.
  test("templates for a purpose lie in a folder of their own", async () => {
    mkdirSync(join(folder, "additional_chat_templates"))
    const files = {
      "chat_template.jinja": "plain",
      "additional_chat_templates/tool_use.jinja": "tools",
      "additional_chat_templates/notes.md": "no template",
    }
    const { texts } = await open(["models", "llama-tied"], files)
    expect([...texts.templates]).toEqual([
      ["default", { file: join(folder, "chat_template.jinja"), text: "plain" }],
      [
        "tool_use",
        { file: join(folder, "additional_chat_templates/tool_use.jinja"), text: "tools" },
      ],
    ])
  })

  test("a template of a model that sees may be its processor's", async () => {
    const processor = { "chat_template.json": JSON.stringify({ chat_template: "processor" }) }
    const files = { "tokenizer_config.json": { chat_template: undefined }, ...processor }
    const model = await open(["models", "llama-tied"], files)
    expect(model.texts.templates.get("default")).toEqual({
      file: join(folder, "chat_template.json"),
      text: "processor",
    })
    const both = await open(["models", "llama-tied"], processor)
    expect(both.texts.templates.get("default")!.file).toBe(join(folder, "tokenizer_config.json"))
    const broken = open(["models", "llama-tied"], { ...files, "chat_template.json": "{}" })
    await expect(broken).rejects.toThrow("chat_template.json: chat_template is missing")
  })

  test("ends are generation_config's, else config's; a special token may be an object", async () => {
    const model = await open(["models", "llama-tied"], {
      "generation_config.json": undefined,
      "config.json": { eos_token_id: 7, bos_token_id: null },
      "tokenizer_config.json": { bos_token: { content: "<b>", lstrip: false } },
    })
    expect(model.texts.endTokens).toEqual([7])
    expect(model.texts.beginToken).toBeUndefined()
    expect(model.texts.specialTokens.bos_token).toBe("<b>")
    expect(model.texts.sampling).toEqual({})
  })

  // vLLM reads a temperature of 0 and a top_k of -1 so; ids that no token has are ignored in GGUF files, too.
  test("advice that switches something off is taken, and ends that no token has are not", async () => {
    const generation = { temperature: 0.0, top_k: -1, eos_token_id: [509, 512, 2 ** 40] }
    const files = { "generation_config.json": generation }
    const { texts } = await open(["models", "llama-tied"], files)
    expect(texts.sampling).toEqual({ temperature: 0, topP: 0.9, topK: 0 })
    expect(texts.endTokens).toEqual([509])
    const none = { "generation_config.json": { eos_token_id: 512, top_k: 0 } }
    const other = await open(["models", "llama-tied"], {
      ...none,
      "config.json": { eos_token_id: 7 },
    })
    expect(other.texts.endTokens).toEqual([7])
    expect(other.texts.sampling.topK).toBe(0)
  })

  // Transformers, vLLM and llama.cpp open such folders: GPT-2's with a vocabulary of their own keep its 50256.
  test("a default that no token of a small vocabulary has is none", async () => {
    const { texts } = await open(["models", "llama-tied"], {
      "generation_config.json": undefined,
      "config.json": { eos_token_id: [7, 50256], bos_token_id: 50256 },
    })
    expect([texts.endTokens, texts.beginToken]).toEqual([[7], undefined])
  })

  test.each<[Changes, string]>([
    [{ temperature: -0.1 }, "temperature is -0.1, not a number from 0 on"],
    [{ top_k: -2 }, "top_k is -2, not between -1 and 2147483647"],
    [{ top_k: 0.5 }, "top_k is 0.5, not a whole number"],
    [{ eos_token_id: [509, -1] }, "eos_token_id holds -1, which is no token id"],
  ])("advice that means nothing is refused: %j", async (generation, words) => {
    const opening = open(["models", "llama-tied"], { "generation_config.json": generation })
    await expect(opening).rejects.toThrow(`generation_config.json: ${words}`)
  })

  test("do_sample: false is temperature 0", async () => {
    const files = { "generation_config.json": { do_sample: false, top_k: 50, min_p: 0.05 } }
    const { texts } = await open(["models", "llama-tied"], files)
    expect(texts.sampling).toEqual({ temperature: 0, topP: 0.9, topK: 50, minP: 0.05 })
  })
})

// transformers' LlamaTokenizerFast.update_post_processor: `bos $A eos`, and of two texts `bos $A eos bos $B eos`.
describe("flags of the tokenizer's class decide what stands around a text", () => {
  const [BOS, EOS] = [506, 509]
  const file = { prefix: [BOS], suffix: [], between: [BOS] } // as llama-tied's post-processor has it
  test.each<[string, Changes, object]>([
    [
      "both",
      { add_bos_token: true, add_eos_token: true },
      { prefix: [BOS], suffix: [EOS], between: [EOS, BOS] },
    ],
    [
      "none",
      { add_bos_token: false, add_eos_token: false },
      { prefix: [], suffix: [], between: [] },
    ],
    [
      "one, and the other is the file's",
      { add_eos_token: true },
      { prefix: [BOS], suffix: [EOS], between: [EOS, BOS] },
    ],
    ["not said", {}, file],
    ["null", { add_bos_token: null }, file],
    ["of a token that is none", { add_bos_token: true, bos_token: "<none>" }, file],
    [
      "of another class",
      { tokenizer_class: "PreTrainedTokenizerFast", add_bos_token: false },
      file,
    ],
  ])("%s", async (_, changes, around) => {
    const config = { tokenizer_class: "LlamaTokenizerFast", ...changes }
    const { texts } = await open(["models", "llama-tied"], { "tokenizer_config.json": config })
    const { json, file, ...place } = texts.tokenizer
    const tokenizer = await openTokenizer({ json, ...place }, file, 512)
    expect(tokenizer).toMatchObject(around)
    await tokenizer.close()
  })

  test("where tokenizer.json says nothing of it, as DeepSeek's does", async () => {
    const { texts } = await open(["models", "llama-tied"], {
      "tokenizer.json": {
        post_processor: {
          type: "ByteLevel",
          add_prefix_space: true,
          trim_offsets: false,
          use_regex: true,
        },
      },
      "tokenizer_config.json": { tokenizer_class: "LlamaTokenizerFast", add_bos_token: true },
    })
    const { json, file, around } = texts.tokenizer
    const tokenizer = await openTokenizer({ json, around }, file, 512)
    expect(tokenizer).toMatchObject({ prefix: [BOS], suffix: [], between: [BOS] })
    await tokenizer.close()
  })
})

describe("a compiled folder", () => {
  const messages = [
    { role: "user", content: "Hi" },
    { role: "assistant", content: "Hello" },
    { role: "user", content: "Bye" },
  ]
  const system = { role: "system", content: "Be brief." }

  async function render(
    { texts }: Model,
    conversation: { role: string; content: string }[],
  ): Promise<string> {
    const { text, file } = texts.templates.get("default")!
    const template = openTemplate(text, file, { specialTokens: {}, now: new Date(0) })
    const rendering = {
      messages: conversation,
      tools: undefined,
      variables: {},
      generationPrompt: true,
    }
    return (await template.render(rendering)).value
  }

  const withoutJinja = (conversation: unknown) => ({
    "tokenizer_config.json": { chat_template: null },
    "mlc-chat-config.json": { conv_template: conversation },
  })

  test("its own Jinja wins over the conversation template, whose ends count as well", async () => {
    const { texts } = await open(["mlc", "llama-tied-q0f16"])
    expect(texts.templates.get("default")!.text).toMatch(/^\{#- Role headers/)
    expect(texts.endTokens).toEqual([509, 510])
    expect(texts.sampling).toEqual({
      temperature: 0.6,
      topP: 0.9,
      presencePenalty: 0,
      frequencyPenalty: 0,
      repetitionPenalty: 1,
    })
  })

  test("a conversation template by object", async () => {
    const files = { "tokenizer_config.json": { chat_template: null } }
    const llama = await open(["mlc", "llama-tied-q0f16"], files)
    const head = (role: string) => `<|start_header_id|>${role}<|end_header_id|>\n\n`
    const body = `${head("user")}Hi<|eot_id|>${head("assistant")}Hello<|eot_id|>${head("user")}Bye<|eot_id|>${head("assistant")}`
    const begin = "<|begin_of_text|>"
    expect(await render(llama, messages)).toBe(
      `${begin}${head("system")}You answer in few words.<|eot_id|>${body}`,
    )
    expect(await render(llama, [system, ...messages])).toBe(
      `${begin}${head("system")}Be brief.<|eot_id|>${body}`,
    )
    await expect(render(llama, [...messages, system])).rejects.toThrow(/system messages come first/)
  })

  test("one whose first turn has no role behind the system text", async () => {
    const files = { "tokenizer_config.json": { chat_template: null } }
    const mistral = await open(["mlc", "llama-wide-q4f16_1"], files)
    const turns = "[/INST] Hello</s>[INST] Bye [/INST]"
    expect(await render(mistral, messages)).toBe(
      `<s>[INST] You answer in few words.\n\nHi ${turns}`,
    )
    expect(await render(mistral, [{ ...system, content: "" }, ...messages])).toBe(
      `<s>[INST] Hi ${turns}`,
    )
  })

  test("a conversation template by name", async () => {
    const model = await open(["mlc", "qwen2-q0f32"], withoutJinja("chatml"))
    const turn = (role: string, text: string) => `<|im_start|>${role}\n${text}<|im_end|>\n`
    expect(await render(model, [system, ...messages])).toBe(
      `${turn("system", "Be brief.")}${turn("user", "Hi")}${turn("assistant", "Hello")}${turn("user", "Bye")}<|im_start|>assistant\n`,
    )
  })

  test("a name nobody knows is refused, none at all is no template", async () => {
    await expect(open(["mlc", "qwen2-q0f32"], withoutJinja("parley"))).rejects.toThrow(
      /conv_template is "parley"; known by name: LM, chatml/,
    )
    const model = await open(["mlc", "qwen2-q0f32"], withoutJinja(null))
    expect(model.texts.templates.size).toBe(0)
  })

  test("texts that hold quotes and braces are kept as texts", async () => {
    const conversation = {
      system_template: "{{ it's }} {system_message} \\ {%",
      system_message: "'",
      roles: { user: "{{u}}", assistant: "a" },
      seps: ["\n"],
    }
    const model = await open(["mlc", "qwen2-q0f32"], withoutJinja(conversation))
    expect(await render(model, [{ role: "user", content: "x" }])).toBe(
      "{{ it's }} ' \\ {%{{u}}x\na",
    )
  })
})

const pieces = join(import.meta.dirname, "../golden/sentencepiece")
const golden: Record<string, { text: string; ids: number[] }[]> = JSON.parse(
  readFileSync(join(pieces, "golden.json"), "utf8"),
)

describe("tokens that only files beside a tokenizer.json describe", () => {
  const qwen = readFileSync(
    `${import.meta.dirname}/../golden/tokenizers/qwen/tokenizer.json`,
    "utf8",
  )
  const plain = { lstrip: false, rstrip: false, single_word: false, normalized: false }
  const described = {
    525: { ...plain, content: "<new>", lstrip: true, special: true },
    520: { ...plain, content: "<plain>", rstrip: true, special: false },
    516: { ...plain, content: "<|im_start|>", lstrip: true, rstrip: true, special: false },
  }

  // The ids, and which of the tokens are special, are those of AutoTokenizer of transformers 5.24 on the same files.
  const folders: Record<string, [Record<string, Changes>, Record<string, number[]>, number[]]> = {
    "by number in its configuration": [
      {
        "tokenizer_config.json": {
          added_tokens_decoder: described,
          eos_token: "<e>",
          pad_token: "!",
          additional_special_tokens: ["<m>"],
        },
        "special_tokens_map.json": { sep_token: "<sep>" },
      },
      {
        "a <|im_start|> b": [64, 516, 65],
        "x <new> y": [87, 521, 350],
        "x <plain> y!": [87, 220, 520, 88, 0],
        "<e><m>": [522, 523],
      },
      [515, 516, 517, 521, 522, 523],
    ],
    "in files of their own": [
      {
        "tokenizer_config.json": { eos_token: "<e>" },
        "special_tokens_map.json": {
          pad_token: { ...plain, content: "<pad>", lstrip: true },
          additional_special_tokens: ["<new>", "<|im_end|>"],
        },
        "added_tokens.json": { "<plain>": 523, "<e>": 520 },
      },
      {
        "a <|im_start|> b": [64, 220, 516, 308],
        "x <new> y": [87, 220, 523, 350],
        "x <plain> y": [87, 220, 521, 350],
        "x <pad> y": [87, 522, 350],
        "<e>": [520],
      },
      [515, 516, 517, 520, 522, 523],
    ],
  }

  test.each(Object.entries(folders))("%s", async (_, [files, ids, special]) => {
    writeFileSync(join(folder, "tokenizer.json"), qwen)
    for (const [file, json] of Object.entries(files))
      writeFileSync(join(folder, file), JSON.stringify(json))
    const fields = new Fields({}, (what) => new Error(what) as never)
    const { tokenizer: texts } = await readTexts(new Folder(folder), fields, 600)
    const read = { json: texts.json, path: texts.place, beside: texts.beside }
    const encoder = new Encoder()
    encoder.readAhead(texts.place!)
    const opened = await openTokenizer(read, texts.file, 600, encoder)
    for (const [text, wanted] of Object.entries(ids))
      expect({ text, ids: [...(await opened.encode(new Text(text)))] }).toEqual({
        text,
        ids: wanted,
      })
    expect([...opened.special].sort((a, b) => a - b)).toEqual(special)
    const alone = await openTokenizer(qwen, texts.file, 600)
    expect(alone.hash).not.toBe(opened.hash)
    await alone.close()
    await opened.close()
  })
})

describe("a tokenizer.model alone", () => {
  /** The folder's, with a configuration of its tokenizer. */
  async function tokenizer(bytes: string | Buffer, config: Changes = {}): Promise<Tokenizer> {
    writeFileSync(join(folder, "tokenizer.model"), bytes)
    const json = await readTokenizerModel(new Folder(folder), config)
    return openTokenizer(json, "tokenizer.model", 500)
  }
  const model = (name: string) => readFileSync(join(pieces, `${name}.model`))

  test.each(Object.keys(golden))("%s splits texts as SentencePiece does", async (name) => {
    const opened = await tokenizer(model(name))
    for (const { text, ids } of golden[name]!) {
      const isOwn = name === "bare" && /<mark>|\[USER\]/.test(text)
      const encoded = await opened.encode(isOwn ? new Text(text) : foreign(text, 1))
      expect({ text, ids: [...encoded] }).toEqual({ text, ids })
    }
    await opened.close()
  })

  // The ids are what sentencepiece 0.2.3 makes with `remove_extra_whitespaces`, the model's last byte.
  test("blanks at the ends of a text are none, at the ends of its lines they are", async () => {
    const narrow = model("bpe")
    narrow[narrow.length - 1] = 1
    const opened = await tokenizer(narrow)
    const ids = async (text: string) => [...(await opened.encode(foreign(text, 1)))]
    expect(await ids("the\n  the")).toEqual([263, 13, 263])
    expect(await ids(" the \n the ▁ ")).toEqual([263, 392, 13, 263])
    await opened.close()
  })

  test("what other files add to it is added", async () => {
    writeFileSync(join(folder, "added_tokens.json"), JSON.stringify({ "<pad>": 480 }))
    const end = { content: "<|end|>", lstrip: false, rstrip: true, special: true }
    const config = { legacy: false, eos_token: "<|end|>", added_tokens_decoder: { 481: end } }
    const opened = await tokenizer(model("bpe"), config)
    // 263 is "▁the", which only the beginning of a text is: `legacy: false`.
    expect([...(await opened.encode(new Text("the<pad>the<|end|>  the")))]).toEqual([
      263, 480, 394, 259, 481, 394, 259,
    ])
    await opened.close()
  })

  test("a folder is opened with it, and says what is wrong with another file", async () => {
    writeFileSync(join(folder, "tokenizer.model"), model("bpe"))
    const { texts } = await open(["models", "llama-tied"], {
      "tokenizer.json": undefined,
      "tokenizer_config.json": { bos_token: "<s>", added_tokens_decoder: {} },
    })
    expect(texts.tokenizer.file).toBe(join(folder, "tokenizer.model"))
    expect(JSON.parse(texts.tokenizer.json.toString()).post_processor.single).toEqual([
      { SpecialToken: { id: "<s>", type_id: 0 } },
      { Sequence: { id: "A", type_id: 0 } },
    ])
    const piece = [Buffer.from([10, 211, 15, 10, 208, 15]), Buffer.alloc(2000, "a")]
    const long = Buffer.concat([...piece, Buffer.from([18, 2, 24, 2])]) // of BPE
    await expect(tokenizer(long)).rejects.toThrow("it has a piece of 2000 characters")
    for (const bytes of ["IQ== 0\nIg== 1\n", "", model("bpe").subarray(0, 1000)])
      await expect(tokenizer(bytes)).rejects.toThrow(
        `${folder}/tokenizer.model: it is no model of SentencePiece (`,
      )
  })
})

describe("a tiktoken.model alone", () => {
  const golden = join(import.meta.dirname, "../golden/tiktoken")
  const model = readFileSync(join(golden, "tiktoken.model"), "utf8")
  const { texts }: { texts: { text: string; ids: number[]; special?: true }[] } = JSON.parse(
    readFileSync(join(golden, "golden.json"), "utf8"),
  )
  const special = (content: string) => ({ content, special: true })
  const config = {
    added_tokens_decoder: {
      380: special("[BOS]"),
      382: special("<|im_end|>"),
      383: special("<|im_user|>"),
    },
  }
  async function read(text: string, others: Json = config): Promise<Buffer> {
    writeFileSync(join(folder, "tiktoken.model"), text)
    return readTiktokenModel(new Folder(folder), others)
  }

  test.each(texts)("$text is split as tiktoken does", async ({ text, ids, special }) => {
    const opened = await openTokenizer(await read(model), "tiktoken.model", 384)
    const encoded = await opened.encode(special ? new Text(text) : foreign(text, 1))
    expect([...encoded]).toEqual(ids)
    await opened.close()
  })

  test("a folder is opened with it", async () => {
    writeFileSync(join(folder, "tiktoken.model"), model)
    const { texts } = await open(["models", "llama-tied"], {
      "tokenizer.json": undefined,
      "tokenizer_config.json": { added_tokens_decoder: {} },
    })
    expect(texts.tokenizer.file).toBe(join(folder, "tiktoken.model"))
  })

  test.each([
    ["a rank that is left out", model.replace(/ 17\n/, " 18\n"), "its line 18 is not a token"],
    ["what is no base64", model.replace(/^/, "?? 0\n"), "its line 1 is not a token in base64"],
    ["an empty file", "", "its line 1 is not a token in base64 and its rank, 0"],
  ])("%s is refused", async (_, text, words) => {
    await expect(read(text)).rejects.toThrow(words)
  })

  test.each([1e9, -1, 0.5])("a token that is added as number %s is refused", async (id) => {
    const others = { added_tokens_decoder: { [id]: special("<far>") } }
    await expect(read(model, others)).rejects.toThrow(`adds a token of the id ${id}`)
  })
})
