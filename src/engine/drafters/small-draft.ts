// A small model of the same vocabulary proposes. It has keys and values of its own for every block (mirror.ts), reads
// prompts along, and catches up where it was not asked for a while.

import type { Program } from "../../runtime/program.ts"
import type { Memory } from "../memory.ts"
import type { Drafter } from "../speculative.ts"
import { Chain } from "./chain.ts"
import { Mirror } from "./mirror.ts"

/** The program belongs to the drafter from here on; each of its KV groups has the blocks of the first group of the one that it drafts for. */
export function createSmallDraft(program: Program, { blocks }: Memory): Drafter {
  const mirror = new Mirror(blocks)
  const chain = new Chain(program, {
    reached: (sequence) => mirror.reached(sequence),
    read: (sequence, from, end) => mirror.reach(sequence, from, end),
  })
  return {
    hidden: "none",
    longest: Number.POSITIVE_INFINITY,
    propose: (step, cancel) => chain.propose(step, cancel),
    /** Those it has read already, on its way from one to the next; the last one it has only drawn. */
    verified(sequence, right) {
      const from = mirror.reached(sequence)
      const read = Math.min(right, sequence.drafts.length - 1)
      mirror.reach(sequence, from, from + read)
    },
    copyBlocks: (from, to) => mirror.copy(program, from, to),
    close: () => program.close(),
  }
}
