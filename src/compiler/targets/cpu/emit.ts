// Plan to C: a driver with the model's constants, and its distinct products and attentions in files beside it, so that they
// compile side by side. What is emitted calls the kernels under kernels/ with literal shapes; the compiler unfolds them.
//
// Layers repeat: steps that differ only in their weights and their layer are emitted once, as a function of those. Steps
// that look at nothing but their own row are joined into one loop over rows.

import { dtypeOf, groupCodecs, isGroupCodec } from "../../../runtime/format.ts"
import { STEP_WORDS, stepFields } from "../../../runtime/step-words.ts"
import { elementwise } from "../../graph/elementwise.ts"
import type { Attention } from "../../graph/graph.ts"
import type { ParameterId, Plan, Step, View } from "../../plan.ts"
import type { Source } from "../target.ts"
import { isHalves, type Kept, keptParameters, type Panels, panelsCount } from "./kept.ts"
import {
  attentionOf,
  bufferName,
  type Extent,
  extentKeys,
  type Layout,
  LINE,
  layoutOf,
  PLANES,
  PLANES_BEHIND,
  paddedColumns,
  quantizedBytes,
  ROWS_BEHIND,
  regionOf,
  rowSets,
  rowTables,
  SAMPLERS,
  SCRATCH,
  tableName,
  tokenTables,
} from "./layout.ts"

type Emitted = Extract<Source, { text: string }>

/**
 * Products with fewer columns have weights that lie in the cache as a whole, in any model that has them. They are compiled
 * once for all shapes: a third of the compiler's time, for a model that is quick in any case.
 */
const FAR = 1024

/** Files beside the driver, for what knows this model's shapes. Each costs a fifth of a second for headers alone. */
const UNITS = 3

export function emit(plan: Plan, layout: Layout = layoutOf(plan)): Emitted[] {
  const weights = keptParameters(plan)
  const code = new Code(plan, weights)
  for (const run of runs(plan.steps)) code.add(run)
  const driver = [
    `// ${plan.architecture}, ${plan.format}: emitted by sinter compile. Steps of the plan over kernels with literal shapes.`,
    ...constants(plan),
    "",
    '#include "driver_types.h"',
    "",
    ...stepAssertions(),
    "",
    ...layoutAssertions,
    "",
    ...placeTables(plan, layout),
    "",
    ...parameterTable(plan, weights, layout),
    "",
    '#include "driver.h"',
    "",
    ...code.functions,
    "",
    "static int32_t run_plan(sinter_model *m) {",
    "  int32_t code;",
    "#define DO(step) if ((code = (step))) return code",
    ...code.calls,
    "#undef DO",
    "  return SINTER_OK;",
    "}",
    "",
  ]
  const bodies = [...code.units].map(([body, name]) => body.replaceAll("NAME", name))
  const file = (name: string, functions: readonly string[]) => ({
    name: `${name}.c`,
    text: ['#include "driver_types.h"', "", ...functions, ""].join("\n"),
  })
  const units = Array.from({ length: Math.min(UNITS, bodies.length) }, (_, unit) =>
    file(
      `kernels_${unit}`,
      bodies.filter((_, i) => i % UNITS === unit),
    ),
  )
  for (const [body, name] of code.shared) units.push(file(name, [body.replaceAll("NAME", name)]))
  return [{ name: "driver.c", text: driver.join("\n") }, ...units]
}

// ------------------------------------------------------------------ parameters

type Shape = Omit<Panels, "columns"> & { columns: number | string }

/** Initialiser of a struct panels. */
function panelsText({ rows, columns, pair, codec }: Shape): string {
  const shape = `.rows = ${rows}, .columns = ${columns}, .pair = ${pair}`
  if (!isGroupCodec(codec)) return `{${shape}, .number = ${codec.toUpperCase()}}`
  const { bits, group, zero, minimums, dtype } = groupCodecs[codec]
  const grouped = `.grouped = 1, .codes = CODES_${bits}, .group = ${group}, .zero = ${zero}, .minimums = ${Number(minimums)}`
  return `{${shape}, ${grouped}, .number = ${dtype.toUpperCase()}}`
}

function parameterTable(plan: Plan, weights: readonly Kept[], layout: Layout): string[] {
  const lines = weights.map(({ as, panels, stored }, id) => {
    const at = layout.weights.regions[id]!.at.fixed
    return `  {.kept = ${as}, .at = ${at}, .panels = ${panelsText(panels)}, .stored = ${panelsText(stored)}},  // p${id} ${plan.parameters[id]!.name}`
  })
  return ["static const struct parameter parameters[PARAMETERS] = {", ...lines, "};"]
}

/** That the struct of a step has its fields where the host writes them. */
export function stepAssertions(): string[] {
  const size = `_Static_assert(sizeof(sinter_step_arrays) == ${8 * STEP_WORDS}, "the size of a step");`
  return [...stepFields.map(({ name, word }) => `STEP_FIELD(${name}, ${word});`), size]
}

/** That the kernels are written for what layout.ts takes for granted. */
const layoutAssertions = [
  `_Static_assert(LINE == ${LINE}, "a line");`,
  `_Static_assert(TILES_BEHIND <= ${ROWS_BEHIND}, "rows that tiles read behind the last");`,
  `_Static_assert(PLANES_BEHIND <= ${PLANES_BEHIND}, "planes that tiles read behind the last");`,
  `_Static_assert(sizeof(struct attention_run) == ${rowTables.runs}, "the size of a run");`,
]

// ------------------------------------------------------------------ constants

function constants(plan: Plan): string[] {
  const { logits, hidden, shapes, sinks } = plan
  const attention = attentionOf(plan)
  const widest = Math.max(
    ...plan.steps.map((step) =>
      step.op === "attend" ? step.attention.heads / step.attention.kvHeads : 1,
    ),
  )
  const values = {
    VOCABULARY: shapes.vocabulary,
    CONTEXT: shapes.context,
    SINKS: sinks,
    TAKES_HIDDEN: plan.steps.some(({ op }) => op === "hiddenIn") ? 1 : 0,
    BUFFERS: plan.buffers.length,
    PARAMETERS: plan.parameters.length,
    ATTENTION: `((struct attention){.heads = ${widest * attention.kvHeads}, .kv_heads = ${attention.kvHeads}, .head_dim = ${attention.headDim}, .number = ${plan.kv.toUpperCase()}})`,
    LOGITS_BUFFER: logits.buffer,
    LOGITS_STRIDE: stride(plan, logits),
    HIDDEN_BUFFER: hidden.buffer,
    HIDDEN_COLUMNS: hidden.columns,
    HIDDEN_STRIDE: stride(plan, hidden),
  }
  return Object.entries(values).map(([name, value]) => `#define ${name} ${value}`)
}

/** Floats from one row of a buffer to the next: whole panels, so that products need no tails. */
const stride = (plan: Plan, { buffer }: View) => paddedColumns(plan.buffers[buffer]!.columns)

/** What layout.ts decided, for driver_model.h to evaluate. */
function placeTables(plan: Plan, { weights, kv, work }: Layout): string[] {
  const at = (name: string) => extentText(regionOf(work, name).at)
  const each = (name: string) => regionOf(work, name).bytes.thread
  const buffers = plan.buffers.map(({ capacity, columns, dtype }, id) => {
    const what = `b${id} [${capacity}, ${columns}] ${dtype}`
    const region = work.regions.find(({ name }) => name === bufferName(id))
    if (!region) return `  // ${what}: behind their row's codes`
    return `  [${id}] = ${extentText(region.at)},  // ${what}`
  })
  const sets = rowSets.map((rows) => {
    const tables = Object.keys(rowTables).map((table) => {
      const name = tableName(rows, table as keyof typeof rowTables)
      return `.${table} = ${at(name)}`
    })
    return `  [${setName(rows)}] = {${tables.join(", ")}},`
  })
  return [
    "// Where everything lies, in bytes from the beginning of its memory.",
    `static const struct extent weights_end = ${extentText(weights.end)};`,
    `static const struct extent work_end = ${extentText(work.end)};`,
    `enum { KV_STORAGES = ${kv.length} };`,
    "static const size_t kv_block_bytes[KV_STORAGES] = {",
    ...kv.map(({ name, blockBytes }) => `  ${blockBytes},  // ${name}`),
    "};",
    "static const struct extent buffer_at[BUFFERS] = {",
    ...buffers,
    "};",
    `static const struct extent scratch_at = ${at(SCRATCH)};`,
    `static const struct extent samplers_at = ${at(SAMPLERS)};`,
    `enum { SCRATCH_BYTES = ${each(SCRATCH)}, SAMPLER_BYTES = ${each(SAMPLERS)} };  // of a thread`,
    `static const struct extent planes_at = ${at(PLANES)};`,
    ...tokenTables.map((name) => `static const struct extent ${name}_at = ${at(name)};`),
    "static const struct row_set_places row_sets_at[ROW_SETS] = {",
    ...sets,
    "};",
  ]
}

/** Initialiser of a struct extent. */
function extentText(extent: Extent): string {
  const parts = extentKeys.filter((key) => extent[key] !== 0)
  return parts.length === 0
    ? "{0}"
    : `{${parts.map((key) => `.${key} = ${extent[key]}`).join(", ")}}`
}

// ------------------------------------------------------------------ steps

/** Neighbouring steps that one loop does: row by row where rows are all they know, else one step alone. */
function runs(steps: readonly Step[]): Step[][] {
  const found: Step[][] = []
  for (const step of steps) {
    const last = found.at(-1)
    const joins = byRow(step) && last && byRow(last[0]!) && last[0]!.rows === step.rows
    if (joins) last.push(step)
    else found.push([step])
  }
  return found
}

const byRow = ({ op }: Step) => op !== "matmul" && op !== "attend"

type RowSetName = Step["rows"]
const setName = (rows: RowSetName) => rows.toUpperCase()

class Code {
  readonly functions: string[] = []
  readonly calls: string[] = []
  /** Bodies of functions that take long to compile, with NAME for their names. */
  readonly units = new Map<string, string>()
  /** The same of those that any model of the format can have: each goes into a file of its own, which is compiled once. */
  readonly shared = new Map<string, string>()
  readonly #plan: Plan
  readonly #weights: readonly Kept[]
  readonly #known = new Map<string, string>()
  readonly #frequencies = new Map<string, string>()

  constructor(plan: Plan, weights: readonly Kept[]) {
    this.#plan = plan
    this.#weights = weights
  }

  add(run: readonly Step[]): void {
    const [step] = run
    if (step!.op === "matmul") this.#product(step!)
    else if (step!.op === "attend") this.#attention(step!)
    else this.#rows(run)
  }

  #call(text: string): void {
    this.calls.push(`  DO(${text});`)
  }

  /** The name of the function with this body, emitted when it is new. `NAME` in it is its own name. */
  #function(kind: string, body: readonly string[]): string {
    const text = body.join("\n")
    let name = this.#known.get(text)
    if (name === undefined) {
      name = `${kind}_${this.#known.size}`
      this.#known.set(text, name)
      this.functions.push(text.replaceAll("NAME", name), "")
    }
    return name
  }

  /** The name of the function with this body, in a file beside the driver; `own`: its name, where others share it. */
  #unit(kind: string, body: readonly string[], own?: string): string {
    const text = body.join("\n")
    const units = own ? this.shared : this.units
    let name = units.get(text)
    if (name === undefined) {
      name = own ?? `${kind}_${units.size}`
      units.set(text, name)
      this.functions.push(`void ${name}(void *context, int64_t index, int32_t thread);`, "")
    }
    return name
  }

  #product(step: Extract<Step, { op: "matmul" }>): void {
    const { input, weight, bias, epilogue, output } = step
    const whole = this.#plan.buffers[output.buffer]!
    if (output.from !== 0 || output.columns !== whole.columns)
      throw new Error("internal: a product into some columns of a buffer")
    if (epilogue.kind === "add" && epilogue.to.buffer !== output.buffer)
      throw new Error("internal: a product added to another buffer than its own")
    if (step.parts !== 1) throw new Error("internal: a product in parts")
    const { panels } = this.#weights[weight]!
    const quantized = input.kind === "int8"
    const from = input.kind === "int8" ? 0 : 4 * input.view.from
    const inBuffer = input.kind === "int8" ? input.codes.codes : input.view.buffer
    const inStride = input.kind === "int8" ? 0 : stride(this.#plan, input.view)
    const rowBytes = input.kind === "int8" ? quantizedBytes(input.codes) : 4 * inStride
    const end = epilogue.kind === "gated" ? `gated_${epilogue.activation}` : epilogue.kind
    const outStride = paddedColumns(output.columns)
    const far = panels.columns >= FAR
    const shape = far
      ? { ...panels, strides: `${inStride}, ${outStride}` }
      : {
          ...panels,
          rows: 0,
          pair: 0,
          columns: "loop->columns",
          strides: "loop->in_stride, loop->out_stride",
        }
    const body = [
      "void NAME(void *context, int64_t index, int32_t thread) {",
      "  const struct product_loop *loop = context;",
      `  const struct panels weights = ${panelsText(shape)};`,
      "  EACH_PANEL(loop, index)",
      `    taken = product_panel(weights, ${quantized ? 1 : 0}, ${far ? 1 : 0}, ${shape.strides}, ${end.toUpperCase()}, &part, panel, end);`,
      "}",
    ]
    const name = this.#unit(
      "product",
      body,
      far ? undefined : `near_${panels.codec}${quantized ? "_int8" : ""}_${end}`,
    )
    const count = panelsCount(panels)
    this.#call(
      `product_loop(m, ${setName(step.rows)}, ${name}, ${count}, ${weight}, ${bias ?? -1}, ${isHalves(panels) ? 1 : 0}, ${inBuffer}, ${from}, ${rowBytes}, ${output.buffer}, ${panels.columns}, ${inStride}, ${outStride})`,
    )
  }

  #attention(step: Extract<Step, { op: "attend" }>): void {
    const { attention, query, output } = step
    const name = this.#unit("attention", [
      "void NAME(void *context, int64_t index, int32_t thread) {",
      `  const struct attention a = ${this.#attentionText(attention)};`,
      "  attention_item(context, a, index, thread);",
      "}",
    ])
    if (output.from !== 0) throw new Error("internal: attention into some columns of a buffer")
    if (step.span !== undefined) throw new Error("internal: attention in spans")
    this.#call(
      `attention_loop(m, ${setName(step.rows)}, ${name}, ${attention.kvHeads}, ${attention.layer}, ${query.buffer}, ${query.from}, ${stride(this.#plan, query)}, ${output.buffer}, ${stride(this.#plan, output)})`,
    )
  }

  #attentionText(a: Attention): string {
    const { layers } = attentionOf(this.#plan)
    const seen = `, .window = ${a.window ?? 0}, .sinks = ${a.sinks}`
    return `{.heads = ${a.heads}, .kv_heads = ${a.kvHeads}, .head_dim = ${a.headDim}, .layers = ${layers}, .number = ${this.#plan.kv.toUpperCase()}, .scale = ${float(a.scale)}, .cap = ${float(a.cap ?? 0)}${seen}}`
  }

  #rows(run: readonly Step[]): void {
    const parameters: number[] = []
    const argument = (value: number) => `loop->arguments[${parameters.push(value) - 1}]`
    const lines = run.map((step) => `    ${this.#rowCall(step, argument)};`)
    const name = this.#function("rows", [
      "static void NAME(void *context, int64_t index, int32_t thread) {",
      "  const struct row_loop *loop = context;",
      "  sinter_model *m = loop->model;",
      "  EACH_ROW(loop, index) {",
      ...(lines.some((line) => /\btoken\b/.test(line))
        ? ["    const int64_t token = loop->set->token[row];"]
        : []),
      ...lines,
      "  }",
      "}",
    ])
    const list = parameters.length > 0 ? `(int64_t[]){${parameters.join(", ")}}` : "NULL"
    this.#call(`rows_loop(m, ${setName(run[0]!.rows)}, ${name}, ${list})`)
  }

  /** The row of a view: of `row`, or of another row of its buffer. */
  #row(view: View, row = "row"): string {
    const from = view.from ? ` + ${view.from}` : ""
    return `FLOATS(${view.buffer}) + ${row} * ${stride(this.#plan, view)}${from}`
  }

  #rowCall(step: Step, argument: (value: number) => string): string {
    const row = (view: View, at?: string) => this.#row(view, at)
    const weight = (id: ParameterId) => `m->weights[${argument(id)}]`
    switch (step.op) {
      case "embed": {
        const { panels, as } = this.#weights[step.table]!
        const { codec } = panels
        const rounded = as === "MATRIX" && isGroupCodec(codec) ? dtypeOf(codec) : "f32"
        return `embed_row((struct panels)${panelsText(panels)}, ${weight(step.table)}, ${rounded.toUpperCase()}, m->step->${step.by}s + token, ${row(step.output)})`
      }
      case "hiddenIn":
        return `hidden_in_row(m, ${step.output.columns}, token, ${row(step.output)})`
      case "angles": {
        const { frequencies, factor, growth = { beta: 0, original: 0 } } = step.rotation
        const factors = [factor, growth.beta, growth.original].map(double).join(", ")
        return `angles_row(m, ${this.#table(frequencies)}, ${frequencies.length}, ${factors}, token, ${row(step.output)})`
      }
      case "norm": {
        const { kind, bias, width, epsilon, input } = step
        const vector = (id: ParameterId) => `(float *)${weight(id)}`
        const each = this.#plan.parameters[step.weight]!.rows === width ? 0 : 1
        const shape = `${each}, ${float(epsilon)}, ${width}, ${input.columns}, ${row(step.output)}`
        if (kind === "rms") return `norm_heads(${row(input)}, ${vector(step.weight)}, ${shape})`
        return `layer_norm_heads(${row(input)}, ${vector(step.weight)}, ${bias === undefined ? "NULL" : vector(bias)}, ${shape})`
      }
      case "quantize": {
        const { codes, columns, group, codec } = step.output
        return `quantize_row(${row(step.input)}, ${columns}, ${group}, quantized_above((struct panels)${panelsText({ rows: 0, columns: 0, pair: 0, codec })}), m->buffers[${codes}] + row * ${quantizedBytes(step.output)})`
      }
      case "rope":
        return `rope_row(${row(step.view)}, ${row(step.angles, "token")}, ${step.angles.columns}, ${step.headDim}, ${step.view.columns})`
      case "remember": {
        const all = attentionOf(this.#plan)
        return `remember_row(m, (struct attention)${this.#attentionText(all)}, ${argument(step.layer)}, ${row(step.key)}, ${row(step.value)}, token)`
      }
      case "apply": {
        const result = elementwise[step.function].c("x", float(step.by ?? 0))
        return `APPLY_ROW(${result}, ${row(step.input)}, ${step.output.columns}, ${row(step.output)})`
      }
      case "copy":
        return `copy_row(${row(step.input)}, ${step.output.columns}, ${row(step.output)})`
      case "add":
      case "multiply":
        return `${step.op}_row(${row(step.a)}, ${row(step.b)}, ${step.output.columns}, ${row(step.output)})`
      case "select": {
        const at = step.from === "tokens" ? "token" : "loop->set->wanted[row]"
        return `copy_row(${row(step.input, at)}, ${step.output.columns}, ${row(step.output)})`
      }
      default:
        throw new Error(`internal: ${step.op} is no step of rows`)
    }
  }

  #table(frequencies: readonly number[]): string {
    const text = frequencies.map(double).join(", ")
    let name = this.#frequencies.get(text)
    if (name === undefined) {
      name = `frequencies_${this.#frequencies.size}`
      this.#frequencies.set(text, name)
      this.functions.push(`static const double ${name}[${frequencies.length}] = {${text}};`, "")
    }
    return name
  }
}

/** Literals that C reads as exactly this number. */
const double = (x: number) => (Number.isInteger(x) ? `${x}.0` : String(x))
const float = (x: number) => `(float)${double(x)}`
