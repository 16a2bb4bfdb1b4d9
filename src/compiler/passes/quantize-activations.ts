// For targets that multiply integers: what a packed matrix is multiplied with is rounded to 8 bits first, in groups as wide
// as the matrix's own. An input of several products is rounded once.

import { type Graph, type Node, rewrite, withInputs } from "../graph/graph.ts"

export function quantizeActivations(graph: Graph, group: number): Graph {
  const made = new Map<Node, Node>()
  return rewrite(graph, (node) => {
    if (node.op !== "linear") return node
    const [input, ...residual] = node.inputs
    if (!made.has(input))
      made.set(input, {
        op: "quantize",
        rows: input.rows,
        columns: input.columns,
        inputs: [input],
        group,
      })
    return withInputs(node, [made.get(input)!, ...residual])
  })
}
