// activation(gate) * up, where both are halves of one product, becomes that product's end: gate and up never reach memory.

import { type Activation, activations } from "../graph/elementwise.ts"
import { type Graph, type Node, readers, rewrite } from "../graph/graph.ts"

export function fuseGated(graph: Graph): Graph {
  const read = readers(graph)
  const once = (node: Node) => read.get(node)?.length === 1
  return rewrite(graph, (node, before) => {
    if (node.op !== "multiply" || before.op !== "multiply") return node
    const [activated, up] = node.inputs
    if (activated.op !== "apply" || up.op !== "slice" || !before.inputs.every(once)) return node
    const activation = activations.find((name) => name === activated.function)
    const gate = activated.inputs[0]
    return (activation && gatedProduct(gate, up, activation)) ?? node
  })
}

type Slice = Extract<Node, { op: "slice" }>

/** The product of which `gate` is the first half and `up` the second, ending so; undefined: they are not. */
function gatedProduct(gate: Node, up: Node & Slice, activation: Activation): Node | undefined {
  const product = up.inputs[0]
  if (gate.op !== "slice" || gate.inputs[0] !== product || product.op !== "linear") return undefined
  const halves = gate.from === 0 && up.from === gate.columns && product.columns === 2 * up.columns
  if (!halves || product.epilogue !== "store") return undefined
  return { ...product, columns: up.columns, epilogue: { gated: activation } }
}
