// The architectures that are known, under the names that configurations give them (`model_type`): how each reads its
// configuration, what graph it is, and what its joined projections are called in MLC folders.

import type { Graph } from "../compiler/graph/graph.ts"
import { llama, readLlama } from "./architectures/llama.ts"
import { mistral, readMistral } from "./architectures/mistral.ts"
import { qwen2, readQwen2 } from "./architectures/qwen2.ts"
import { qwen3, readQwen3 } from "./architectures/qwen3.ts"
import type { ModelConfig } from "./config.ts"
import type { Fields } from "./fields.ts"

export interface Architecture {
  read: (fields: Fields) => ModelConfig
  graph: (config: ModelConfig) => Graph
  /** q, k and v in one, in MLC's spelling. */
  mlcAttention: "qkv_proj" | "c_attn"
}

export const architectures = {
  llama: { read: readLlama, graph: llama, mlcAttention: "qkv_proj" },
  mistral: { read: readMistral, graph: mistral, mlcAttention: "qkv_proj" },
  qwen2: { read: readQwen2, graph: qwen2, mlcAttention: "c_attn" },
  qwen3: { read: readQwen3, graph: qwen3, mlcAttention: "c_attn" },
} as const satisfies Record<string, Architecture>

export type ArchitectureName = keyof typeof architectures

export function architectureOf(fields: Fields): ArchitectureName {
  const name = fields.text("model_type")
  if (Object.hasOwn(architectures, name)) return name as ArchitectureName
  const known = Object.keys(architectures).join(", ")
  throw fields.wrong("model_type", `is "${name}"; known: ${known}`)
}
