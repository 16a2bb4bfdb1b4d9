// A tekken.json as a folder's tokenizer, and the conversations that its version stands for, held against mistral-common.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { Detokenizer } from "../../src/chat/detokenizer.ts"
import { foreign, Text, TextBuilder } from "../../src/chat/jinja/text.ts"
import type { Rendering, TemplateMessage, TemplatePart } from "../../src/chat/rendering.ts"
import { openTemplate, type Template } from "../../src/chat/template.ts"
import { openTokenizer, type Tokenizer } from "../../src/chat/tokenizer.ts"
import { Fields } from "../../src/model/fields.ts"
import { Folder, type Json } from "../../src/model/folder.ts"
import { type ModelTexts, readTexts } from "../../src/model/texts.ts"

interface GoldenMessage {
  role: string
  content: string | null | { type: string; text?: string }[]
  tool_calls?: { id: string; function: { name: string; arguments: string } }[]
  tool_call_id?: string
  reasoning_content?: string
}

interface Golden {
  special: string[]
  texts: { text: string; ids: number[]; decoded: string }[]
  conversations: {
    name: string
    messages: GoldenMessage[]
    tools?: unknown[]
    continued?: boolean
    ids: Record<string, number[] | null>
  }[]
}

const root = join(import.meta.dirname, "../golden/tekken")
const file: Json = JSON.parse(readFileSync(join(root, "tekken.json"), "utf8"))
const golden: Golden = JSON.parse(readFileSync(join(root, "golden.json"), "utf8"))
const ROWS = 520 + 48

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tekken-"))
})
afterEach(() => rmSync(folder, { recursive: true }))

const configured = (changes: Json) => ({ config: { ...(file.config as Json), ...changes } })

/** As files of that version are: the older ones list no special tokens. */
function ofVersion(version: string): Json {
  const { special_tokens: listed, ...rest }: Json = { ...file, ...configured({ version }) }
  return ["v3", "v7"].includes(version) ? rest : { ...rest, special_tokens: listed }
}

async function textsOf(
  tekken: Json,
  others: Record<string, unknown> = {},
  place = folder,
): Promise<ModelTexts> {
  writeFileSync(join(place, "tekken.json"), JSON.stringify(tekken))
  for (const [name, content] of Object.entries(others))
    writeFileSync(
      join(place, name),
      typeof content === "string" ? content : JSON.stringify(content),
    )
  const fields = new Fields({}, (what) => new Error(what) as never)
  return readTexts(new Folder(place), fields, ROWS)
}

describe("texts", () => {
  let tokenizer: Tokenizer
  beforeEach(async () => {
    const { tokenizer: its } = await textsOf(file)
    expect(its.file).toBe(`${folder}/tekken.json`)
    tokenizer = await openTokenizer(its.json, its.file, ROWS)
  })
  afterEach(() => tokenizer.close())

  test("have the ids that mistral-common gives them, and no text has a special one", async () => {
    for (const { text, ids } of golden.texts)
      expect([...(await tokenizer.encode(foreign(text, 1)))], text).toEqual(ids)
  })

  test("come back whole from their tokens, one by one", () => {
    for (const { ids, decoded } of golden.texts) {
      const detokenizer = new Detokenizer(tokenizer, false)
      const pieces = ids.map((id) => detokenizer.push(id))
      expect([...pieces, detokenizer.flush()].join(""), decoded).toBe(decoded)
    }
  })

  test("special tokens have the first ids, and where a template writes them they are those", async () => {
    const text = golden.special.join("")
    expect([...(await tokenizer.encode(new Text(text)))]).toEqual([...golden.special.keys()])
  })

  test("a text that is no chat begins with the token for it", () => {
    expect(tokenizer.prefix).toEqual([golden.special.indexOf("<s>")])
  })
})

function messageOf({ role, content, ...more }: GoldenMessage, count: { images: number }) {
  const parts = Array.isArray(content)
    ? content.map(
        ({ text }): TemplatePart =>
          text === undefined ? { kind: "image", number: count.images++ } : { text },
      )
    : undefined
  const calls = more.tool_calls?.map(({ id, function: its }) => ({ id, ...its }))
  const message: TemplateMessage = {
    role,
    content: parts ? "" : (content as string | null),
    ...(parts && { parts }),
    ...(calls && { toolCalls: calls }),
    ...(more.tool_call_id !== undefined && { toolCallId: more.tool_call_id }),
    ...(more.reasoning_content !== undefined && { reasoning: more.reasoning_content }),
  }
  return message
}

/** A prompt in which each image is one row, as it is in the golden data. */
function withImages(prompt: Text): Text {
  const out = new TextBuilder()
  for (const run of prompt.runs()) {
    const own = prompt.value.slice(run.from, run.to)
    if (run.source === 0) out.add(new Text(own.replaceAll("[IMG]", "[IMG][IMG_END]")))
    else out.add(foreign(own, run.source))
  }
  return out.done()
}

describe.each(["v3", "v7", "v11", "v13"])("conversations of %s", (version) => {
  let tokenizer: Tokenizer
  let template: Template
  beforeAll(async () => {
    const own = mkdtempSync(join(tmpdir(), "tekken-"))
    const { tokenizer: its, templates, specialTokens } = await textsOf(ofVersion(version), {}, own)
    rmSync(own, { recursive: true })
    const { text, file: place } = templates.get("default")!
    template = openTemplate(text, place, { specialTokens, now: new Date(0) })
    tokenizer = await openTokenizer(its.json, its.file, ROWS)
  })
  afterAll(async () => {
    await tokenizer.close()
    await template.close()
  })

  test.each(golden.conversations.filter(({ ids }) => ids[version]))("$name", async (given) => {
    const count = { images: 0 }
    const rendering: Rendering = {
      messages: given.messages.map((message) => messageOf(message, count)),
      tools: given.tools,
      variables: {},
      generationPrompt: !given.continued,
      marks: { image: "[IMG]" },
    }
    const rendered = await template.render(rendering)
    const end = given.continued ? rendered.spans.at(-1)!.to : rendered.length
    const tokens = await tokenizer.encode(withImages(rendered.slice(0, end)))
    expect([...tokens]).toEqual(given.ids[version])
  })
})

describe("a conversation", () => {
  async function rendered(
    version: string,
    messages: TemplateMessage[],
    tekken = ofVersion(version),
  ) {
    const { templates, specialTokens } = await textsOf(tekken)
    const { text, file: place } = templates.get("default")!
    const template = openTemplate(text, place, { specialTokens, now: new Date(0) })
    const rendering = { messages, tools: undefined, variables: {}, generationPrompt: true }
    return (await template.render(rendering)).value
  }
  const user: TemplateMessage = { role: "user", content: "Why?" }
  const call = { id: "call_1", name: "now", arguments: "{}" }

  test.each(["v3", "v7", "v11"])("%s refuses ids of other lengths", async (version) => {
    const called = [user, { role: "assistant", content: null, toolCalls: [call] }]
    const words = "ids of calls are nine letters and digits"
    await expect(rendered(version, called)).rejects.toThrow(words)
    const result = [user, { role: "tool", content: "1", toolCallId: "call_1" }]
    await expect(rendered(version, result)).rejects.toThrow(words)
  })

  test("v3 writes a text beside calls as later versions do", async () => {
    const toolCalls = [{ ...call, id: "abcdef123" }]
    const messages = [user, { role: "assistant", content: "Let me see.", toolCalls }]
    expect(await rendered("v3", messages)).toBe(
      '<s>[INST]Why?[/INST]Let me see.[TOOL_CALLS][{"name": "now", "arguments": {}, "id": "abcdef123"}]</s>',
    )
  })

  test("nothing is thought where there are no marks for it", async () => {
    const thought: TemplateMessage = { role: "assistant", content: "So.", reasoning: "Hm." }
    expect(await rendered("v11", [user, thought, user])).not.toContain("Hm.")
    const listed = (file.special_tokens as Json[]).slice(0, 34) // those before [THINK]
    const unthinking = { ...file, special_tokens: listed }
    expect(await rendered("v13", [user, thought, user], unthinking)).not.toContain("Hm.")
    expect(await rendered("v13", [user, thought, user])).toContain("[THINK]Hm.[/THINK]So.</s>")
  })

  /** As mistral-common 1.13.1's encode_user_content has them in v7, v11 and v13: in their places, with nothing between. */
  test.each([
    ["ahead of a text", ["audio", "Why?"], "[AUDIO]Why?"],
    ["behind one", ["Why?", "audio"], "Why?[AUDIO]"],
    ["between two", ["This:", "audio", "Why?"], "This:[AUDIO]Why?"],
    ["behind another", ["audio", "audio", "Why?"], "[AUDIO][AUDIO]Why?"],
  ])("a recording stands %s", async (_, given, written) => {
    let number = 0
    const parts = given.map(
      (part): TemplatePart =>
        part === "audio" ? { kind: "audio", number: number++ } : { text: part },
    )
    for (const version of ["v7", "v11", "v13"])
      expect(await rendered(version, [{ role: "user", content: "", parts }])).toBe(
        `<s>[INST]${written}[/INST]`,
      )
  })

  test("a role that is not known is refused", async () => {
    const messages = [{ role: "critic", content: "No." }]
    await expect(rendered("v7", messages)).rejects.toThrow("a message is of the system, the user")
  })
})

describe("a folder", () => {
  test("says how its special tokens are called", async () => {
    const { specialTokens, endSpelling } = await textsOf(file)
    expect(specialTokens).toEqual({
      bos_token: "<s>",
      eos_token: "</s>",
      unk_token: "<unk>",
      pad_token: "<pad>",
    })
    expect(endSpelling).toBe("</s>")
  })

  test("with a template of its own has that one, of whatever version it is", async () => {
    const tekken = { ...file, ...configured({ version: "v99" }) }
    const { templates } = await textsOf(tekken, { "chat_template.jinja": "{{ messages }}" })
    expect(templates.get("default")!.text).toBe("{{ messages }}")
  })

  test("with a tokenizer.json has that one, and no template of a tekken.json", async () => {
    const { tokenizer, templates } = await textsOf(file, { "tokenizer.json": { model: {} } })
    expect(tokenizer.file).toBe(`${folder}/tokenizer.json`)
    expect(templates.size).toBe(0)
  })

  const vocab = file.vocab as Json[]
  const special = file.special_tokens as Json[]
  const changedAt = (list: Json[], at: number, changes: Json) =>
    list.with(at, { ...list[at]!, ...changes })

  test.each<[string, Json, string]>([
    ["a version that is not known", configured({ version: "v15" }), 'config.version is "v15"'],
    ["marks that are not there", { special_tokens: special.slice(0, 32) }, "has no [ARGS]"],
    ["no list of special tokens", { special_tokens: null }, "has no [ARGS]"],
    ["special tokens that are no list", { special_tokens: {} }, "special_tokens is not a list"],
    ["a special token elsewhere", { special_tokens: special.toSpliced(3, 1) }, "of rank 3"],
    [
      "a special token twice",
      { special_tokens: changedAt(special, 3, { token_str: "<s>" }) },
      "special_tokens has one spelling twice",
    ],
    [
      "no beginning",
      { special_tokens: changedAt(special, 1, { token_str: "<begin>" }) },
      "special_tokens has no <s>",
    ],
    [
      "more special tokens than there are",
      configured({ default_num_special_tokens: 30 }),
      "special_tokens has 36 tokens, of which there are 30",
    ],
    ["a short list", { vocab: vocab.slice(0, 300) }, "vocab does not list 520 tokens"],
    ["no list", { vocab: {} }, "vocab does not list 520 tokens"],
    ["no pattern", configured({ pattern: 1 }), "config.pattern is 1, not a text"],
    ["no size", configured({ default_vocab_size: null }), "config.default_vocab_size is missing"],
    ["no configuration", { config: null }, "config is missing"],
    ["a token elsewhere", { vocab: vocab.toSpliced(300, 1) }, "of rank 300"],
    [
      "what is no base64",
      { vocab: changedAt(vocab, 300, { token_bytes: "a" }) },
      "vocab has no token_bytes in base64 of rank 300",
    ],
    [
      "other bytes",
      { vocab: changedAt(vocab, 65, { token_bytes: "AAA=" }) },
      "vocab has not byte 65 as its token of rank 65",
    ],
    [
      "a token twice",
      { vocab: changedAt(vocab, 300, { token_bytes: vocab[301]!.token_bytes }) },
      "vocab has one token twice",
    ],
    [
      "a token that is too long",
      { vocab: changedAt(vocab, 300, { token_bytes: "A".repeat(1400) }) },
      "it has a token of 1050 bytes",
    ],
  ])("with %s is refused", async (_, changes, words) => {
    await expect(textsOf({ ...file, ...changes })).rejects.toThrow(words)
  })
})
