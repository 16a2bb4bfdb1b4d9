// Texts as bytes of a file say what their strings say, and are printed as JSON.stringify prints those.

import { expect, test } from "vitest"
import { textList } from "../../test/model/gguf-file.ts"
import { printTokenizer, Words } from "./tokenizer-json.ts"

const control = Array.from({ length: 33 }, (_, code) => String.fromCharCode(code))
const texts = [
  ...[
    "",
    "a",
    "Ġthe",
    'say "hi"',
    "C:\\dir",
    "line\nbreak\ttab",
    "ü ▁▁ 語",
    "🙂",
    "\u007f",
    " x",
    "x ",
  ],
  ...control,
  "y".repeat(100_000),
  ...['"', "\\", ",", "[", "{"],
]

test("each is found by its number, and its number by it", () => {
  const list = textList(texts)
  expect(list).toHaveLength(texts.length)
  expect(texts.map((_, i) => list.at(i))).toEqual(texts)
  expect(list.all()).toEqual(texts)
  expect(list.at(texts.length)).toBeUndefined()
  expect(texts.map((text) => list.indexOf(text))).toEqual(texts.map((text) => texts.indexOf(text)))
  expect(list.indexOf("th")).toBe(-1)
})

test.each([0, 1, 3, texts.length, texts.length + 9])("the first %i", (count) => {
  expect(textList(texts).first(count).all()).toEqual(texts.slice(0, count))
})

test("an array and an object of them", () => {
  const isWord = (id: number) => id % 3 !== 1
  const members = texts.flatMap((text, id) => (isWord(id) ? `${JSON.stringify(text)}:${id}` : []))
  const all = textList(texts)
  const print = (words: Words) =>
    printTokenizer({ merges: all, none: textList([]), words }).toString()
  const printed = `{"merges":${JSON.stringify(texts)},"none":[],"words":{${members.join()}}}`
  expect(print(new Words(all, isWord))).toBe(printed)
  expect(print(new Words(texts, isWord))).toBe(printed)
  expect(print(new Words(all, () => false))).toContain('"words":{}}')
})

test.each([
  [["a b", "Ġ t", "ü 語"], true],
  [[], true],
  ...["ab", "a ", " b", "a  b", "a b c", " a b", "", " "].map((merge): [string[], boolean] => [
    ["a b", merge, "c d"],
    false,
  ]),
])("all of %j are pairs: %s", (merges, are) => {
  expect(textList(merges).areAllPairs()).toBe(are)
})

test("what stands between two characters", () => {
  const list = textList(["<s>", "<", "s>", "<s", ""])
  expect([0, 1, 2, 3, 4].map((i) => list.isBetween(i, 60, 62))).toEqual([
    true,
    false,
    false,
    false,
    false,
  ])
})
