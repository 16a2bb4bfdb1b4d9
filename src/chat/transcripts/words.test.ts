// Tokens as words, as _combine_tokens_into_words of transformers 5.24 has them of the same pieces: the rows below are what it gave.

import { expect, test } from "vitest"
import { wordsOf } from "./words.ts"

/** Each piece is a token; those in hexadecimal are bytes. */
function combined(pieces: readonly (string | number[])[], language: string): [string, number[]][] {
  const bytes = pieces.map((piece) => Buffer.from(piece as string))
  const tokens = pieces.map((_, token) => token)
  const decode = (some: readonly number[]) =>
    Buffer.concat(some.map((token) => bytes[token]!)).toString("utf8")
  return wordsOf(tokens, decode, language).map(({ text, first, last }) => [text, [first, last]])
}

test.each<[string, readonly (string | number[])[], [string, [number, number]][]]>([
  [
    "en",
    [" He", " said", ",", ' "', "Hello", " there", '!"', " (", "or", " not", ")", " 19", "69", "."],
    [
      [" He", [0, 0]],
      [" said,", [1, 2]],
      [' "Hello', [3, 4]],
      [" there", [5, 5]],
      ['!"', [6, 6]],
      [" (or", [7, 8]],
      [" not)", [9, 10]],
      [" 1969.", [11, 13]],
    ],
  ],
  [
    "en",
    ["Don", "'t", " stop", " -", " go", "\n", " ¿", "Qué", "?", " “", "a", "”"],
    [
      ["Don't", [0, 1]],
      [" stop", [2, 2]],
      [" - go", [3, 4]],
      ["\n", [5, 5]],
      [" ¿Qué?", [6, 8]],
      [" “a”", [9, 11]],
    ],
  ],
  [
    "de",
    [" Gr", [195], [188], "ße", " aus", [255], " Köln"],
    [
      [" Grüße", [0, 3]],
      [" aus�", [4, 5]],
      [" Köln", [6, 6]],
    ],
  ],
  [
    "zh",
    ["你", "好", "，", "世", [231], [149], [140], "。"],
    [
      ["你", [0, 0]],
      ["好，", [1, 2]],
      ["世", [3, 3]],
      ["界。", [4, 7]],
    ],
  ],
  [
    "ja",
    ["「", "はい", "」", "、", " '", "a"],
    [
      ["「", [0, 0]],
      ["はい", [1, 1]],
      ["」、", [2, 3]],
      [" 'a", [4, 5]],
    ],
  ],
  [
    "en",
    [" one", " (", ' "', "two", '"', ")", " ", "three"],
    [
      [" one", [0, 0]],
      [' ( "two")', [1, 5]],
      [" three", [6, 7]],
    ],
  ],
  [
    "en",
    [",", " first", ' "', " '"],
    [
      [",", [0, 0]],
      [" first", [1, 1]],
      [" \" '", [2, 3]],
    ],
  ],
])("%s", (language, pieces, words) => {
  expect(combined(pieces, language)).toEqual(words)
})
