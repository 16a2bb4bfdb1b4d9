// Adapters of which each sequence chooses one, or none. What they add is computed beside the matrices, whose numbers all sequences share:
// x * W^T + ((x * right^T) ⊙ own) * left^T. The factors of all adapters lie under and beside each other, and `own`, a row of a table that
// a token's adapter names, keeps the numbers between them that are its own and makes all others 0. So a sequence computes the same bits
// whichever adapters others of its step have chosen. Factors are finite for that: 0 times what is not is no 0.

import { add, embed, linear, multiply, select, weight } from "../../compiler/graph/builder.ts"
import { type Graph, type Node, rewrite, type Weight } from "../../compiler/graph/graph.ts"
import type { Problem } from "../../errors.ts"
import { narrow, widen } from "../../runtime/dtype.ts"
import type { Tensor, Weights } from "../weights/weights.ts"
import { byKey, checkShapes, isFactor, type Placed } from "./adapted.ts"
import type { Change } from "./adapter.ts"
import { type Added, Product } from "./product.ts"

export interface Choice {
  /** The model's, and beside them the factors and the tables of `own`. */
  weights: Weights
  beside: (graph: Graph) => Graph
}

/** What all adapters add to one matrix, and of which rank it is of each of them: 0 where it adds nothing. */
interface Beside {
  product: Product
  ranks: readonly number[]
}

/** @param placed number 1 is the first of them */
export function choiceOf(base: Weights, placed: readonly Placed[]): Choice {
  const lists = placed.map((one) => ({ ...one, changes: byKey(one) }))
  const used = new Set<Change>()
  const found = new Map<string, Beside | undefined>()
  const made = new Map<string, () => Tensor>()

  const read = (name: string, rows: number, columns: number): Beside | undefined => {
    const ranks: number[] = []
    const added: Added[] = []
    for (const { adapter, sources, keyOf, changes } of lists) {
      const source = sources(name)
      const change = changes.get(keyOf(source.tensor) ?? "")
      const isHere = change !== undefined && source.constant === undefined
      if (isHere) {
        used.add(change)
        const { low, whole, lengths } = change
        if (!low || whole || lengths || source.turnedRuns || source.plusRow)
          throw adapter.broken(unfit(source.tensor))
        checkShapes({ adapter, source, change }, rows, columns)
        added.push({ source, low })
      }
      ranks.push(isHere ? change.low!.left.width : 0)
    }
    if (added.length === 0) return undefined
    return { product: new Product(added, columns), ranks }
  }

  const besideOf = ({ sources, rows, columns }: Weight): Beside | undefined => {
    const { tensor } = sources[0]!
    if (!found.has(tensor)) found.set(tensor, read(tensor, rows, columns))
    return found.get(tensor)
  }

  const own = ({ ranks, product: { rank } }: Beside): Weight => {
    const name = `adapter_ranks.${ranks.join("_")}`
    made.set(name, () => ownTable(ranks, rank))
    return exact(weight(name, name, ranks.length + 1, rank))
  }

  const beside = (graph: Graph): Graph => {
    const tables = new Set(
      graph.nodes.flatMap((node) =>
        node.op === "embed" ? node.table.sources.map(({ tensor }) => tensor) : [],
      ),
    )
    const rows = new Map<string, Node>()
    const ownRow = (its: Beside): Node => {
      const table = own(its)
      const row = rows.get(table.name) ?? embed(table, "adapter")
      rows.set(table.name, row)
      return row
    }
    return rewrite(graph, (node) => {
      if (node.op !== "linear" || node.weight.sources.length > 1) return node
      const { tensor } = node.weight.sources[0]!
      const its = tables.has(tensor) || isFactor(tensor) ? undefined : besideOf(node.weight)
      if (!its) return node
      const { product, ranks } = its
      const { name, columns } = node.weight
      const [left, right] = [`${tensor}.chosen_left`, `${tensor}.chosen_right`]
      const wrong = (at: number) =>
        lists[ownerOf(ranks, at)]!.adapter.broken(
          `what it adds to ${tensor} has a number that is not finite, which would reach whoever has not chosen it`,
        )
      made.set(left, () => finite(product.leftTensor(), (_, i) => wrong(i % product.rank)))
      made.set(right, () =>
        finite(product.rightTensor(), (first, i) => wrong(first + Math.floor(i / columns))),
      )
      const between = linear(
        node.inputs[0],
        exact(weight(`${name}_chosen_right`, right, product.rank, columns)),
      )
      const kept = multiply(between, inRowsOf(between, ownRow(its)))
      return add(
        linear(kept, exact(weight(`${name}_chosen_left`, left, node.columns, product.rank))),
        node,
      )
    })
  }

  const weights: Weights = {
    entries: base.entries,
    tensor: (name, rows, columns) => made.get(name)?.() ?? base.tensor(name, rows, columns),
    ...(base.holds && { holds: (name) => base.holds!(name) }),
    ...(base.columnOrder && {
      columnOrder: (name, rows, columns) => base.columnOrder!(name, rows, columns),
    }),
    ...(base.takeApart && {
      takeApart: (name, rows, columns) => base.takeApart!(name, rows, columns),
    }),
    refuseOthers(names) {
      base.refuseOthers?.(names.filter((name) => !made.has(name)))
      for (const { adapter, changes } of lists) {
        if (changes.size === 0) throw adapter.broken("it changes nothing that is served")
        for (const [key, change] of changes) if (!used.has(change)) throw adapter.broken(unfit(key))
      }
    },
    verify: (signal) => base.verify(signal),
    close: () => base.close(),
  }
  return { weights, beside }
}

const unfit = (tensor: string) =>
  `it changes ${tensor}, and an adapter that requests choose adds to matrices of attention and MLPs alone (LoRA, of no experts); --lora serves it`

/** Whose a number between the factors is. */
function ownerOf(ranks: readonly number[], at: number): number {
  const owners = ranks.flatMap((rank, owner) => Array<number>(rank).fill(owner))
  return owners[at]!
}

/** @param wrong makes the problem of a number, the `i`th from the first row that was read on */
function finite(tensor: Tensor, wrong: (first: number, i: number) => Problem): Tensor {
  return {
    codec: tensor.codec,
    async read(first, rows) {
      const stored = await tensor.read(first, rows)
      const at = widen(stored.values, "f32").findIndex((value) => !Number.isFinite(value))
      if (at >= 0) throw wrong(first, at)
      return stored
    },
  }
}

const exact = (its: Weight): Weight => ({ ...its, exact: true })

const inRowsOf = ({ rows }: Node, table: Node): Node =>
  rows === table.rows ? table : select(table, rows)

/** [adapters + 1, ranks of all] 1 where a column is an adapter's own, 0 elsewhere; the first row is of those that have chosen none. */
function ownTable(ranks: readonly number[], columns: number): Tensor {
  const values = new Float32Array((ranks.length + 1) * columns)
  let from = 0
  for (const [at, rank] of ranks.entries()) {
    const row = (at + 1) * columns
    values.fill(1, row + from, row + from + rank)
    from += rank
  }
  return {
    codec: "f32",
    read: async (first, rows) => ({
      rows,
      values: narrow(values.slice(first * columns, (first + rows) * columns), "f32"),
    }),
  }
}
