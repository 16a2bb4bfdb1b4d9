// For targets that multiply integers: what a packed matrix is multiplied with is rounded to 8 bits first, in groups as wide
// as the matrix's own. What is multiplied with a matrix of 16-bit floats may be rounded to 16 bits, in groups of 32: then a matrix
// unit for bytes makes that product as well. (Not of experts: they are multiplied a few rows at a time, which takes none.) An
// input of several products is rounded once for each codec that they have.

import {
  type CodecName,
  isIntegerCodec,
  isWideCodec,
  type RoundingCodec,
} from "../../runtime/format.ts"
import type { CodecOf } from "../graph/codecs.ts"
import { type Graph, type Node, rewrite, type Weight, withInputs } from "../graph/graph.ts"

export function quantizeActivations(
  graph: Graph,
  codecOf: CodecOf,
  activations: "int8" | "int16",
): Graph {
  const made = new Map<Node, Map<CodecName, Node>>()
  const roundedFor = (weight: Weight, input: Node): Node => {
    const codec = codecOf(weight)
    return isIntegerCodec(codec) ? codes(codec, input) : input
  }
  const roundedForLinear = (weight: Weight, input: Node): Node => {
    const codec = codecOf(weight)
    return activations === "int16" && isWideCodec(codec)
      ? codes(codec, input)
      : roundedFor(weight, input)
  }
  const codes = (codec: RoundingCodec, input: Node): Node => {
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
      return withInputs(node, [roundedForLinear(node.weight, input), ...others])
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
