// The plan's steps in C: a table that reads as the plan does, an entry for each step, or for as many neighbours as one loop
// over rows can do; and the functions that entries name. Layers repeat: steps that differ only in their weights and their
// layer share a function, and their entries say in what they differ.

import { dtypeOf, type GroupCodecName, isGroupCodec } from "../../../runtime/format.ts"
import { elementwise } from "../../graph/elementwise.ts"
import type { Attention } from "../../graph/graph.ts"
import {
  type BufferId,
  type Epilogue,
  type ParameterId,
  type Place,
  type Plan,
  type ProductInput,
  type Step,
  stepLine,
  type View,
} from "../../plan.ts"
import { runs } from "../runs.ts"
import { isHalves, type Kept, matrixBytes, panelsCount } from "./kept.ts"
import { paddedColumns, quantizedBytes, roundedBytes, strideOf } from "./layout.ts"
import {
  double,
  float,
  initialiser,
  longInitialiser,
  panelsText,
  type StructFields,
} from "./literals.ts"

/**
 * Products with fewer columns have weights that lie in the cache as a whole, in any model that has them. They are compiled
 * once for all shapes: a third of the compiler's time, for a model that is quick in any case.
 */
const FAR = 1024

export interface StepCode {
  /** Lines: the functions that belong into the driver, and declarations of the others. */
  functions: readonly string[]
  /** Lines: initialisers of a struct step each, under the plan's lines that they stand for. */
  entries: readonly string[]
  count: number
  /** Bodies of functions that take long to compile, with NAME for their names. */
  units: ReadonlyMap<string, string>
  /** The same of those that any model of the format can have: each goes into a file of its own, which is compiled once. */
  shared: ReadonlyMap<string, string>
}

export function stepCode(plan: Plan, weights: readonly Kept[]): StepCode {
  const code = new Code(plan, weights)
  for (const run of runs(plan.steps)) code.add(run)
  return code
}

class Code implements StepCode {
  readonly functions: string[] = []
  readonly entries: string[] = []
  count = 0
  readonly units = new Map<string, string>()
  readonly shared = new Map<string, string>()
  readonly #plan: Plan
  readonly #weights: readonly Kept[]
  readonly #known = new Map<string, string>()
  readonly #frequencies = new Map<string, string>()

  constructor(plan: Plan, weights: readonly Kept[]) {
    this.#plan = plan
    this.#weights = weights
  }

  add(run: readonly number[]): void {
    const [first] = run
    const step = this.#plan.steps[first!]!
    const { kind, ...fields } =
      step.op === "matmul"
        ? this.#product(step)
        : step.op === "experts"
          ? this.#experts(step)
          : step.op === "headMatmul"
            ? this.#headProduct(step)
            : step.op === "attend"
              ? this.#attention(step)
              : this.#rows(run)
    const entry = { kind, rows: step.rows.toUpperCase(), ...fields }
    this.entries.push(...this.#planLines(run, "  "), `  ${longInitialiser(entry, "  ")},`)
    this.count++
  }

  #planLines(run: readonly number[], indent: string): string[] {
    return run.map((i) => `${indent}//${stepLine(this.#plan, i)}`)
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

  #product(step: Extract<Step, { op: "matmul" }>): StructFields {
    const { weight, bias, epilogue, output } = step
    const input = this.#productRows(step.input)
    const whole = this.#plan.buffers[output.buffer]!
    if (output.from !== 0 || output.columns !== whole.columns)
      throw new Error("internal: a product into some columns of a buffer")
    if (epilogue.kind === "add" && epilogue.to.buffer !== output.buffer)
      throw new Error("internal: a product added to another buffer than its own")
    if (step.parts !== 1) throw new Error("internal: a product in parts")
    const body = this.#productOf(input, weight, epilogue, strideOf(this.#plan, output))
    const product = {
      ...body.fields,
      bias: bias ?? "NO_WEIGHT",
      output: output.buffer,
    }
    return { kind: "PRODUCT", body: body.name, product: longInitialiser(product, "      ") }
  }

  /** The function of a product, and what it is told of rows and weights. */
  #productOf(
    input: ProductRows,
    weight: ParameterId,
    epilogue: Epilogue,
    outStride: number,
  ): { name: string; fields: StructFields } {
    const { panels } = this.#weights[weight]!
    const { isRounded, inStride, ...rows } = input
    const end = epilogue.kind === "gated" ? `gated_${epilogue.activation}` : epilogue.kind
    const far = panels.columns >= FAR
    const kind = {
      quantized: isRounded ? 1 : 0,
      far: far ? 1 : 0,
      in_stride: far ? inStride : "loop->in_stride",
      out_stride: far ? outStride : "loop->out_stride",
      epilogue: end.toUpperCase(),
      weights: panelsText(far ? panels : { ...panels, rows: 0, pair: 0, columns: "loop->columns" }),
    }
    const body = [
      "void NAME(void *context, int64_t index, int32_t thread) {",
      "  const struct product_loop *loop = context;",
      `  const struct product_kind kind = ${longInitialiser(kind, "  ")};`,
      "  product_item(loop, kind, index);",
      "}",
    ]
    const name = this.#unit(
      "product",
      body,
      far ? undefined : `near_${panels.codec}${isRounded ? "_int8" : ""}_${end}`,
    )
    const fields = {
      input: rows.buffer,
      from: rows.from,
      row_bytes: rows.bytes,
      in_stride: inStride,
      weight,
      panels: panelsCount(panels),
      columns: panels.columns,
      halves: isHalves(panels) ? 1 : 0,
      out_stride: outStride,
    }
    return { name, fields }
  }

  #productRows(input: ProductInput): ProductRows {
    if (input.kind === "int8") {
      const { codes } = input
      const bytes = quantizedBytes(codes)
      return { isRounded: true, buffer: codes.codes, from: 0, bytes, inStride: 0 }
    }
    const { view } = input
    const inStride = strideOf(this.#plan, view)
    const bytes = 4 * inStride
    return { isRounded: false, buffer: view.buffer, from: 4 * view.from, bytes, inStride }
  }

  #experts({ experts, input, weights, output }: ExpertsStep): StructFields {
    const { count, active, intermediate, gateUp, down, biases, activation, limit, rounded, parts } =
      experts
    if (parts !== 1) throw new Error("internal: a product in parts")
    const hiddenStride = paddedColumns(intermediate)
    const up = this.#productOf(
      this.#productRows(input),
      gateUp,
      { kind: "gated", activation },
      hiddenStride,
    )
    const hidden = rounded
      ? { isRounded: true, bytes: roundedBytes(intermediate, rounded), inStride: 0 }
      : { isRounded: false, bytes: 4 * hiddenStride, inStride: hiddenStride }
    const made = this.#productOf(hidden, down, { kind: "store" }, strideOf(this.#plan, output))
    if (output.from !== 0) throw new Error("internal: experts into some columns of a buffer")
    const bytes = (weight: ParameterId) => matrixBytes(this.#weights[weight]!.panels)
    const fields = {
      count,
      active,
      weights: weights.buffer,
      weights_from: weights.from,
      weights_stride: strideOf(this.#plan, weights),
      up: longInitialiser(
        {
          ...up.fields,
          bias: biases?.gateUp ?? "NO_WEIGHT",
          limit: limit === undefined ? undefined : float(limit),
        },
        "            ",
      ),
      up_body: up.name,
      up_bytes: bytes(gateUp),
      round: rounded && this.#rounding(intermediate, rounded),
      down: longInitialiser(
        { ...made.fields, bias: biases?.down ?? "NO_WEIGHT", output: output.buffer },
        "            ",
      ),
      down_body: made.name,
      down_bytes: bytes(down),
      out_columns: output.columns,
    }
    return {
      kind: "EXPERTS",
      experts: `&(const struct experts_step)${longInitialiser(fields, "      ")}`,
    }
  }

  /** The function that rounds a row of what experts have activated. */
  #rounding(columns: number, codec: GroupCodecName): string {
    const weights = panelsText({ rows: 0, columns, pair: 0, codec })
    const body = [
      "static void NAME(const float *input, uint8_t *output) {",
      `  quantize((struct quantized){.input = input, .weights = ${weights}, .output = output});`,
      "}",
    ].join("\n")
    let name = this.#known.get(body)
    if (name === undefined) {
      name = `round_${this.#known.size}`
      this.#known.set(body, name)
      this.functions.push(body.replaceAll("NAME", name), "")
    }
    return name
  }

  #headProduct(step: Extract<Step, { op: "headMatmul" }>): StructFields {
    const { input, weight, heads, kept, output } = step
    const { panels } = this.#weights[weight]!
    const kind = {
      weights: panelsText(panels),
      rows: panels.rows / heads,
      kept,
      in_stride: strideOf(this.#plan, input),
      out_stride: strideOf(this.#plan, output),
    }
    const name = this.#unit("heads", [
      "void NAME(void *context, int64_t index, int32_t thread) {",
      `  const struct head_kind kind = ${longInitialiser(kind, "  ")};`,
      "  head_item(context, kind, index);",
      "}",
    ])
    const fields = {
      input: input.buffer,
      from: input.from,
      weight,
      panels: panelsCount(panels),
      output: output.buffer,
    }
    return { kind: "HEAD_PRODUCT", body: name, heads: longInitialiser(fields, "      ") }
  }

  #attention(step: Extract<Step, { op: "attend" }>): StructFields {
    const { attention, place, query, output } = step
    const name = this.#unit("attention", [
      "void NAME(void *context, int64_t index, int32_t thread) {",
      `  const struct attention a = ${this.#attentionText(attention, place)};`,
      "  attention_item(context, a, index, thread);",
      "}",
    ])
    if (output.from !== 0) throw new Error("internal: attention into some columns of a buffer")
    if (step.span !== undefined) throw new Error("internal: attention in spans")
    const fields = {
      query: query.buffer,
      from: query.from,
      query_stride: strideOf(this.#plan, query),
      kv_heads: attention.kvHeads,
      group: place.group,
      layer: place.layer,
      sink_logits: step.sinkLogits ?? "NO_WEIGHT",
      output: output.buffer,
      out_stride: strideOf(this.#plan, output),
    }
    return { kind: "ATTEND", body: name, attention: longInitialiser(fields, "      ") }
  }

  /** How keys and values of a group lie in its blocks. */
  #storage({ group }: Place): StructFields {
    const { layers, kvHeads, headDim } = this.#plan.groups[group]!
    return {
      kv_heads: kvHeads,
      head_dim: headDim.key,
      layers: layers.length,
      number: this.#plan.kv.toUpperCase(),
    }
  }

  #attentionText(a: Attention, place: Place): string {
    return initialiser({
      heads: a.heads,
      ...this.#storage(place),
      latent: a.latent,
      scale: float(a.scale),
      cap: a.cap === undefined ? undefined : float(a.cap),
      window: a.window,
      sinks: a.sinks || undefined,
      bidirectional: a.bidirectional && 1,
    })
  }

  /** Functions of a row, one after the other in one loop. */
  #rows(run: readonly number[]): StructFields {
    const weights: ParameterId[] = []
    const layers: number[] = []
    const differing = {
      weight: (id: ParameterId) => `WEIGHT(${weights.push(id) - 1})`,
      layer: (layer: number) => {
        if (layers.push(layer) > 1) throw new Error("internal: two layers in one loop over rows")
        return "loop->layer"
      },
    }
    const lines = run.map((i) => `    ${this.#rowCall(this.#plan.steps[i]!, differing)};`)
    const body = [
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
    ].join("\n")
    let name = this.#known.get(body)
    if (name === undefined) {
      name = `rows_${this.#known.size}`
      this.#known.set(body, name)
      const comment = "// These steps, and those that differ from them in weights and layer alone:"
      this.functions.push(comment, ...this.#planLines(run, ""), body.replaceAll("NAME", name), "")
    }
    return {
      kind: "ROW_BY_ROW",
      body: name,
      weights: weights.length > 0 ? `(const int[]){${weights.join(", ")}}` : undefined,
      layer: layers[0],
    }
  }

  /** The row of a view: of `row`, or of another row of its buffer. */
  #row({ buffer, from }: View, row = "row"): string {
    return `b${buffer}(${row})${from ? ` + ${from}` : ""}`
  }

  #rowCall(step: Step, differing: Differing): string {
    const row = (view: View, at?: string) => this.#row(view, at)
    const call = (name: string, struct: string, fields: StructFields, ...before: string[]) => {
      const text = `(struct ${struct})${longInitialiser(fields, " ".repeat(8))}`
      return `${name}(${[...before, text].join(", ")})`
    }
    switch (step.op) {
      case "embed": {
        const { panels, as } = this.#weights[step.table]!
        const { codec } = panels
        const rounded = as === "MATRIX" && isGroupCodec(codec) ? dtypeOf(codec) : "f32"
        return call("embed_row", "embed", {
          index: `m->step->${step.by}s[token]`,
          table: differing.weight(step.table),
          panels: panelsText(panels),
          rounded: rounded.toUpperCase(),
          output: row(step.output),
        })
      }
      case "hiddenIn": {
        const { columns } = step.output
        return call("copy_row", "elements", {
          input: `m->step->hidden_in + token * ${columns}`,
          columns,
          output: row(step.output),
        })
      }
      case "ropeTable": {
        const { frequencies, factor, growth = { beta: 0, original: 0 } } = step.rotation
        return call("rope_table_row", "rope_table", {
          position: "m->step->positions[token]",
          frequencies: this.#table(frequencies),
          count: frequencies.length,
          factor: double(factor),
          beta: double(growth.beta),
          original: double(growth.original),
          output: row(step.output),
        })
      }
      case "norm": {
        const { kind, bias, width, epsilon, input } = step
        return call(kind === "rms" ? "norm_heads" : "layer_norm_heads", "norm", {
          input: row(input),
          columns: input.columns,
          width,
          weight: differing.weight(step.weight),
          bias: bias === undefined ? undefined : differing.weight(bias),
          each: this.#plan.parameters[step.weight]!.rows === width ? 0 : 1,
          epsilon: float(epsilon),
          output: row(step.output),
        })
      }
      case "quantize": {
        const { codes, columns, codec } = step.output
        return call("quantize", "quantized", {
          input: row(step.input),
          weights: panelsText({ rows: 0, columns, pair: 0, codec }),
          output: `b${codes}(row, ${quantizedBytes(step.output)})`,
        })
      }
      case "rope":
        return call("rope_row", "rope", {
          row: row(step.view),
          columns: step.view.columns,
          head_dim: step.headDim,
          rope_table: row(step.ropeTable, "token"),
          turned: step.ropeTable.columns,
        })
      case "storeKv": {
        const { group, layer } = step.place
        // Without values these are the keys, and write_kv looks at keys alone.
        const latent = step.value ? undefined : step.key.columns
        const fields = {
          attention: initialiser({ ...this.#storage(step.place), latent }),
          group,
          layer: differing.layer(layer),
          key: row(step.key),
          value: row(step.value ?? step.key),
          token: "token",
        }
        return call("store_kv_row", "stored_kv", fields, "m")
      }
      case "convolve": {
        const { place, taps, count } = step
        const fields = {
          attention: initialiser({ ...this.#storage(place), latent: 1 }), // there are no values
          group: place.group,
          layer: differing.layer(place.layer),
          taps: differing.weight(taps),
          count,
          token: "token",
          output: row(step.output),
        }
        return call("convolve_row", "convolved", fields, "m")
      }
      case "apply": {
        const result = elementwise[step.function].c("x", float(step.by ?? 0))
        const fields = {
          input: row(step.input),
          columns: step.output.columns,
          output: row(step.output),
        }
        return call("APPLY_ROW", "elements", fields, result)
      }
      case "weigh": {
        const isOne = this.#plan.parameters[step.weight]!.rows === 1
        return call(isOne ? "scale_row" : "multiply_row", "elements", {
          input: row(step.input),
          other: differing.weight(step.weight),
          columns: step.output.columns,
          output: row(step.output),
        })
      }
      case "copy":
        return call("copy_row", "elements", {
          input: row(step.input),
          columns: step.output.columns,
          output: row(step.output),
        })
      case "route": {
        const { active, score, normalized, factor, groups } = step.routing
        const routing = {
          count: step.input.columns,
          active,
          sigmoid: score === "sigmoid" ? 1 : 0,
          normalized: normalized ? 1 : 0,
          factor: float(factor),
          groups: groups?.count,
          open: groups?.open,
          two_largest: groups?.rank === "two largest" ? 1 : undefined,
        }
        return call("route_row", "routed", {
          routing: longInitialiser(routing, " ".repeat(12)),
          input: row(step.input),
          bias: step.bias === undefined ? undefined : differing.weight(step.bias),
          output: row(step.output),
        })
      }
      case "add":
      case "multiply":
        return call(
          step.op === "multiply" && step.b.columns < step.a.columns
            ? "scale_row"
            : `${step.op}_row`,
          "elements",
          {
            input: row(step.a),
            other: row(step.b),
            columns: step.output.columns,
            output: row(step.output),
          },
        )
      case "select":
        return call("copy_row", "elements", {
          input: row(step.input, step.from === "tokens" ? "token" : "loop->set->wanted[row]"),
          columns: step.output.columns,
          output: row(step.output),
        })
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

type ExpertsStep = Extract<Step, { op: "experts" }>

/** Rows that a product reads: of a buffer, or of experts' slots. */
interface ProductRows {
  isRounded: boolean
  buffer?: BufferId
  from?: number // bytes
  bytes: number // of a row
  inStride: number // of floats
}

/** What steps that share a function differ in, as that function says it. */
interface Differing {
  weight(id: ParameterId): string
  layer(layer: number): string
}
