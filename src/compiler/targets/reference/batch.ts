// A step's input with what follows from it: which tokens each set of rows stands for, and where positions lie in the cache.

import { BLOCK, blockIndex, type StepInput } from "../../../runtime/program.ts"
import type { RowSet } from "../../graph/graph.ts"
import type { Seen } from "./kernels.ts"

export class Batch {
  readonly input: StepInput
  readonly #tokens: Record<RowSet, Int32Array> // of each row, its token
  readonly #wantedRow: Map<number, number> // of a token, its row among the wanted
  readonly #sequence: Int32Array // of each token
  readonly #sinks: number

  constructor(input: StepInput, sinks: number) {
    const total = input.tokens.length
    this.input = input
    this.#sinks = sinks
    const wanted = Int32Array.from(new Set([...input.logitRows, ...input.hiddenRows])).sort()
    this.#tokens = {
      tokens: Int32Array.from({ length: total }, (_, token) => token),
      wanted,
      logits: input.logitRows,
      hidden: input.hiddenRows,
    }
    this.#wantedRow = new Map([...wanted].map((token, row) => [token, row]))
    this.#sequence = new Int32Array(total)
    for (let s = 0; s + 1 < input.starts.length; s++)
      this.#sequence.fill(s, input.starts[s], input.starts[s + 1])
  }

  tokensOf(rows: RowSet): Int32Array {
    return this.#tokens[rows]
  }

  /** The row that a token has in a set: tokens or wanted. */
  rowOf(rows: RowSet, token: number): number {
    return rows === "tokens" ? token : this.#wantedRow.get(token)!
  }

  /** The cache row where a token's keys and values belong. */
  slot(token: number): number {
    return this.#slotOf(this.#sequence[token]!, this.input.positions[token]!)
  }

  /** All positions that a token sees. */
  seen(token: number, window: number | undefined, sinks: number): Seen {
    const s = this.#sequence[token]!
    const position = this.input.positions[token]!
    const first = Math.max(this.input.visibleFrom[s]!, window ? position - window + 1 : 0)
    const kept = Math.min(sinks, first)
    const positions = new Int32Array(kept + position + 1 - first)
    for (let i = 0; i < positions.length; i++) positions[i] = i < kept ? i : first + i - kept
    return { positions, slots: positions.map((p) => this.#slotOf(s, p)) }
  }

  #slotOf(sequence: number, position: number): number {
    const { blocks, blockStarts, visibleFrom } = this.input
    const index = blockIndex(Math.floor(position / BLOCK), visibleFrom[sequence]!, this.#sinks)
    return blocks[blockStarts[sequence]! + index]! * BLOCK + (position % BLOCK)
  }
}
