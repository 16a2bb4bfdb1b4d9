// What adapters add to matrices of codes is computed beside them: x * W^T + (x * right^T) * left^T. The factors are never packed,
// being small, and what they make is added to the product.

import { add, linear, weight } from "../../compiler/graph/builder.ts"
import { type Graph, rewrite, type Weight } from "../../compiler/graph/graph.ts"
import type { Weights } from "../weights/weights.ts"
import { factorNames } from "./adapted.ts"

export function withLowRank(graph: Graph, { takeApart }: Pick<Weights, "takeApart">): Graph {
  const tables = new Set(
    graph.nodes
      .flatMap((node) => (node.op === "embed" ? node.table.sources : []))
      .map(({ tensor }) => tensor),
  )
  return rewrite(graph, (node) => {
    if (node.op !== "linear" || node.weight.sources.length > 1) return node
    const { name, columns, rows, sources } = node.weight
    const { tensor } = sources[0]!
    const rank = tables.has(tensor) ? undefined : takeApart?.(tensor, rows, columns)
    if (rank === undefined) return node
    const names = factorNames(tensor)
    const exact = (its: Weight): Weight => ({ ...its, exact: true })
    const right = exact(weight(`${name}_right`, names.right, rank, columns))
    const left = exact(weight(`${name}_left`, names.left, rows, rank))
    return add(linear(linear(node.inputs[0], right), left), node)
  })
}
