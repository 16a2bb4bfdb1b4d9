// x + product becomes the product's end: it adds to what is there already. Not to what experts make, which a device may add up
// only where it is read, with whatever rows are added to; nor to what somebody reads behind it.

import { type Graph, readers, rewrite } from "../graph/graph.ts"

export function fuseResidual(graph: Graph): Graph {
  const read = readers(graph)
  const order = new Map(graph.nodes.map((node, index) => [node, index]))
  return rewrite(graph, (node, before) => {
    if (node.op !== "add") return node
    const [residual, product] = node.inputs
    const readOnce = read.get(before.inputs[1]!)?.length === 1
    if (product.op !== "linear" || product.epilogue !== "store" || !readOnce) return node
    if (residual.op === "experts") return node
    const isReadBehind = read
      .get(before.inputs[0]!)!
      .some((other) => order.get(other)! > order.get(before)!)
    if (isReadBehind) return node
    return { ...product, epilogue: "add", inputs: [product.inputs[0], residual] }
  })
}
