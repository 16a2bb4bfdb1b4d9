// x + product becomes the product's end: it adds to what is there already. Not to what experts make, which a device may add up
// only where it is read, with whatever rows are added to; and not to what is still read behind it, as rows of a layer between that
// come out, too: it would be gone, and with it the slices of it. A slice itself is added to by nobody: a product makes whole rows.

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
    if (residual.op === "experts" || residual.op === "slice") return node
    if (apart.has(product.weight.name)) return node
    return { ...product, epilogue: "add", inputs: [product.inputs[0], residual] }
  })
}

/** Products that add to what has readers behind them. */
function overwriting({ nodes, logits, hidden }: Graph): (Node & { op: "linear" })[] {
  const last = new Map<Node, number>() // where each row is read last, whole or sliced
  for (const [index, { op, inputs }] of nodes.entries())
    if (op !== "slice") for (const input of inputs) last.set(uncut(input), index)
  for (const result of [logits, hidden]) last.set(uncut(result), nodes.length)
  return nodes.flatMap((node, index) => {
    const isLate =
      node.op === "linear" && node.epilogue === "add" && last.get(node.inputs[1]!)! > index
    return isLate ? [node] : []
  })
}

/** What a node's columns lie in. */
function uncut(node: Node): Node {
  return node.op === "slice" ? uncut(node.inputs[0]) : node
}
