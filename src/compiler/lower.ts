// Graph to plan: nodes in order become steps, values become columns of buffers. A buffer is used again once nobody will
// read what lies in it; slices are views and cost nothing; what may be done in place is.

import { type FormatName, groupCodecs, isGroupCodec } from "../runtime/format.ts"
import { type KvShape, type Parameter, reachOf } from "../runtime/manifest.ts"
import type { CodecOf } from "./graph/codecs.ts"
import {
  type Attention,
  type Graph,
  heavy,
  isRelative,
  type Node,
  readers,
  stateSize,
  valueDim,
  type Weight,
} from "./graph/graph.ts"
import {
  type AttentionArithmetic,
  type Buffer,
  type BufferId,
  type Codes,
  type Epilogue,
  MAX_CODED_HEAD,
  type ParameterId,
  type Place,
  type Plan,
  type ProductInput,
  type Step,
  type StepOp,
  type SumOrder,
  type View,
  WIDE_GROUP,
  wideCodes,
} from "./plan.ts"

export interface Lowered {
  format: FormatName
  codecOf: CodecOf
  kv: Plan["kv"]
  sums: SumOrder
}

export function lower(graph: Graph, { format, codecOf, kv, sums }: Lowered): Plan {
  if ((sums.span ?? 0) % 64 !== 0) throw new Error(`internal: spans of ${sums.span} positions`)
  const groups = groupsOf(graph)
  const lowering = new Lowering(graph, groups, { codecOf, sums, kv })
  graph.nodes.forEach((node, index) => {
    lowering.node(node, index)
    lowering.release(index)
  })
  const { architecture, shapes, sinks } = graph
  return { architecture, format, shapes, sinks, kv, groups, ...lowering.result() }
}

/**
 * Layers that keep, those that keep alike together. A window that the context does not reach is none, nor is one of those that see
 * both ways.
 */
function groupsOf({ nodes, shapes: { context } }: Graph): KvShape[] {
  const groups = new Map<string, KvShape & { layers: number[] }>()
  const keep = (layer: number, shape: Omit<KvShape, "layers">) => {
    const key = JSON.stringify(shape)
    const known = groups.get(key)
    if (known && !known.layers.includes(layer)) known.layers.push(layer)
    else if (!known) groups.set(key, { layers: [layer], ...shape })
  }
  for (const node of nodes) {
    if (node.op === "convolve") {
      const { layer, count, heads, ahead } = node.convolution
      const headDim = { key: node.columns / heads, value: 0 }
      keep(layer, {
        kvHeads: heads,
        headDim,
        ...(count < context && !ahead ? { window: count } : {}),
      })
    }
    if (node.op === "delta") {
      const none = { kvHeads: 0, headDim: { key: 0, value: 0 } }
      keep(node.delta.layer, { ...none, state: stateSize(node.delta) })
    }
    if (node.op === "indexer") {
      const { layer, headDim } = node.indexer
      keep(layer, { kvHeads: 1, headDim: { key: headDim, value: 0 } })
    }
    if (node.op !== "attention" || node.inputs.length === 1) continue
    const { layer, kvHeads, headDim, latent, window = context, bidirectional } = node.attention
    keep(layer, {
      ...(node.attention.media && { media: true as const }),
      kvHeads,
      headDim: { key: headDim, value: latent === undefined ? valueDim(node.attention) : 0 },
      ...(window < context && !bidirectional ? { window } : {}),
    })
  }
  // What reads media needs them from the first position on, whoever else looks back as far.
  return [...groups.values()].sort((a, b) => {
    if (reachOf(a) !== reachOf(b)) return reachOf(a) < reachOf(b) ? 1 : -1
    return Number(b.media ?? false) - Number(a.media ?? false)
  })
}

type Linear = Extract<Node, { op: "linear" }>

class Lowering {
  readonly #graph: Graph
  readonly #groups: readonly KvShape[]
  readonly #readers: ReadonlyMap<Node, readonly Node[]>
  readonly #last: ReadonlyMap<Node, number>
  readonly #parameters: ParameterList
  readonly #sums: SumOrder
  readonly #kv: Plan["kv"]
  readonly #buffers = new BufferList()
  readonly #places = new Map<Node, View>()
  /** Nodes of those that somebody still reads. */
  readonly #living = new Set<Node>()
  readonly #codes = new Map<Node, Codes>()
  readonly #ropeTables = new Map<string, View>() // by their rotation
  readonly #steps: Step[] = []

  constructor(
    graph: Graph,
    groups: readonly KvShape[],
    { codecOf, sums, kv }: Pick<Lowered, "codecOf" | "sums" | "kv">,
  ) {
    this.#kv = kv
    this.#graph = graph
    this.#groups = groups
    this.#sums = sums
    this.#readers = readers(graph)
    this.#last = lastReaders(graph, sums.parts > 1)
    this.#parameters = new ParameterList(codecOf)
  }

  result(): Pick<Plan, "parameters" | "buffers" | "steps" | "logits" | "hidden"> {
    return {
      parameters: this.#parameters.all,
      buffers: this.#buffers.all,
      steps: this.#steps,
      logits: this.#at(this.#graph.logits),
      hidden: this.#at(this.#graph.hidden),
    }
  }

  /** Gives node number `index` its place and its steps. */
  node(node: Node, index: number): void {
    const emit = (op: StepOp, rows = node.rows) => this.#steps.push({ rows, ...op })
    const at = (input: Node) => this.#at(input)
    const fresh = () => this.#place(node, this.#take(node, node.columns, "f32"))
    const inPlace = (input: Node) => this.#inPlace(node, input, index)
    switch (node.op) {
      case "embed":
        emit({
          op: "embed",
          table: this.#parameters.id(node.table),
          by: node.by,
          ...(node.sees && { sees: node.sees }),
          ...(node.instead !== undefined && { instead: node.instead }),
          output: fresh(),
        })
        break
      case "hiddenIn":
        emit({ op: "hiddenIn", output: fresh() })
        break
      case "seenPart": {
        const { taken, from } = node
        emit({ op: "seenPart", taken, from, output: fresh() })
        break
      }
      case "concat": {
        const whole = fresh()
        let from = 0
        for (const input of node.inputs) {
          const output = { ...whole, from, columns: input.columns }
          emit({ op: "copy", input: at(input), output })
          from += input.columns
        }
        break
      }
      case "norm": {
        const [x] = node.inputs
        const { kind, epsilon, width } = node
        const heads = width < node.columns
        const output = (heads && inPlace(x)) || fresh()
        const weight = this.#parameters.id(node.weight)
        const bias = node.bias && this.#parameters.id(node.bias)
        emit({ op: "norm", kind, input: at(x), weight, bias, epsilon, width, output })
        break
      }
      case "quantize": {
        const { columns, codec } = node
        const isWide = !isGroupCodec(codec)
        const group = isWide ? WIDE_GROUP : groupCodecs[codec].group
        const codes = this.#take(node, isWide ? wideCodes(columns) : columns, "i8").buffer
        const scales = this.#take(node, Math.ceil(columns / group), "scales").buffer
        const output = { codes, scales, columns, group, codec }
        this.#codes.set(node, output)
        emit({ op: "quantize", input: at(node.inputs[0]), output })
        break
      }
      case "linear": {
        const [x, residual] = node.inputs
        const input = this.#productInput(x)
        const weight = this.#parameters.id(node.weight)
        const bias = node.bias && this.#parameters.id(node.bias)
        const epilogue = this.#epilogue(node.epilogue, residual)
        const output = (residual && inPlace(residual)) || fresh()
        const { parts } = this.#sums
        emit({ op: "matmul", input, weight, bias, parts, epilogue, output })
        break
      }
      case "route": {
        const bias = node.bias && this.#parameters.id(node.bias)
        const { routing, inputs } = node
        emit({ op: "route", routing, input: at(inputs[0]), bias, output: fresh() })
        break
      }
      case "experts": {
        const [x, weights, xOfUp] = node.inputs
        const { active, gated, gateUp, up, down, biases, activation, limit, rounded } = node
        const idOf = (weight: Weight) => this.#parameters.id(weight)
        const experts = {
          count: weights.columns,
          active,
          intermediate: down.columns,
          gated,
          gateUp: idOf(gateUp),
          up: up && xOfUp && { weight: idOf(up), input: this.#productInput(xOfUp) },
          down: idOf(down),
          biases: biases && {
            gateUp: idOf(biases.gateUp),
            up: biases.up && idOf(biases.up),
            down: idOf(biases.down),
          },
          activation,
          limit,
          rounded,
          parts: this.#sums.parts,
        }
        const input = this.#productInput(x)
        emit({ op: "experts", experts, input, weights: at(weights), output: fresh() })
        break
      }
      case "headLinear": {
        const { heads, kept } = node
        const weight = this.#parameters.id(node.weight)
        const input = at(node.inputs[0])
        emit({ op: "headMatmul", input, weight, heads, kept, output: fresh() })
        break
      }
      case "rope": {
        const [x] = node.inputs
        const { headDim, rotation } = node
        const key = JSON.stringify(rotation)
        if (!this.#ropeTables.has(key)) {
          const output = this.#buffers.take("tokens", 2 * rotation.frequencies.length, "f32")
          this.#ropeTables.set(key, output)
          emit({ op: "ropeTable", rotation, output }, "tokens")
        }
        let view = inPlace(x)
        if (!view) {
          view = fresh()
          emit({ op: "copy", input: at(x), output: view })
        }
        emit({ op: "rope", view, headDim, ropeTable: this.#ropeTables.get(key)! })
        break
      }
      case "attention": {
        const [q, k, third, byQuery, byKey] = node.inputs
        const { attention, sinkLogits, biases } = node
        const [v, chosen] = attention.sparse ? [undefined, third] : [third, undefined]
        const place = this.#placeOf(attention.layer)
        if (k) emit({ op: "storeKv", key: at(k), value: v && at(v), place }, k.rows)
        const { span } = this.#sums
        emit({
          op: "attend",
          query: at(q),
          attention,
          arithmetic: this.#arithmeticOf(attention),
          sinkLogits: sinkLogits && this.#parameters.id(sinkLogits),
          biases: biases && {
            parameter: this.#parameters.id(biases),
            distances: isRelative(node) ? biases.rows : biases.rows / attention.heads,
          },
          ...(byQuery && byKey && { relative: { query: at(byQuery), key: at(byKey) } }),
          ...(chosen && { chosen: at(chosen) }),
          place,
          span,
          output: fresh(),
        })
        break
      }
      case "indexer": {
        const [q, k, weights] = node.inputs
        const place = this.#placeOf(node.indexer.layer)
        emit({ op: "storeKv", key: at(k), value: undefined, place }, k.rows)
        const { indexer } = node
        const read = { query: at(q), weights: at(weights) }
        emit({ op: "indexer", ...read, indexer, place, output: fresh() })
        break
      }
      case "convolve": {
        const place = this.#placeOf(node.convolution.layer)
        emit({ op: "storeKv", key: at(node.inputs[0]), value: undefined, place }, "tokens")
        const taps = this.#parameters.id(node.taps)
        const bias = node.bias && this.#parameters.id(node.bias)
        const { count, ahead = 0 } = node.convolution
        emit({ op: "convolve", taps, bias, count, ahead, place, output: fresh() })
        break
      }
      case "delta": {
        const [input, decays, third] = node.inputs.map(at) as [View, View, View | undefined]
        const { delta } = node
        const [shares, keys] = delta.by ? [undefined, third] : [third, undefined]
        const [decay, bias, skip] = [node.decay, node.bias, node.skip].map(
          (weight) => weight && this.#parameters.id(weight),
        )
        const place = this.#placeOf(delta.layer, true)
        const read = { input, decays, shares, keys, decay, bias, skip }
        emit({ op: "delta", ...read, delta, place, output: fresh() })
        break
      }
      case "weigh": {
        const weight = this.#parameters.id(node.weight)
        emit({ op: "weigh", input: at(node.inputs[0]), weight, output: fresh() })
        break
      }
      case "bound": {
        const bounds = this.#parameters.id(node.bounds)
        emit({ op: "bound", input: at(node.inputs[0]), bounds, output: fresh() })
        break
      }
      case "reorder": {
        const order = this.#parameters.id(node.order)
        emit({ op: "reorder", input: at(node.inputs[0]), order, output: fresh() })
        break
      }
      case "slice": // a place in what it was cut from, given with it
        break
      case "select": {
        const [x] = node.inputs
        const whole = fresh()
        for (let behind = 0; behind < node.joined; behind++) {
          const output = { ...whole, from: whole.from + behind * x.columns, columns: x.columns }
          emit({ op: "select", input: at(x), from: x.rows, ...(behind && { behind }), output })
        }
        break
      }
      case "apply": {
        const { function: name, by } = node
        emit({ op: "apply", function: name, by, input: at(node.inputs[0]), output: fresh() })
        break
      }
      case "add":
      case "multiply": {
        const [a, b] = node.inputs
        emit({ op: node.op, a: at(a), b: at(b), output: fresh() })
        break
      }
    }
  }

  #arithmeticOf({ headDim, latent }: Attention): AttentionArithmetic {
    const isCoded = this.#kv === "q8" && latent === undefined && headDim <= MAX_CODED_HEAD
    return (isCoded && this.#sums.codes) || "floats"
  }

  #productInput(x: Node): ProductInput {
    const codes = this.#codes.get(x)
    if (!codes) return floats(this.#at(x))
    return { kind: isGroupCodec(codes.codec) ? "int8" : "int16", codes }
  }

  /** A layer may keep rows and a state. */
  #placeOf(layer: number, isState = false): Place {
    const keeps = ({ layers, state }: KvShape) =>
      layers.includes(layer) && isState === (state !== undefined)
    const group = this.#groups.findIndex(keeps)
    return { group, layer: this.#groups[group]!.layers.indexOf(layer) }
  }

  #epilogue(end: Linear["epilogue"], residual: Node | undefined): Epilogue {
    if (end === "store") return { kind: "store" }
    if (end === "add") return { kind: "add", to: this.#at(residual!) }
    return { kind: "gated", activation: end.gated }
  }

  /** Frees the buffers in which nothing lies that is read after node number `index`. */
  release(index: number): void {
    const alive = new Set<BufferId>()
    for (const { buffer } of this.#ropeTables.values()) alive.add(buffer)
    for (const node of this.#living)
      if (this.#last.get(node)! > index) alive.add(this.#at(node).buffer)
      else this.#living.delete(node)
    // Codes a little longer: whoever reads them may activate what it makes of them, multiply that with other rows and round it.
    for (const [node, { codes, scales }] of this.#codes)
      if (this.#last.get(node)! >= index - 2) alive.add(codes).add(scales)
    this.#buffers.keep(alive)
  }

  #at(node: Node): View {
    return this.#places.get(node)!
  }

  #take({ rows }: Node, columns: number, dtype: Buffer["dtype"]): View {
    return this.#buffers.take(rows === "logits" ? "logits" : "tokens", columns, dtype)
  }

  /** Puts a node into a place, and its slices with it. */
  #place(node: Node, view: View): View {
    this.#places.set(node, view)
    this.#living.add(node)
    for (const part of this.#readers.get(node)!)
      if (part.op === "slice")
        this.#place(part, { ...view, from: view.from + part.from, columns: part.columns })
    return view
  }

  /** The input's own place for the node, when nobody reads any of it after this. */
  #inPlace(node: Node, input: Node, index: number): View | undefined {
    const view = this.#at(input)
    for (const other of this.#living)
      if (overlaps(this.#at(other), view) && this.#last.get(other)! > index) return undefined
    return this.#place(node, view)
  }
}

const floats = (view: View) => ({ kind: "float", view }) as const

/**
 * The index of each node's last reader; results are read after the end. Cutting a slice reads nothing.
 * @param makesRows products may make what they read: of so many threads that sums have parts, each group does it for itself
 */
function lastReaders(graph: Graph, makesRows: boolean): Map<Node, number> {
  const last = new Map<Node, number>(graph.nodes.map((node, index) => [node, index]))
  const runs = new Map<Node, number>() // how many nodes before are more than a matter of rows
  let run = 0
  graph.nodes.forEach((node, index) => {
    runs.set(node, run)
    if (heavy.has(node.op)) run++
    if (node.op !== "slice") for (const input of node.inputs) last.set(input, index)
    if (!makesRows || node.op !== "linear") return
    const [row] = node.inputs
    for (const given of beginningOf(row, (other) => runs.get(other) === runs.get(row)))
      last.set(given, Math.max(last.get(given)!, index))
  })
  last.set(graph.logits, Number.POSITIVE_INFINITY)
  last.set(graph.hidden, Number.POSITIVE_INFINITY)
  return last
}

/** A product makes a row of so many others at most: each of its groups of threads reads them all. */
export const MOST_GIVEN = 4

/** What a row is made of in its run, column by column but for sums over the whole of it; nothing, if it is not made there. */
function beginningOf(row: Node, isOfRun: (node: Node) => boolean): readonly Node[] {
  const isMade = (node: Node) =>
    isOfRun(node) &&
    (node.op === "quantize" ||
      node.op === "apply" ||
      node.op === "weigh" ||
      node.op === "rope" ||
      (node.op === "norm" && node.width === node.columns) ||
      ((node.op === "add" || node.op === "multiply") &&
        node.inputs.every(({ columns }) => columns === node.columns)))
  const found = new Set<Node>()
  const look = (node: Node): void => {
    if (found.has(node)) return
    found.add(node)
    if (isMade(node)) node.inputs.forEach(look)
  }
  look(row)
  const beginning = [...found].filter((node) => !isMade(node))
  // What experts make lies there by experts, until somebody adds it up.
  const isSmall = beginning.length <= MOST_GIVEN && beginning.every(({ op }) => op !== "experts")
  return isMade(row) && isSmall ? beginning : []
}

function overlaps(a: View, b: View): boolean {
  return a.buffer === b.buffer && a.from < b.from + b.columns && b.from < a.from + a.columns
}

class ParameterList {
  readonly all: Parameter[] = []
  readonly #ids = new Map<string, ParameterId>()
  readonly #codecOf: CodecOf

  constructor(codecOf: CodecOf) {
    this.#codecOf = codecOf
  }

  /** A weight that is read twice, as tied embeddings are, is one parameter. */
  id(weight: Weight): ParameterId {
    const { name, rows, columns, sources } = weight
    const known = this.#ids.get(name)
    if (known !== undefined) {
      const before = this.all[known]!.sources
      if (before.some(({ tensor }, i) => tensor !== sources[i]?.tensor))
        throw new Error(`internal: two weights are called ${name}`)
      return known
    }
    this.#ids.set(name, this.all.length)
    return this.all.push({ name, rows, columns, codec: this.#codecOf(weight), sources }) - 1
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
