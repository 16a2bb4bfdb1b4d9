// What is left as text must say what a parser reads there. Judged by JSON.parse, over files written in every way that JSON can be.

import { readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { parseTokenizer, printTokenizer } from "./tokenizer-text.ts"

const folder = `${import.meta.dirname}/../../test/golden/tokenizers`
const published = ["llama3", "qwen", "mistral"].map((name) =>
  readFileSync(`${folder}/${name}/tokenizer.json`, "utf8"),
)

const odd = {
  '"vocab":{"a":1}': '{"model":[',
  added_tokens: [{ id: 9, content: '<"\\>' }],
  model: {
    unk_token: null,
    vocab: {
      "": 0,
      '"': 1,
      "\\": 2,
      '\\"': 3,
      "\u0000\n": 4,
      Ġé: 5,
      "🙂": 6,
      __proto__: 7,
      "<s>": 8,
      "}": 10,
    },
    nested: { vocab: { z: 26 }, merges: [] },
    merges: [["<", "s>"], ["]", ","], '" \\', "Ġ é"],
    type: "BPE",
  },
  post_processor: { model: { vocab: { q: 1 } } },
}

/** Everything but letters and digits as an escape, which says the same. */
const escaped = (json: string) =>
  json.replace(
    /[^\n -~]|[<Ġ]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  )

const files: [string, string][] = [
  ...published.map((json): [string, string] => ["published", json]),
  ["in one line", JSON.stringify(odd)],
  ["indented", `\r\n\t ${JSON.stringify(odd, undefined, "\t")}\n`],
  ["escaped", escaped(JSON.stringify(odd))],
  ["without lists", JSON.stringify({ model: { type: "BPE" } })],
  ["with empty ones", JSON.stringify({ model: { vocab: {}, merges: [] } })],
  ["with pieces", JSON.stringify({ model: { vocab: [["a", -1]] } })],
  [
    "with words of no number",
    '{"model": {"vocab": {"a": "b", "c": -1.5e1, "d": [{}], "e": null}}}',
  ],
]

test.each(files)("%s: it is the same file when it is printed", (_, json) => {
  const { file, lists } = parseTokenizer(json)
  const printed = { words: lists.words?.print(), merges: lists.merges?.print() }
  expect(JSON.parse(printTokenizer(file, printed))).toEqual(JSON.parse(json))
})

test.each(files)("%s: its words and their ids are the parser's", (_, json) => {
  const { vocab } = JSON.parse(json).model
  const { words } = parseTokenizer(json).lists
  const read: [string, unknown][] = []
  words?.forEach((word, id) => {
    read.push([word, id])
  })
  const expected: [string, unknown][] = Array.isArray(vocab) ? [] : Object.entries(vocab ?? {})
  expect(new Map(read)).toEqual(new Map(expected))
  for (const [word] of expected)
    expect(words!.find(new Set([word, "none such"]))).toEqual(new Set([word]))
})

test("words are spelled otherwise, and merges left out, where that is asked for", () => {
  for (const json of [JSON.stringify(odd), escaped(JSON.stringify(odd))]) {
    const { file, lists } = parseTokenizer(json)
    expect(lists.merges!.making(new Set(["<s>", "x"]))).toEqual([["<", "s>"]])
    const printed = {
      words: lists.words!.print(
        new Map([
          ["<s>", '"9"'],
          ["\\", "\u{10ffff}2"],
        ]),
      ),
      merges: lists.merges!.printWithout(new Set(["<s>"])),
    }
    const { model } = JSON.parse(printTokenizer(file, printed))
    const { "<s>": s, "\\": backslash, ...others } = odd.model.vocab
    expect(model.vocab).toEqual({ ...others, '"9"': s, "\u{10ffff}2": backslash })
    expect(model.merges).toEqual(odd.model.merges.slice(1))
  }
})

test("what is no JSON is refused in the parser's words, wherever it ends", () => {
  const json = JSON.stringify(odd)
  for (let length = 0; length < json.length; length++) {
    const cut = json.slice(0, length)
    expect(() => parseTokenizer(cut)).toThrow(SyntaxError)
  }
  for (const broken of [
    '{"model":{"vocab":{"a"1}}}',
    '{"model":{"vocab":{"a":1 "b":2}}}',
    '{"model":{"vocab":{"a":}}}',
    '{"a":1}}',
    '{"model":{"vocab":{a:1}}}',
  ])
    expect(() => parseTokenizer(broken)).toThrow(SyntaxError)
  for (const other of ["[]", "null", '"{"', "1"]) expect(parseTokenizer(other).lists).toEqual({})
})
