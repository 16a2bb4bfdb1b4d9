// What it takes to tell where in a recording a token is said: of each head that looks there (`ModelConfig.aligned`), whose queries the
// decoder hands out, the matrix that makes its keys of a recording's rows. A key's bias would change nothing of where a query looks.

import { factorNames } from "../adapters/adapted.ts"
import type { CrossHead } from "../block.ts"
import type { Model } from "../model.ts"
import { readFloats, type Weights } from "../weights/weights.ts"

/** Heads are alike in their sizes, as all layers of a Whisper are. */
export interface AlignmentHeads {
  count: number
  headDim: number
  /** Of the product of query and key. */
  scale: number
  /** [count * headDim, width] */
  keys: Float32Array
}

export async function readAlignmentHeads(
  { config, weights }: Pick<Model, "config" | "weights">,
  aligned: readonly CrossHead[],
): Promise<AlignmentHeads> {
  const { blocks, shapes } = config
  const { heads, headDim, scale } = blocks[0]!.cross!
  const size = headDim * shapes.hidden
  const keys = new Float32Array(aligned.length * size)
  const shape = { rows: heads * headDim, headDim, hidden: shapes.hidden }
  for (const [i, head] of aligned.entries()) keys.set(await keysOf(weights, head, shape), i * size)
  return { count: aligned.length, headDim, scale, keys }
}

/** [headDim, hidden], with what adapters add. */
async function keysOf(
  weights: Weights,
  { layer, head }: CrossHead,
  { rows, headDim, hidden }: { rows: number; headDim: number; hidden: number },
): Promise<Float32Array> {
  const name = `model.layers.${layer}.cross_attn.k_proj.weight`
  const own = { from: head * headDim, count: headDim }
  const keys = (await readFloats(weights, name, rows, hidden, own)).slice()
  const rank = weights.takeApart?.(name, rows, hidden)
  if (rank === undefined) return keys
  const names = factorNames(name)
  const left = await readFloats(weights, names.left, rows, rank, own)
  const right = await readFloats(weights, names.right, rank, hidden)
  for (let row = 0; row < headDim; row++)
    for (let n = 0; n < rank; n++)
      for (let column = 0; column < hidden; column++)
        keys[row * hidden + column]! += left[row * rank + n]! * right[n * hidden + column]!
  return keys
}
