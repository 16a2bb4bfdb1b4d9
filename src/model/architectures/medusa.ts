// Medusa: heads on the last hidden row. Head i guesses the token i + 2 places further on (the model's own head has the next
// one): some residual layers x + silu(Wx + b), then a matrix to the vocabulary. Nothing is remembered. All heads are one
// graph with other weights, so one library serves them all. Source: model/medusa_model.py of FasterDecoding/Medusa.

import { add, apply, finish, hiddenIn, linear, weight } from "../../compiler/graph/builder.ts"
import type { Graph, Node } from "../../compiler/graph/graph.ts"
import type { Shapes } from "../../runtime/manifest.ts"
import type { Fields } from "../fields.ts"

export interface MedusaConfig {
  shapes: Shapes
  heads: number
  layers: number // of each head
}

/** @param base the model's shapes, which published configurations do not repeat */
export function readMedusa(fields: Fields, base: Shapes): MedusaConfig {
  return {
    shapes: {
      vocabulary: fields.count("vocab_size", base.vocabulary),
      hidden: fields.count("hidden_size", base.hidden),
      layers: 0, // that remember anything
      heads: 1,
      kvHeads: 1,
      headDim: 2,
      intermediate: 1,
      context: base.context,
    },
    heads: fields.count("medusa_num_heads", undefined, 1, 15),
    layers: fields.count("medusa_num_layers", 1, 0, 64),
  }
}

/** One head; its tensors are named as in their files, without the number of the head. */
export function medusa({ shapes, layers }: MedusaConfig): Graph {
  const { vocabulary, hidden } = shapes
  let x: Node = hiddenIn(hidden)
  for (let i = 0; i < layers; i++) {
    const matrix = weight(`${i}.linear`, `${i}.linear.weight`, hidden, hidden)
    const bias = weight(`${i}.bias`, `${i}.linear.bias`, hidden)
    x = add(x, apply("silu", linear(x, matrix, bias)))
  }
  const head = weight("head", `${layers}.weight`, vocabulary, hidden)
  return finish({ architecture: "medusa", shapes, window: undefined, sinks: 0 }, x, head)
}
