import { expect, test } from "vitest"
import type { TokenizerText } from "../model/texts.ts"
import { vocabularyDifference } from "./vocabulary.ts"

function tokenizer(added: readonly string[], described: readonly string[] = []): TokenizerText {
  const added_tokens = added.map((content, i) => ({ id: 2 + i, content, special: true }))
  const json = JSON.stringify({ model: { type: "BPE", vocab: { a: 0, b: 1 } }, added_tokens })
  const beside = { described: described.map((content) => ({ content })), named: [] }
  return { file: "tokenizer.json", json: Buffer.from(json), beside }
}

// Numbers as add_tokens of the library gives them to what other files describe: the next ones.
test.each<[string, TokenizerText, TokenizerText, string | undefined]>([
  ["the same", tokenizer(["<s>"], ["<x>"]), tokenizer(["<s>"], ["<x>"]), undefined],
  [
    "in a file of one, beside the other's",
    tokenizer(["<s>", "<x>"]),
    tokenizer(["<s>"], ["<x>"]),
    undefined,
  ],
  ["one that pads beside one alone", tokenizer(["<s>"], ["<pad>"]), tokenizer(["<s>"]), undefined],
  [
    "beside both, in another order",
    tokenizer(["<s>"], ["<x>", "<y>"]),
    tokenizer(["<s>"], ["<y>", "<x>"]),
    'token 3 is "<x>" in one and "<y>" in the other',
  ],
  [
    "another in a file than beside it",
    tokenizer(["<s>", "<x>"]),
    tokenizer(["<s>"], ["<y>"]),
    'token 3 is "<x>" in one and "<y>" in the other',
  ],
  [
    "in one file alone",
    tokenizer(["<s>"]),
    tokenizer([]),
    'token 2 is "<s>" in one and none in the other',
  ],
])("vocabularies differ or not by every token that is served: %s", (_, one, other, difference) => {
  expect(vocabularyDifference(one, other)).toBe(difference)
})

test("a file that is no JSON is told with its name", () => {
  const broken = { ...tokenizer([]), json: Buffer.from("{") }
  expect(() => vocabularyDifference(broken, tokenizer([]))).toThrow(
    "tokenizer.json: it is not JSON",
  )
})

test.each([
  "null",
  "{}",
  '{"model": []}',
  '{"model": {"vocab": [5]}}',
  '{"model": {}, "added_tokens": 5}',
  '{"model": {}, "added_tokens": [null]}',
])("%s is told as what is no tokenizer", (text) => {
  const broken = { ...tokenizer([]), json: Buffer.from(text) }
  expect(() => vocabularyDifference(broken, tokenizer([]))).toThrow(
    "tokenizer.json: it is no tokenizer",
  )
})
