// The words in which an architecture is written. Each function makes one node and checks that its operands fit, so that a
// slip in an architecture is found where it was made. Everything is computed for all tokens here; which rows are left out
// is decided by a pass.

import type { Rotation } from "../../runtime/rotation.ts"
import type { RowSet } from "../../runtime/step-rows.ts"
import type { Activation, ElementwiseName } from "./elementwise.ts"
import type {
  Attention,
  Convolution,
  Delta,
  EmbeddedBy,
  Graph,
  Indexer,
  Node,
  Routing,
  Weight,
} from "./graph.ts"
import {
  chosenColumns,
  decayColumns,
  inOrder,
  limitedActivations,
  ratesOfHead,
  valueDim,
} from "./graph.ts"

/** A matrix `[rows, columns]`, or with no columns given a vector. */
export function weight(name: string, tensor: string, rows: number, columns = 1): Weight {
  return { name, rows, columns, sources: [{ tensor, rows }] }
}

/** Matrices of one width as one, row after row. */
export function stacked(name: string, weights: readonly Weight[]): Weight {
  return {
    name,
    rows: weights.reduce((sum, { rows }) => sum + rows, 0),
    columns: weights[0]!.columns,
    sources: weights.flatMap(({ sources }) => sources),
  }
}

export function embed(table: Weight, by: EmbeddedBy = "token"): Node {
  return { op: "embed", rows: "tokens", columns: table.columns, inputs: [], table, by }
}

/** The table's row of each token; of one that a row is taken in for, the row of `instead`. */
export function embedOrElse(table: Weight, instead: number): Node {
  check(instead < table.rows, `${table.name} has no row ${instead}`)
  return { ...embed(table), op: "embed", inputs: [], table, by: "token", instead }
}

/** The table's row of each token, or what is taken in for it: the first columns of `taken`. */
export function embedOrSee(table: Weight, taken = table.columns): Node {
  check(taken >= table.columns, `${table.name} does not fit ${taken} columns that are taken in`)
  return { ...embed(table), op: "embed", inputs: [], table, by: "token", sees: taken }
}

/** `columns` columns, `from` on, of the `taken` ones of what is taken in for a token; zeros for all others. */
export function seenPart(taken: number, from: number, columns: number): Node {
  check(from + columns <= taken, "seenPart: beyond the last column")
  return { op: "seenPart", rows: "tokens", columns, inputs: [], taken, from }
}

export function hiddenIn(columns: number): Node {
  return { op: "hiddenIn", rows: "tokens", columns, inputs: [] }
}

export function concat(a: Node, b: Node): Node {
  return { op: "concat", rows: sameRows(a, b), columns: a.columns + b.columns, inputs: [a, b] }
}

/** How a norm differs from an RMS norm over as many columns as it has weights. */
export interface NormOptions {
  kind?: "rms" | "layer"
  bias?: Weight | undefined
  /** Of a head, where every head has weights of its own. */
  width?: number
}

/** A norm over each `width` columns: the whole row, or each head by itself. */
export function norm(
  x: Node,
  weight: Weight,
  epsilon: number,
  { kind = "rms", bias, width = weight.rows }: NormOptions = {},
): Node {
  const fits = x.columns % width === 0 && [width, x.columns].includes(weight.rows)
  check(fits, `${weight.name} does not fit ${x.columns} columns`)
  check(!bias || bias.rows === weight.rows, `${bias?.name} does not fit ${weight.name}`)
  check(!bias || kind === "layer", `${bias?.name}: an RMS norm has no bias`)
  const { rows, columns } = x
  return { op: "norm", rows, columns, inputs: [x], kind, weight, bias, epsilon, width }
}

/** A matrix of one column is stored as vectors are, and no kernel reads it: what is meant weighs with it, or a width is 1. */
export class OneColumn extends Error {
  readonly weight: string

  constructor({ name }: Weight) {
    super(`internal: ${name} has one column: weigh with it`)
    this.weight = name
  }
}

export function linear(x: Node, weight: Weight, bias?: Weight): Node {
  check(
    x.columns === weight.columns,
    `${weight.name} reads ${weight.columns} columns, not ${x.columns}`,
  )
  if (weight.columns === 1) throw new OneColumn(weight)
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

/** Every head's columns by rows of its own of the weight; the first `kept` of them go behind the product as they are. */
export function headLinear(x: Node, weight: Weight, heads: number, kept = 0): Node {
  check(
    x.columns === heads * (weight.columns + kept) && weight.rows % heads === 0,
    `${weight.name} does not fit ${heads} heads of ${x.columns} columns`,
  )
  const columns = weight.rows + heads * kept
  return { op: "headLinear", rows: x.rows, columns, inputs: [x], weight, heads, kept }
}

export function rope(x: Node, headDim: number, rotation: Rotation): Node {
  const turned = 2 * rotation.frequencies.length
  check(x.columns % headDim === 0 && turned <= headDim, "rope: heads do not fit")
  const { axes, growth } = rotation
  check(!axes || (2 * axes.length === turned && !growth), "rope: axes do not fit")
  return { op: "rope", rows: x.rows, columns: x.columns, inputs: [x], headDim, rotation }
}

/** @param taps of each column the earliest first, column by column */
export function convolve(x: Node, taps: Weight, convolution: Convolution, bias?: Weight): Node {
  const { count, heads, ahead = 0 } = convolution
  const { rows, columns } = x
  check(ahead < count, "convolve: its own row is none of those that are read")
  check(taps.rows === count * columns && taps.columns === 1, `${taps.name} does not fit`)
  check(!bias || bias.rows === columns, `${bias?.name} does not fit`)
  check(columns % heads === 0, "convolve: heads do not fit")
  return { op: "convolve", rows, columns, inputs: [x], convolution, taps, bias }
}

/** @param shares how much of each value head's correction is put into its state */
export function deltaRule(
  x: Node,
  { decays, shares }: Record<"decays" | "shares", Node>,
  { decay, bias }: Record<"decay" | "bias", Weight>,
  delta: Omit<Delta, "selective" | "by" | "given">,
): Node {
  sameRows(decays, shares)
  check(shares.columns === delta.valueHeads, "delta: shares do not fit")
  return stateOf([x, decays, shares], { decay, bias, skip: undefined }, delta)
}

/** The same, where each row of a state has a decay of its own. @param decays what they are multiplied with */
export function deltaRuleByColumn(
  x: Node,
  { decays, shares }: Record<"decays" | "shares", Node>,
  delta: Omit<Delta, "selective" | "by" | "given">,
): Node {
  sameRows(decays, shares)
  check(shares.columns === delta.valueHeads, "delta: shares do not fit")
  const none = { decay: undefined, bias: undefined, skip: undefined }
  return stateOf([x, decays, shares], none, { ...delta, given: true })
}

/** @param skip how much of a value is read whatever its state holds */
export function selectiveStates(
  x: Node,
  decays: Node,
  weights: Record<"decay" | "bias" | "skip", Weight>,
  delta: Omit<Delta, "selective" | "by" | "given">,
): Node {
  return stateOf([x, decays], weights, { ...delta, selective: true })
}

/**
 * The same, number by number.
 * @param steps one for each column of a value
 * @param keys the key and the query of all heads
 */
export function selectiveScan(
  values: Node,
  { steps, keys }: Record<"steps" | "keys", Node>,
  { rates, skip }: Record<"rates" | "skip", Weight>,
  delta: Omit<Delta, "selective" | "by" | "given" | "keyHeads" | "tiled">,
): Node {
  sameRows(steps, keys)
  check(keys.columns === 2 * delta.keyDim, "delta: keys and queries do not fit")
  const weights = { decay: rates, bias: undefined, skip }
  const own = { ...delta, keyHeads: 1, selective: true, by: "number" } as const
  return stateOf([values, steps, keys], weights, own)
}

function stateOf(
  inputs: readonly [Node, Node, Node] | readonly [Node, Node],
  { decay, bias, skip }: Record<"decay" | "bias" | "skip", Weight | undefined>,
  delta: Delta,
): Node {
  const [x, decays] = inputs
  const { keyHeads, valueHeads, keyDim, valueDim, by } = delta
  const columns = valueHeads * valueDim
  const beside = by ? 0 : 2 * keyHeads * keyDim
  check(x.columns === beside + columns, "delta: columns do not fit")
  check(valueHeads % keyHeads === 0, "delta: heads do not fit")
  check(decays.columns === decayColumns(delta), "delta: decays do not fit")
  const each = ratesOfHead(delta)
  for (const [weight, ofHead] of [
    [decay, each.decay],
    [bias, 1],
    [skip, each.skip],
  ] as const) {
    const fits = !weight || weight.rows === valueHeads * ofHead
    check(fits, `${weight?.name} does not fit ${valueHeads} heads`)
  }
  const rows = sameRows(x, decays)
  return { op: "delta", rows, columns, inputs, delta, decay, bias, skip }
}

/** @param context how many positions there are to choose from */
export function indexer(q: Node, k: Node, weights: Node, indexer: Indexer, context: number): Node {
  const { heads, headDim, top } = indexer
  check(q.columns === heads * headDim, "indexer: queries do not fit")
  check(k.columns === headDim, "indexer: keys do not fit")
  check(weights.columns === heads, "indexer: weights do not fit")
  check(top > 0, "indexer: nothing is chosen")
  const rows = sameRows(q, weights)
  return { op: "indexer", rows, columns: chosenColumns(context), inputs: [q, k, weights], indexer }
}

/**
 * Latent attention that sees what an indexer has chosen.
 * @param chosen that of a layer, its own or another
 */
export function sparseAttention(
  q: Node,
  k: Node,
  chosen: Node,
  shape: Omit<Attention, "sparse"> & { latent: number },
): Node {
  const { rows, columns } = attention(q, k, undefined, shape)
  check(sameRows(q, chosen) === rows && shape.window === undefined, "attention: what is chosen")
  return {
    op: "attention",
    ...{ rows, columns, inputs: [q, k, chosen], attention: { ...shape, sparse: true } },
    ...{ sinkLogits: undefined, biases: undefined },
  }
}

/**
 * Without `v` where values are columns of keys, without `k` where an earlier layer has remembered both; `sinkLogits`: a number
 * for each head; `biases`: of each head one for each distance.
 */
export function attention(
  q: Node,
  k: Node | undefined,
  v: Node | undefined,
  attention: Attention,
  { sinkLogits, biases }: Partial<Record<"sinkLogits" | "biases", Weight | undefined>> = {},
): Node {
  const { heads, kvHeads, headDim, latent } = attention
  check(q.columns === heads * headDim, "attention: queries do not fit")
  check(!k || k.columns === kvHeads * headDim, "attention: keys do not fit")
  const width = valueDim(attention)
  const fits = k && latent === undefined ? v?.columns === kvHeads * width : !v
  check(fits && width <= headDim, "attention: values do not fit")
  check(!sinkLogits || sinkLogits.rows === heads, `${sinkLogits?.name} does not fit ${heads} heads`)
  const distances = (biases?.rows ?? heads) / heads
  check(Number.isInteger(distances) && distances % 2 === 1, `${biases?.name} does not fit`)
  const columns = heads * width
  const inputs = !k ? ([q] as const) : v ? ([q, k, v] as const) : ([q, k] as const)
  return { op: "attention", rows: q.rows, columns, inputs, attention, sinkLogits, biases }
}

/**
 * Disentangled attention: what a query's row has for the bucket of a distance, and what a key's has, is added to the score.
 * @param buckets of each distance its number
 */
export function relativeAttention(
  [q, k, v]: readonly [Node, Node, Node],
  { byQuery, byKey, buckets }: { byQuery: Node; byKey: Node; buckets: Weight },
  shape: Attention,
): Node {
  const plain = attention(q, k, v, shape)
  check(byQuery.columns === byKey.columns, "attention: what is added does not fit")
  check(byQuery.columns % shape.heads === 0, "attention: buckets do not fit")
  check(shape.bidirectional === true && buckets.rows % 2 === 1, `${buckets.name} does not fit`)
  const rows = sameRows(q, byQuery)
  return {
    op: "attention",
    ...{ rows, columns: plain.columns, inputs: [q, k, v, byQuery, byKey], attention: shape },
    ...{ sinkLogits: undefined, biases: buckets },
  }
}

export function route(x: Node, routing: Routing, bias?: Weight): Node {
  const { active, groups = { count: 1, open: 1 } } = routing
  check(!bias || bias.rows === x.columns, `${bias?.name} does not fit ${x.columns} experts`)
  check(x.columns % groups.count === 0, "route: groups do not fit")
  check(active <= (x.columns / groups.count) * groups.open, "route: too few experts are open")
  return { op: "route", rows: x.rows, columns: x.columns, inputs: [x], routing, bias }
}

export function experts(
  x: Node,
  weights: Node,
  {
    active,
    gated = true,
    gateUp,
    down,
    biases,
    activation,
    limit,
  }: Record<"gateUp" | "down", Weight> & {
    active: number
    gated?: boolean
    biases?: Record<"gateUp" | "down", Weight> | undefined
    activation: Activation
    limit?: number | undefined
  },
): Node {
  const count = weights.columns
  const rows = sameRows(x, weights)
  const columns = down.rows / count
  check(x.columns === gateUp.columns, `${gateUp.name} does not fit ${x.columns} columns`)
  const rowsOfExpert = (gated ? 2 : 1) * down.columns
  check(gateUp.rows === count * rowsOfExpert, `${down.name} does not fit ${gateUp.name}`)
  const isLimitable = gated && limitedActivations.includes(activation)
  check(isLimitable || limit === undefined, `${gateUp.name} has a limit, which is not known of it`)
  check(Number.isInteger(columns), `${down.name} does not fit ${count} experts`)
  const fits = !biases || (biases.gateUp.rows === gateUp.rows && biases.down.rows === down.rows)
  check(fits, `${biases?.gateUp.name} does not fit ${gateUp.name}`)
  const [up, rounded] = [undefined, undefined]
  return {
    op: "experts",
    rows,
    columns,
    inputs: [x, weights],
    active,
    gated,
    gateUp,
    up,
    down,
    biases: biases && { ...biases, up },
    activation,
    limit,
    rounded,
  }
}

/** A function of each element; `by`: the number that it takes beside it. */
export function apply(name: ElementwiseName, x: Node, by?: number): Node {
  return { op: "apply", rows: x.rows, columns: x.columns, inputs: [x], function: name, by }
}

export function add(a: Node, b: Node): Node {
  check(a.columns === b.columns, `add: ${a.columns} and ${b.columns} columns`)
  return { op: "add", rows: sameRows(a, b), columns: a.columns, inputs: [a, b] }
}

/** `b`: as wide as `a`, or a column for each of so many runs of columns of `a`. */
export function multiply(a: Node, b: Node): Node {
  check(a.columns % b.columns === 0, `multiply: ${a.columns} and ${b.columns} columns`)
  return { op: "multiply", rows: sameRows(a, b), columns: a.columns, inputs: [a, b] }
}

/** `weight`: a vector as long as the row, or one number. */
export function weigh(x: Node, weight: Weight): Node {
  check([1, x.columns].includes(weight.rows), `${weight.name} does not fit ${x.columns} columns`)
  return { op: "weigh", rows: x.rows, columns: x.columns, inputs: [x], weight }
}

/** @param bounds two numbers: the least and the most */
export function bound(x: Node, bounds: Weight): Node {
  check(bounds.rows === 2 && bounds.columns === 1, `${bounds.name} are not two numbers`)
  return { op: "bound", rows: x.rows, columns: x.columns, inputs: [x], bounds }
}

/** @param order of each column, which of x's it is; -1: none of them */
export function reorder(x: Node, order: Weight): Node {
  check(order.columns === 1, `${order.name} is no list`)
  return { op: "reorder", rows: x.rows, columns: order.rows, inputs: [x], order }
}

export function slice(x: Node, from: number, columns: number): Node {
  check(from + columns <= x.columns, "slice: beyond the last column")
  return { op: "slice", rows: x.rows, columns, inputs: [x], from }
}

/** @param joined how many neighbouring rows become one */
export function select(x: Node, rows: RowSet, joined = 1): Node {
  return { op: "select", rows, columns: joined * x.columns, inputs: [x], joined }
}

/**
 * The graph that ends in `last` [tokens, hidden], the normed last hidden rows, and reads its logits off them; `shape`: what
 * becomes of a logit; `hidden`: what is handed out of them, where that is not they themselves.
 */
export function finish(
  graph: Omit<Graph, "nodes" | "logits" | "hidden">,
  last: Node,
  head: Weight,
  {
    bias,
    shape = (logits) => logits,
    hidden = select(last, "hidden"),
  }: { bias?: Weight | undefined; shape?: (x: Node) => Node; hidden?: Node } = {},
): Graph {
  const logits = shape(linear(select(last, "logits"), head, bias))
  return { ...graph, nodes: inOrder([logits, hidden]), logits, hidden }
}

function sameRows(a: Node, b: Node): RowSet {
  check(a.rows === b.rows, `rows differ: ${a.rows} and ${b.rows}`)
  return a.rows
}

function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(`internal: ${what}`)
}
