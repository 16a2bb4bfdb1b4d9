// For targets that multiply integers: what a packed matrix is multiplied with is rounded to 8 bits first, in groups as wide
// as the matrix's own. An input of several products is rounded once for each codec that they have.

import { type CodecName, isIntegerCodec } from "../../runtime/format.ts"
import type { CodecOf } from "../graph/codecs.ts"
import { type Graph, type Node, rewrite, withInputs } from "../graph/graph.ts"

export function quantizeActivations(graph: Graph, codecOf: CodecOf): Graph {
  const made = new Map<Node, Map<CodecName, Node>>()
  return rewrite(graph, (node) => {
    if (node.op !== "linear" && node.op !== "experts") return node
    if (node.op === "experts") {
      const codec = codecOf(node.down)
      if (isIntegerCodec(codec)) node = { ...node, rounded: codec }
    }
    const codec = codecOf(node.op === "linear" ? node.weight : node.gateUp)
    if (!isIntegerCodec(codec)) return node
    const [input, ...others] = node.inputs
    const { rows, columns } = input
    const rounded = made.get(input) ?? new Map<CodecName, Node>()
    made.set(input, rounded)
    if (!rounded.has(codec))
      rounded.set(codec, { op: "quantize", rows, columns, inputs: [input], codec })
    return withInputs(node, [rounded.get(codec)!, ...others])
  })
}
