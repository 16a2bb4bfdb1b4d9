// In which order nodes stand. Those that look at nothing but their own row come together: when a product or attention needs some,
// others of the same rows whose operands are there come along, and a device does all of them at once. Otherwise they wait for the
// first that needs them. What a product makes, and what it is rounded to if nobody else reads it, stand behind each other.
//
// Nothing that is computed changes, nor what is remembered before what.

import { type Graph, type Node, readers } from "../graph/graph.ts"

export function orderNodes(graph: Graph): Graph {
  return { ...graph, nodes: new Ordering(graph).nodes() }
}

/** Nodes that are no matter of a row by itself. */
const heavy: ReadonlySet<Node["op"]> = new Set([
  "linear",
  "headLinear",
  "experts",
  "attention",
  "delta",
] as const)

/** Each column of what these make is made of the same one of what they read. */
const byColumn: ReadonlySet<Node["op"]> = new Set(["apply", "multiply", "weigh"] as const)

class Ordering {
  readonly #graph: Graph
  readonly #readers: ReadonlyMap<Node, readonly Node[]>
  readonly #operands: ReadonlyMap<Node, readonly Node[]>
  /** Of experts, what chooses among them, which nobody else reads: it comes with them. */
  readonly #choices = new Map<Node, readonly Node[]>()
  readonly #isChoice = new Set<Node>()
  readonly #order = new Set<Node>()

  constructor(graph: Graph) {
    this.#graph = graph
    this.#readers = readers(graph)
    this.#operands = operandsOf(graph, this.#readers)
    for (const node of graph.nodes) {
      if (node.op !== "experts") continue
      const choice = this.#choiceOf(node.inputs[1])
      this.#choices.set(node, choice)
      for (const each of choice) this.#isChoice.add(each)
    }
  }

  nodes(): readonly Node[] {
    const { nodes } = this.#graph
    const waiting = new Set(nodes.filter(({ op }) => heavy.has(op)))
    while (waiting.size > 0) {
      const next = this.#readyOf(waiting)
      if (!next) {
        const [first] = waiting
        this.#need(this.#operandsWithChoice(first!))
        continue
      }
      // Keys and values are kept row by row.
      if (next.op === "attention" && next.inputs.length > 1)
        this.#addRows("tokens", (node) => this.#mayCome(node))
      const choice = this.#choices.get(next) ?? []
      for (const each of [...choice, next, ...this.#codesBehind(next)]) this.#add(each)
      waiting.delete(next)
    }
    for (const node of nodes) this.#add(node)
    return [...this.#order]
  }

  /** With its slices, which are nothing to compute. */
  #add(node: Node): void {
    this.#order.add(node)
    for (const reader of this.#readers.get(node)!) if (reader.op === "slice") this.#add(reader)
  }

  /** What others wait for first, then products as they stood; undefined: rows are missing for each of them. */
  #readyOf(waiting: ReadonlySet<Node>): Node | undefined {
    let ready: Node | undefined
    for (const node of waiting) {
      if (!this.#operandsWithChoice(node).every((operand) => this.#order.has(operand))) continue
      if (node.op === "attention" || node.op === "delta") return node
      ready ??= node
    }
    return ready
  }

  #operandsWithChoice(node: Node): Node[] {
    const choice = this.#choices.get(node) ?? []
    return [...choice, node]
      .flatMap((each) => this.#operands.get(each)!)
      .filter((operand) => !choice.includes(operand))
  }

  /** Rows that are still missing, and with them others of the same rows. */
  #need(operands: readonly Node[]): void {
    const missing = new Set<Node>()
    const stack = [...operands]
    for (let node = stack.pop(); node; node = stack.pop())
      if (!this.#order.has(node) && !missing.has(node)) {
        missing.add(node)
        stack.push(...this.#operands.get(node)!)
      }
    // Whoever convolves has kept rows before, and is done with the state behind it: that is enough for one launch.
    const isAlone = [...missing].some(({ op }) => op === "convolve")
    for (;;) {
      const first = this.#graph.nodes.find(
        (node) => missing.has(node) && !this.#order.has(node) && this.#isReady(node),
      )
      if (!first) return
      this.#addRows(first.rows, (node) => missing.has(node) || (!isAlone && this.#mayCome(node)))
    }
  }

  #addRows(rows: Node["rows"], isWanted: (node: Node) => boolean): void {
    for (const node of this.#graph.nodes)
      if (!this.#order.has(node) && node.rows === rows && this.#isReady(node) && isWanted(node))
        this.#add(node)
  }

  #isReady(node: Node): boolean {
    return this.#operands.get(node)!.every((operand) => this.#order.has(operand))
  }

  /** Not what is done with its experts, and not what reads other rows. */
  #mayCome(node: Node): boolean {
    const isFar = node.op === "convolve" || node.op === "select"
    return !heavy.has(node.op) && !isFar && !this.#isChoice.has(node)
  }

  /** A choice, or one that is weighed. */
  #choiceOf(weights: Node): Node[] {
    if (this.#readers.get(weights)!.length > 1) return []
    if (weights.op === "route") return [weights]
    if (weights.op !== "weigh") return []
    const choice = this.#choiceOf(weights.inputs[0])
    return choice.length === 1 ? [...choice, weights] : []
  }

  /** The nodes behind one by which its columns, read by nobody else, become codes. */
  #codesBehind(node: Node): Node[] {
    if (node.op === "delta" || node.op === "experts") return []
    const found: Node[] = []
    for (let last: Node = node; ; ) {
      const [reader, ...others]: readonly Node[] = this.#readers.get(last)!
      if (!reader || others.length > 0 || reader.rows !== last.rows) return []
      if (!reader.inputs.every((x) => x === last || this.#order.has(x))) return []
      found.push(reader)
      if (reader.op === "quantize") return found
      if (!byColumn.has(reader.op) || reader.columns !== last.columns) return []
      last = reader
    }
  }
}

/** What must stand before each node. */
function operandsOf(
  { nodes }: Graph,
  readers: ReadonlyMap<Node, readonly Node[]>,
): Map<Node, readonly Node[]> {
  const place = new Map(nodes.map((node, i) => [node, i]))
  const operands = new Map<Node, readonly Node[]>()
  let remembered: Node | undefined
  for (const node of nodes) {
    const own: Node[] = [...node.inputs]
    if (node.op === "attention" || node.op === "convolve" || node.op === "delta") {
      if (remembered) own.push(remembered)
      remembered = node
    }
    // What a product adds to is gone behind it.
    if (node.op === "linear" && node.inputs[1])
      for (const other of readers.get(node.inputs[1])!)
        if (place.get(other)! < place.get(node)!) own.push(other)
    operands.set(node, own)
  }
  return operands
}
