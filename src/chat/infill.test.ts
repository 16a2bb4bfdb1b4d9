import { readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { type ChatModel, chatModelOf } from "./chat-model.ts"
import { hasInfill, infillOf } from "./infill.ts"
import { Prompts } from "./prompts.ts"
import { openTokenizer } from "./tokenizer.ts"

const golden = new URL("../../test/golden/tokenizers/qwen/tokenizer.json", import.meta.url)
const json = JSON.parse(readFileSync(golden, "utf8"))

/** The tokenizer with more control tokens, and how many it has without them. */
async function modelWith(
  names: readonly string[],
): Promise<{ model: ChatModel; first: number; text: string }> {
  const vocabulary = Object.keys(json.model.vocab).length
  const first = Math.max(vocabulary, ...json.added_tokens.map(({ id }: { id: number }) => id + 1))
  const [like] = json.added_tokens
  const added = names.map((content, at) => ({ ...like, content, id: first + at, special: at > 0 }))
  const text = JSON.stringify({ ...json, added_tokens: [...json.added_tokens, ...added] })
  const tokenizer = await openTokenizer(text, "tokenizer.json", 1000)
  const model = chatModelOf({ tokenizer, template: undefined, endTokens: new Set() })
  return { model, first, text }
}

test.each([
  [["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>"], "P0 A P1 B P2"],
  [["<｜fim▁end｜>", "<｜fim▁begin｜>", "<｜fim▁hole｜>"], "P1 A P2 B P0"],
  [["[PREFIX]", "[SUFFIX]"], "P1 B P0 A"],
])("%j: texts stand as the model was taught", async (names, written) => {
  const { model, first, text } = await modelWith(names)
  expect(hasInfill(Buffer.from(text))).toBe(true)
  const prompts = new Prompts(model, {})
  const texts = { prefix: "def f(<|fim_suffix|>", suffix: ")\n" }
  const [a, b] = await Promise.all(
    [texts.prefix, texts.suffix].map((text) => prompts.ofText(text, { client: "" })),
  )
  const expected = written.split(" ").flatMap((word) => {
    if (word === "A") return [...a!]
    return word === "B" ? [...b!] : [first + Number(word.slice(1))]
  })
  const infill = infillOf(model.tokenizer)
  expect([...(await prompts.ofInfill(infill, texts, { client: "" }))]).toEqual(expected)
  const own = names.includes("<|fim_pad|>") ? [first + 3] : []
  expect(infill.ends).toEqual(expect.arrayContaining(own))
})

test("a model without such tokens is refused by the field's name", async () => {
  const { model, text } = await modelWith(["<|fim_prefix|>", "<|fim_suffix|>"])
  expect(hasInfill(Buffer.from(text))).toBe(false)
  expect(() => infillOf(model.tokenizer)).toThrow(/^suffix: this model has no tokens/)
})
