import { readFileSync } from "node:fs"
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
      expect({ text, ids: await tokenizer.encode(new Text(text)) }).toEqual({ text, ids })
    }
  })

  test("no text from outside becomes a control token", async () => {
    for (const { text, ids, ids_plain = ids } of strings as StringGolden[]) {
      expect({ text, ids: await tokenizer.encode(foreign(text, 1)) }).toEqual({
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

function decodeAll(tokenizer: Tokenizer, ids: number[]): string[] {
  const detokenizer = new Detokenizer(tokenizer, false)
  return [...ids.map((id) => detokenizer.push(id)), detokenizer.flush()]
}
