import { readFileSync } from "node:fs"
import { expect, onTestFinished, test } from "vitest"
import { foreign } from "./jinja/text.ts"
import { openTokenizer } from "./tokenizer.ts"
import { readTokenizer } from "./tokenizer-file.ts"

const folder = `${import.meta.dirname}/../../test/golden/tokenizers`
const files = [
  ...["llama3", "qwen", "mistral"].map((name) => `${folder}/${name}/tokenizer.json`),
  `${import.meta.dirname}/../../models/tiny/tokenizer.json`,
]

// Letters that NFC joins, blanks, all bytes of UTF-8's four lengths, and what the vocabulary itself spells.
const texts = [
  "",
  "a",
  " ".repeat(1000),
  "\u1112\u1161\u11ab".repeat(300),
  "e\u0301o\u0302\u0301".repeat(200),
  "the quick brown fox, 12345 times; ".repeat(50),
  "ﬁ Å ① 漢字 🙂‍↔️ \u0000\u0001\r\n\t".repeat(40),
]

test.each(files)("%s: no text has fewer tokens than are told before", async (file) => {
  const json = readFileSync(file, "utf8")
  const tokenizer = await openTokenizer(json, file, 1e6)
  onTestFinished(() => tokenizer.close())
  const { bytes, size } = tokenizer
  const spelled = Array.from({ length: size }, (_, id) => Buffer.from(bytes.of(id)).toString())
  const longest = spelled.reduce((a, b) => (b.length > a.length ? b : a))
  for (const text of [...texts, longest.repeat(100), spelled.join("")]) {
    const atLeast = tokenizer.atLeast(foreign(text, 1))
    const tokens = await tokenizer.encode(foreign(text, 1))
    expect(tokens.length).toBeGreaterThanOrEqual(atLeast)
    if (text.length > 0) expect(atLeast).toBeGreaterThan(0)
  }
})

const whole = JSON.parse(readFileSync(files[0]!, "utf8"))
const { "!": _, ...withoutAByte } = whole.model.vocab

test.each([
  ["a normalizer that drops characters", { normalizer: { type: "StripAccents" } }],
  [
    "one that replaces them",
    { normalizer: { type: "Replace", pattern: { String: "a" }, content: "" } },
  ],
  ["a pattern that is removed", { pre_tokenizer: { type: "Split", behavior: "Removed" } }],
  ["blanks that are removed", { pre_tokenizer: { type: "WhitespaceSplit" } }],
  ["a byte that is no token", { model: { ...whole.model, vocab: withoutAByte } }],
  ["words", { model: { type: "WordLevel", vocab: { a: 0 } } }],
  [
    "control tokens that take blanks with them",
    { added_tokens: [{ id: 0, content: "<s>", special: true, rstrip: true }] },
  ],
])("%s leaves it open", (_, change) => {
  const longest = (file: object) =>
    readTokenizer({ json: JSON.stringify(file), limit: 1e6 }).longest
  expect(longest(whole)).toBeGreaterThan(0)
  expect(longest({ ...whole, ...change })).toBe(undefined)
})
