// Copies of KV blocks: whatever they hold, all of a layer's block is one piece (kv.ts). Pairs that are handed over together
// are independent of each other: see runtime/gpu/block-pairs.ts.

import type { Place, Plan } from "../../../plan.ts"
import { kernel } from "../ir/builder.ts"
import type { Kernel } from "../ir/ir.ts"
import { blockBytesOf } from "./kv.ts"

/** The blocks of one layer: a kernel for each, since layers lie anywhere. */
export interface Copy {
  kernel: Kernel
  /** u32 [count, 2], from and to; the layer's blocks; words of a block. */
  operands: readonly [{ given: "pairs" }, CopiedBlocks, number]
  groups: readonly [{ number: "count"; per: 1 }, number, 1]
}

interface CopiedBlocks {
  kind: "kv"
  place: Place
}

const THREADS = 64
/** Words that a thread copies, four at a time. */
const PER_THREAD = 16

/** How blocks of a group are copied, layer by layer. */
export function copiesOf({ kv, groups }: Pick<Plan, "kv" | "groups">, group: number): Copy[] {
  const { layers } = groups[group]!
  const words = blockBytesOf(kv, groups[group]!) / 4
  return layers.map((_, layer) => ({
    kernel: copyBlocks,
    operands: [{ given: "pairs" }, { kind: "kv", place: { group, layer } }, words],
    groups: [{ number: "count", per: 1 }, Math.ceil(words / (THREADS * PER_THREAD)), 1],
  }))
}

const copyBlocks = kernel("copy_blocks", THREADS, (k) => {
  const pairs = k.buffer("pairs", "u32", "read")
  const blocks = k.buffer("blocks", "u32", "readwrite")
  const words = k.word("words")
  const from = pairs.load(k.group(0).mul(2))
  const to = pairs.load(k.group(0).mul(2).add(1))
  const quads = k.let(words.shr(2))
  const first = k.let(k.group(1).mul((THREADS * PER_THREAD) / 4))
  const end = k.let(first.add((THREADS * PER_THREAD) / 4).min(quads))
  k.for(first.add(k.lane), end, THREADS, (quad) => {
    const four = blocks.loadFour(from.mul(quads).add(quad))
    const target = k.let(to.mul(words).add(quad.mul(4)))
    for (const [i, word] of four.entries()) blocks.store(target.add(i), word)
  })
})
