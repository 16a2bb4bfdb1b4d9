// In which order and where: the graph as numbered steps over numbered buffers, the form that a target turns into a program.
// A plan holds everything that code is made of. Shapes, offsets and formats are numbers in it; all that is unknown until a
// step is taken is how many tokens, sequences and wanted rows there are, and at which positions.
//
// Steps run in order, each over all rows of its row set. A step never reads what it writes, except where one view is both
// (`rope`, `norm`, `matmul` with `add`): then element by element, or head by head.

import type { FormatName } from "../runtime/format.ts"
import type { Manifest, Parameter, Shapes } from "../runtime/manifest.ts"
import type { Attention, RowSet } from "./graph/graph.ts"

export interface Plan {
  architecture: string
  format: FormatName
  shapes: Shapes
  window: number | undefined
  sinks: number
  kv: Manifest["kv"]["dtype"]
  parameters: readonly Parameter[]
  buffers: readonly Buffer[]
  steps: readonly Step[]
  /** Where the step's results lie at its end. */
  logits: View // [logits, vocabulary]
  hidden: View // [hidden, hidden size]
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
  codes: BufferId // i8 [rows, columns]
  scales: BufferId // f32 [rows, ceil(columns / group)]
  columns: number
  group: number
}

export type Step = { rows: RowSet } & StepOp

export type StepOp =
  /** output = the table's row of each token; packed values are rounded to the format's dtype. */
  | { op: "embed"; table: ParameterId; output: View }
  /** output = the rows of `hiddenIn` */
  | { op: "hiddenIn"; output: View }
  /** output [tokens, 2 * pairs] = cos(position * frequencies[i]), then sin of the same. */
  | { op: "angles"; frequencies: readonly number[]; output: View }
  /** Each `width` columns by themselves: output = input / sqrt(mean(input^2) + epsilon) * weight. */
  | { op: "norm"; input: View; weight: ParameterId; epsilon: number; width: number; output: View }
  /** For each row and group: scale = largest magnitude / 127, code = round(input * (127 / largest)), halves to even. */
  | { op: "quantize"; input: View; output: Codes }
  | {
      op: "matmul"
      input: { kind: "float"; view: View } | { kind: "int8"; codes: Codes }
      weight: ParameterId
      bias: ParameterId | undefined
      epilogue: Epilogue
      output: View
    }
  /** In place: every head of `view` turned by its token's position. Row r of `wanted` is some token: `angles` has tokens' rows. */
  | { op: "rope"; view: View; headDim: number; angles: View }
  /** Keys and values of the step's tokens into the layer's cache, rounded to its type. Always all tokens. */
  | { op: "remember"; key: View; value: View; layer: number }
  /** Reads keys and values from the cache alone, the step's own included. */
  | { op: "attend"; query: View; attention: Attention; output: View }
  | { op: "silu"; input: View; output: View }
  | { op: "add"; a: View; b: View; output: View }
  | { op: "multiply"; a: View; b: View; output: View }
  | { op: "copy"; input: View; output: View }
  /** output = the rows of `rows` among the rows of `from` */
  | { op: "select"; input: View; from: RowSet; output: View }

/**
 * What becomes of a product y = input * transposed weight + bias.
 *   store    output = y
 *   add      output = to + y; mostly `to` is the output itself
 *   swiglu   output [rows, columns / 2] = silu(first half of y) * second half of y
 */
export type Epilogue = { kind: "store" } | { kind: "add"; to: View } | { kind: "swiglu" }

/** The plan as text, a line for a step. */
export function printPlan(plan: Plan): string {
  const { architecture, format, shapes, window, sinks, kv } = plan
  const head = { format, kv, ...shapes, window: window ?? "none", sinks }
  return [
    `plan ${architecture}`,
    ...Object.entries(head).map(([name, value]) => `  ${name} ${value}`),
    "parameters",
    ...plan.parameters.map((p, i) => {
      const sources = p.sources.map(({ tensor, rows }) => `${tensor}[${rows}]`).join(" + ")
      return `  p${i} ${p.name} [${p.rows}, ${p.columns}] ${p.format} = ${sources}`
    }),
    "buffers",
    ...plan.buffers.map((b, i) => `  b${i} [${b.capacity}, ${b.columns}] ${b.dtype}`),
    "steps",
    ...plan.steps.map((step, i) => `${String(i).padStart(5)} ${printStep(plan, step)}`),
    `logits ${view(plan.logits)}, hidden ${view(plan.hidden)}`,
    "",
  ].join("\n")
}

function printStep(plan: Plan, step: Step): string {
  const p = (id: ParameterId) => plan.parameters[id]!.name
  const on = (text: string) => `${text.padEnd(92)} ${step.rows}`
  switch (step.op) {
    case "embed":
      return on(`${view(step.output)} = embed ${p(step.table)}`)
    case "hiddenIn":
      return on(`${view(step.output)} = hiddenIn`)
    case "angles":
      return on(`${view(step.output)} = angles ${step.frequencies.length} frequencies`)
    case "norm":
      return on(
        `${view(step.output)} = norm ${view(step.input)} ${p(step.weight)} epsilon ${step.epsilon} width ${step.width}`,
      )
    case "quantize":
      return on(`${codes(step.output)} = quantize ${view(step.input)} group ${step.output.group}`)
    case "matmul": {
      const input = step.input.kind === "float" ? view(step.input.view) : codes(step.input.codes)
      const bias = step.bias === undefined ? "" : ` bias ${p(step.bias)}`
      const then =
        step.epilogue.kind === "add" ? ` add ${view(step.epilogue.to)}` : ` ${step.epilogue.kind}`
      return on(`${view(step.output)} = matmul ${input} ${p(step.weight)}${bias}${then}`)
    }
    case "rope":
      return on(`${view(step.view)} = rope head ${step.headDim} ${view(step.angles)}`)
    case "remember":
      return on(`remember layer ${step.layer} key ${view(step.key)} value ${view(step.value)}`)
    case "attend": {
      const { layer, heads, kvHeads, headDim, window } = step.attention
      const seen = window === undefined ? "" : ` window ${window} sinks ${step.attention.sinks}`
      return on(
        `${view(step.output)} = attend layer ${layer} ${view(step.query)} heads ${heads}/${kvHeads} x ${headDim}${seen}`,
      )
    }
    case "select":
      return on(`${view(step.output)} = select ${view(step.input)} of ${step.from}`)
    case "silu":
    case "copy":
      return on(`${view(step.output)} = ${step.op} ${view(step.input)}`)
    case "add":
    case "multiply":
      return on(`${view(step.output)} = ${step.op} ${view(step.a)} ${view(step.b)}`)
  }
}

const view = ({ buffer, from, columns }: View) => `b${buffer}[${from}:${from + columns}]`
const codes = (c: Codes) => `b${c.codes}/b${c.scales}[0:${c.columns}]`
