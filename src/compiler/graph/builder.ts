// The words in which an architecture is written. Each function makes one node and checks that its operands fit, so that a
// slip in an architecture is found where it was made. Everything is computed for all tokens here; which rows are left out
// is decided by a pass.

import type { Attention, Graph, Node, RowSet, Weight } from "./graph.ts"
import { inOrder } from "./graph.ts"

/** A matrix `[rows, columns]`, or with no columns given a vector. */
export function weight(name: string, tensor: string, rows: number, columns = 1): Weight {
  return { name, rows, columns, sources: [{ tensor, rows }] }
}

export function embed(table: Weight): Node {
  return { op: "embed", rows: "tokens", columns: table.columns, inputs: [], table }
}

export function hiddenIn(columns: number): Node {
  return { op: "hiddenIn", rows: "tokens", columns, inputs: [] }
}

export function concat(a: Node, b: Node): Node {
  return { op: "concat", rows: sameRows(a, b), columns: a.columns + b.columns, inputs: [a, b] }
}

/** RMS norm over each `weight.rows` columns: the whole row, or each head by itself. */
export function norm(x: Node, weight: Weight, epsilon: number): Node {
  check(x.columns % weight.rows === 0, `${weight.name} does not divide ${x.columns} columns`)
  return {
    op: "norm",
    rows: x.rows,
    columns: x.columns,
    inputs: [x],
    weight,
    epsilon,
    width: weight.rows,
  }
}

export function linear(x: Node, weight: Weight, bias?: Weight): Node {
  check(
    x.columns === weight.columns,
    `${weight.name} reads ${weight.columns} columns, not ${x.columns}`,
  )
  check(!bias || bias.rows === weight.rows, `${bias?.name} does not fit ${weight.name}`)
  return {
    op: "linear",
    rows: x.rows,
    columns: weight.rows,
    inputs: [x],
    weight,
    bias,
    epilogue: "store",
  }
}

export function rope(x: Node, headDim: number, frequencies: readonly number[]): Node {
  check(x.columns % headDim === 0 && headDim === 2 * frequencies.length, "rope: heads do not fit")
  return { op: "rope", rows: x.rows, columns: x.columns, inputs: [x], headDim, frequencies }
}

export function attention(q: Node, k: Node, v: Node, attention: Attention): Node {
  const { heads, kvHeads, headDim } = attention
  check(q.columns === heads * headDim, "attention: queries do not fit")
  check(k.columns === kvHeads * headDim && v.columns === k.columns, "attention: keys do not fit")
  return { op: "attention", rows: q.rows, columns: q.columns, inputs: [q, k, v], attention }
}

export function silu(x: Node): Node {
  return { op: "silu", rows: x.rows, columns: x.columns, inputs: [x] }
}

export function add(a: Node, b: Node): Node {
  check(a.columns === b.columns, `add: ${a.columns} and ${b.columns} columns`)
  return { op: "add", rows: sameRows(a, b), columns: a.columns, inputs: [a, b] }
}

export function multiply(a: Node, b: Node): Node {
  check(a.columns === b.columns, `multiply: ${a.columns} and ${b.columns} columns`)
  return { op: "multiply", rows: sameRows(a, b), columns: a.columns, inputs: [a, b] }
}

export function slice(x: Node, from: number, columns: number): Node {
  check(from + columns <= x.columns, "slice: beyond the last column")
  return { op: "slice", rows: x.rows, columns, inputs: [x], from }
}

export function select(x: Node, rows: RowSet): Node {
  return { op: "select", rows, columns: x.columns, inputs: [x] }
}

/** The graph that ends in `last` [tokens, hidden], the normed last hidden rows, and reads its logits off them. */
export function finish(
  graph: Omit<Graph, "nodes" | "logits" | "hidden">,
  last: Node,
  head: Weight,
): Graph {
  const logits = linear(select(last, "logits"), head)
  const hidden = select(last, "hidden")
  return { ...graph, nodes: inOrder([logits, hidden]), logits, hidden }
}

function sameRows(a: Node, b: Node): RowSet {
  check(a.rows === b.rows, `rows differ: ${a.rows} and ${b.rows}`)
  return a.rows
}

function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(`internal: ${what}`)
}
