// What Gemma 3n's conformer has that Gemma 4's has not: norms of its convolutions over all columns of all rows there have been, and rows that
// are learned behind those of a recording, which go through the same projector.
//
// A mean of all rows so far is attention whose scores are all 0. A token has three rows of the first convolution: two are its own, and the third
// is the next one's first, of which it knows all but the two before it. So attention knows the mean at every second row. At the ones
// beside it, that mean and what is between count by how many rows there have been, which marks behind the frames say. Variances are
// sums of squares by the mean so far, each at its time, and are averaged likewise.
//
// Source: modeling_gemma3n.py of transformers (Gemma3nAudioCumulativeGroupNorm, Gemma3nMultimodalEmbedder).

import { ENDED_MARKS } from "../../audio/ended.ts"
import {
  add,
  apply,
  attention,
  embed,
  linear,
  multiply,
  reorder,
  select,
  slice,
  weigh,
} from "../../compiler/graph/builder.ts"
import type { Node } from "../../compiler/graph/graph.ts"
import type { NormKind } from "../block.ts"
import { type Named, named, normed, scaled } from "../tensors.ts"

export interface Cumulative {
  epsilon: number
  /** Rows of a table that are learned: how many there are, which fills up, and which ends. */
  learned: { of: number; filling: number; ending: number }
  /** Of rows that are heard, and of those that are learned. */
  norm: NormKind
}

/** Columns of a mean, all of which are the same: a head of a kernel has so many. */
const ALIKE = 16

const STATISTICS = 2 // whose keys and values have a place of their own

/** [tokens, 1] what stands behind the frames. */
export type Mark = (at: number) => Node

/**
 * Rows less their mean, over their deviation, times a factor for each channel.
 * @param rows one of each token, or three
 */
export function evenSoFar(rows: readonly Node[], mark: Mark, own: Named, epsilon: number): Node[] {
  const { columns } = rows[0]!
  const means = { ...own("means", "means.weight", ALIKE, columns), exact: true as const }
  const order = own("everywhere", "everywhere.weight", columns)
  const factor = own("factor", "factor.weight", columns)
  const meanSoFar = (of: readonly Node[]) =>
    eachSoFar(
      of.map((row) => linear(row, means)),
      mark,
    )
  const mean = meanSoFar(rows)
  const centred = rows.map((row, i) => add(row, reorder(scaled(mean[i]!, -1), order)))
  const variance = meanSoFar(centred.map((row) => multiply(row, row)))
  return centred.map((row, i) => {
    const root = apply("inverse_root", slice(variance[i]!, 0, 1), epsilon)
    return weigh(multiply(row, root), factor)
  })
}

function eachSoFar([first, second, third]: readonly Node[], mark: Mark): Node[] {
  if (!second || !third) return [soFar(first!)]
  const both = soFar(scaled(add(first!, second), 0.5))
  const less = scaled(both, -1)
  const toward = (row: Node, mark: Node) => add(both, multiply(add(row, less), mark))
  return [toward(second, mark(ENDED_MARKS.first)), both, toward(third, mark(ENDED_MARKS.next))]
}

const soFar = (x: Node) =>
  attention(x, x, x, {
    ...{ layer: STATISTICS, heads: 1, kvHeads: 1, headDim: ALIKE },
    ...{ scale: 0, cap: undefined, window: undefined, sinks: 0 },
  })

/** Rows that are heard, or in their place those of the table, whose first is none. [rows that come out, width] */
export function orLearned(heard: Node, mark: Mark, { norm }: Cumulative): Node {
  const own = named("projector.", "")
  const table = { ...own("learned", "learned.weight", 3, heard.columns), exact: true as const }
  const even = (x: Node, name: string) => normed(x, norm, own, name, name)
  return add(
    multiply(even(heard, "projector_norm"), select(mark(ENDED_MARKS.heard), "hidden")),
    even(select(embed(table), "hidden"), "learned_norm"),
  )
}
