// The plan's steps in C: a table that reads as the plan does, an entry for each step, or for as many neighbours as one loop
// over rows can do; and the functions that entries name. Layers repeat: steps that differ only in their weights and their
// layer share a function, and their entries say in what they differ.
//
// The same entries are made as words of a tape, for the generic library, whose functions are there before the plan is.

import { createHash } from "node:crypto"
import type { GroupCodecName } from "../../../runtime/format.ts"
import { rowSets } from "../../../runtime/step-rows.ts"
import type { Activation } from "../../graph/elementwise.ts"
import { type Attention, valueDim } from "../../graph/graph.ts"
import {
  type BufferId,
  type Epilogue,
  type ParameterId,
  type Place,
  type Plan,
  type ProductInput,
  type Step,
  stepLine,
} from "../../plan.ts"
import { runs } from "../runs.ts"
import { type AttentionUnit, knownUnit, toldUnit } from "./attentions.ts"
import { isHalves, type Kept, matrixBytes, panelsCount } from "./kept.ts"
import {
  attention,
  attentionStep,
  type Body,
  codecFields,
  deltaStep,
  type epilogues,
  expertsStep,
  headKind,
  headStep,
  indexerStep,
  type Kind,
  type Lists,
  type Names,
  panelsText,
  productStep,
  type Shape,
  type ValueOf,
} from "./kinds.ts"
import {
  isInPieces,
  isInShares,
  paddedColumns,
  quantizedBytes,
  roundedBytes,
  strideOf,
} from "./layout.ts"
import { double, longInitialiser, type StructFields } from "./literals.ts"
import { productNumber, productUnit, type Unit, unitText } from "./products.ts"
import { callText, callWords, rowCallOf, storageOf } from "./row-calls.ts"

/**
 * Products with fewer columns have weights that lie in the cache as a whole, in any model that has them. They are compiled
 * once for all shapes, for models that are quick in any case; others once for each number of columns.
 */
const FAR = 1024

/** Likewise heads with fewer columns: whatever attends with them is compiled once for all shapes. */
const NARROW = 32

type AttentionShape = Shape<ValueOf<typeof attention.fields>>

/** In the order of enum step_kind. */
const stepKinds = [
  "ROW_BY_ROW",
  "PRODUCT",
  "HEAD_PRODUCT",
  "EXPERTS",
  "ATTEND",
  "DELTA",
  "INDEX",
] as const

export interface StepCode {
  /** Lines: the functions that belong into the driver, and declarations of the others. */
  functions: readonly string[]
  /** Lines: initialisers of a struct step each, under the plan's lines that they stand for. */
  entries: readonly string[]
  count: number
  /** The entries as words of a tape: of each how many, its kind, its rows, and what it says. */
  words: readonly number[]
  /** The files, by their names, of functions that take long to compile and that other models can have as well: each is compiled once. */
  units: ReadonlyMap<string, string>
}

/** @param lists of numbers that the words name */
export function stepCode(
  plan: Plan,
  weights: readonly Kept[],
  lists: Lists = { place: () => 0 },
): StepCode {
  const code = new Code(plan, weights, lists)
  for (const run of runs(plan.steps)) code.add(run)
  return code
}

class Code implements StepCode {
  readonly functions: string[] = []
  readonly entries: string[] = []
  readonly words: number[] = []
  count = 0
  readonly units = new Map<string, string>()
  readonly #plan: Plan
  readonly #weights: readonly Kept[]
  readonly #known = new Map<string, string>()
  readonly #frequencies = new Map<string, string>()

  readonly #lists: Lists

  constructor(plan: Plan, weights: readonly Kept[], lists: Lists) {
    this.#plan = plan
    this.#weights = weights
    this.#lists = lists
  }

  add(run: readonly number[]): void {
    const { rows } = this.#plan.steps[run[0]!]!
    const { kind, words, fields } = this.#entryOf(run)
    const entry = { kind, rows: rows.toUpperCase(), ...fields }
    const said = [stepKinds.indexOf(kind), rowSets.indexOf(rows), ...words]
    this.words.push(said.length + 1, ...said)
    this.entries.push(...this.#planLines(run, "  "), `  ${longInitialiser(entry, "  ")},`)
    this.count++
  }

  #entryOf(run: readonly number[]): Entry {
    const step = this.#plan.steps[run[0]!]!
    switch (step.op) {
      case "matmul":
        return this.#product(step)
      case "experts":
        return this.#experts(step)
      case "headMatmul":
        return this.#headProduct(step)
      case "attend":
        return this.#attention(step)
      case "delta":
        return this.#delta(step)
      case "indexer":
        return this.#indexer(step)
      default:
        return this.#rows(run)
    }
  }

  #planLines(run: readonly number[], indent: string): string[] {
    return run.map((i) => `${indent}//${stepLine(this.#plan, i)}`)
  }

  /** The name of a function that has a file beside the driver: it is the same in every model. */
  #unit(kind: string, unit: Unit): string {
    const text = unitText(unit, "NAME")
    const name = `${kind}_${createHash("sha256").update(text).digest("hex").slice(0, 8)}`
    if (!this.units.has(name)) {
      this.units.set(name, unitText(unit, name))
      this.functions.push(`void ${name}(void *context, int64_t index, int32_t thread);`, "")
    }
    return name
  }

  #attentionUnit(unit: AttentionUnit, { shape, isTold }: AttentionShape): string {
    return this.#unit(unit, {
      known: { ATTENTION_SPARSE: shape.sparse ?? 0 },
      ...(isTold ? toldUnit(unit, shape.number!) : knownUnit(unit, attention.c(shape, noNames)!)),
    })
  }

  /** A struct of an entry, in both ways. */
  #said<T>(kind: Kind<T>, value: T): { text: string; words: number[] } {
    return { text: kind.c(value, noNames)!, words: kind.tape(value, this.#lists) }
  }

  #product(step: Extract<Step, { op: "matmul" }>): Entry {
    const { weight, bias, epilogue, output } = step
    const input = this.#productRows(step.input)
    const whole = this.#plan.buffers[output.buffer]!
    if (output.from !== 0 || output.columns !== whole.columns)
      throw new Error("internal: a product into some columns of a buffer")
    if (epilogue.kind === "add" && epilogue.to.buffer !== output.buffer)
      throw new Error("internal: a product added to another buffer than its own")
    if (step.parts !== 1) throw new Error("internal: a product in parts")
    const { body, fields } = this.#productOf(input, weight, epilogue, strideOf(this.#plan, output))
    const product = { ...fields, bias: bias ?? "NO_WEIGHT", output: output.buffer } as const
    const { text, words } = this.#said(productStep, product)
    return {
      kind: "PRODUCT",
      words: [body.product, ...words],
      fields: { body: body.name, product: text },
    }
  }

  /** The function of a product, and what it is told of rows and weights. */
  #productOf(
    input: ProductRows,
    weight: ParameterId,
    epilogue: ProductEnd,
    outStride: number,
  ): { body: Body; fields: ProductFields } {
    const { panels } = this.#weights[weight]!
    const { isRounded, inStride, ...rows } = input
    const { codec, columns } = panels
    const end = "activation" in epilogue ? `${epilogue.kind}_${epilogue.activation}` : epilogue.kind
    const far = columns >= FAR
    const weights = { rows: 0, pair: 0, codec, columns: far ? columns : "loop->columns" }
    const kind = {
      quantized: isRounded ? 1 : 0,
      far: far ? 1 : 0,
      in_stride: far ? inStride : "loop->in_stride",
      weights: panelsText(weights),
    }
    const name = this.#unit(
      ["product", codec, ...(isRounded ? ["int8"] : []), far ? columns : "near"].join("_"),
      productUnit(codec, kind),
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
      far: kind.far,
      zero: codecFields(panels.codec).zero,
      epilogue: end.toUpperCase() as (typeof epilogues)[number],
    }
    return { body: { name, product: productNumber(panels.codec) }, fields }
  }

  #productRows(input: ProductInput): ProductRows {
    if (input.kind === "int8") {
      const { codes } = input
      const bytes = quantizedBytes(codes)
      return { isRounded: true, buffer: codes.codes, from: 0, bytes, inStride: 0 }
    }
    if (input.kind === "int16") throw new Error("internal: codes of 16 bits on a processor")
    const { view } = input
    const inStride = strideOf(this.#plan, view)
    const bytes = 4 * inStride
    return { isRounded: false, buffer: view.buffer, from: 4 * view.from, bytes, inStride }
  }

  #experts({ experts, input, weights, output }: ExpertsStep): Entry {
    const { count, active, intermediate, gated: hasGate, gateUp, up, down } = experts
    const { biases, activation, limit, rounded, parts } = experts
    if (parts !== 1) throw new Error("internal: a product in parts")
    const hiddenStride = paddedColumns(intermediate)
    const toHidden = (read: ProductInput, weight: ParameterId, end: ProductEnd) =>
      this.#productOf(this.#productRows(read), weight, end, hiddenStride)
    const gate = up && toHidden(input, gateUp, { kind: "store" })
    const gated = up
      ? toHidden(up.input, up.weight, { kind: "under", activation })
      : toHidden(input, gateUp, { kind: hasGate ? "gated" : "activated", activation })
    const hidden = rounded
      ? { isRounded: true, bytes: roundedBytes(intermediate, rounded), inStride: 0 }
      : { isRounded: false, bytes: 4 * hiddenStride, inStride: hiddenStride }
    const made = this.#productOf(hidden, down, { kind: "store" }, strideOf(this.#plan, output))
    if (output.from !== 0) throw new Error("internal: experts into some columns of a buffer")
    const bytes = (weight: ParameterId) => matrixBytes(this.#weights[weight]!.panels)
    const { text, words } = this.#said(expertsStep, {
      count,
      active,
      weights: weights.buffer,
      weights_from: weights.from,
      weights_stride: strideOf(this.#plan, weights),
      ...(gate && {
        apart: 1,
        gate: { ...gate.fields, bias: biases?.gateUp ?? "NO_WEIGHT" },
        gate_body: gate.body,
        gate_bytes: bytes(gateUp),
      }),
      up: { ...gated.fields, bias: (up ? biases?.up : biases?.gateUp) ?? "NO_WEIGHT", limit },
      up_body: gated.body,
      up_bytes: bytes(up ? up.weight : gateUp),
      round: rounded && this.#rounding(intermediate, rounded),
      rounded_for: rounded && { rows: 0, columns: intermediate, pair: 0, codec: rounded },
      down: { ...made.fields, bias: biases?.down ?? "NO_WEIGHT", output: output.buffer },
      down_body: made.body,
      down_bytes: bytes(down),
      out_columns: output.columns,
    })
    const fields = { experts: `&(const struct experts_step)${text}` }
    return { kind: "EXPERTS", words, fields }
  }

  /** The function that rounds a row of what experts have activated. */
  #rounding(columns: number, codec: GroupCodecName): string {
    const weights = panelsText({ rows: 0, columns, pair: 0, codec })
    const body = [
      "static void NAME(const struct experts_step *step, const float *input, uint8_t *output) {",
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

  #headProduct(step: Extract<Step, { op: "headMatmul" }>): Entry {
    const { input, weight, heads, kept, output } = step
    const { panels } = this.#weights[weight]!
    const kind = {
      weights: panels,
      rows: panels.rows / heads,
      kept,
      in_stride: strideOf(this.#plan, input),
      out_stride: strideOf(this.#plan, output),
    }
    const name = this.#unit("heads", {
      body: [
        "void NAME(void *context, int64_t index, int32_t thread) {",
        `  const struct head_kind kind = ${headKind.c(kind, noNames)};`,
        "  head_item(context, kind, index);",
        "}",
      ],
    })
    const { text, words } = this.#said(headStep, {
      input: input.buffer,
      from: input.from,
      weight,
      panels: panelsCount(panels),
      output: output.buffer,
      kind,
    })
    return { kind: "HEAD_PRODUCT", words, fields: { body: name, heads: text } }
  }

  #attention(step: Extract<Step, { op: "attend" }>): Entry {
    const { place, query, output, relative } = step
    const { distances } = step.biases ?? {}
    const buckets = relative && relative.query.columns / step.attention.heads
    const shape = { ...this.#attentionShape(step.attention, place), distances, buckets }
    const told = { shape, isTold: step.attention.headDim < NARROW }
    const name = this.#attentionUnit("attention", told)
    const pieces = isInPieces(step.attention) ? this.#attentionUnit("pieces", told) : undefined
    if (output.from !== 0) throw new Error("internal: attention into some columns of a buffer")
    if (step.span !== undefined) throw new Error("internal: attention in spans")
    if (step.chosen && step.chosen.from !== 0)
      throw new Error("internal: what is chosen stands in some columns of a buffer")
    const { text, words } = this.#said(attentionStep, {
      query: query.buffer,
      from: query.from,
      query_stride: strideOf(this.#plan, query),
      kv_heads: step.attention.kvHeads,
      group: place.group,
      layer: place.layer,
      most_shares: isInShares(step.attention) && !step.biases ? step.attention.heads : 1,
      heads_of_kv: step.attention.heads / step.attention.kvHeads,
      vectors: Math.ceil(valueDim(step.attention) / 16),
      pieces: pieces === undefined ? undefined : { name: pieces, number: shape.number! },
      sink_logits: step.sinkLogits ?? "NO_WEIGHT",
      biases: step.biases?.parameter ?? "NO_WEIGHT",
      by_query: relative?.query.buffer,
      by_key: relative?.key.buffer,
      by_query_from: relative?.query.from,
      by_query_stride: relative && strideOf(this.#plan, relative.query),
      by_key_from: relative?.key.from,
      by_key_stride: relative && strideOf(this.#plan, relative.key),
      chosen: step.chosen?.buffer,
      chosen_stride: step.chosen && strideOf(this.#plan, step.chosen),
      output: output.buffer,
      out_stride: strideOf(this.#plan, output),
      attention: told,
    })
    return { kind: "ATTEND", words, fields: { body: name, attention: text } }
  }

  #indexer(step: Extract<Step, { op: "indexer" }>): Entry {
    const { query, weights, indexer, place, output } = step
    if (output.from !== 0) throw new Error("internal: an indexer chooses into some columns")
    const { heads, headDim, top } = indexer
    // Without values: they might be columns of keys.
    const shape = { heads, ...storageOf(this.#plan, place), latent: headDim, scale: 1 }
    const told = { shape, isTold: headDim < NARROW }
    const name = this.#attentionUnit("indexer", told)
    const { text, words } = this.#said(indexerStep, {
      query: query.buffer,
      from: query.from,
      query_stride: strideOf(this.#plan, query),
      weights: weights.buffer,
      weights_from: weights.from,
      weights_stride: strideOf(this.#plan, weights),
      group: place.group,
      layer: place.layer,
      top,
      output: output.buffer,
      out_stride: strideOf(this.#plan, output),
      blocks: output.columns,
      attention: told,
    })
    return { kind: "INDEX", words, fields: { body: name, indexer: text } }
  }

  #delta(step: Extract<Step, { op: "delta" }>): Entry {
    // Of shares and skip a step has one, and without decay it has no bias; what stands in their places is not read.
    const { input, decays, shares = decays, decay = 0, bias = 0, delta, place, output } = step
    const { skip = bias, keys = input } = step
    if (output.from !== 0)
      throw new Error("internal: a state is read into some columns of a buffer")
    const { text, words } = this.#said(deltaStep, {
      input: input.buffer,
      from: input.from,
      in_stride: strideOf(this.#plan, input),
      decays: decays.buffer,
      decays_from: decays.from,
      decays_stride: strideOf(this.#plan, decays),
      shares: shares.buffer,
      shares_from: shares.from,
      shares_stride: strideOf(this.#plan, shares),
      keys: keys.buffer,
      keys_from: keys.from,
      keys_stride: strideOf(this.#plan, keys),
      decay,
      bias,
      skip,
      selective: delta.selective ? 1 : 0,
      by_number: delta.by ? 1 : 0,
      given: delta.given ? 1 : 0,
      key_heads: delta.keyHeads,
      value_heads: delta.valueHeads,
      tiled: delta.tiled ? 1 : 0,
      key_dim: delta.keyDim,
      value_dim: delta.valueDim,
      group: place.group,
      layer: place.layer,
      output: output.buffer,
      out_stride: strideOf(this.#plan, output),
    })
    return { kind: "DELTA", words, fields: { delta: text } }
  }

  #attentionShape(a: Attention, place: Place): ValueOf<typeof attention.fields> {
    return {
      heads: a.heads,
      ...storageOf(this.#plan, place),
      latent: a.latent,
      scale: a.scale,
      cap: a.cap,
      window: a.window,
      chunked: a.chunked ? 1 : undefined,
      sinks: a.sinks || undefined,
      bidirectional: a.bidirectional ? 1 : undefined,
      mutual: a.mutual ? 1 : undefined,
      cross: a.cross,
      sparse: a.sparse ? 1 : undefined,
    }
  }

  /** Functions of a row, one after the other in one loop. */
  #rows(run: readonly number[]): Entry {
    const weights: ParameterId[] = []
    const layers: number[] = []
    const names: Names = {
      weight: (id) => `WEIGHT(${weights.push(id) - 1})`,
      layer: (layer) => {
        if (layers.push(layer) > 1) throw new Error("internal: two layers in one loop over rows")
        return "loop->step->layer"
      },
      table: (numbers) => this.#table(numbers),
    }
    const calls = run.map((i) => rowCallOf(this.#plan.steps[i]!, this.#plan, this.#weights))
    const lines = calls.map((said) => `    ${callText(said, names)};`)
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
      words: [calls.length, ...calls.flatMap((said) => callWords(said, this.#lists))],
      fields: {
        body: name,
        weights: weights.length > 0 ? `(const int[]){${weights.join(", ")}}` : undefined,
        layer: layers[0],
      },
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

/** Fields of a struct step, and the same for a tape. */
interface Entry {
  kind: (typeof stepKinds)[number]
  words: readonly number[]
  fields: StructFields
}
/** As the plan has it; or the output holds gates, and becomes activation(output) * y; or it becomes activation(y). */
type ProductEnd = Epilogue | { kind: "under" | "activated"; activation: Activation }
type ProductFields = ValueOf<typeof productStep.fields>

/** Of what has no fields that steps differ in. */
const noNames: Names = {
  weight: () => nothing(),
  layer: () => nothing(),
  table: () => nothing(),
}
function nothing(): never {
  throw new Error("internal: an entry that says what functions are told")
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
