// silu(gate) * up, where both are halves of one product, becomes that product's end: gate and up never reach memory.

import { type Graph, type Node, readers, rewrite } from "../graph/graph.ts"

export function fuseSwiglu(graph: Graph): Graph {
  const read = readers(graph)
  const once = (node: Node) => read.get(node)?.length === 1
  return rewrite(graph, (node, before) => {
    if (node.op !== "multiply" || before.op !== "multiply") return node
    const [activated, up] = node.inputs
    if (activated.op !== "silu" || up.op !== "slice" || !before.inputs.every(once)) return node
    const gate = activated.inputs[0]
    const product = up.inputs[0]
    if (gate.op !== "slice" || gate.inputs[0] !== product || product.op !== "linear") return node
    const halves = gate.from === 0 && up.from === gate.columns && product.columns === 2 * up.columns
    if (!halves || product.epilogue !== "store") return node
    return { ...product, columns: up.columns, epilogue: "swiglu" }
  })
}
