// Same fingerprint, same text: whatever decides a text beside its request changes `system_fingerprint`, and nothing else does.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest"
import { type AppOptions, createApp } from "../src/app.ts"
import { ask } from "./api/server.ts"
import { tinyFolder } from "./model/tiny.ts"

let scratch: string
let plain: string
beforeAll(async () => {
  scratch = mkdtempSync(join(tmpdir(), "sinter-fingerprint-"))
  plain = await fingerprint({})
})
afterAll(() => rmSync(scratch, { recursive: true }))
afterEach(() => void vi.useRealTimers())

/** What a server of these options calls itself; all of them have the interpreter, which needs no compiler. */
async function fingerprint(options: Partial<AppOptions>): Promise<string> {
  const app = await createApp({ model: tinyFolder, target: "reference", ...options })
  try {
    const url = `http://127.0.0.1:${await app.listen(0)}`
    await app.ready
    const body = { model: options.model ?? tinyFolder, prompt: "Hello", max_tokens: 1 }
    const { system_fingerprint: told, error } = await ask({ app, url }, "/v1/completions", body)
    expect(error).toBeUndefined()
    expect(told).toMatch(/^fp_[0-9a-f]{16}$/)
    return told
  } finally {
    await app.close()
  }
}

/** tiny in a folder of its own, one of its JSON files changed. */
function changed(file: string, change: (json: Record<string, unknown>) => object): string {
  const folder = mkdtempSync(join(scratch, "tiny-"))
  cpSync(tinyFolder, folder, { recursive: true })
  const path = join(folder, file)
  const json = JSON.parse(readFileSync(path, "utf8"))
  writeFileSync(path, JSON.stringify({ ...json, ...change(json) }))
  return folder
}

test.each<[string, () => Partial<AppOptions>]>([
  ["once more", () => ({})],
  ["from a copy of the folder", () => ({ model: changed("tokenizer_config.json", () => ({})) })],
  [
    "without the number of the tokenizer's own end",
    () => ({ model: changed("generation_config.json", () => ({ eos_token_id: [0] })) }),
  ],
  ["under another name", () => ({ servedName: "other" })],
  ["in mode server", () => ({ mode: "server" })],
  ["with other limits", () => ({ overrides: { max_num_sequence: 2, prefill_chunk_size: 64 } })],
  ["with a queue of one", () => ({ maxQueue: 1 })],
  ["with drafts", () => ({ drafting: { mode: "lookup" } })],
  ["in one dialect", () => ({ http: { dialect: "openai" } })],
])("the same: %s", async (_, options) => {
  expect(await fingerprint(options())).toBe(plain)
})

test.each<[string, () => Partial<AppOptions>]>([
  ["--generation-defaults model", () => ({ generationDefaults: "model" })],
  ["--tool-format", () => ({ toolFormat: "mistral" })],
  ["--reasoning inline", () => ({ http: { reasoning: "inline" } })],
  ["context_window_size", () => ({ overrides: { context_window_size: 64 } })],
  ["max_total_seq_length below the context", () => ({ overrides: { max_total_seq_length: 64 } })],
  ["kv_dtype", () => ({ overrides: { kv_dtype: "f32" } })],
  [
    "other end tokens",
    () => ({ model: changed("generation_config.json", () => ({ eos_token_id: [2] })) }),
  ],
  [
    "another template",
    () => ({ model: changed("tokenizer_config.json", () => ({ chat_template: "Hi" })) }),
  ],
  [
    "another spelling of a special token",
    () => ({ model: changed("tokenizer_config.json", () => ({ bos_token: "<s>" })) }),
  ],
])("another: %s", async (_, options) => {
  expect(await fingerprint(options())).not.toBe(plain)
})

test("whether a text begins with a token, though the tokenizer's file is the same", async () => {
  const flagged = (add_bos_token: boolean) => {
    const config = { tokenizer_class: "LlamaTokenizer", bos_token: "<|im_start|>", add_bos_token }
    return fingerprint({ model: changed("tokenizer_config.json", () => config) })
  }
  expect(await flagged(true)).not.toBe(await flagged(false))
})

test("the day that a template tells, and no other template's", async () => {
  const tells = (directive: string) =>
    changed("tokenizer_config.json", () => ({
      chat_template: `{{ strftime_now("${directive}") }}{{ messages[0].content }}`,
    }))
  const on = async (time: string, model: string) => {
    vi.useFakeTimers({ toFake: ["Date"], now: new Date(time) })
    return fingerprint({ model })
  }
  const day = tells("%d %b %Y")
  const monday = await on("2026-03-02T09:00:00", day)
  expect(await on("2026-03-02T21:30:00", day)).toBe(monday)
  expect(await on("2026-03-03T09:00:00", day)).not.toBe(monday)
  const hour = tells("%H:%M")
  expect(await on("2026-03-02T09:00:00", hour)).not.toBe(await on("2026-03-02T21:30:00", hour))
  expect(await on("2026-03-03T09:00:00", tinyFolder)).toBe(plain)
})
