// Matrices whose columns were quantised out of order (act-order): neighbours are in different groups, so their codes are kept
// with the columns sorted by group, and what they multiply is put in that order first. Beside the matrix X.weight there are
// then X.sorted, its codes, and X.order: which of the columns each of those is.

import { reorder, weight } from "../../compiler/graph/builder.ts"
import { type Graph, type Node, rewrite, withInputs } from "../../compiler/graph/graph.ts"
import type { Weights } from "../weights/weights.ts"

/** The matrix that a name is about, and whether it asks for its codes or for their order. */
export function partNamed(name: string): { matrix: string; part: "sorted" | "order" | undefined } {
  const [, stem, part] = /^(.+)\.(sorted|order)$/.exec(name) ?? []
  if (stem === undefined) return { matrix: name, part: undefined }
  return { matrix: `${stem}.weight`, part: part as "sorted" | "order" }
}

/** The graph reading such matrices sorted. Products of one input in one order read it in that order once. */
export function withOrders(graph: Graph, { columnOrder }: Pick<Weights, "columnOrder">): Graph {
  const reordered = new Map<Node, { order: Int32Array; node: Node }[]>()
  return rewrite(graph, (node) => {
    if (node.op !== "linear" || node.weight.sources.length > 1) return node
    const [{ tensor, rows }] = node.weight.sources as [{ tensor: string; rows: number }]
    const order = columnOrder?.(tensor, rows, node.weight.columns)
    if (!order) return node
    const [input, ...others] = node.inputs
    const known = reordered.get(input) ?? []
    reordered.set(input, known)
    let same = known.find((other) => other.order.every((column, k) => column === order[k]))
    if (!same) {
      const named = (part: string) => tensor.replace(/weight$/, part)
      const list = weight(`${node.weight.name}_order`, named("order"), input.columns)
      same = { order, node: reorder(input, list) }
      known.push(same)
    }
    const sources = [{ tensor: tensor.replace(/weight$/, "sorted"), rows }]
    return {
      ...withInputs(node, [same.node, ...others]),
      weight: { ...node.weight, sources },
    } as Node
  })
}
