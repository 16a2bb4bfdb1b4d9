// EAGLE 1 and 2: a head of one or a few llama layers that reads, beside a token, the last hidden row of the token before it,
// and guesses the hidden row of its own. Its logits are read off by the head of the model it belongs to. The first layer has
// no norm before its attention, and there is none at the end. Source: model/cnets1.py of SafeAILab/EAGLE.

import { concat, embed, finish, hiddenIn, linear, weight } from "../../compiler/graph/builder.ts"
import type { Graph, Node } from "../../compiler/graph/graph.ts"
import { withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { decoderLayer, HEAD } from "../layers.ts"
import { withBiases } from "./llama.ts"

export interface EagleConfig extends ModelConfig {
  /** Whether the layer that joins token and hidden row has a bias. */
  joinBias: boolean
}

export function readEagle(fields: Fields): EagleConfig {
  const config = withBlocks(withBiases(fields, readDecoder(fields)), (block, i) =>
    i > 0 ? block : { ...block, norms: { ...block.norms, beforeAttention: false } },
  )
  return { ...config, joinBias: fields.flag("bias", true) }
}

export function eagle(config: EagleConfig): Graph {
  const { shapes, joinBias, sinks } = config
  const { vocabulary, hidden } = shapes
  const table = weight("embed", "embed_tokens.weight", vocabulary, hidden)

  let x: Node = linear(
    concat(embed(table), hiddenIn(hidden)), // [tokens, 2 * hidden]
    weight("fc", "fc.weight", hidden, 2 * hidden),
    joinBias ? weight("fc_bias", "fc.bias", hidden) : undefined,
  )
  config.blocks.forEach((block, index) => {
    x = decoderLayer(block, x, { index, layers: shapes.layers, prefix: "", hidden, sinks })
  })
  const head = weight("head", HEAD, vocabulary, hidden) // not in its own files
  return finish({ architecture: "eagle", shapes, window: undefined, sinks }, x, head)
}
