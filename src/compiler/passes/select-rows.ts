// Only what somebody reads is computed. Keys and values are needed of every token, and so is all that they are made from;
// what comes after the last layer's keys and values matters for the wanted rows alone: its queries, its attention, its
// output projection, its MLP, the last norm. A select stands wherever wanted rows begin. Where rows of a medium are read by
// cross-attention, that begins with the first layer: other tokens' keys and values are all that self-attention reads, so tokens are
// wanted all, and of the rows nothing is computed but what cross-attention reads (`Manifest.words`). Nor is that of any other token.

import { select } from "../graph/builder.ts"
import {
  type Graph,
  isCross,
  isRelative,
  type Node,
  readers,
  rewrite,
  withInputs,
} from "../graph/graph.ts"

export function selectRows(graph: Graph): Graph {
  const crosses = graph.nodes.some(isCross)
  const remembered = (node: Node) => (crosses && isOwn(node) ? [] : rememberedBy(node))
  const needed = neededOfAllTokens(graph, remembered)
  const taken = neededOfTaken(graph)
  const chosen = { wanted: new Map<Node, Node>(), taken: new Map<Node, Node>() }
  const among = (set: keyof typeof chosen, node: Node): Node => {
    if (node.rows !== "tokens") return node
    if (!chosen[set].has(node)) chosen[set].set(node, select(node, set))
    return chosen[set].get(node)!
  }
  return rewrite(graph, (node, before) => {
    const isTaken = taken.has(before)
    if (before.rows !== "tokens" || (needed.has(before) && !isTaken)) return node
    const set = isTaken ? "taken" : "wanted"
    const kept = remembered(node)
    const inputs = node.inputs.map((input) => (kept.includes(input) ? input : among(set, input)))
    return { ...withInputs(node, inputs), rows: set }
  })
}

/** Keys and values of cross-attention, and what they are computed from and nobody else reads. */
function neededOfTaken(graph: Graph): Set<Node> {
  const taken = new Set<Node>()
  const read = readers(graph)
  const isRemembered = (node: Node, reader: Node) =>
    isCross(reader) && rememberedBy(reader).includes(node)
  for (const node of graph.nodes.toReversed()) {
    const own = read.get(node) ?? []
    const isTaken = (reader: Node) => taken.has(reader) || isRemembered(node, reader)
    if (node.inputs.length > 0 && own.length > 0 && own.every(isTaken)) taken.add(node)
  }
  return taken
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
