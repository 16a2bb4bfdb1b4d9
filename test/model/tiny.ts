// The golden words of the embedded model, which PyTorch computed from the weights that lie in models/tiny (tiny/export.py).

import { readFileSync } from "node:fs"
import { resolve } from "node:path"

export interface TinyCase {
  messages: {
    role: string
    content: string
    tool_calls?: { type: string; function: { name: string; arguments: object } }[]
  }[]
  tools: object[]
  prompt: string
  prompt_ids: number[]
  greedy_ids: number[]
  text: string
  /** By how much, at its closest, the token taken led the next one (logits). */
  lead: number
  logits: number[][] // of the first replied tokens, only `logits_columns`
}

const file = resolve(import.meta.dirname, "../golden/tiny.json")

export const { cases, logits_columns: columns }: { cases: TinyCase[]; logits_columns: number[] } =
  JSON.parse(readFileSync(file, "utf8"))

export const tinyFolder = resolve(import.meta.dirname, "../../models/tiny")
