// Experts' gate and up rows are one matrix, an expert's behind the other's, as long as they are in one codec. Where a file has
// them in two, they become two matrices, each with the codes that it has, and their products meet as the second one ends. It
// is a pass, and what the model room asks whether a file's codecs can be had.

import type { CodecOf } from "./codecs.ts"
import { type Graph, type Node, rewrite, type Weight } from "./graph.ts"

export function splitExperts(graph: Graph, codecOf: CodecOf): Graph {
  return rewrite(graph, (node) => {
    if (node.op !== "experts" || !node.gated || node.up) return node
    if (!isMixed(node.gateUp, codecOf)) return node
    const [x, shares] = node.inputs
    const { gateUp, biases } = node
    return {
      ...node,
      inputs: [x, shares, x],
      gateUp: half(gateUp, "gate"),
      up: half(gateUp, "up"),
      biases: biases && {
        gateUp: half(biases.gateUp, "gate"),
        up: half(biases.gateUp, "up"),
        down: biases.down,
      },
    } satisfies Node
  })
}

/** A gate and its up rows are sources that follow each other. */
function isMixed({ sources, ...weight }: Weight, codecOf: CodecOf): boolean {
  const codecs = sources.slice(0, 2).map((source) => codecOf({ ...weight, sources: [source] }))
  return new Set(codecs).size > 1
}

/** Of "layers.0.experts_gate+up" the gates, "layers.0.experts_gate", or the others. */
function half({ name, rows, columns, sources }: Weight, which: "gate" | "up"): Weight {
  return {
    name: name.replace("gate+up", which),
    rows: rows / 2,
    columns,
    sources: sources.filter((_, i) => (i % 2 === 0) === (which === "gate")),
  }
}
