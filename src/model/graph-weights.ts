// The weights that a graph reads, each once, in the order in which it reads them.

import { OneColumn } from "../compiler/graph/builder.ts"
import { expertWeights, type Graph, type Weight } from "../compiler/graph/graph.ts"
import type { Problem } from "../errors.ts"
import type { Weights } from "./weights/weights.ts"

/** What a configuration makes. @param broken says what is wrong with it */
export function graphOf(make: () => Graph, broken: (what: string) => Problem): Graph {
  try {
    return make()
  } catch (error) {
    if (!(error instanceof OneColumn)) throw error
    throw broken(`makes ${error.weight} a matrix of one column; only wider ones are known`)
  }
}

export function weightsOf({ nodes }: Graph): Weight[] {
  const weights = new Map<string, Weight>()
  const read = (weight: Weight) => {
    const before = weights.get(weight.name)
    if (before && before.sources[0]!.tensor !== weight.sources[0]!.tensor)
      throw new Error(`internal: two weights are called ${weight.name}`)
    weights.set(weight.name, weight)
  }
  for (const node of nodes) {
    if (node.op === "embed") read(node.table)
    if (["norm", "linear", "headLinear", "weigh"].includes(node.op) && "weight" in node)
      read(node.weight)
    if ((node.op === "linear" || node.op === "norm" || node.op === "route") && node.bias)
      read(node.bias)
    if (node.op === "attention")
      for (const weight of [node.sinkLogits, node.biases]) if (weight) read(weight)
    if (node.op === "reorder") read(node.order)
    if (node.op === "bound") read(node.bounds)
    if (node.op === "convolve") read(node.taps)
    if (node.op === "convolve" && node.bias) read(node.bias)
    if (node.op === "delta")
      for (const weight of [node.decay, node.bias, node.skip]) if (weight) read(weight)
    if (node.op === "experts") for (const weight of expertWeights(node)) read(weight)
  }
  return [...weights.values()]
}

/** The names of all tensors that it reads, which are there and as it wants them. */
export function readTensors(graph: Graph, weights: Weights): string[] {
  const read = weightsOf(graph)
  for (const { sources, columns } of read)
    for (const { tensor, rows } of sources) weights.tensor(tensor, rows, columns)
  return read.flatMap(({ sources }) => sources.map(({ tensor }) => tensor))
}
