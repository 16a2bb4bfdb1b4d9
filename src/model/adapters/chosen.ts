// Adapters of which each sequence chooses one, or none. What they add is computed beside the matrices, whose numbers all sequences share:
// x * W^T + ((x * right^T) ⊙ own) * left^T. The factors of all adapters lie under and beside each other, and `own`, a row of a table that
// a token's adapter names, keeps the numbers between them that are its own and makes all others 0. So a sequence computes the same bits
// whichever adapters others of its step have chosen. Factors are finite for that, and the right ones small enough that what lies between is,
// too: 0 times what is not is no 0.

import { add, embed, linear, multiply, select, weight } from "../../compiler/graph/builder.ts"
import { type Graph, type Node, rewrite, type Weight } from "../../compiler/graph/graph.ts"
import type { Problem } from "../../errors.ts"
import { narrow, widen } from "../../runtime/dtype.ts"
import type { Source } from "../weights/names.ts"
import type { Tensor, Weights } from "../weights/weights.ts"
import { byKey, checkShapes, isFactor, type Placed } from "./adapted.ts"
import type { Change, LowRank } from "./adapter.ts"
import { type Factors, Product } from "./product.ts"

export interface Choice {
  /** The model's, and beside them the factors and the tables of `own`. */
  weights: Weights
  beside: (graph: Graph) => Graph
}

/** What all adapters add to one matrix, and of which rank it is of each of them: 0 where it adds nothing. */
interface Beside {
  /** Of each tensor that the matrix is made of; all have the same right factor. */
  products: readonly [Product, ...Product[]]
  ranks: readonly number[]
}

/** @param placed number 1 is the first of them */
export function choiceOf(base: Weights, placed: readonly Placed[]): Choice {
  const lists = placed.map((one) => ({ ...one, changes: byKey(one) }))
  const used = new Set<Change>()
  const made = new Map<string, () => Tensor>()

  /** What an adapter changes of a tensor that the graph calls so, and where it has that. */
  const changeOf = ({ sources, keyOf, changes }: (typeof lists)[number], name: string) => {
    const source = sources(name)
    const change = changes.get(keyOf(source.tensor) ?? "")
    return change && source.constant === undefined ? { source, change } : undefined
  }

  /** Tensors that a matrix is made of may be rows of one that is stored: what is added to that has one right factor for all of them. */
  const besideOf = ({ sources, columns }: Weight): Beside | undefined => {
    const ranks: number[] = []
    const lows: LowRank[] = []
    const added: Factors[][] = sources.map(() => [])
    for (const list of lists) {
      const { adapter } = list
      const own = new Map<LowRank, (Source | undefined)[]>()
      for (const [at, { tensor, rows }] of sources.entries()) {
        const its = changeOf(list, tensor)
        if (!its) continue
        const { source, change } = its
        const { low, whole, lengths } = change
        if (!low || whole || lengths || source.turnedRuns || source.plusRow)
          throw adapter.broken(unfit(source.tensor))
        checkShapes({ adapter, source, change }, rows, columns)
        used.add(change)
        const places = own.get(low) ?? sources.map(() => undefined)
        own.set(low, places.with(at, source))
      }
      for (const [low, places] of own)
        for (const [at, source] of places.entries())
          added[at]!.push({ low, ...(source && { source }) })
      lows.push(...own.keys())
      ranks.push([...own.keys()].reduce((sum, { left }) => sum + left.width, 0))
    }
    if (lows.length === 0) return undefined
    const [first, ...others] = added.map((each) => new Product(each, columns))
    return { products: [first!, ...others], ranks }
  }

  const own = ({ ranks, products: [{ rank }] }: Beside): Weight => {
    const name = `adapter_ranks.${ranks.join("_")}`
    made.set(name, () => ownTable(ranks, rank))
    return exact(weight(name, name, ranks.length + 1, rank))
  }

  /** Both factors, whose numbers reach nobody that has not chosen them. */
  const factorsOf = ({ name, columns, rows, sources }: Weight, { products, ranks }: Beside) => {
    const { rank } = products[0]
    const wrong = (at: number) =>
      lists[ownerOf(ranks, at)]!.adapter.broken(
        `what it adds to ${sources[0]!.tensor} has a number that is not finite or beyond 2^64, which would reach whoever has not chosen it`,
      )
    const right = `${name}.chosen_right`
    made.set(right, () =>
      bounded(products[0].rightTensor(), (first, i) => wrong(first + Math.floor(i / columns))),
    )
    const lefts = products.map((product, at) => {
      const left = `${name}.chosen_left.${at}`
      made.set(left, () => bounded(product.leftTensor(), (_, i) => wrong(i % rank)))
      return { tensor: left, rows: sources[at]!.rows }
    })
    return {
      right: exact(weight(`${name}_chosen_right`, right, rank, columns)),
      left: exact({ name: `${name}_chosen_left`, rows, columns: rank, sources: lefts }),
    }
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
      if (node.op !== "linear") return node
      const { tensor } = node.weight.sources[0]!
      const its = tables.has(tensor) || isFactor(tensor) ? undefined : besideOf(node.weight)
      if (!its) return node
      const { left, right } = factorsOf(node.weight, its)
      const between = linear(node.inputs[0], right)
      const kept = multiply(between, inRowsOf(between, ownRow(its)))
      return add(linear(kept, left), node)
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
  `it changes ${tensor}, and an adapter that requests choose adds to matrices of the model's attention and MLPs alone (LoRA, of no experts); --lora serves the others that it has`

/** Whose a number between the factors is. */
function ownerOf(ranks: readonly number[], at: number): number {
  const owners = ranks.flatMap((rank, owner) => Array<number>(rank).fill(owner))
  return owners[at]!
}

/** So many times what a row holds is finite, also the sum of a row. */
const LARGEST = 2 ** 64

/** @param wrong makes the problem of a number, the `i`th from the first row that was read on */
function bounded(tensor: Tensor, wrong: (first: number, i: number) => Problem): Tensor {
  return {
    codec: tensor.codec,
    async read(first, rows) {
      const stored = await tensor.read(first, rows)
      const at = widen(stored.values, "f32").findIndex((value) => !(Math.abs(value) <= LARGEST))
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
