// For targets that multiply integers: what a packed matrix is multiplied with is rounded to 8 bits first, in groups as wide
// as the matrix's own. An input of several products is rounded once for each codec that they have.

import { type CodecName, isIntegerCodec } from "../../runtime/format.ts"
import type { CodecOf } from "../graph/codecs.ts"
import { type Graph, type Node, rewrite, type Weight, withInputs } from "../graph/graph.ts"

export function quantizeActivations(graph: Graph, codecOf: CodecOf): Graph {
  const made = new Map<Node, Map<CodecName, Node>>()
  const roundedFor = (weight: Weight, input: Node): Node => {
    const codec = codecOf(weight)
    if (!isIntegerCodec(codec)) return input
    const { rows, columns } = input
    const known = made.get(input) ?? new Map<CodecName, Node>()
    made.set(input, known)
    if (!known.has(codec))
      known.set(codec, { op: "quantize", rows, columns, inputs: [input], codec })
    return known.get(codec)!
  }
  return rewrite(graph, (node) => {
    if (node.op === "linear") {
      const [input, ...others] = node.inputs
      return withInputs(node, [roundedFor(node.weight, input), ...others])
    }
    if (node.op !== "experts") return node
    const [input, shares, inputOfUp] = node.inputs
    const { gateUp, up, down } = node
    const codec = codecOf(down)
    const rounded = isIntegerCodec(codec) ? codec : undefined
    const ofUp = up && inputOfUp ? [roundedFor(up, inputOfUp)] : []
    return { ...withInputs(node, [roundedFor(gateUp, input), shares, ...ofUp]), rounded } as Node
  })
}
