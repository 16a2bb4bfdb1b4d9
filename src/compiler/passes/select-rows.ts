// Only what somebody reads is computed. Keys and values are needed of every token, and so is all that they are made from;
// what comes after the last layer's keys and values matters for the wanted rows alone: its queries, its attention, its
// output projection, its MLP, the last norm. A select stands wherever wanted rows begin. Where rows of a medium are read by
// cross-attention, that begins with the first layer: other tokens' keys and values are all that self-attention reads, so tokens are
// wanted all, and of the rows nothing is computed but what cross-attention reads (`Manifest.words`).

import { select } from "../graph/builder.ts"
import { type Graph, isCross, isRelative, type Node, rewrite, withInputs } from "../graph/graph.ts"

export function selectRows(graph: Graph): Graph {
  const crosses = graph.nodes.some(isCross)
  const remembered = (node: Node) => (crosses && isOwn(node) ? [] : rememberedBy(node))
  const needed = neededOfAllTokens(graph, remembered)
  const selected = new Map<Node, Node>()
  const wanted = (node: Node): Node => {
    if (node.rows !== "tokens") return node
    if (!selected.has(node)) selected.set(node, select(node, "wanted"))
    return selected.get(node)!
  }
  return rewrite(graph, (node, before) => {
    if (before.rows !== "tokens" || needed.has(before)) return node
    const kept = remembered(node)
    const inputs = node.inputs.map((input) => (kept.includes(input) ? input : wanted(input)))
    return { ...withInputs(node, inputs), rows: "wanted" }
  })
}

/** Keys, values, what is convolved, what changes a state, rows that are joined, and what they are computed from. */
function neededOfAllTokens(graph: Graph, remembered: (node: Node) => readonly Node[]): Set<Node> {
  const needed = new Set<Node>()
  for (const node of graph.nodes.toReversed()) {
    if (node.op === "delta") needed.add(node)
    if (needed.has(node)) for (const input of node.inputs) needed.add(input)
    for (const input of remembered(node)) needed.add(input)
  }
  return needed
}

const isOwn = (node: Node) => node.op === "attention" && !isCross(node)

/** What a node reads of other tokens than its own. */
function rememberedBy(node: Node): readonly Node[] {
  if (node.op === "convolve" || (node.op === "select" && node.joined > 1)) return node.inputs
  const isSparse = node.op === "attention" && node.attention.sparse
  if (node.op === "indexer" || isSparse) return [node.inputs[1]!]
  if (node.op === "attention" && isRelative(node)) return node.inputs.filter((_, i) => i % 3 !== 0)
  return node.op === "attention" ? node.inputs.slice(1) : []
}
