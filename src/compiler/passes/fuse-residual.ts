// x + product becomes the product's end: it adds to what is there already. Not to what experts make, which a device may add up
// only where it is read, with whatever rows are added to; and not to what is still read behind it, as rows of a layer between that
// come out, too: it would be gone.

import { type Graph, type Node, readers, rewrite } from "../graph/graph.ts"

export function fuseResidual(graph: Graph): Graph {
  const apart = new Set<string>()
  // Which node comes when is known of the graph that has been rewritten alone.
  for (;;) {
    const fused = fuse(graph, apart)
    const late = overwriting(fused)
    if (late.length === 0) return fused
    for (const { weight } of late) apart.add(weight.name)
  }
}

/** @param apart weights of products that add to nothing */
function fuse(graph: Graph, apart: ReadonlySet<string>): Graph {
  const read = readers(graph)
  return rewrite(graph, (node, before) => {
    if (node.op !== "add") return node
    const [residual, product] = node.inputs
    const readOnce = read.get(before.inputs[1]!)?.length === 1
    if (product.op !== "linear" || product.epilogue !== "store" || !readOnce) return node
    if (residual.op === "experts" || apart.has(product.weight.name)) return node
    return { ...product, epilogue: "add", inputs: [product.inputs[0], residual] }
  })
}

/** Products that add to what has readers behind them. */
function overwriting(graph: Graph): (Node & { op: "linear" })[] {
  const read = readers(graph)
  const place = new Map(graph.nodes.map((node, index) => [node, index]))
  return graph.nodes.flatMap((node) => {
    if (node.op !== "linear" || node.epilogue !== "add") return []
    const isLate = read.get(node.inputs[1]!)!.some((other) => place.get(other)! > place.get(node)!)
    return isLate ? [node] : []
  })
}
