// Experts as models of transformers 5 have them in memory: of a layer one stack for gates and ups and one for what they end with. PEFT trains
// such a stack as a parameter (target_parameters); the factors of both lie under the name of the experts, one of them behind .base_layer.
// A stack of experts [experts, rows, columns] has the factors [rank * experts, columns] and [rows, rank * experts], or the other way round:
// so PEFT 0.17 wrote them, and so later ones write Llama 4's, which are stored turned. Their shapes tell.

import type { Source } from "../weights/names.ts"
import type { Change, LowRank } from "./adapter.ts"
import { expertColumns, expertRows, turnedFactor } from "./factors.ts"

/** A projection of one expert, as the graph calls it. */
const EXPERT = /^model\.layers\.(\d+)\.mlp\.experts\.(\d+)\.(gate|up|down)_proj\.weight$/
const STACKS =
  /(?:^|\.)(\d+)\.(?:(?:mlp|block_sparse_moe|feed_forward|mixer)\.)?experts(?:\.base_layer)?\.weight$/

/** By the number of their layer. */
export type Stacks = ReadonlyMap<string, readonly Change[]>

export function stacksIn(changes: ReadonlyMap<string, Change>): Stacks {
  const stacks = new Map<string, Change[]>()
  for (const [key, change] of changes) {
    const layer = STACKS.exec(key)?.[1]
    if (layer !== undefined) stacks.set(layer, [...(stacks.get(layer) ?? []), change])
  }
  return stacks
}

/** What is done to one expert, of what is done to all. */
export interface OfExpert {
  source: Source
  low: LowRank
  /** What it is a part of. */
  all: Change
}

/**
 * @param stored where the model's files have the projection
 * @param broken what is wrong with the adapter
 */
export function changeOfExpert(
  stacks: Stacks,
  experts: number,
  name: string,
  { rows, columns, stored }: { rows: number; columns: number; stored: Source },
  broken: (what: string) => Error,
): OfExpert | undefined {
  if (stacks.size === 0) return undefined
  const [, layer, expert, kind] = EXPERT.exec(name) ?? []
  const its = stacks.get(layer ?? "")
  if (kind === undefined || !its) return undefined
  const isDown = kind === "down"
  const [hidden, inner] = isDown ? [rows, columns] : [columns, rows]
  const find = (height: number, width: number) =>
    its.find(({ low }) => low?.left.height === height && low.right.width === width)
  const sizes = { gateUp: [2 * inner, hidden], down: [hidden, inner] } as const
  const [own, other] = isDown ? [sizes.down, sizes.gateUp] : [sizes.gateUp, sizes.down]
  const [straight, turned] = [find(...own), find(own[1], own[0])]
  const all = straight ?? turned
  if (!all) return undefined
  const where = `experts of layer ${layer}`
  if (all.whole || all.lengths) throw broken(`of the ${where} it holds more than two factors`)
  const isEither = straight !== undefined && turned !== undefined
  const others = [find(...other), find(other[1], other[0])]
  const isKnown = (others[0] === undefined) !== (others[1] === undefined)
  const alternates = stored.rows?.run === 1 // gpt-oss', which are never the other way round
  if (isEither && !isKnown && !alternates)
    throw broken(`the factors of the ${where} fit either way round`)
  const isTurned = isEither ? isKnown && others[0] === undefined : straight === undefined
  const { left, right, factor } = all.low!
  if (left.width % experts !== 0)
    throw broken(`the factors of the ${where} have ${left.width} ranks for ${experts} experts`)
  const [ofColumns, ofRows] = [
    expertColumns(left, experts, Number(expert)),
    expertRows(right, experts, Number(expert)),
  ]
  const parameter = `${isDown ? "down" : "gate_up"}_proj`
  return {
    source: { tensor: parameter, ...(!isDown && { rows: rowsOfHalf(kind, inner, alternates) }) },
    low: {
      left: isTurned ? turnedFactor(ofRows) : ofColumns,
      right: isTurned ? turnedFactor(ofColumns) : ofRows,
      factor: (rank) => factor(rank, parameter),
    },
    all,
  }
}

/** Gates are the first half of the rows, or every other row. */
function rowsOfHalf(kind: string, inner: number, alternates: boolean): NonNullable<Source["rows"]> {
  const isUp = kind === "up"
  return alternates
    ? { of: 2 * inner, from: isUp ? 1 : 0, run: 1, every: 2 }
    : { of: 2 * inner, from: isUp ? inner : 0, run: inner, every: 2 * inner }
}
