// Medusa: heads on the last hidden row. Head i guesses the token i + 2 places further on (the model's own head has the next
// one): some residual layers x + silu(Wx + b), then a matrix to the vocabulary. No attention, nothing remembered.
// Source: model/medusa_model.py of FasterDecoding/Medusa; MLC folders put "medusa_head." before the names.

import {
  add,
  concat,
  hiddenIn,
  linear,
  select,
  silu,
  weight,
} from "../../compiler/graph/builder.ts"
import { type Graph, inOrder, type Node } from "../../compiler/graph/graph.ts"
import type { Shapes } from "../../runtime/manifest.ts"
import type { Fields } from "../fields.ts"

export interface MedusaConfig {
  shapes: Shapes
  heads: number
  layers: number // of each head
  /** What stands before the names of tensors. */
  prefix: string
}

/** @param base the model's shapes, which published configurations do not repeat */
export function readMedusa(fields: Fields, base: Shapes, prefix: string): MedusaConfig {
  return {
    shapes: {
      vocabulary: fields.count("vocab_size", base.vocabulary),
      hidden: fields.count("hidden_size", base.hidden),
      layers: 0, // that remember anything
      heads: 1,
      kvHeads: 1,
      headDim: 2,
      intermediate: 1,
      context: 1,
    },
    heads: fields.count("medusa_num_heads", undefined, 1, 15),
    layers: fields.count("medusa_num_layers", 1, 0, 64),
    prefix,
  }
}

/** The logits of all heads stand side by side: [logits, heads * vocabulary]. */
export function medusa({ shapes, heads, layers, prefix }: MedusaConfig): Graph {
  const { vocabulary, hidden } = shapes
  const row = hiddenIn(hidden)
  const wanted = select(row, "logits")
  let logits: Node | undefined
  for (let i = 0; i < heads; i++) {
    const named = (name: string, tensor: string, rows: number, columns?: number) =>
      weight(`heads.${i}.${name}`, `${prefix}${i}.${tensor}`, rows, columns)
    let x: Node = wanted
    for (let j = 0; j < layers; j++) {
      const matrix = named(`${j}`, `${j}.linear.weight`, hidden, hidden)
      const bias = named(`${j}_bias`, `${j}.linear.bias`, hidden)
      x = add(x, silu(linear(x, matrix, bias)))
    }
    const own = linear(x, named("head", `${layers}.weight`, vocabulary, hidden))
    logits = logits ? concat(logits, own) : own
  }
  const last = select(row, "hidden")
  const nodes = inOrder([logits!, last])
  return {
    architecture: "medusa",
    shapes,
    window: undefined,
    sinks: 0,
    nodes,
    logits: logits!,
    hidden: last,
  }
}
