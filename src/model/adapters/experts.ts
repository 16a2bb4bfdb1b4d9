// Experts as models of transformers 5 have them in memory: of a layer one stack for gates and ups and one for what they end with. PEFT trains
// such a stack as a parameter (target_parameters); the factors of both lie under the name of the experts, one of them behind .base_layer.
// A stack of experts [experts, rows, columns] has the factors [rank * experts, columns] and [rows, rank * experts]. PEFT 0.17 had them the
// other way round where a model multiplies with what is stored turned.

import type { Source } from "../weights/names.ts"
import type { Change, LowRank } from "./adapter.ts"
import { expertColumns, expertRows, turnedFactor } from "./factors.ts"

/** A projection of one expert, as the graph calls it. */
const EXPERT = /^model\.layers\.(\d+)\.mlp\.experts\.(\d+)\.(gate|up|down)_proj\.weight$/
const STACKS = /(?:^|\.)((\d+)\.\w+\.experts)(?:\.base_layer)?\.weight$/

/** What is done to one expert, of what is done to all. */
export interface OfExpert {
  source: Source
  low: LowRank
  /** What it is a part of. */
  all: Change
}

/**
 * @param changes by the tensors' names
 * @param stored where the model's files have the projection
 */
export function changeOfExpert(
  changes: ReadonlyMap<string, Change>,
  experts: number,
  name: string,
  { rows, columns, stored }: { rows: number; columns: number; stored: Source },
): OfExpert | undefined {
  const [, layer, expert, kind] = EXPERT.exec(name) ?? []
  const stacks = [...changes].filter(([key, { low }]) => low && STACKS.exec(key)?.[2] === layer)
  if (kind === undefined || stacks.length === 0) return undefined
  const isDown = kind === "down"
  const [hidden, inner] = isDown ? [rows, columns] : [columns, rows]
  const find = (height: number, width: number) =>
    stacks.find(([, { low }]) => low!.left.height === height && low!.right.width === width)
  const isTurned = !find(2 * inner, hidden) && find(hidden, 2 * inner) !== undefined
  const [height, width] = isDown ? [hidden, inner] : [2 * inner, hidden]
  const match = isTurned ? find(width, height) : find(height, width)
  if (!match) return undefined
  const [key, all] = match
  const [, stem] = STACKS.exec(key)!
  const { left, right, factor } = all.low!
  const [its, ofRows] = [
    expertColumns(left, experts, Number(expert)),
    expertRows(right, experts, Number(expert)),
  ]
  const parameter = `${stem}.${isDown ? "down" : "gate_up"}_proj`
  return {
    source: { tensor: parameter, ...(!isDown && { rows: rowsOfHalf(kind, inner, stored) }) },
    low: {
      left: isTurned ? turnedFactor(ofRows) : its,
      right: isTurned ? turnedFactor(its) : ofRows,
      factor: (rank) => factor(rank, parameter),
    },
    all,
  }
}

/** Gates are the first half of the rows, or, where the files have them so, every other row. */
function rowsOfHalf(kind: string, inner: number, { rows }: Source): NonNullable<Source["rows"]> {
  const isUp = kind === "up"
  return rows?.run === 1
    ? { of: 2 * inner, from: isUp ? 1 : 0, run: 1, every: 2 }
    : { of: 2 * inner, from: isUp ? inner : 0, run: inner, every: 2 * inner }
}
