// x + product becomes the product's end: it adds to what is there already.

import { type Graph, readers, rewrite } from "../graph/graph.ts"

export function fuseResidual(graph: Graph): Graph {
  const read = readers(graph)
  return rewrite(graph, (node, before) => {
    if (node.op !== "add") return node
    const [residual, product] = node.inputs
    const readOnce = read.get(before.inputs[1]!)?.length === 1
    if (product.op !== "linear" || product.epilogue !== "store" || !readOnce) return node
    return { ...product, epilogue: "add", inputs: [product.inputs[0], residual] }
  })
}
