// The keys and values of a model that drafts lie in blocks of their own under the numbers of the program's blocks: what a
// sequence holds, shares, copies and gives back, it holds, shares, copies and gives back twice. What is kept here is how
// much of each block the drafting model has computed, since it may lag behind; a block that somebody else got meanwhile
// holds nothing.

import { BLOCK, type Program } from "../../runtime/program.ts"
import type { Blocks } from "../blocks.ts"
import type { Sequence } from "../sequence.ts"

export class Mirror {
  readonly #blocks: Blocks
  readonly #filled: Uint8Array // [blocks] positions, from the block's first
  readonly #editions: Uint32Array // [blocks] to whom the block belonged then

  constructor(blocks: Blocks) {
    this.#blocks = blocks
    this.#filled = new Uint8Array(blocks.total)
    this.#editions = new Uint32Array(blocks.total)
  }

  /** The first position from `begin` on that is not computed; those that slid out of the window do not count. */
  reached(sequence: Sequence, begin = 0): number {
    const { blocks, gone, spare } = sequence.widest
    for (let at = Math.max(gone, Math.floor(begin / BLOCK)); ; at++) {
      const filled = this.#filledOf(blocks[at] ?? spare)
      if (filled < BLOCK) return at * BLOCK + filled
    }
  }

  /** Positions from `reached` to `end` are computed now, and none after them. */
  reach(sequence: Sequence, from: number, end: number): void {
    const { blocks, spare } = sequence.widest
    for (let at = Math.floor(from / BLOCK); at * BLOCK < end; at++) {
      const block = blocks[at] ?? spare!
      this.#filled[block] = Math.min(BLOCK, end - at * BLOCK)
      this.#editions[block] = this.#blocks.edition(block)
    }
  }

  /** Blocks of the model that drafts, of all its groups, with what is known of them. */
  async copy(program: Program, from: Int32Array, to: Int32Array): Promise<void> {
    for (const group of program.limits.blocks.keys()) await program.copyBlocks(group, from, to)
    for (const [i, block] of to.entries()) {
      this.#filled[block] = this.#filledOf(from[i]!)
      this.#editions[block] = this.#blocks.edition(block)
    }
  }

  #filledOf(block: number | undefined): number {
    if (block === undefined || this.#editions[block] !== this.#blocks.edition(block)) return 0
    return this.#filled[block]!
  }
}
