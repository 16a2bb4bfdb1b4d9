// Graph to plan: nodes in order become steps, values become columns of buffers. A buffer is used again once nobody will
// read what lies in it; slices are views and cost nothing; what may be done in place is.

import { type FormatName, parameterFormats } from "../runtime/format.ts"
import type { Parameter } from "../runtime/manifest.ts"
import { type Graph, type Node, readers, type Weight } from "./graph/graph.ts"
import type { Buffer, BufferId, Codes, ParameterId, Plan, Step, StepOp, View } from "./plan.ts"

export function lower(graph: Graph, format: FormatName, kv: Plan["kv"]): Plan {
  const parameters = new ParameterList(format)
  const buffers = new BufferList()
  const read = readers(graph)
  const last = lastReaders(graph)
  const stored = new Map<Node, View>()
  const coded = new Map<Node, Codes>()
  const angles = new Map<string, View>()
  const steps: Step[] = []

  graph.nodes.forEach((node, index) => {
    const emit = (op: StepOp, rows = node.rows) => steps.push({ rows, ...op })
    const of = (input: Node) => stored.get(input)!
    const store = (at: Node, view: View): View => {
      stored.set(at, view)
      for (const part of read.get(at)!)
        if (part.op === "slice")
          store(part, { ...view, from: view.from + part.from, columns: part.columns })
      return view
    }
    const fresh = () => {
      const capacity = node.rows === "logits" ? "logits" : "tokens"
      return store(node, buffers.take(capacity, node.columns, "f32"))
    }
    /** The input's own place, when nobody will read any of it after this node. */
    const inPlace = (input: Node) => {
      const view = of(input)
      for (const [other, place] of stored)
        if (overlaps(place, view) && last.get(other)! > index) return undefined
      return store(node, view)
    }
    switch (node.op) {
      case "embed":
        emit({ op: "embed", table: parameters.matrix(node.table), output: fresh() })
        break
      case "hiddenIn":
        emit({ op: "hiddenIn", output: fresh() })
        break
      case "concat": {
        const output = fresh()
        let from = 0
        for (const input of node.inputs) {
          emit({
            op: "copy",
            input: of(input),
            output: { ...output, from, columns: input.columns },
          })
          from += input.columns
        }
        break
      }
      case "norm": {
        const [x] = node.inputs
        const heads = node.width < node.columns
        const output = (heads && inPlace(x)) || fresh()
        const { epsilon, width } = node
        const weight = parameters.vector(node.weight)
        emit({ op: "norm", input: of(x), weight, epsilon, width, output })
        break
      }
      case "quantize": {
        const codes = buffers.take("tokens", node.columns, "i8").buffer
        const groups = Math.ceil(node.columns / node.group)
        const scales = buffers.take("tokens", groups, "f32").buffer
        const output = { codes, scales, columns: node.columns, group: node.group }
        coded.set(node, output)
        emit({ op: "quantize", input: of(node.inputs[0]), output })
        break
      }
      case "linear": {
        const [x, residual] = node.inputs
        const codes = coded.get(x)
        const input = codes
          ? ({ kind: "int8", codes } as const)
          : ({ kind: "float", view: of(x) } as const)
        const weight = parameters.matrix(node.weight)
        const bias = node.bias && parameters.vector(node.bias)
        const to = residual && of(residual)
        const output = (residual && inPlace(residual)) || fresh()
        const kind = node.epilogue
        const epilogue = kind === "add" ? { kind, to: to! } : { kind }
        emit({ op: "matmul", input, weight, bias, epilogue, output })
        break
      }
      case "rope": {
        const [x] = node.inputs
        const { headDim, frequencies } = node
        const key = frequencies.join()
        if (!angles.has(key)) {
          const output = buffers.take("tokens", headDim, "f32")
          angles.set(key, output)
          emit({ op: "angles", frequencies, output }, "tokens")
        }
        let place = inPlace(x)
        if (!place) {
          place = fresh()
          emit({ op: "copy", input: of(x), output: place })
        }
        emit({ op: "rope", view: place, headDim, angles: angles.get(key)! })
        break
      }
      case "attention": {
        const [q, k, v] = node.inputs
        const { attention } = node
        emit({ op: "remember", key: of(k), value: of(v), layer: attention.layer }, "tokens")
        emit({ op: "attend", query: of(q), attention, output: fresh() })
        break
      }
      case "slice": // a place in what it was cut from, given with it
        break
      case "select": {
        const [x] = node.inputs
        emit({ op: "select", input: of(x), from: x.rows, output: fresh() })
        break
      }
      case "silu":
        emit({ op: "silu", input: of(node.inputs[0]), output: fresh() })
        break
      case "add":
      case "multiply": {
        const [a, b] = node.inputs
        emit({ op: node.op, a: of(a), b: of(b), output: fresh() })
        break
      }
    }
    releaseDead(index)
  })

  function releaseDead(index: number): void {
    const alive = new Set<BufferId>([...angles.values()].map(({ buffer }) => buffer))
    for (const [node, view] of stored) if (last.get(node)! > index) alive.add(view.buffer)
    for (const [node, codes] of coded)
      if (last.get(node)! > index) alive.add(codes.codes).add(codes.scales)
    buffers.keep(alive)
  }

  const { architecture, shapes, window, sinks } = graph
  return {
    architecture,
    format,
    shapes,
    window,
    sinks,
    kv,
    parameters: parameters.all,
    buffers: buffers.all,
    steps,
    logits: stored.get(graph.logits)!,
    hidden: stored.get(graph.hidden)!,
  }
}

/** The index of each node's last reader; results are read after the end. Cutting a slice reads nothing. */
function lastReaders(graph: Graph): Map<Node, number> {
  const last = new Map<Node, number>(graph.nodes.map((node, index) => [node, index]))
  graph.nodes.forEach((node, index) => {
    if (node.op !== "slice") for (const input of node.inputs) last.set(input, index)
  })
  last.set(graph.logits, Number.POSITIVE_INFINITY)
  last.set(graph.hidden, Number.POSITIVE_INFINITY)
  return last
}

function overlaps(a: View, b: View): boolean {
  return a.buffer === b.buffer && a.from < b.from + b.columns && b.from < a.from + a.columns
}

class ParameterList {
  readonly all: Parameter[] = []
  readonly #ids = new Map<string, ParameterId>()
  readonly #formats: ReturnType<typeof parameterFormats>

  constructor(format: FormatName) {
    this.#formats = parameterFormats(format)
  }

  matrix(weight: Weight): ParameterId {
    return this.#id(weight, this.#formats.matrix)
  }

  vector(weight: Weight): ParameterId {
    return this.#id(weight, this.#formats.vector)
  }

  /** A weight that is read twice, as tied embeddings are, is one parameter. */
  #id({ name, rows, columns, sources }: Weight, format: Parameter["format"]): ParameterId {
    const known = this.#ids.get(name)
    if (known !== undefined) return known
    this.#ids.set(name, this.all.length)
    return this.all.push({ name, rows, columns, format, sources }) - 1
  }
}

class BufferList {
  readonly all: Buffer[] = []
  #free: BufferId[] = []

  take(capacity: Buffer["capacity"], columns: number, dtype: Buffer["dtype"]): View {
    const same = (id: BufferId) => {
      const buffer = this.all[id]!
      return buffer.capacity === capacity && buffer.columns === columns && buffer.dtype === dtype
    }
    let buffer = this.#free.find(same)
    if (buffer === undefined) buffer = this.all.push({ capacity, columns, dtype }) - 1
    this.#free = this.#free.filter((id) => id !== buffer)
    return { buffer, from: 0, columns }
  }

  /** Everything else is free. */
  keep(alive: ReadonlySet<BufferId>): void {
    this.#free = this.all.map((_, id) => id).filter((id) => !alive.has(id))
  }
}
