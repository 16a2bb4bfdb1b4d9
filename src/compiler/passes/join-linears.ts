// Products of one input become one product: q, k and v; gate and up. Their matrices are joined row after row, so that the
// input is read (and quantised) once and the product is wide; the parts are slices of its columns. Matrices of different
// codecs stay apart, and so do cross-attention's keys and values of different layers, which all read one input: together they would
// take a buffer as wide as all layers.

import { linear, slice, stacked } from "../graph/builder.ts"
import type { CodecOf } from "../graph/codecs.ts"
import { type Graph, isCross, type Node, readers, rewrite, type Weight } from "../graph/graph.ts"

type Linear = Extract<Node, { op: "linear" }>

export function joinLinears(graph: Graph, codecOf: CodecOf): Graph {
  const joined = new Map<Linear, { family: Linear[]; from: number }>()
  for (const family of families(graph, codecOf)) {
    let from = 0
    for (const member of family) {
      joined.set(member, { family, from })
      from += member.columns
    }
  }
  const products = new Map<Linear[], Node>()
  return rewrite(graph, (node, before) => {
    const part = joined.get(before as Linear)
    if (!part) return node
    const { family, from } = part
    if (!products.has(family)) products.set(family, product(node.inputs[0]!, family))
    return slice(products.get(family)!, from, node.columns)
  })
}

/** Plain products that read the same node and can be one matrix, two or more of them. */
function families(graph: Graph, codecOf: CodecOf): Linear[][] {
  const crossing = crossLayers(graph)
  return [...readers(graph).values()].flatMap((all) => {
    const alike = new Map<string, Linear[]>()
    for (const node of all) {
      if (node.op !== "linear" || node.epilogue !== "store") continue
      const { exact } = node.weight
      const kind = `${crossing.get(node)} ${node.bias !== undefined} ${codecOf(node.weight)} ${exact}`
      alike.set(kind, [...(alike.get(kind) ?? []), node])
    }
    return [...alike.values()].filter((family) => family.length > 1)
  })
}

/** Of what cross-attention remembers, its layer. */
function crossLayers({ nodes }: Graph): Map<Node, number> {
  return new Map(
    nodes.flatMap((node) =>
      node.op === "attention" && isCross(node)
        ? node.inputs.slice(1).map((input) => [input, node.attention.layer] as const)
        : [],
    ),
  )
}

function product(input: Node, family: readonly Linear[]): Node {
  const biases = family.flatMap(({ bias }) => bias ?? [])
  return linear(
    input,
    join(family.map(({ weight }) => weight)),
    biases.length > 0 ? join(biases) : undefined,
  )
}

/** "layers.0.q" and "layers.0.k" make "layers.0.q+k". */
function join(weights: readonly Weight[]): Weight {
  const [first, ...others] = weights
  const names = others.map(({ name }) => name.slice(name.lastIndexOf(".") + 1))
  const joined = stacked([first!.name, ...names].join("+"), weights)
  return first!.exact ? { ...joined, exact: true } : joined
}
