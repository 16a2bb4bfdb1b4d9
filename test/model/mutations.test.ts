// Two thousand mutations of each header, drawn from a seed: flipped bits, cut ends, numbers made huge. A mutated folder opens
// or is refused in a sentence; it never crashes, hangs, or takes memory for what a header merely claims.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { Problem } from "../../src/errors.ts"
import { openModel } from "../../src/model/model.ts"
import { processorTime } from "../processor-time.ts"
import { goldenFolder } from "./golden.ts"

const TIMES = 2000

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
    const memory = process.memoryUsage().rss
    let opened = 0
    for (let i = 0; i < TIMES; i++) {
      writeFileSync(join(copy, entry.file), mutate(sound, length, random))
      const started = processorTime()
      try {
        await (await openModel(copy)).close()
        opened += 1
      } catch (error) {
        if (!(error instanceof Problem)) throw error
        expect(error.message).not.toMatch(/\n/)
        expect(error.message.startsWith(copy)).toBe(true)
      }
      expect(processorTime() - started).toBeLessThan(1000)
    }
    expect(opened).toBeLessThan(TIMES)
    expect(process.memoryUsage().rss - memory).toBeLessThan(150e6) // of all two thousand, before collection
  },
)

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
