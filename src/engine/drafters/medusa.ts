// Medusa's heads propose: each looks at the same hidden row, the one that the last token was drawn from, and guesses one
// token, the first head the next one. Nothing is read and nothing remembered but that row.

import { Closing } from "../../closing.ts"
import type { Program } from "../../runtime/program.ts"
import { Batch, draftGroups, type Part } from "../batch.ts"
import type { Sequence } from "../sequence.ts"
import type { Drafter } from "../speculative.ts"

/** A program for each head. They belong to the drafter from here on. */
export function createMedusa(heads: readonly [Program, ...Program[]]): Drafter {
  const [{ manifest, limits }] = heads
  const { vocabulary, hidden } = manifest.shapes
  const groups = draftGroups(manifest)
  const batch = new Batch({ limits, vocabulary, taken: hidden, groups, sinks: 0, draws: false })
  const rows = new WeakMap<Sequence, { row: Float32Array; length: number }>()
  const closing = new Closing()
  for (const head of heads) closing.add(head)

  /** The token that is proposed stands after the others, so its noise is right, and so are its penalties. */
  const partOf = (sequence: Sequence): Part | undefined => {
    const { length, drafts, wish } = sequence
    const seen = rows.get(sequence)
    if (wish === drafts.length || seen?.length !== length) return undefined
    const end = length + drafts.length
    return { sequence, from: end - 1, end, rows: 1, hidden: 0, first: end - 1, hiddenIn: seen.row }
  }
  return {
    hidden: "drawn",
    longest: heads.length,
    async propose(step, cancel) {
      let sequences = step
      for (const head of heads) {
        const parts = sequences.flatMap((sequence) => partOf(sequence) ?? [])
        if (parts.length === 0) return
        const output = await head.step(batch.flatten(parts), cancel)
        if (output.kind === "cancelled") return
        sequences = parts.flatMap(({ sequence }, row) => {
          const token = output.tokens[row]!
          const ends = sequence.sequenceGroup.request.stopTokens.has(token)
          if (ends || output.finite[row] === 0) return []
          sequence.drafts.push(token)
          return [sequence]
        })
      }
    },
    observe(sequence, seen, from) {
      const at = (sequence.computed - 1 - from) * hidden
      rows.set(sequence, { row: seen.slice(at, at + hidden), length: sequence.length })
    },
    close: () => closing.close(),
  }
}
