// Whether a model's head is its embedding table. Configurations say so wrongly: transformers 5 writes the default of the text
// model inside of one that sees, and tuned heads lie in folders whose configuration is that of the model before. Where both
// matrices are stored and differ, the head that is there is meant, as in tie_weights of transformers' modeling_utils.py.

import type { ModelConfig } from "./config.ts"
import { EMBEDDING, HEAD } from "./layers.ts"
import type { Tensor, Weights } from "./weights/weights.ts"

const WINDOW = 8 << 20 // values that are compared at once

/** The configuration, with a head of its own where the files hold one. */
export async function withOwnHead(config: ModelConfig, weights: Weights): Promise<ModelConfig> {
  const { vocabulary, hidden } = config.shapes
  if (!config.head.tied || !weights.holds?.(HEAD)) return config
  const head = weights.tensor(HEAD, vocabulary, hidden)
  const table = weights.tensor(EMBEDDING, vocabulary, hidden)
  if (await areEqual(head, table, vocabulary, Math.ceil(WINDOW / hidden))) return config
  return { ...config, head: { ...config.head, tied: false } }
}

async function areEqual(one: Tensor, other: Tensor, rows: number, step: number): Promise<boolean> {
  if (one.codec !== other.codec) return false
  for (let first = 0; first < rows; first += step) {
    const count = Math.min(step, rows - first)
    const [a, b] = await Promise.all([one.read(first, count), other.read(first, count)])
    if (Buffer.compare(a.values, b.values) !== 0) return false
  }
  return true
}
