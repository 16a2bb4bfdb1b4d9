// Two thousand mutations of each header, five hundred of GGUF, fewer of adapters, drawn from a seed: flipped bits, cut ends, numbers made
// huge, and in a GGUF file also zero, near, negative or another field's. A mutated model opens or is refused in a sentence; it never
// crashes, hangs, or takes memory for what a header merely claims.

import { cpSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { Problem } from "../../src/errors.ts"
import { Folder } from "../../src/model/folder.ts"
import type { Value } from "../../src/model/gguf/container.ts"
import { Keys } from "../../src/model/gguf/keys.ts"
import { readTokenizer } from "../../src/model/gguf/tokenizer.ts"
import { openModel } from "../../src/model/model.ts"
import { allocated } from "../allocated.ts"
import { processorTime } from "../processor-time.ts"
import { textList } from "./gguf-file.ts"
import { goldenFolder } from "./golden.ts"

const TIMES = 2000
const GGUF_TIMES = 500
const ADAPTER_TIMES = 250

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "mutations-"))
})
afterAll(() => rmSync(folder, { recursive: true }))

/** Sound folders, and in each the file that is mutated; how many of its first bytes are the header. */
const headers = [
  { kind: "broken", model: "sound-hf", file: "config.json" },
  { kind: "broken", model: "sound-hf", file: "model.safetensors", header: true },
  { kind: "models", model: "llama-untied", file: "model.safetensors.index.json" },
  { kind: "broken", model: "sound-mlc", file: "mlc-chat-config.json" },
  { kind: "broken", model: "sound-mlc", file: "tensor-cache.json" },
] as const

test.each(headers.map((entry) => [`${entry.model}/${entry.file}`, entry] as const))(
  "%s",
  async (name, entry) => {
    const copy = join(folder, name.replace("/", "-"))
    cpSync(goldenFolder(entry.kind, entry.model), copy, { recursive: true })
    const sound = readFileSync(join(copy, entry.file))
    const length = "header" in entry ? 8 + Number(sound.readBigUInt64LE(0)) : sound.length
    const random = randomFrom(name)
    let opened = 0
    for (let i = 0; i < TIMES; i++) {
      writeFileSync(join(copy, entry.file), mutate(sound, length, random))
      const [started, memory] = [processorTime(), allocated()]
      try {
        await (await openModel(copy)).close()
        opened += 1
      } catch (error) {
        if (!(error instanceof Problem)) throw error
        expect(error.message).not.toMatch(/\n/)
        expect(error.message.startsWith(copy)).toBe(true)
      }
      expect(processorTime() - started).toBeLessThan(1000)
      expect(allocated() - memory).toBeLessThan(20e6)
    }
    expect(opened).toBeLessThan(TIMES)
  },
)

/** Of adapters, what they say and what their weights are said to be. */
test.each([
  ["phi3", "models/phi3", "adapter_config.json"],
  ["phi3", "models/phi3", "adapter_model.safetensors"],
  ["mlx-dora", "models/llama-untied", "adapter_config.json"],
  ["on-q4_0", "gguf/llama-q4_0/llama-q4_0.gguf", "adapter.gguf"],
])("adapters/%s of %s: %s", async (name, base, file) => {
  const copy = join(folder, `${name}-${file}`)
  cpSync(goldenFolder("adapters", name), copy, { recursive: true })
  const path = join(copy, file)
  const sound = readFileSync(path)
  const length = file.endsWith(".safetensors") ? 8 + Number(sound.readBigUInt64LE(0)) : sound.length
  const random = randomFrom(name + file)
  let opened = 0
  for (let i = 0; i < ADAPTER_TIMES; i++) {
    writeFileSync(path, mutate(sound, Math.min(length, 4096), random))
    const [started, memory] = [processorTime(), allocated()]
    try {
      const adapters = [file.endsWith(".gguf") ? path : copy]
      await (await openModel(goldenFolder(".", base), { adapters })).close()
      opened += 1
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      expect(error.message).not.toMatch(/\n/)
    }
    expect(processorTime() - started).toBeLessThan(1000)
    expect(allocated() - memory).toBeLessThan(20e6)
  }
  expect(opened).toBeLessThan(ADAPTER_TIMES)
})

/** Two kinds of tokenizers; the first lies in one file of three. */
test.each(["qwen2-bf16/qwen2-bf16-00001-of-00003.gguf", "mistral-q3_k_m/mistral-q3_k_m.gguf"])(
  "%s",
  async (name) => {
    const from = goldenFolder("gguf", name.split("/")[0]!)
    const copy = join(folder, basename(from))
    cpSync(from, copy, { recursive: true })
    const path = join(copy, basename(name))
    const sound = readFileSync(path)
    const fields = fieldsOf(sound)
    const header = fields.at(-1)!.at + 8
    const random = randomFrom(name)
    const refusals = new Set<string>()
    let opened = 0
    for (let i = 0; i < GGUF_TIMES; i++) {
      const mutated = mutateFields(sound, fields, random)
      const { length } = mutated
      writeFileSync(path, mutated.subarray(0, header)) // what lies behind is not read here, and writing it would take longest
      truncateSync(path, length)
      const [started, memory] = [processorTime(), allocated()]
      try {
        const model = await openModel(path)
        await model.close()
        opened += 1
      } catch (error) {
        if (!(error instanceof Problem)) throw error
        expect(error.message).not.toMatch(/\n/)
        expect(error.message.startsWith(copy)).toBe(true)
        refusals.add(error.message.slice(copy.length).replace(/\d+/g, "n"))
      }
      expect(processorTime() - started).toBeLessThan(1000)
      expect(allocated() - memory).toBeLessThan(20e6)
    }
    expect(opened).toBeLessThan(GGUF_TIMES / 2)
    expect(refusals.size).toBeGreaterThan(50) // different ones: the header was gone into
  },
)

test("a token that has more cuts than can be looked at is refused", () => {
  const pairs = new Map<string, Value>([
    ["tokenizer.ggml.model", "llama"],
    ["tokenizer.ggml.tokens", textList(["x".repeat(1 << 20)])],
    ["tokenizer.ggml.scores", [0]],
  ])
  const keys = new Keys(pairs, (what) => new Folder(folder).broken("model.gguf", what))
  expect(() => readTokenizer(keys, 1)).toThrow("tokens holds one of 1048576 characters")
})

interface Field {
  at: number
  bytes: number
}

/** Every number of a GGUF header: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md */
function fieldsOf(file: Buffer): Field[] {
  const widths = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8]
  const fields: Field[] = []
  let at = 4 // behind the magic
  const number = (bytes: number) => {
    fields.push({ at, bytes })
    at += bytes
    return bytes === 8 ? Number(file.readBigUInt64LE(at - 8)) : file.readUIntLE(at - bytes, bytes)
  }
  const text = () => {
    const length = number(8)
    at += length
  }
  const value = (kind: number) => (kind === 8 ? text() : void number(widths[kind]!))
  number(4)
  const tensors = number(8)
  const pairs = number(8)
  for (let i = 0; i < pairs; i++) {
    text()
    const kind = number(4)
    if (kind !== 9) {
      value(kind)
      continue
    }
    const inner = number(4)
    for (let left = number(8); left > 0; left--) value(inner)
  }
  for (let i = 0; i < tensors; i++) {
    text()
    for (let dims = number(4); dims > 0; dims--) number(8)
    number(4)
    number(8)
  }
  return fields
}

const LIMITS = [0, 1, 2 ** 31 - 1, 2 ** 32 - 1, 2 ** 53 - 1].map(BigInt)
const EXTREMES = [...LIMITS, 2n ** 53n + 1n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n]

/** One to three numbers become others, or the file is cut, or bits of its header flip. */
function mutateFields(sound: Buffer, fields: Field[], random: (below: number) => number): Buffer {
  const bytes = Buffer.from(sound)
  const any = () => fields[random(fields.length)]!
  // Half of all numbers are a vocabulary's: those at both ends, where the counts are, have their turn as often.
  const some = () => fields[[random(60), fields.length - 1 - random(60)][random(2)]!]!
  const kind = random(8)
  if (kind === 0) return bytes.subarray(0, random(bytes.length))
  if (kind === 1) {
    for (let flips = 1 + random(4); flips > 0; flips--) bytes[random(any().at)]! ^= 1 << random(8)
    return bytes
  }
  for (let times = 1 + random(3); times > 0; times--) {
    const field = random(2) === 0 ? any() : some()
    bytes.set(changed(sound, field, any(), random), field.at)
  }
  return bytes
}

function changed(
  sound: Buffer,
  { at, bytes }: Field,
  other: Field,
  random: (below: number) => number,
): Buffer {
  const word = Buffer.alloc(8)
  sound.copy(word, 0, at, at + bytes)
  const near = BigInt.asUintN(64, word.readBigUInt64LE() + BigInt(random(65) - 32))
  const kinds = [EXTREMES[random(EXTREMES.length)]!, near, BigInt(random(300))]
  const pick = random(kinds.length + 1)
  if (pick < kinds.length) word.writeBigUInt64LE(kinds[pick]!)
  else sound.copy(word, 0, other.at, other.at + other.bytes)
  return word.subarray(0, bytes)
}

function mutate(sound: Buffer, header: number, random: (below: number) => number): Buffer {
  const bytes = Buffer.from(sound)
  const kind = random(5)
  if (kind === 0) return bytes.subarray(0, random(bytes.length))
  if (kind === 1) {
    // A digit becomes many: lengths, counts and offsets beyond everything.
    const at = random(header)
    const huge = ["99999999999", "4294967296", "9007199254740993", "-1", "1e308", "0.5"][random(6)]!
    return Buffer.concat([bytes.subarray(0, at), Buffer.from(huge), bytes.subarray(at + 1)])
  }
  if (kind === 2) {
    bytes.fill(random(256), random(Math.min(header, 8)), 8)
    return bytes
  }
  for (let flips = 1 + random(4); flips > 0; flips--) bytes[random(header)]! ^= 1 << random(8)
  return bytes
}

function randomFrom(seed: string): (below: number) => number {
  let state =
    Array.from(seed).reduce(
      (hash, c) => Math.imul(hash ^ c.charCodeAt(0), 0x01000193),
      0x811c9dc5,
    ) | 1
  return (below) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % below
  }
}
