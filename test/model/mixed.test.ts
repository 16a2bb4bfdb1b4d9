// A folder whose matrices are of several types is read as the type that holds all of them exactly; vectors are kept exactly
// whatever the matrices are in.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { openModel } from "../../src/model/model.ts"
import { goldenFolder } from "./golden.ts"

const scratch = mkdtempSync(join(tmpdir(), "sinter-mixed-"))
afterAll(() => rmSync(scratch, { recursive: true }))

async function formatOf(folder: string): Promise<string> {
  const model = await openModel(folder)
  await model.close()
  return model.format
}

test("one matrix in f32 among bf16 makes it a model of f32, one norm does not", async () => {
  const original = goldenFolder("models", "llama-tied")
  expect(await formatOf(original)).toBe("q0bf16")
  cpSync(original, scratch, { recursive: true })
  const path = join(scratch, "model.safetensors")
  widen(path, "model.norm.weight")
  expect(await formatOf(scratch)).toBe("q0bf16")
  widen(path, "model.layers.0.mlp.down_proj.weight")
  expect(await formatOf(scratch)).toBe("q0f32")
})

/** Writes the file again with one bf16 tensor as f32. */
function widen(path: string, name: string): void {
  const bytes = readFileSync(path)
  const data = 8 + Number(bytes.readBigUInt64LE(0))
  const header = JSON.parse(bytes.toString("utf8", 8, data))
  const parts: Buffer[] = []
  let at = 0
  for (const [tensor, entry] of Object.entries<{ dtype: string; data_offsets: number[] }>(header)) {
    if (tensor === "__metadata__") continue
    const [begin, end] = entry.data_offsets
    let part = bytes.subarray(data + begin!, data + end!)
    if (tensor === name) {
      const wide = Buffer.alloc(2 * part.length)
      for (let i = 0; i < part.length; i += 2) part.copy(wide, 2 * i + 2, i, i + 2)
      part = wide
      entry.dtype = "F32"
    }
    entry.data_offsets = [at, at + part.length]
    at += part.length
    parts.push(part)
  }
  const json = Buffer.from(JSON.stringify(header).padEnd(data + 64))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(json.length))
  writeFileSync(path, Buffer.concat([length, json, ...parts]))
}
