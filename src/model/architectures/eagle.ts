// EAGLE 1 and 2: a head of one or a few llama layers that reads, beside a token, the last hidden row of the token before it,
// and guesses the hidden row of its own. Its logits are read off by the head of the model it belongs to. The first layer has
// no norm before its attention, and there is none at the end. Source: model/cnets1.py of SafeAILab/EAGLE.

import { concat, embed, finish, hiddenIn, linear, weight } from "../../compiler/graph/builder.ts"
import type { Graph, Node } from "../../compiler/graph/graph.ts"
import { withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Json } from "../folder.ts"
import { decoderLayer, HEAD } from "../layers.ts"
import { withBiases } from "./llama.ts"

export interface EagleConfig extends ModelConfig {
  /** Whether the layer that joins token and hidden row has a bias. */
  joinBias: boolean
}

/** Fields that change what is computed when they say something else. */
const NEUTRAL: Json = {
  is_causal: true,
  logit_scale: 1,
  parallel_drafting: false,
  qkv_bias: false,
  use_moe: false,
}

/** @param heads whose fields these are */
export function refuseUnknown(fields: Fields, heads: string, neutral = NEUTRAL): void {
  for (const [name, usual] of Object.entries(neutral))
    if (fields.has(name) && fields.json[name] !== usual)
      throw fields.wrong(
        name,
        `is ${JSON.stringify(fields.json[name])}; of ${heads}, ${JSON.stringify(usual)} is known`,
      )
}

/** What heads of other kinds say of themselves, whose layers look alike. */
const OTHERS = ["dflash_config", "eagle_config", "speculators_model_type"]

export function readEagle(fields: Fields): EagleConfig {
  refuseUnknown(fields, "EAGLE heads")
  const other = OTHERS.find((name) => fields.has(name))
  if (other) throw fields.wrong(other, "is not known of EAGLE heads whose rows are the last ones")
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
