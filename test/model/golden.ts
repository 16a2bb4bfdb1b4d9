// The golden models (test/golden/models, test/golden/mlc) and what independent programs computed from them.

import { readFileSync } from "node:fs"
import { join, resolve } from "node:path"

const root = resolve(import.meta.dirname, "../golden")

export const goldenFolder = (kind: "models" | "mlc" | "broken", name: string) =>
  join(root, kind, name)

export interface GoldenPrompt {
  tokens: Int32Array
  firstRow: number // the position that the first row of logits belongs to
  logits: Float32Array // [rows, vocabulary]
  greedy: Int32Array // what greedy decoding appends
}

export function readGolden(folder: string): GoldenPrompt[] {
  const notes = JSON.parse(readFileSync(join(folder, "golden.json"), "utf8"))
  const tensors = readTensors(join(folder, "golden.safetensors"))
  return notes.prompts.map(({ first_row }: { first_row: number }, i: number) => ({
    tokens: new Int32Array(tensors(`prompt.${i}`)),
    firstRow: first_row,
    logits: new Float32Array(tensors(`logits.${i}`)),
    greedy: new Int32Array(tensors(`greedy.${i}`)),
  }))
}

function readTensors(path: string): (name: string) => ArrayBuffer {
  const bytes = readFileSync(path)
  const data = 8 + Number(bytes.readBigUInt64LE(0))
  const header = JSON.parse(bytes.toString("utf8", 8, data))
  return (name) => {
    const [begin, end] = header[name].data_offsets
    return Uint8Array.prototype.slice.call(bytes, data + begin, data + end).buffer
  }
}
