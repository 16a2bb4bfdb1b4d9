import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pino } from "pino"
import { expect, onTestFinished, test } from "vitest"
import { type PreparedModel, prepareModel } from "./prepared-model.ts"

type Json = Record<string, unknown>

/** A copy of tiny, one of its files changed. */
function changed(file: string, change: (json: Json) => void): string {
  const folder = mkdtempSync(join(tmpdir(), "sinter-prepared-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  cpSync(join(import.meta.dirname, "../../models/tiny"), folder, { recursive: true })
  const path = join(folder, file)
  const json = JSON.parse(readFileSync(path, "utf8"))
  change(json)
  writeFileSync(path, JSON.stringify(json))
  return folder
}

/** Prepared, its tokenizer read, and what the log was told. */
async function prepare(model: string): Promise<{ prepared: PreparedModel; told: string[] }> {
  const told: string[] = []
  const log = pino({ level: "warn" }, { write: (line) => void told.push(JSON.parse(line).msg) })
  const prepared = await prepareModel({ model, target: "reference", log })
  onTestFinished(() => prepared.close())
  await prepared.tokenizer
  return { prepared, told }
}

test("added tokens that the model has no row for are left out, and the log is told", async () => {
  const folder = changed("tokenizer.json", ({ added_tokens: tokens }) => {
    const [first] = tokens as Json[]
    for (const id of [2560, 2561, 2562, 9999])
      (tokens as Json[]).push({ ...first, id, content: `<t${id}>` })
  })
  const { prepared, told } = await prepare(folder)
  expect((await prepared.tokenizer).size).toBe(2560)
  expect(told).toEqual([
    `${folder}/tokenizer.json adds "<t2560>" (2560), "<t2561>" (2561), "<t2562>" (2562) and 1 more to a model of 2560 tokens; they are left out.`,
  ])
})

test("a GGUF file that does not say how texts are cut is told of", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sinter-prepared-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const golden = join(import.meta.dirname, "../../test/golden/gguf/llama-f32/llama-f32.gguf")
  const bytes = readFileSync(golden)
  const key = Buffer.from("tokenizer.ggml.pre")
  bytes[bytes.indexOf(key) + key.length - 1] = "x".charCodeAt(0)
  const file = join(folder, "old.gguf")
  writeFileSync(file, bytes)
  const { told } = await prepare(file)
  expect(told).toEqual([
    `${file}: it does not say how texts are cut (tokenizer.ggml.pre); the rule default is taken. Files converted since May 2024 say it.`,
  ])
})
