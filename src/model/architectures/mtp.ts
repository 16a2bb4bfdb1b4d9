// Multi-token prediction: a layer of a model's own that guesses ahead, trained and published with it. It reads, beside a token, the
// model's last hidden row of the token before it, normed as the model's head reads it; both under a norm of their own, joined by a
// matrix, go through one layer like the model's others. Behind its own guess it reads the row that it has left, normed as well.
//
// "DeepSeek-V3" (arXiv 2412.19437), 2.2. Which rows are read normed that leaves open; it is as llama.cpp and SGLang have it. vLLM hands
// on a row of DeepSeek's and GLM's layer that is not normed yet, which changes guesses behind the first.

import { concat, embed, finish, hiddenIn, linear, weight } from "../../compiler/graph/builder.ts"
import type { Graph } from "../../compiler/graph/graph.ts"
import type { Block } from "../block.ts"
import { type ModelConfig, widestWindow } from "../config.ts"
import { decoderLayer, shapeOf } from "../layers.ts"
import { named, normed, scaled } from "../tensors.ts"

/** Where a model keeps such a layer, in the names that its graph asks for. */
export interface AheadNames {
  /** What stands before `layers` in the names of the layer's tensors, and which one it is. */
  prefix: string
  index: number
  /** Norms of the token and of the row, the matrix that joins them, the norm behind the layer. */
  token: string
  row: string
  join: string
  norm: string
  /** The tables of tokens that it reads and reads its logits off, with .weight: its own or the model's. */
  embedding: string
  head: string
}

/** @param blocks what it is made of: one, or an attention and an MLP that are numbered each by itself */
export function mtp(config: ModelConfig, blocks: readonly Block[], names: AheadNames): Graph {
  const { embedding, sinks } = config
  const { taken: _, ...shapes } = config.shapes // by the model, where it sees
  const { vocabulary, hidden } = shapes
  const { prefix, index } = names
  const [norm, top] = [config.norm!, named("", "")]
  const table = weight("embed", names.embedding, vocabulary, hidden)
  const token = normed(scaled(embed(table), embedding.factor), norm, top, "token_norm", names.token)
  const row = normed(hiddenIn(hidden), norm, top, "row_norm", names.row)
  const join = weight("join", `${names.join}.weight`, hidden, 2 * hidden)
  let x = linear(concat(token, row), join) // [tokens, hidden]
  const place = { layers: index + blocks.length, prefix, hidden, sinks }
  for (const [i, block] of blocks.entries())
    x = decoderLayer(block, x, { ...place, index: index + i })
  const last = normed(x, norm, top, "norm", names.norm)
  const head =
    names.head === names.embedding ? table : weight("head", names.head, vocabulary, hidden)
  return finish(
    {
      architecture: "mtp",
      shapes: { ...shapes, layers: 1 },
      window: widestWindow({ blocks }),
      sinks,
    },
    last,
    head,
    { shape: shapeOf(config) },
  )
}
