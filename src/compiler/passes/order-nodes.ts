// In which order nodes stand. Those that look at nothing but their own row come together: when a product or attention needs some,
// others of the same rows whose operands are there come along, and a device does all of them at once. Otherwise they wait for the
// first that needs them. What a product makes, and what it is rounded to if nobody else reads it, stand behind each other.
//
// Nothing that is computed changes, nor what is remembered before what.

import { type Graph, heavy, isCross, type Node, readers } from "../graph/graph.ts"

export function orderNodes(graph: Graph): Graph {
  return { ...graph, nodes: new Ordering(graph).nodes() }
}

/** They read what other rows have left, in the order in which they stood. */
const readsOthers: ReadonlySet<Node["op"]> = new Set([
  "attention",
  "indexer",
  "convolve",
  "delta",
] as const)

/** Each column of what these make is made of the same one of what they read. */
const byColumn: ReadonlySet<Node["op"]> = new Set(["apply", "multiply", "weigh"] as const)

class Ordering {
  readonly #graph: Graph
  readonly #readers: ReadonlyMap<Node, readonly Node[]>
  readonly #operands: ReadonlyMap<Node, readonly Node[]>
  readonly #places: ReadonlyMap<Node, number>
  /** Of experts, what chooses among them, which nobody else reads: it comes with them. */
  readonly #choices = new Map<Node, readonly Node[]>()
  readonly #isChoice = new Set<Node>()
  readonly #order = new Set<Node>()
  /** What stands behind each node, and how many of those before it are still to come. */
  readonly #behind = new Map<Node, Node[]>()
  readonly #missing = new Map<Node, number>()
  /** Those that nothing is missing for, as they stood; some are in order already. */
  readonly #ready: Node[] = []

  constructor(graph: Graph) {
    this.#graph = graph
    this.#readers = readers(graph)
    this.#operands = operandsOf(graph, this.#readers)
    this.#places = new Map(graph.nodes.map((node, place) => [node, place]))
    for (const node of graph.nodes) {
      const operands = new Set(this.#operands.get(node)!)
      this.#missing.set(node, operands.size)
      this.#behind.set(node, [])
      for (const operand of operands) this.#behind.get(operand)!.push(node)
      if (operands.size === 0) this.#ready.push(node)
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
      const next = this.#next(waiting)
      if (!next) {
        const [first] = waiting
        this.#need(this.#operandsWithChoice(first!))
        continue
      }
      // Keys and values are kept row by row.
      if (next.op === "indexer" || (next.op === "attention" && next.inputs.length > 1))
        this.#addRows("tokens", (node) => this.#mayCome(node))
      const choice = this.#choices.get(next) ?? []
      for (const each of [...choice, next, ...this.#codesBehind(next)]) this.#add(each)
      waiting.delete(next)
      this.#choices.delete(next)
    }
    for (const node of nodes) this.#add(node)
    return [...this.#order]
  }

  /** With its slices, which are nothing to compute. */
  #add(node: Node): void {
    if (this.#order.has(node)) return
    this.#order.add(node)
    for (const other of this.#behind.get(node)!) {
      const missing = this.#missing.get(other)! - 1
      this.#missing.set(other, missing)
      if (missing === 0) this.#insert(other)
    }
    for (const reader of this.#readers.get(node)!) if (reader.op === "slice") this.#add(reader)
  }

  /** Among those that are ready, at its place. */
  #insert(node: Node): void {
    const place = this.#places.get(node)!
    let at = this.#ready.length
    while (at > 0 && this.#places.get(this.#ready[at - 1]!)! > place) at--
    this.#ready.splice(at, 0, node)
  }

  /** What others wait for first, then products as they stood; undefined: rows are missing for each of them. */
  #next(waiting: ReadonlySet<Node>): Node | undefined {
    this.#leaveOut()
    const isThere = (node: Node) => this.#order.has(node)
    const withChoice = [...this.#choices.keys()].filter((node) =>
      this.#operandsWithChoice(node).every(isThere),
    )
    const ready = [...this.#ready.filter((node) => waiting.has(node)), ...withChoice]
    const first = ready.find(({ op }) => readsOthers.has(op) && op !== "convolve")
    const place = (node: Node) => this.#places.get(node)!
    return (
      first ??
      ready.reduce<Node | undefined>(
        (least, node) => (least && place(least) <= place(node) ? least : node),
        undefined,
      )
    )
  }

  /** What is in order is ready no more. */
  #leaveOut(): void {
    const left = this.#ready.filter((node) => !this.#order.has(node))
    this.#ready.splice(0, this.#ready.length, ...left)
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
      this.#leaveOut()
      const first = this.#ready.find((node) => missing.has(node))
      if (!first) return
      this.#addRows(first.rows, (node) => missing.has(node) || (!isAlone && this.#mayCome(node)))
    }
  }

  /** Those that become ready on the way stand behind what they waited for. */
  #addRows(rows: Node["rows"], isWanted: (node: Node) => boolean): void {
    for (let at = 0; at < this.#ready.length; at++) {
      const node = this.#ready[at]!
      if (!this.#order.has(node) && node.rows === rows && isWanted(node)) this.#add(node)
    }
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
  const crossing = crossKeys(nodes)
  let remembered: Node | undefined
  for (const node of nodes) {
    const own: Node[] = [...node.inputs]
    if (readsOthers.has(node.op)) {
      if (remembered) own.push(remembered)
      remembered = node
    }
    // They could be computed long before: those of all layers would lie there at once.
    if (crossing.has(node) && remembered) own.push(remembered)
    // What a product adds to is gone behind it.
    if (node.op === "linear" && node.inputs[1])
      for (const other of readers.get(node.inputs[1])!)
        if (place.get(other)! < place.get(node)!) own.push(other)
    operands.set(node, own)
  }
  return operands
}

/** What makes keys and values of cross-attention. */
function crossKeys(nodes: readonly Node[]): Set<Node> {
  return new Set(
    nodes.flatMap((node) =>
      isCross(node)
        ? node.inputs.slice(1).map((input) => (input.op === "slice" ? input.inputs[0] : input))
        : [],
    ),
  )
}
