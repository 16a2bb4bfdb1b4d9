// The weights that a graph reads, each once, in the order in which it reads them.

import type { Graph, Weight } from "../compiler/graph/graph.ts"

export function weightsOf({ nodes }: Graph): Weight[] {
  const weights = new Map<string, Weight>()
  for (const node of nodes) {
    if (node.op === "embed") weights.set(node.table.name, node.table)
    if (["norm", "linear", "headLinear", "weigh"].includes(node.op) && "weight" in node)
      weights.set(node.weight.name, node.weight)
    if ((node.op === "linear" || node.op === "norm" || node.op === "route") && node.bias)
      weights.set(node.bias.name, node.bias)
    if (node.op === "attention" && node.sinkLogits)
      weights.set(node.sinkLogits.name, node.sinkLogits)
    if (node.op === "reorder") weights.set(node.order.name, node.order)
    if (node.op === "convolve") weights.set(node.taps.name, node.taps)
    if (node.op === "delta")
      for (const weight of [node.decay, node.bias]) weights.set(weight.name, weight)
    if (node.op === "experts")
      for (const weight of [node.gateUp, node.down, ...Object.values(node.biases ?? {})])
        weights.set(weight.name, weight)
  }
  return [...weights.values()]
}
