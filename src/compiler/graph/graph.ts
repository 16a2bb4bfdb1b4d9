// What a model computes, said in operations on values. A value is a matrix: one row for each token of a step (or for the
// few rows somebody wants), a fixed number of columns. Nodes point at the nodes they read, and stand in a list in which
// operands come first. Nothing here knows formats, memory or targets; keys and values of earlier tokens are not values but
// what `attention` of a layer remembers.

import type { GroupCodecName, RoundingCodec } from "../../runtime/format.ts"
import type { Shapes } from "../../runtime/manifest.ts"
import type { Coordinate, Rotation } from "../../runtime/rotation.ts"
import type { RowSet } from "../../runtime/step-rows.ts"
import type { Activation, ElementwiseName } from "./elementwise.ts"

export interface Graph {
  architecture: string
  shapes: Shapes
  /** Every layer forgets what lies further back than this; absent: some layer sees everything. */
  window: number | undefined
  /** First positions that stay visible whatever the window. */
  sinks: number
  nodes: readonly Node[] // operands before their readers
  logits: Node // [logits, vocabulary]
  hidden: Node // [hidden, given] the last hidden row, normed, as speculative heads read it, and behind it what else they read
}

/** A parameter as the graph reads it: rows of source tensors, one source after the other. Vectors have one column. */
export interface Weight {
  name: string // "layers.0.q", joined "layers.0.q+k+v"
  rows: number
  columns: number
  sources: readonly { tensor: string; rows: number }[] // by their Hugging Face names
  /** A matrix that is never packed, in whatever format the others are: what it computes decides between experts. */
  exact?: true
}

export type Node = { rows: RowSet; columns: number } & Op

/** `inputs` are what an operation reads, in the order that its line here names them. */
export type Op =
  /**
   * The table's row of each token, of its position, of one of its coordinates or of its adapter. Where it `sees`, a token may say that a row
   * which is taken in stands in its place (`StepInput.hiddenIn`), of so many columns, the first of which are read; `instead`: then it
   * is the row of that token.
   */
  | {
      op: "embed"
      inputs: readonly []
      table: Weight
      by: EmbeddedBy
      sees?: number
      instead?: number
    }
  /** Other columns, `from` on, of the `taken` ones of the row that stands in a token's place; zeros where a token does itself. */
  | { op: "seenPart"; inputs: readonly []; taken: number; from: number }
  /** Rows taken in beside the tokens (`hiddenIn`). */
  | { op: "hiddenIn"; inputs: readonly [] }
  /** a, b → the columns of a, then those of b. */
  | { op: "concat"; inputs: readonly [Node, Node] }
  /**
   * x → x / sqrt(mean(x^2) + epsilon) * weight + bias, over each `width` columns by themselves: the row, or each head.
   * `layer` takes the mean off first. The weight is as long as the row, or as `width`, and then serves every head.
   */
  | {
      op: "norm"
      inputs: readonly [Node]
      kind: "rms" | "layer"
      weight: Weight
      bias: Weight | undefined
      epsilon: number
      width: number
    }
  /**
   * x → x * transposed weight + bias. Passes give it more to do at the end: `add` a second input, or take the first half of
   * the columns as gate and the second as up and keep activation(gate) * up.
   */
  | {
      op: "linear"
      inputs: readonly [Node] | readonly [Node, Node]
      weight: Weight
      bias: Weight | undefined
      epilogue: "store" | "add" | { gated: Activation }
    }
  /**
   * x → the columns of each head by rows of its own of `weight`, which has as many for each; but for the first `kept` columns
   * of a head, which stand unchanged behind its product.
   */
  | { op: "headLinear"; inputs: readonly [Node]; weight: Weight; heads: number; kept: number }
  /** x → the first elements of each head turned by its token's position, the others as they are. */
  | { op: "rope"; inputs: readonly [Node]; headDim: number; rotation: Rotation }
  /**
   * q, k, v → each head's mix of values; k and v are remembered for this layer, rounded to the cache's type, and read so.
   * Without v, where the values are columns of k; with q alone, where what another layer remembers is read. Where it is sparse, in the
   * place of v stands what an indexer has chosen. A sink is a score for each head of what is not there: it takes its share of
   * the softmax, and gives no value. `biases`: of each head numbers for how far a key stands from its query (`distancesOf`), which are
   * added to scores. Where two rows more are read, what is added hangs on the tokens: `biases` has for each distance the number of a
   * bucket, and of each head a query's row has a number for each bucket, and so has a key's, which is not remembered: the sequence is
   * whole in its step. Both are added together first.
   */
  | {
      op: "attention"
      inputs:
        | readonly [Node, Node, Node, Node, Node]
        | readonly [Node, Node, Node]
        | readonly [Node, Node]
        | readonly [Node]
      attention: Attention
      sinkLogits: Weight | undefined
      biases: Weight | undefined
    }
  /**
   * q, k, w → which positions a row's attention is to see: of each 16 of them a whole number, whose bit i stands for number i. k is
   * remembered for this layer, and read so. A position's score is the sum over heads, from 0 on, of w * max(0, q · k), and those of the
   * `top` highest are chosen, of equal scores the earlier positions; all that the row sees where they are no more. What is no number
   * is below every score.
   */
  | { op: "indexer"; inputs: readonly [Node, Node, Node]; indexer: Indexer }
  /**
   * x, remembered for its layer and read so → each column by itself: the sum of its last values, the token's own last, or some of those
   * `ahead` of it behind, each times its tap, from the first on, with the column's bias where there is one; before the first token and
   * behind the last there are none.
   */
  | {
      op: "convolve"
      inputs: readonly [Node]
      convolution: Convolution
      taps: Weight
      bias: Weight | undefined
    }
  /**
   * x: queries, keys and values of heads; decays and shares: a column for each value head → what each of them reads of its
   * state. A state is a matrix [keyDim, valueDim] of a sequence, which every position changes, one after the other, from zeros on:
   * all of it is multiplied with its decay, e^(-e^decay * ln(1 + e^(a + bias))); the value less what the key reads is put under
   * the key, times the share; then the query reads. Queries and keys are brought to unit length.
   *
   * Where decays are `given`, each row of a state has its own: they are a column for each column of a value head's key, and what that row
   * is multiplied with, so that there are no `decay` and `bias`.
   *
   * A selective state space (Mamba 2) has no shares: the value is put under the key ln(1 + e^(a + bias)) times, whatever the key reads;
   * queries and keys stay as they are, and the value times `skip`, a number for each head, is added to what is read.
   *
   * Where it is selective `by: "number"` (Mamba 1), x is values alone, and the third input the key and the query of all heads. Each column
   * of a value has a step, which `decays` are, and a number of `skip`, and each number of a state a rate: it is multiplied with
   * e^(step * rate), and the value is put under the key as many times as its step. The rates are `decay`, those of a column side by side,
   * and there is no `bias`.
   */
  | {
      op: "delta"
      inputs: readonly [Node, Node, Node] | readonly [Node, Node]
      delta: Delta
      decay: Weight | undefined
      bias: Weight | undefined
      skip: Weight | undefined
    }
  /** x, a column for each expert → how much each of them counts, 0 of those that the row does not go to. */
  | { op: "route"; inputs: readonly [Node]; routing: Routing; bias: Weight | undefined }
  /**
   * x, what each expert counts → the sum of what they make of x, each times that, in the order of experts from zero; those that
   * count 0 are left out. An expert is an MLP, and `rounded` what its activated rows are rounded for, as `quantize` does.
   * With a `limit` up is cut off on either side of it, and the gate above it: with the activation silu what it was activated to, as
   * Step 3.5 has it, with quick_gelu what it is, and up counts one more, as gpt-oss has it. Where gate and up are matrices by
   * themselves, x stands there once more, as the latter reads it. Without a gate it is down(activation(up(x))).
   */
  | {
      op: "experts"
      inputs: readonly [Node, Node] | readonly [Node, Node, Node]
      active: number // at most so many of a row
      gated: boolean
      gateUp: Weight // of each expert its gate's rows, then as many up rows unless there is `up`; ungated: up rows alone
      up: Weight | undefined // one expert behind the other, as `down`
      down: Weight
      biases: ExpertBiases<Weight> | undefined
      activation: Activation
      limit: number | undefined
      rounded: GroupCodecName | undefined
    }
  /** x → a function of each element, with the number that it takes beside it. */
  | { op: "apply"; inputs: readonly [Node]; function: ElementwiseName; by: number | undefined }
  | { op: "add"; inputs: readonly [Node, Node] }
  /** a, b → their product; each column of a narrower `b` is multiplied with as many of `a` as all of its columns are. */
  | { op: "multiply"; inputs: readonly [Node, Node] }
  /** x → each column times its own number, or all times the one that there is */
  | { op: "weigh"; inputs: readonly [Node]; weight: Weight }
  /** x → each element, but none below the first of two numbers and none above the second */
  | { op: "bound"; inputs: readonly [Node]; bounds: Weight }
  /** x → columns of it: `order` has for each, as whole numbers, which of x's it is; where that is -1, it is NOWHERE. */
  | { op: "reorder"; inputs: readonly [Node]; order: Weight }
  /** x → `columns` columns of it, beginning at `from`. */
  | { op: "slice"; inputs: readonly [Node]; from: number }
  /** x → fewer of its rows; of each the row and those behind it, `joined` in all, side by side. */
  | { op: "select"; inputs: readonly [Node]; joined: number }
  /**
   * x → codes of 8 bits, a scale for each group of the matrices that read it, which are all of one codec; for matrices of 16-bit
   * floats, codes of 16 bits. Put in by a pass, for targets that multiply integers; only `linear` and `experts` read it, and
   * `experts` no codes of 16 bits.
   */
  | { op: "quantize"; inputs: readonly [Node]; codec: RoundingCodec }

/** Activations of experts that a limit is known of. */
export const limitedActivations: readonly Activation[] = ["silu", "quick_gelu"]

/** A column that stands for nothing: of logits, one that is never drawn, and finite, as all of them must be. */
export const NOWHERE = -1e9

/** What names a row of a table: a token itself, where it stands, or the adapter that its sequence has chosen. */
export type EmbeddedBy = "token" | "position" | "adapter" | Coordinate

/** Matrices and biases of experts, as many as there are. */
export function expertWeights({ gateUp, up, down, biases }: Node & { op: "experts" }): Weight[] {
  const all = [gateUp, up, down, biases?.gateUp, biases?.up, biases?.down]
  return all.filter((weight) => weight !== undefined)
}

/** Of each of the matrices. */
export interface ExpertBiases<Vector> {
  gateUp: Vector
  up: Vector | undefined
  down: Vector
}

/**
 * Position t sees positions p <= t; with a window only p > t - window, or where it is chunked those from the last multiple of the
 * window on; and p < sinks always. Where it is bidirectional it sees every p of its sequence, with a window those of
 * |p - t| < window.
 */
export interface Attention {
  layer: number // whose keys and values these are
  heads: number
  kvHeads: number // query head h reads kv head floor(h / (heads / kvHeads))
  headDim: number // of a key, and of a value unless these are latent or have a width of their own
  /** Values are the first so many columns of keys; absent: they are remembered by themselves. */
  latent?: number
  /** Columns of a value, where these are remembered by themselves and narrower than keys; absent: they are as wide. */
  value?: number
  scale: number // of q · k
  cap: number | undefined // a score s becomes cap * tanh(s / cap)
  window: number | undefined
  chunked?: true
  sinks: number
  bidirectional?: true
  /** It sees as far as the step says: rows of an image those behind them (`StepInput.seenTo` and `seenFrom`). */
  mutual?: true
  /** Cross-attention: of what is before a position it sees the first so many alone, which are rows of a recording. */
  cross?: number
  /** The same of images, whose rows stand before all tokens, too: the step says which of them a token sees, as where it is mutual. */
  media?: true
  /** Of what is before a position it sees what an indexer has chosen. */
  sparse?: true
}

/** The lightning indexer of DeepSeek Sparse Attention: queries of heads meet one key for each position. */
export interface Indexer {
  layer: number // whose keys these are
  heads: number
  headDim: number
  /** How many positions it chooses at most. */
  top: number
}

/** Of what an indexer chooses among so many positions, the columns: a whole number of steps of attention. */
export const chosenColumns = (context: number) => 4 * Math.ceil(context / 64)

/** Whether it sees nothing but what stands before all tokens. */
export const crosses = ({ cross, media }: Pick<Attention, "cross" | "media">) =>
  cross !== undefined || media === true

/** Whether what is added to scores hangs on the tokens, too. */
export const isRelative = ({ inputs }: Node & { op: "attention" }) => inputs.length === 5

export const isCross = (node: Node) => node.op === "attention" && crosses(node.attention)

/**
 * How many distances a head has biases for: of a key `d` positions behind its query (before it, where d is below 0) that in the middle
 * and d places on. There are as many either way that a step of any position is inside.
 */
export const distancesOf = (context: number) => 2 * (Math.ceil(context / 64) * 64) - 1

/** A layer that remembers its last rows, which lie where keys do. */
export interface Convolution {
  layer: number
  count: number // of taps, and so of rows that are read
  /** So many of them are behind the token's own, in a sequence that is whole in its step; absent: none. */
  ahead?: number
  /** As what a row is kept: so many heads, as wide as each other. */
  heads: number
}

/**
 * A layer that remembers a state of each sequence. Its columns are all queries, then all keys, then all values; of a selective
 * state space the other way round.
 */
export interface Delta {
  layer: number
  selective?: true
  /** Of a selective one: steps are of columns of values, and rates of the numbers of a state. */
  by?: "number"
  /** Its decays are computed by others, one for each column of a value head's key. */
  given?: true
  keyHeads: number // key head j and its query serve value heads j * (valueHeads / keyHeads) and those behind it,
  /** or every one of the same rest: j, j + keyHeads and so on. */
  tiled?: true
  valueHeads: number
  keyDim: number
  valueDim: number
}

/** Of a row of decays, how many columns there are. */
export const decayColumns = ({ valueHeads, keyDim, valueDim, given, by }: Omit<Delta, "layer">) =>
  valueHeads * (given ? keyDim : by ? valueDim : 1)

/** Of a head, how many numbers `decay` has, and `skip`. */
export const ratesOfHead = ({ keyDim, valueDim, by }: Omit<Delta, "layer">) =>
  by ? { decay: keyDim * valueDim, skip: valueDim } : { decay: 1, skip: 1 }

/** Numbers in the state of a layer. */
export const stateSize = ({ valueHeads, keyDim, valueDim }: Delta) => valueHeads * keyDim * valueDim

/** Numbers in a head's value. */
export const valueDim = ({
  headDim,
  latent,
  value = headDim,
}: Pick<Attention, "headDim" | "latent" | "value">) => latent ?? value

/**
 * Which experts a row goes to: the `active` of the highest logits, or where a bias is added of the highest score and bias, the
 * smaller number first where they are equal. Each counts its score, over the sum of the chosen ones' where `normalized`, times
 * `factor`.
 */
export interface Routing {
  active: number
  score: "softmax" | "sigmoid" | "sparsemixer" // softmax: over all experts
  /**
   * Of SparseMixer (arXiv 2409.12136): an expert's score is its share of a softmax over itself and those behind it that lack no more
   * than twice this share of whichever of both logits is larger.
   */
  jitter?: number
  /** A bias is added to logits, and not to scores. */
  biased?: "logits"
  normalized: boolean
  factor: number
  /** Neighbours are groups, and only the `open` ones of the highest rank can be chosen; undefined: all can. */
  groups: Groups | undefined
}

export interface Groups {
  count: number
  open: number
  /** The largest of what is compared, or the sum of the two largest. */
  rank: "largest" | "two largest"
}

/**
 * The graph with every node replaced by what `rule` makes of it, and without what nobody reads any more. `rule` is given
 * a node whose inputs have been replaced already, and the node it was; it may return either, a node made earlier, or a
 * new one. Nodes it makes in between are found through the inputs of what it returns.
 */
export function rewrite(graph: Graph, rule: (node: Node, before: Node) => Node): Graph {
  const made = new Map<Node, Node>()
  for (const node of graph.nodes) {
    const inputs = node.inputs.map((input) => made.get(input)!)
    const same = inputs.every((input, i) => input === node.inputs[i])
    made.set(node, rule(same ? node : withInputs(node, inputs), node))
  }
  const [logits, hidden] = [made.get(graph.logits)!, made.get(graph.hidden)!]
  return { ...graph, nodes: inOrder([logits, hidden]), logits, hidden }
}

/** The node reading `inputs` instead: as many as it read. */
export function withInputs(node: Node, inputs: readonly Node[]): Node {
  return { ...node, inputs: inputs as never }
}

/** All that `roots` need, operands first. */
export function inOrder(roots: readonly Node[]): readonly Node[] {
  const order = new Set<Node>()
  // Depth first without recursion: a deep model must not overflow the stack.
  const stack: { node: Node; next: number }[] = roots
    .toReversed()
    .map((node) => ({ node, next: 0 }))
  while (stack.length > 0) {
    const top = stack.at(-1)!
    const input = order.has(top.node) ? undefined : top.node.inputs[top.next++]
    if (input) stack.push({ node: input, next: 0 })
    else order.add(stack.pop()!.node)
  }
  return [...order]
}

/** Those of nodes that are no matter of a row by itself. */
export const heavy: ReadonlySet<Node["op"]> = new Set([
  "linear",
  "headLinear",
  "experts",
  "attention",
  "indexer",
  "delta",
] as const)

/** Who reads each node; the graph itself reads its logits and hidden rows. */
export function readers(graph: Graph): Map<Node, Node[]> {
  const map = new Map<Node, Node[]>(graph.nodes.map((node) => [node, []]))
  for (const node of graph.nodes) for (const input of node.inputs) map.get(input)!.push(node)
  return map
}

/** The graph as text, a line for a node. */
export function printGraph(graph: Graph): string {
  const number = new Map(graph.nodes.map((node, i) => [node, `%${i}`]))
  const lines = graph.nodes.map((node) => {
    const inputs = node.inputs.map((input) => number.get(input))
    const call = `${node.op}(${[...inputs, ...details(node)].join(", ")})`
    return `${number.get(node)!.padStart(5)} = ${call.padEnd(84)} ${node.rows} x ${node.columns}`
  })
  const { architecture, shapes, window, sinks } = graph
  const head = Object.entries({ ...shapes, window: window ?? "none", sinks })
  return [
    `graph ${architecture}`,
    ...head.map(([name, value]) => `  ${name} ${value}`),
    ...lines,
    `logits ${number.get(graph.logits)}, hidden ${number.get(graph.hidden)}`,
    "",
  ].join("\n")
}

function details(node: Node): string[] {
  switch (node.op) {
    case "embed":
      return [
        shown(node.table),
        `by ${node.by}`,
        ...(node.sees ? ["or seen"] : []),
        ...(node.instead === undefined ? [] : [`or ${node.instead} instead`]),
      ]
    case "seenPart":
      return [`from ${node.from} of ${node.taken}`]
    case "norm":
      return [
        node.kind,
        shown(node.weight),
        ...(node.bias ? [`bias ${shown(node.bias)}`] : []),
        `epsilon ${node.epsilon}`,
        `width ${node.width}`,
      ]
    case "linear":
      return [
        shown(node.weight),
        ...(node.bias ? [`bias ${shown(node.bias)}`] : []),
        ...(node.epilogue === "store" ? [] : [`then ${epilogueText(node.epilogue)}`]),
      ]
    case "headLinear":
      return [shown(node.weight), `heads ${node.heads}`, `kept ${node.kept}`]
    case "rope": {
      const { frequencies, factor, axes } = node.rotation
      const [first, last] = [frequencies[0]!, frequencies.at(-1)!]
      return [
        `head ${node.headDim}`,
        `frequencies ${short(first)} … ${short(last)}`,
        ...(axes ? [`axes ${axes.join("")}`] : []),
        ...(factor === 1 ? [] : [`factor ${short(factor)}`]),
      ]
    }
    case "attention": {
      const { layer, heads, kvHeads, headDim, latent, value, scale, cap } = node.attention
      return [
        `layer ${layer}`,
        `heads ${heads}/${kvHeads} x ${headDim}${value === undefined ? "" : ` + ${value}`}`,
        ...(latent === undefined ? [] : [`values ${latent} of them`]),
        `scale ${short(scale)}`,
        ...(cap === undefined ? [] : [`cap ${cap}`]),
        ...windowText(node.attention),
        ...(node.sinkLogits ? [`sinks ${shown(node.sinkLogits)}`] : []),
        ...(node.biases ? [`biases ${shown(node.biases)}`] : []),
        ...directionText(node.attention),
      ]
    }
    case "indexer":
      return [`layer ${node.indexer.layer}`, indexerText(node.indexer)]
    case "convolve": {
      const { layer, count, ahead } = node.convolution
      const bias = node.bias ? [`bias ${shown(node.bias)}`] : []
      const behind = ahead ? [`${ahead} ahead`] : []
      return [`layer ${layer}`, `taps ${count} ${shown(node.taps)}`, ...behind, ...bias]
    }
    case "delta":
      return [
        `layer ${node.delta.layer}`,
        deltaText(node.delta),
        ...[node.decay, node.bias].flatMap((weight) => (weight ? [shown(weight)] : [])),
        ...(node.skip ? [`skip ${shown(node.skip)}`] : []),
      ]
    case "route":
      return [routingText(node.routing), ...(node.bias ? [`bias ${shown(node.bias)}`] : [])]
    case "experts":
      return [
        `${node.active} of ${node.inputs[1].columns}`,
        shown(node.gateUp),
        ...(node.biases ? [`bias ${shown(node.biases.gateUp)}`] : []),
        ...(node.up ? [shown(node.up)] : []),
        ...(node.biases?.up ? [`bias ${shown(node.biases.up)}`] : []),
        ...(node.gated ? [] : ["ungated"]),
        node.activation,
        ...(node.limit === undefined ? [] : [`limit ${node.limit}`]),
        ...(node.rounded ? [`rounded for ${node.rounded}`] : []),
        shown(node.down),
        ...(node.biases ? [`bias ${shown(node.biases.down)}`] : []),
      ]
    case "apply":
      return [functionText(node)]
    case "weigh":
      return [shown(node.weight)]
    case "bound":
      return [shown(node.bounds)]
    case "reorder":
      return [shown(node.order)]
    case "slice":
      return [`from ${node.from}`]
    case "select":
      return node.joined === 1 ? [] : [`${node.joined} joined`]
    case "quantize":
      return [`for ${node.codec}`]
    default:
      return []
  }
}

/** "silu", "cap(30)" */
export function functionText(applied: {
  function: ElementwiseName
  by: number | undefined
}): string {
  return applied.by === undefined ? applied.function : `${applied.function}(${applied.by})`
}

/** "heads 4/2 x 8 + 6" */
export function deltaText({ keyHeads, valueHeads, keyDim, valueDim, ...how }: Delta): string {
  const { tiled, selective, by, given } = how
  const heads = `heads ${valueHeads}/${keyHeads}${tiled ? " tiled" : ""} x ${keyDim} + ${valueDim}`
  return `${selective ? "selective " : ""}${by ? "by number " : ""}${heads}${given ? " given" : ""}`
}

/** Of a row of its columns, where each kind begins. */
export function deltaColumns({
  keyHeads,
  valueHeads,
  keyDim,
  valueDim,
  selective,
  by,
}: Omit<Delta, "layer">) {
  if (by) return { values: 0, keys: 0, queries: keyDim } // of two rows
  const [keys, values] = [keyHeads * keyDim, valueHeads * valueDim]
  return selective
    ? { values: 0, keys: values, queries: values + keys }
    : { queries: 0, keys, values: 2 * keys }
}

/** Which key head, and query, serves a value head. */
export const keyHeadOf = ({ keyHeads, valueHeads, tiled }: Omit<Delta, "layer">, head: number) =>
  tiled ? head % keyHeads : Math.floor(head / (valueHeads / keyHeads))

/** How far back is seen: "window 8 chunked", "sinks 4"; nothing where that is everything. */
export function windowText({ window, chunked, sinks }: Attention): string[] {
  if (window === undefined) return []
  return [`window ${window}${chunked ? " chunked" : ""}`, `sinks ${sinks}`]
}

/** Whether it sees what is behind a token. */
export const directionText = ({
  bidirectional,
  mutual,
  cross,
  media,
  sparse,
}: Attention): string[] => {
  if (sparse) return ["sparse"]
  if (cross !== undefined) return [`cross ${cross}`]
  if (media) return ["media"]
  return bidirectional ? ["bidirectional"] : mutual ? ["mutual"] : []
}

/** "the highest 2048, heads 64 x 128" */
export const indexerText = ({ top, heads, headDim }: Indexer) =>
  `the highest ${top}, heads ${heads} x ${headDim}`

/** "2 of the highest softmax, normalized" */

export function routingText({
  active,
  score,
  jitter,
  biased,
  normalized,
  factor,
  groups,
}: Routing): string {
  return [
    `${active} of the highest ${score}${jitter === undefined ? "" : ` ${jitter}`}`,
    ...(biased ? [`by biased ${biased}`] : []),
    ...(groups ? [`in ${groups.open} of ${groups.count} groups by the ${groups.rank}`] : []),
    ...(normalized ? ["normalized"] : []),
    ...(factor === 1 ? [] : [`times ${factor}`]),
  ].join(", ")
}

const epilogueText = (epilogue: "add" | { gated: Activation }) =>
  epilogue === "add" ? "add" : `gated ${epilogue.gated}`
const shown = (weight: Weight) => `${weight.name} [${weight.rows}, ${weight.columns}]`
const short = (value: number) => value.toPrecision(6)
