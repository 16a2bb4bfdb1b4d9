// What BERT and those made like it have in common: LayerNorms of the embedding and of what each layer reads and gives, taken together,
// and none behind the last; every token sees those behind it, too.

import { type Block, NORMS, withBlocks } from "../block.ts"
import { type ModelConfig, seeingBothWays } from "../config.ts"

/** The decoder as such an encoder, with its layers changed. */
export function asEncoder(
  config: ModelConfig,
  change: (block: Block, layer: number) => Block = (block) => block,
): ModelConfig {
  const blocks = withBlocks(config, (block, layer) => ({
    ...change(block, layer),
    norms: NORMS.sums,
  }))
  const embedding = { ...config.embedding, norm: config.norm! }
  return seeingBothWays({ ...blocks, embedding, norm: undefined })
}
