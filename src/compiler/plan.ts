// In which order and where: the graph as numbered steps over numbered buffers, the form that a target turns into a program.
// A plan holds everything that code is made of. Shapes, offsets and formats are numbers in it; all that is unknown until a
// step is taken is how many tokens, sequences and wanted rows there are, and at which positions.
//
// Steps run in order, each over all rows of its row set. A step never reads what it writes, except where one view is both
// (`rope`, `norm`, `matmul` with `add`): then element by element, or head by head.

import {
  type CodecName,
  type FormatName,
  type GroupCodecName,
  groupCodecs,
  isGroupCodec,
  type RoundingCodec,
} from "../runtime/format.ts"
import type { KvShape, KvType, Manifest, Parameter, Shapes } from "../runtime/manifest.ts"
import type { Rotation } from "../runtime/rotation.ts"
import type { RowSet } from "../runtime/step-rows.ts"
import type { Activation, ElementwiseName } from "./graph/elementwise.ts"
import {
  type Attention,
  crosses,
  type Delta,
  deltaText,
  directionText,
  type EmbeddedBy,
  type ExpertBiases,
  functionText,
  type Indexer,
  indexerText,
  type Routing,
  routingText,
  windowText,
} from "./graph/graph.ts"

export interface Plan {
  architecture: string
  format: FormatName
  shapes: Shapes
  sinks: number
  kv: KvType
  /** Which layers share blocks, whoever looks furthest back first. */
  groups: readonly KvShape[]
  parameters: readonly Parameter[]
  buffers: readonly Buffer[]
  steps: readonly Step[]
  /** Where the step's results lie at its end. */
  logits: View // [logits, vocabulary]
  hidden: View // [hidden, given]
}

/** An index into `plan.parameters`. */
export type ParameterId = number
/** An index into `plan.buffers`. */
export type BufferId = number

export interface Buffer {
  /** How many rows it must have room for; `wanted` and `hidden` rows are never more than tokens. */
  capacity: "tokens" | "logits"
  columns: number
  /** "scales" are floats that go with codes: a target may keep them elsewhere, so nothing else ever lies in their place. */
  dtype: "f32" | "i8" | "scales"
}

/** Some columns of a buffer's rows. */
export interface View {
  buffer: BufferId
  from: number
  columns: number
}

/** Quantised rows: code c of a row stands for codes[c] * scales[floor(c / group)]. */
export interface Codes {
  codes: BufferId // i8 [rows, columns]; those of 16 bits as `wideCodes` says
  scales: BufferId // f32 [rows, ceil(columns / group)]
  columns: number
  group: number
  codec: RoundingCodec // of the matrices that read it
}

/** Columns of a group of codes of 16 bits. */
export const WIDE_GROUP = 32
/** The largest of them, in rows; and of the floats of a matrix, the power of two below which all of a group's stay. */
export const WIDE_MOST = 127 * 256 + 127
export const WIDE_BITS = 14

/**
 * Bytes that a row of codes of 16 bits takes: code = 256 * upper + lower, both bytes signed. Of each group the upper bytes come
 * first, then the lower ones; behind the last column they are 0.
 */
export function wideCodes(columns: number): number {
  return 2 * WIDE_GROUP * Math.ceil(columns / WIDE_GROUP)
}

/** Where a layer's keys and values lie: in the blocks of an entry of `plan.groups`, as number `layer` of its layers. */
export interface Place {
  group: number
  layer: number
}

export type Step = { rows: RowSet } & StepOp

/** Rows that a product reads: as they are, or rounded. */
export type ProductInput =
  | { kind: "float"; view: View }
  | { kind: "int8"; codes: Codes }
  | { kind: "int16"; codes: Codes }

export type StepOp =
  /**
   * output = the table's row of each token, or of its position; packed values are rounded to the codec's dtype. Where it `sees`, the
   * row of `hiddenIn` that a token of SEEN and more names: so many columns, and the first of them; or the row `instead` of such a token's.
   */
  | {
      op: "embed"
      table: ParameterId
      by: EmbeddedBy
      sees?: number
      instead?: number
      output: View
    }
  /** output = columns `from` on of the row of `hiddenIn` [taken] that a token of SEEN and more names, or zeros */
  | { op: "seenPart"; taken: number; from: number; output: View }
  /** output = the rows of `hiddenIn` */
  | { op: "hiddenIn"; output: View }
  /**
   * output [tokens, 2 * pairs] = cos(position * frequencies[i]), then sin of the same, times the rotation's factors. In the place of
   * the position stands the coordinate that an axis names.
   */
  | { op: "ropeTable"; rotation: Rotation; output: View }
  /**
   * Each `width` columns by themselves, less their mean where the kind is `layer`:
   * output = input / sqrt(mean(input^2) + epsilon) * weight + bias. One weight serves every head where it is as long as one.
   */
  | {
      op: "norm"
      kind: "rms" | "layer"
      input: View
      weight: ParameterId
      bias: ParameterId | undefined
      epsilon: number
      width: number
      output: View
    }
  /**
   * For each row and group: scale = largest magnitude / 127, code = round(input * (127 / largest)), halves to even. Of 16 bits,
   * for matrices of 16-bit floats: the same with WIDE_MOST in place of 127.
   */
  | { op: "quantize"; input: View; output: Codes }
  /**
   * The products of input and weight are summed in `parts`: see `partEnds`. Where codes of 16 bits meet floats, a group of a row of
   * the matrix is whole numbers too, each its float times 2^(13 - e), rounded, halves to even: e is the exponent of the largest, or
   * -113 where that is less. The group's sum of products is their exact one in two pieces: u of the upper bytes' products
   * with each other, and all of the rest as a float, which joins 65536 u rounded once. It is multiplied with the scales as
   * any group's.
   */
  | {
      op: "matmul"
      input: ProductInput
      weight: ParameterId
      bias: ParameterId | undefined
      parts: SumOrder["parts"] | 2 | 4
      epilogue: Epilogue
      output: View
    }
  /**
   * In place: as many elements of every head as `ropeTable` has columns, turned by its token's position: the first half of them
   * with the second. Row r of `wanted` is some token: `ropeTable` has tokens' rows.
   */
  | { op: "rope"; view: View; headDim: number; ropeTable: View }
  /**
   * Every head's columns but the first `kept` by its own rows of the weight: output = product, then those columns, head by
   * head. Always unrounded, each product one sum.
   */
  | {
      op: "headMatmul"
      input: View
      weight: ParameterId
      heads: number
      kept: number
      output: View
    }
  /**
   * Keys and values of the step's tokens into the layer's cache, rounded to its type. Always all tokens. No values where
   * they are columns of the keys.
   */
  | { op: "storeKv"; key: View; value: View | undefined; place: Place }
  /** Reads keys and values from the cache alone, the step's own included, `span` positions in a softmax. */
  | {
      op: "attend"
      query: View
      attention: Attention
      arithmetic: AttentionArithmetic
      sinkLogits: ParameterId | undefined
      /** [heads, distances], that of a key where its query stands in the middle. Added to scores when these are scaled and capped. */
      biases: { parameter: ParameterId; distances: number } | undefined
      /**
       * Biases are numbers of buckets, the same of all heads: these have for each head a number for each bucket, one of query rows, the
       * other of keys' tokens, which are all of the step. A score has the sum of both added.
       */
      relative?: { query: View; key: View }
      /** Of sparse attention what an indexer has chosen: nothing else is seen, as if it were not there. */
      chosen?: View
      place: Place
      span: SumOrder["span"]
      output: View
    }
  /**
   * As the graph says; keys are read from the cache alone, `weights` has a column for each head. A product with a key is one sum, by fused
   * multiply-adds in the order of columns, of codes of 8 bits times the key's scale; and so is a score, in the order of heads.
   */
  | {
      op: "indexer"
      query: View
      weights: View
      indexer: Indexer
      place: Place
      output: View
    }
  /**
   * output = each column of `count` remembered rows, those up to so many `ahead` of the token's own, times its taps: fused multiply-adds from its bias
   * or 0 on, in the order of positions. `taps`: [columns * count], those of a column side by side.
   */
  | {
      op: "convolve"
      taps: ParameterId
      bias: ParameterId | undefined
      count: number
      ahead: number
      place: Place
      output: View
    }
  /**
   * One position of a sequence after the other, over all of the step's tokens, from the state that it goes on from, or from zeros
   * where its first position is 0, to the one that it leaves: `StepInput.blocks`. As the graph says; every sum from 0, by fused
   * multiply-adds, in the order of a key's columns. A unit is x times 1 / sqrt((columns * mean of squares + 1e-6) * w), the mean as of
   * a norm; w is keyDim for queries and 1 for keys. A selective state space has `skip` and no shares. Without `decay` and `bias` decays are
   * given. By number, what a state's is multiplied with is e^(the product of step and rate, rounded).
   */
  | {
      op: "delta"
      input: View
      decays: View
      shares: View | undefined
      /** The key and the query of all heads, where they are not in `input`. */
      keys: View | undefined
      decay: ParameterId | undefined
      bias: ParameterId | undefined
      skip: ParameterId | undefined
      delta: Delta
      place: Place
      output: View
    }
  /** output, a column for each expert = how much it counts: see Routing. */
  | { op: "route"; routing: Routing; input: View; bias: ParameterId | undefined; output: View }
  /** As the graph says. The matrices of an expert lie behind those of the one before it, products are summed in `parts`. */
  | { op: "experts"; experts: Experts; input: ProductInput; weights: View; output: View }
  /**
   * The two halves of `experts`, of shards: between them they meet, since what a row's experts make is added up by their shares,
   * and no part of a sum is. The rows between, before they are rounded, lie side by side: of each of a row's experts, in the order
   * of experts; what is behind the last one is nothing. `intermediate` is what a shard makes of it, and then all.
   */
  | { op: "expertRows"; experts: Experts; input: ProductInput; weights: View; output: View }
  | { op: "expertSums"; experts: Experts; input: View; weights: View; output: View }
  /** output = a function of each element */
  | { op: "apply"; function: ElementwiseName; by: number | undefined; input: View; output: View }
  | { op: "add"; a: View; b: View; output: View }
  /** A `b` of one column is multiplied with all of them. */
  | { op: "multiply"; a: View; b: View; output: View }
  /** Each column times its own number, or all times the one that there is. */
  | { op: "weigh"; input: View; weight: ParameterId; output: View }
  /** Each element, but none below the first of the two bounds, and none above the second. */
  | { op: "bound"; input: View; bounds: ParameterId; output: View }
  | { op: "reorder"; input: View; order: ParameterId; output: View }
  | { op: "copy"; input: View; output: View }
  /**
   * output = the `part` of each shard, side by side: the one step in which shards meet. Of equal `pieces` of the part each by
   * itself: the first of each shard, then the second of each.
   */
  | { op: "gather"; part: View; pieces: number; output: View }
  /**
   * output = to + (sum + bias), of what is there: the sum of as many columns of each of the `shards` whose partial sums lie side
   * by side, added as the parts of a sum are.
   */
  | {
      op: "reduce"
      partials: View
      shards: number
      bias: ParameterId | undefined
      to: View | undefined
      output: View
    }
  /** output = the rows of `rows` among the rows of `from`, or of tokens the row so many `behind` each of them */
  | { op: "select"; input: View; from: RowSet; behind?: number; output: View }

/**
 * What attention multiplies. "floats": a fused multiply-add for each column of a key, and for each position of a value. "codes":
 * whole numbers, where keys and values are codes of 8 bits. A head of a query becomes codes of 16 bits under one scale, as
 * `quantize` makes them of a group, however long it is; a score is the exact sum of their products with a key's codes, as a
 * float, times the key's scale, times both of the query's and the attention's. Of each 64 positions from a multiple of it on,
 * those that a row sees have weights e^(score - m), which go into the total as they are; times the scales of their values they
 * become such codes as well. So a later position changes nothing for a row that does not see it. A column of the mix is then
 * fma(the exact sum of their products with the values' codes, as a float, their scale, the mix so far as m has changed).
 */
export type AttentionArithmetic = "floats" | "codes"

/** Columns of a head at most, of which sums of products of bytes are below 2^24, where each has a float of its own. */
export const MAX_CODED_HEAD = 1024

export interface Experts {
  count: number
  active: number // at most so many of a row
  intermediate: number
  gated: boolean
  gateUp: ParameterId // [count * 2 * intermediate, columns of the input]; half as many beside `up`, gates alone, and ungated
  /** As many rows as gates have, and its own way to read what they read. */
  up: { weight: ParameterId; input: ProductInput } | undefined
  down: ParameterId // [count * columns of the output, intermediate]
  biases: ExpertBiases<ParameterId> | undefined
  activation: Activation
  limit: number | undefined
  /** What the activated rows are rounded for; undefined: they stay floats. */
  rounded: GroupCodecName | undefined
  parts: SumOrder["parts"]
}

/**
 * What becomes of a product y = input * transposed weight + bias.
 *   store    output = y
 *   add      output = to + y; mostly `to` is the output itself
 *   gated    output [rows, columns / 2] = activation(first half of y) * second half of y
 */
export type Epilogue =
  | { kind: "store" }
  | { kind: "add"; to: View }
  | { kind: "gated"; activation: Activation }

/**
 * In which order a device adds: numbers of the plan, so that whoever computes the plan computes the same bits. A processor
 * adds one product after the other. A device that has thousands of lanes for one row cuts sums into pieces, always the same.
 */
export interface SumOrder {
  /** 1: one sum. 8: eight sums, each from zero; then (0 + 1) + (2 + 3) and (4 + 5) + (6 + 7), then both. */
  parts: 1 | 8
  /**
   * Absent: one softmax over all that a row sees. Else one for the positions from each multiple of this, itself a multiple of
   * 64, to the next; each has a largest score m, a total and a mix. With M the largest m, the totals times e^(m - M) are
   * added up in order, from zero, and so are the mixes. A sink is of the first of them in which a row sees anything.
   */
  span: number | undefined
  /** What attention multiplies where keys and values are codes of 8 bits; absent: floats. Only in spans. */
  codes?: AttentionArithmetic
}

/**
 * The columns before which the parts of a sum end: each has whole groups of the weight's codec, or of 32 columns where it has
 * none; of G groups part p ends before group floor((p + 1) * G / parts). So a half, a quarter or an eighth of the columns,
 * where parts end, is a subtree of the sum.
 */
export function partEnds(columns: number, codec: CodecName, parts: number): number[] {
  const group = isGroupCodec(codec) ? groupCodecs[codec].group : 32
  const groups = Math.ceil(columns / group)
  const endOf = (part: number) =>
    Math.min(columns, Math.floor(((part + 1) * groups) / parts) * group)
  return Array.from({ length: parts }, (_, part) => endOf(part))
}

/** Which tokens bring a row that is taken in: see `Manifest.takes`. */
export function takenBy({ steps }: Pick<Plan, "steps">): Manifest["takes"] {
  if (steps.some(({ op }) => op === "hiddenIn")) return "all"
  return steps.some((step) => step.op === "embed" && step.sees) ? "some" : undefined
}

/** Whether rows that are taken in are read by cross-attention alone: see `Manifest.words`. */
export function readsWords({ steps }: Pick<Plan, "steps">): boolean {
  return steps.some((step) => step.op === "attend" && crosses(step.attention))
}

/** Of what tables that coordinates name a row of have: see `Manifest.places`. */
export function placesIn({
  steps,
  parameters,
}: Pick<Plan, "steps" | "parameters">): number | undefined {
  return fewestRows({ steps, parameters }, ["time", "height", "width"])
}

/** Of how many adapters tables have a row, behind that of none: see `Manifest.adapters`. */
export function adaptersIn(plan: Pick<Plan, "steps" | "parameters">): number | undefined {
  const rows = fewestRows(plan, ["adapter"])
  return rows && rows - 1
}

function fewestRows(
  { steps, parameters }: Pick<Plan, "steps" | "parameters">,
  by: readonly EmbeddedBy[],
): number | undefined {
  const rows = steps.flatMap((step) =>
    step.op === "embed" && by.includes(step.by) ? [parameters[step.table]!.rows] : [],
  )
  return rows.length > 0 ? Math.min(...rows) : undefined
}

/** How many rows become one that is handed out: see `Manifest.joined`. */
export function joinedBy({ steps }: Pick<Plan, "steps">): number {
  return 1 + Math.max(0, ...steps.map((step) => (step.op === "select" && step.behind) || 0))
}

/** The plan as text, a line for a step. */
export function printPlan(plan: Plan): string {
  const { architecture, format, shapes, sinks, kv } = plan
  const head = { format, kv, ...shapes, sinks }
  return [
    `plan ${architecture}`,
    ...Object.entries(head).map(([name, value]) => `  ${name} ${value}`),
    "groups",
    ...plan.groups.map((group, i) => `  g${i} ${groupText(group)}`),
    "parameters",
    ...plan.parameters.map((p, i) => {
      const sources = p.sources.map(({ tensor, rows }) => `${tensor}[${rows}]`).join(" + ")
      return `  p${i} ${p.name} [${p.rows}, ${p.columns}] ${p.codec} = ${sources}`
    }),
    "buffers",
    ...plan.buffers.map((b, i) => `  b${i} [${b.capacity}, ${b.columns}] ${b.dtype}`),
    "steps",
    ...plan.steps.map((_, i) => stepLine(plan, i)),
    `logits ${view(plan.logits)}, hidden ${view(plan.hidden)}`,
    "",
  ].join("\n")
}

/** A step's line in the plan's text. */
export function stepLine(plan: Plan, index: number): string {
  return `${String(index).padStart(5)} ${printStep(plan, plan.steps[index]!)}`
}

function printStep(plan: Plan, step: Step): string {
  const p = (id: ParameterId) => plan.parameters[id]!.name
  const biasText = (bias: ParameterId | undefined) => (bias === undefined ? "" : ` bias ${p(bias)}`)
  const biased = (id: ParameterId, bias: ParameterId | undefined) => `${p(id)}${biasText(bias)}`
  const read = (input: ProductInput, { gateUp, up, biases }: Experts) => {
    const first = `${inputText(input)} ${biased(gateUp, biases?.gateUp)}`
    return up ? `${first} ${inputText(up.input)} ${biased(up.weight, biases?.up)}` : first
  }
  const on = (text: string) => `${text.padEnd(92)} ${step.rows}`
  switch (step.op) {
    case "embed":
      return on(
        `${view(step.output)} = embed ${p(step.table)} by ${step.by}${step.sees ? " or seen" : ""}${step.instead === undefined ? "" : ` or ${step.instead} instead`}`,
      )
    case "hiddenIn":
      return on(`${view(step.output)} = hiddenIn`)
    case "seenPart":
      return on(`${view(step.output)} = seenPart from ${step.from} of ${step.taken}`)
    case "ropeTable": {
      const { frequencies, axes } = step.rotation
      const turned = axes ? ` axes ${axes.join("")}` : ""
      return on(`${view(step.output)} = ropeTable ${frequencies.length} frequencies${turned}`)
    }
    case "norm":
      return on(
        `${view(step.output)} = ${step.kind} norm ${view(step.input)} ${biased(step.weight, step.bias)} epsilon ${step.epsilon} width ${step.width}`,
      )
    case "quantize":
      return on(
        `${codes(step.output)} = quantize ${view(step.input)} group ${step.output.group} for ${step.output.codec}`,
      )
    case "matmul":
      return on(
        `${view(step.output)} = matmul ${inputText(step.input)} ${biased(step.weight, step.bias)} ${epilogue(step.epilogue)}${partsText(step)}`,
      )
    case "route":
      return on(
        `${view(step.output)} = route ${view(step.input)}${biasText(step.bias)} ${routingText(step.routing)}`,
      )
    case "expertRows": {
      const { count, active } = step.experts
      return on(
        `${view(step.output)} = rows of experts ${active} of ${count} by ${view(step.weights)} ${read(step.input, step.experts)} ${activationText(step.experts)}${partsText(step.experts)}`,
      )
    }
    case "expertSums": {
      const { count, active, down, biases, rounded } = step.experts
      return on(
        `${view(step.output)} = sums of experts ${active} of ${count} by ${view(step.weights)} ${view(step.input)}${rounded ? ` for ${rounded}` : ""} ${biased(down, biases?.down)}${partsText(step.experts)}`,
      )
    }
    case "experts": {
      const { count, active, down, biases, rounded } = step.experts
      const gate = activationText(step.experts)
      const between = rounded ? `${gate} for ${rounded}` : gate
      return on(
        `${view(step.output)} = experts ${active} of ${count} by ${view(step.weights)} ${read(step.input, step.experts)} ${between} ${biased(down, biases?.down)}${partsText(step.experts)}`,
      )
    }
    case "rope":
      return on(`${view(step.view)} = rope head ${step.headDim} ${view(step.ropeTable)}`)
    case "storeKv":
      return on(
        `remember ${placeText(step.place)} key ${view(step.key)}${step.value ? ` value ${view(step.value)}` : ""}`,
      )
    case "headMatmul":
      return on(
        `${view(step.output)} = headMatmul ${view(step.input)} ${p(step.weight)} heads ${step.heads} kept ${step.kept}`,
      )
    case "attend": {
      const { heads, kvHeads, headDim, latent, value, cap } = step.attention
      const spaced = (texts: readonly string[]) => texts.map((text) => ` ${text}`).join("")
      const [seen, direction] = [windowText, directionText].map((of) => spaced(of(step.attention)))
      const sunk = step.sinkLogits === undefined ? "" : ` sinks ${p(step.sinkLogits)}`
      const { biases } = step
      const from = step.relative
        ? ` by ${view(step.relative.query)} and ${view(step.relative.key)}`
        : ""
      const biased = biases ? ` biases ${p(biases.parameter)} of ${biases.distances}${from}` : ""
      const chosen = step.chosen ? ` of ${view(step.chosen)}` : ""
      return on(
        `${view(step.output)} = attend ${placeText(step.place)} ${view(step.query)}${chosen} heads ${heads}/${kvHeads} x ${headDim}${value === undefined ? "" : ` + ${value}`}${latent === undefined ? "" : ` values ${latent}`}${cap === undefined ? "" : ` cap ${cap}`}${seen}${sunk}${biased}${direction}${step.arithmetic === "codes" ? " in codes" : ""}${step.span === undefined ? "" : ` span ${step.span}`}`,
      )
    }
    case "indexer":
      return on(
        `${view(step.output)} = indexer ${placeText(step.place)} ${view(step.query)} by ${view(step.weights)} ${indexerText(step.indexer)}`,
      )
    case "convolve":
      return on(
        `${view(step.output)} = convolve ${placeText(step.place)} ${p(step.taps)} count ${step.count}${step.ahead ? ` ahead ${step.ahead}` : ""}${biasText(step.bias)}`,
      )
    case "delta":
      return on(
        [
          `${view(step.output)} = delta ${placeText(step.place)} ${view(step.input)} ${deltaText(step.delta)} ${view(step.decays)}`,
          ...[step.decay, step.bias].flatMap((own) => (own === undefined ? [] : [p(own)])),
          ...[step.shares, step.keys].flatMap((own) => (own ? [view(own)] : [])),
          ...(step.skip === undefined ? [] : [`skip ${p(step.skip)}`]),
        ].join(" "),
      )
    case "select":
      return on(
        `${view(step.output)} = select ${view(step.input)} of ${step.from}${step.behind ? ` ${step.behind} behind` : ""}`,
      )
    case "apply":
      return on(`${view(step.output)} = ${functionText(step)} ${view(step.input)}`)
    case "weigh":
      return on(`${view(step.output)} = weigh ${view(step.input)} ${p(step.weight)}`)
    case "bound":
      return on(`${view(step.output)} = bound ${view(step.input)} ${p(step.bounds)}`)
    case "reorder":
      return on(`${view(step.output)} = reorder ${view(step.input)} ${p(step.order)}`)
    case "gather":
      return on(
        `${view(step.output)} = gather ${view(step.part)}${step.pieces === 1 ? "" : ` in ${step.pieces} pieces`}`,
      )
    case "reduce": {
      const to = step.to ? ` add ${view(step.to)}` : ""
      return on(
        `${view(step.output)} = reduce ${view(step.partials)} of ${step.shards}${biasText(step.bias)}${to}`,
      )
    }
    case "copy":
      return on(`${view(step.output)} = copy ${view(step.input)}`)
    case "add":
    case "multiply":
      return on(`${view(step.output)} = ${step.op} ${view(step.a)} ${view(step.b)}`)
  }
}

const inputText = (input: ProductInput) =>
  input.kind === "float" ? view(input.view) : codes(input.codes)

const partsText = ({ parts }: { parts: number }) => (parts === 1 ? "" : ` parts ${parts}`)

const activationText = ({ gated, activation, limit }: Experts) =>
  `${gated ? "" : "ungated "}${activation}${limit === undefined ? "" : ` limit ${limit}`}`

/** Rows of an expert's first matrix for each column of what lies between its products. */
export const rowsOfGateUp = ({ gated, up }: Pick<Experts, "gated" | "up">) => (gated && !up ? 2 : 1)

function groupText({ layers, kvHeads, headDim, window, state, media }: KvShape): string {
  if (state !== undefined) return `layers ${layers.join(" ")} a state of ${state}`
  const { key, value } = headDim
  const seen = media ? "media" : `window ${window ?? "none"}`
  return `layers ${layers.join(" ")} kv heads ${kvHeads} x ${key} + ${value} ${seen}`
}

const placeText = ({ group, layer }: Place) => `g${group} layer ${layer}`

function epilogue(end: Epilogue): string {
  if (end.kind === "add") return `add ${view(end.to)}`
  return end.kind === "gated" ? `gated ${end.activation}` : "store"
}

const view = ({ buffer, from, columns }: View) => `b${buffer}[${from}:${from + columns}]`
const codes = (c: Codes) => `b${c.codes}/b${c.scales}[0:${c.columns}]`
