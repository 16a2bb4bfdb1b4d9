import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pino } from "pino"
import { expect, onTestFinished, test } from "vitest"
import { type PreparedModel, prepareModel } from "./prepared-model.ts"

type Json = Record<string, unknown>

const log = pino({ level: "silent" })

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

test("kv_dtype is of the cache: what sees or hears keeps its keys and values as usual", async () => {
  const model = join(import.meta.dirname, "../../test/golden/senses/gemma4")
  const overrides = { kv_dtype: "q8" } as const
  const prepared = await prepareModel({ model, target: "reference", overrides, log })
  onTestFinished(() => prepared.close())
  expect(prepared.program.manifest.kv.dtype).toBe("q8")
  expect(prepared.towers.map(({ program }) => program.manifest.kv.dtype)).toEqual(["f32", "f32"])
})

test.each([
  ["context_window_size", 1504],
  ["max_total_seq_length", 600],
])("%s must hold a window of a Whisper's: %i", async (field, value) => {
  const model = join(import.meta.dirname, "../../test/golden/whisper/multilingual")
  const prepare = (value: number) =>
    prepareModel({ model, target: "reference", overrides: { [field]: value }, log })
  await expect(prepare(value)).rejects.toThrow(
    `--overrides ${field}: a window of a recording takes 1500 tokens, and 1505 are the least with a word behind them, not ${value}.`,
  )
  const prepared = await prepare(1505)
  onTestFinished(() => prepared.close())
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

const inTwo = {
  model: join(import.meta.dirname, "../../models/tiny"),
  device: { name: "vulkan", id: 0 },
  target: "vulkan",
  mode: "server",
  log,
} as const
const overrides = { tensor_parallel_shards: 2, gpu_memory_utilization: 1 }

test("of devices that share a model, the one that gives the smallest pieces says how many blocks there are", async () => {
  const blocksOn = async (...pieces: number[]) => {
    const shards = pieces.map((largestAllocation, id) => ({
      name: "vulkan" as const,
      id,
      description: `GPU ${id}`,
      largestAllocation,
    }))
    const device = { total: 2 ** 40, available: 2 ** 40, limitedBy: "device" } as const
    const place = { device: shards[0]!, shards, budget: { device } }
    const prepared = await prepareModel({ ...inTwo, overrides }, place)
    onTestFinished(() => prepared.close())
    return prepared.summary.limits.program.blocks
  }
  const [wide, narrow] = [2 ** 28, 2 ** 20]
  const blocks = await blocksOn(narrow, narrow)
  expect(await blocksOn(wide, narrow)).toEqual(blocks)
  expect(await blocksOn(wide, wide)).not.toEqual(blocks)
})
