// What a model in shards is asked: the same steps of whoever computes it, so that all they hand out can be compared.

import type { Program } from "../../src/runtime/program.ts"
import { batch, blocksFor, take } from "./steps.ts"

/** What `results` needs room for. */
export const sizes = { blocks: 12, tokens: 70, sequences: 3, rows: 4 }

export const tokensOf = (length: number, salt: number) =>
  Int32Array.from({ length }, (_, i) => (i * 7 + salt * 13 + ((i * i) % 5)) % 70)

/**
 * Prompts side by side and in chunks, then a token of each, behind a copy of a block where no state lies in its place; every logit
 * and every hidden row.
 */
export async function results(program: Program): Promise<unknown> {
  const [a, b] = [tokensOf(40, 1), tokensOf(21, 2)]
  const [own, other] = [blocksFor(48), blocksFor(40, 4)]
  const made: unknown[] = []
  const step = async (parts: Parameters<typeof batch>[0]) => {
    const { logits, hidden, tokens } = await take(program, batch(parts))
    made.push({ logits, hidden, tokens })
  }
  await step([
    { tokens: a, from: 0, blocks: own, logits: [3, 39], hidden: [1, 39] },
    { tokens: b, from: 0, blocks: other },
  ])
  const { groups } = program.manifest.kv
  if (groups.every(({ state }) => state === undefined)) {
    for (const group of groups.keys())
      await program.copyBlocks(group, Int32Array.of(own[2]!), Int32Array.of(11))
    own[2] = 11
  }
  await step([
    { tokens: [5], from: 40, blocks: own, hidden: [0] },
    { tokens: [9], from: 21, blocks: other },
  ])
  return made
}
