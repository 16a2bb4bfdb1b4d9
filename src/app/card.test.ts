import { join } from "node:path"
import { expect, test } from "vitest"
import { openModel } from "../model/model.ts"
import { capabilitiesOf } from "./card.ts"

const golden = join(import.meta.dirname, "../../test/golden/models")

// Ollama's words: capabilities in docs/api.md of ollama/ollama.
test("a model thinks whose template has a place for it, and inserts whose tokenizer has the marks", async () => {
  const open = async (name: string) => {
    const files = await openModel(join(golden, name), { verify: false })
    await files.close()
    return files
  }
  const thinking = await open("qwen3")
  expect(capabilitiesOf(thinking)).toContain("thinking")
  expect(capabilitiesOf(thinking)).not.toContain("insert")
  expect(capabilitiesOf(await open("llama-tied"))).not.toContain("thinking")
  const { texts } = thinking
  const marks = ["prefix", "suffix", "middle"].map((name) => ({ content: `<|fim_${name}|>` }))
  const json = Buffer.from(JSON.stringify({ added_tokens: marks }))
  const tokenizer = { ...texts.tokenizer, json }
  const coder = { ...thinking, texts: { ...texts, templates: new Map(), tokenizer } }
  expect(capabilitiesOf(coder)).toEqual(["completion", "logprobs", "embedding", "insert"])
})
