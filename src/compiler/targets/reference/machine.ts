// The interpreter: buffers, caches, and for every step of the plan what it does to a row.

import { rounding } from "../../../runtime/dtype.ts"
import { dtypeOf, type FloatType } from "../../../runtime/format.ts"
import {
  BLOCK,
  type CancelWord,
  newStepDone,
  type ProgramLimits,
  type StepDone,
  type StepInput,
  type StepOutput,
} from "../../../runtime/program.ts"
import { writeTurns } from "../../../runtime/rotation.ts"
import { createSampler, type Sampler } from "../../../runtime/sampling.ts"
import { ITEM, type RowSet, StepRows, type Visible } from "../../../runtime/step-rows.ts"
import { elementwise } from "../../graph/elementwise.ts"
import {
  type BufferId,
  type Codes,
  type ParameterId,
  type Place,
  type Plan,
  partEnds,
  type Step,
  type View,
} from "../../plan.ts"
import * as kernels from "./kernels.ts"
import { type Floats, readRow, type Stored } from "./parameters.ts"
import { attendTiles, multiplyTiles } from "./tiles.ts"

type Four = readonly [number, number, number, number]
type Matmul = Extract<Step, { op: "matmul" }>
type Attend = Extract<Step, { op: "attend" }>
type Product = (row: number, wanted: Four, out: Float64Array) => void

/**
 * In which of the cpu target's two ways attention and products of float weights are computed: they differ in the last bits
 * (docs/determinism.md).
 */
export type Arithmetic = "vectors" | "matrix unit"

/** Rows that attend together. */
const ROWS_AT_ONCE = 4

/** Thrown by whatever finds the cancel word set. */
const cancelled = Symbol("cancelled")

export class Machine {
  readonly #plan: Plan
  readonly #parameters: readonly Stored[]
  readonly #buffers: readonly (Float32Array | Int8Array)[]
  readonly #caches: readonly (readonly kernels.Cache[])[] // of each group, of each of its layers
  readonly #sampler: Sampler
  readonly #arithmetic: Arithmetic
  readonly #stepRows: StepRows

  constructor(
    plan: Plan,
    limits: ProgramLimits,
    parameters: readonly Stored[],
    arithmetic: Arithmetic,
  ) {
    this.#plan = plan
    this.#arithmetic = arithmetic
    this.#parameters = parameters
    this.#buffers = plan.buffers.map(({ capacity, columns, dtype }) => {
      const size = (capacity === "tokens" ? limits.tokens : limits.rows) * columns
      return dtype === "i8" ? new Int8Array(size) : new Float32Array(size)
    })
    this.#caches = plan.groups.map(({ layers, kvHeads, headDim }, group) => {
      const heads = limits.blocks[group]! * BLOCK * kvHeads
      const pair = (key: number, value: number) => ({
        keys: new Float32Array(heads * key),
        values: new Float32Array(heads * value),
      })
      return layers.map(() => ({
        ...pair(headDim.key, headDim.value),
        ...(plan.kv === "q8" ? { scales: pair(1, 1) } : {}),
      }))
    })
    this.#sampler = createSampler(plan.shapes.vocabulary)
    this.#stepRows = new StepRows(limits, plan.sinks)
  }

  run(input: StepInput, cancel: CancelWord): StepOutput {
    this.#stepRows.take(input)
    try {
      for (const step of this.#plan.steps) this.#take(step, input, cancel)
    } catch (error) {
      if (error === cancelled) return { kind: "cancelled" }
      throw error
    }
    return this.#results(input)
  }

  copyBlocks(group: number, from: Int32Array, to: Int32Array): void {
    const { kvHeads, headDim } = this.#plan.groups[group]!
    const copy = (rows: Float32Array, width: number) => {
      const size = BLOCK * kvHeads * width
      from.forEach((block, i) => {
        rows.copyWithin(to[i]! * size, block * size, (block + 1) * size)
      })
    }
    for (const { keys, values, scales } of this.#caches[group]!) {
      copy(keys, headDim.key)
      copy(values, headDim.value)
      if (scales) for (const of of [scales.keys, scales.values]) copy(of, 1)
    }
  }

  #take(step: Step, input: StepInput, cancel: CancelWord): void {
    const count = this.#stepRows.tokensOf(step.rows).length
    if (step.op === "matmul") this.#multiply(step, count, cancel)
    else if (step.op === "attend") this.#attend(step, input, cancel)
    else {
      const work = this.#rowWork(step, input)
      for (let row = 0; row < count; row++) {
        poll(cancel)
        work(row)
      }
    }
  }

  /** What a step does to each of its rows. */
  #rowWork(step: Exclude<Step, Matmul | Attend>, input: StepInput): (row: number) => void {
    const tokens = this.#stepRows.tokensOf(step.rows)
    switch (step.op) {
      case "embed": {
        const table = this.#parameters[step.table]!
        const out = this.#rows(step.output)
        const index = step.by === "token" ? input.tokens : input.positions
        return (row) => readRow(table, index[row]!, kernels.rowOf(out, row))
      }
      case "hiddenIn": {
        const out = this.#rows(step.output)
        const given = { data: input.hiddenIn!, stride: out.columns, from: 0, columns: out.columns }
        return (row) => kernels.rowOf(out, row).set(kernels.rowOf(given, row))
      }
      case "ropeTable": {
        const out = this.#rows(step.output)
        return (row) =>
          writeTurns(input.positions[row]!, step.rotation, out.data, kernels.at(out, row))
      }
      case "norm": {
        const [x, out] = [this.#rows(step.input), this.#rows(step.output)]
        const weight = this.#vector(step.weight)
        const bias = step.bias === undefined ? undefined : this.#vector(step.bias)
        return (row) => kernels.norm(x, { ...step, weight, bias }, out, row)
      }
      case "quantize": {
        const [x, out] = [this.#rows(step.input), this.#codes(step.output)]
        return (row) => kernels.quantize(x, out, row)
      }
      case "rope": {
        const [view, ropeTable] = [this.#rows(step.view), this.#rows(step.ropeTable)]
        return (row) => kernels.rope(view, row, step.headDim, ropeTable, tokens[row]!)
      }
      case "storeKv":
        return this.#memory(step)
      case "apply": {
        const { js } = elementwise[step.function]
        return this.#eachElement(step.input, step.input, step.output, (x) => js(x, step.by ?? 0))
      }
      case "add":
        return this.#eachElement(step.a, step.b, step.output, (a, b) => a + b)
      case "multiply":
        return this.#eachElement(step.a, step.b, step.output, (a, b) => a * b)
      case "copy":
        return this.#eachElement(step.input, step.input, step.output, (x) => x)
      case "select": {
        const [x, out] = [this.#rows(step.input), this.#rows(step.output)]
        const rows = this.#stepRows.rowsIn(ofTokens(step.from))
        return (row) => kernels.rowOf(out, row).set(kernels.rowOf(x, rows[tokens[row]!]!))
      }
    }
  }

  #eachElement(
    a: View,
    b: View,
    output: View,
    what: (a: number, b: number) => number,
  ): (row: number) => void {
    const [left, right, out] = [this.#rows(a), this.#rows(b), this.#rows(output)]
    return (row) => {
      const [x, y, to] = [left, right, out].map((rows) => kernels.rowOf(rows, row)) as [
        Float32Array,
        Float32Array,
        Float32Array,
      ]
      for (let i = 0; i < to.length; i++) to[i] = what(x[i]!, y[i]!)
    }
  }

  /** Item by item: some rows, and what lies in one span of their context or in all of it. */
  #attend(step: Attend, input: StepInput, cancel: CancelWord) {
    const { rows, query, attention, place, span, output } = step
    const { kv } = this.#plan
    const [x, out] = [this.#rows(query), this.#rows(output)]
    const cache = this.#cacheOf(place)
    const tokens = this.#stepRows.tokensOf(rows)
    const { window, sinks } = attention
    const visible = { group: place.group, window, sinks, span }
    const items = this.#stepRows.attentionItems(ofTokens(rows), ROWS_AT_ONCE, visible)
    for (let first = 0, next = 0; first < items.length; first = next) {
      const [from, count] = [items[first]!, items[first + 1]!]
      const spans: number[] = []
      for (; items[next] === from; next += ITEM) spans.push(items[next + 3]!)
      for (let row = from; row < from + count; row++) {
        poll(cancel)
        const seen = spans.map((number) => this.#seen(tokens[row]!, visible, number, input))
        if (span !== undefined) kernels.attend(x, row, attention, cache, seen, out)
        else if (this.#arithmetic === "matrix unit" && kv !== "f32")
          attendTiles(x, row, attention, kv, cache, seen[0]!, out)
        else kernels.attend(x, row, attention, cache, seen[0]!, out)
      }
    }
  }

  /** What a token sees of a span. */
  #seen(token: number, visible: Visible, number: number, { positions }: StepInput): kernels.Seen {
    const { group, sinks, span = Number.POSITIVE_INFINITY } = visible
    const sequence = this.#stepRows.sequences[token]!
    const first = this.#stepRows.firstSeen(token, visible)
    const begin = span === Number.POSITIVE_INFINITY ? 0 : number * span
    const seen: number[] = []
    for (let p = begin; p < Math.min(first, sinks, begin + span); p++) seen.push(p)
    for (let p = Math.max(begin, first); p <= positions[token]! && p < begin + span; p++)
      seen.push(p)
    return {
      positions: Int32Array.from(seen),
      slots: Int32Array.from(seen, (position) => this.#stepRows.slotOf(group, sequence, position)),
    }
  }

  #memory(step: Extract<Step, { op: "storeKv" }>): (row: number) => void {
    const { group } = step.place
    const slots = this.#stepRows.slotsIn(group)
    const [key, value] = [this.#rows(step.key), this.#rows(step.value)]
    const { keys, values, scales } = this.#cacheOf(step.place)
    const { kv, groups } = this.#plan
    if (scales) {
      const { kvHeads, headDim } = groups[group]!
      const [keyDim, valueDim] = [headDim.key, headDim.value]
      return (token) => {
        const [k, v] = [kernels.rowOf(key, token), kernels.rowOf(value, token)]
        const slot = slots[token]!
        for (let head = 0; head < kvHeads; head++) {
          const at = slot * kvHeads + head
          scales.keys[at] = kernels.codeHead(k, head * keyDim, keyDim, keys, at * keyDim)
          scales.values[at] = kernels.codeHead(v, head * valueDim, valueDim, values, at * valueDim)
        }
      }
    }
    const round = rounding[kv as FloatType]
    return (token) => {
      const [k, v] = [kernels.rowOf(key, token), kernels.rowOf(value, token)]
      const slot = slots[token]!
      for (let i = 0; i < k.length; i++) keys[slot * k.length + i] = round(k[i]!)
      for (let i = 0; i < v.length; i++) values[slot * v.length + i] = round(v[i]!)
    }
  }

  #cacheOf({ group, layer }: Place): kernels.Cache {
    return this.#caches[group]![layer]!
  }

  /** Four rows of the matrix at a time, for all rows of input: so the matrix is read once. */
  #multiply(step: Matmul, count: number, cancel: CancelWord): void {
    const { epilogue } = step
    const matrix = this.#parameters[step.weight]!
    const { rows } = this.#plan.parameters[step.weight]!
    const bias = step.bias === undefined ? undefined : this.#vector(step.bias)
    const product = this.#product(step, matrix)
    const out = this.#rows(step.output)
    const to = epilogue.kind === "add" ? this.#rows(epilogue.to) : undefined
    const four = new Float64Array(4)
    // A gated product takes two elements at a time, each from its gate row and its up row.
    const gated = epilogue.kind === "gated" && elementwise[epilogue.activation].js
    const width = gated ? 2 : 4
    for (let n = 0; n < out.columns; n += width) {
      poll(cancel)
      const next = (i: number) => Math.min(n + i, out.columns - 1)
      const wanted: Four = gated
        ? [n, next(1), n + rows / 2, next(1) + rows / 2]
        : [n, next(1), next(2), next(3)]
      const last = Math.min(width, out.columns - n)
      for (let row = 0; row < count; row++) {
        product(row, wanted, four)
        if (bias) for (let i = 0; i < 4; i++) four[i] = Math.fround(four[i]! + bias[wanted[i]!]!)
        const at = row * out.stride + out.from + n
        for (let i = 0; i < last; i++) {
          if (gated) out.data[at + i] = gated(four[i]!) * four[i + 2]!
          else if (to) out.data[at + i] = to.data[row * to.stride + to.from + n + i]! + four[i]!
          else out.data[at + i] = four[i]!
        }
      }
    }
  }

  /** The products of a row with four rows of the matrix. */
  #product({ input, weight, parts }: Matmul, matrix: Stored): Product {
    const { codec } = this.#plan.parameters[weight]!
    const ends = partEnds(matrix.columns, codec, parts)
    if (input.kind === "float") {
      if (matrix.kind === "codes") throw new Error("internal: floats meet codes")
      const x = this.#rows(input.view)
      const stored = dtypeOf(codec)
      if (this.#arithmetic === "matrix unit" && stored !== "f32" && parts === 1)
        return multiplyTiles(x, matrix, stored)
      return inParts(ends, (row, wanted, from, to, out) =>
        kernels.dotFour(x, row, matrix, wanted, from, to, out),
      )
    }
    if (matrix.kind === "floats") throw new Error("internal: codes meet floats")
    const x = this.#codes(input.codes)
    return inParts(ends, (row, wanted, from, to, out) =>
      kernels.dotCodesFour(x, row, matrix, wanted, from, to, out),
    )
  }

  #results(input: StepInput): StepDone {
    const rows = input.logitRows.length
    const logits = this.#rows(this.#plan.logits)
    const hidden = this.#rows(this.#plan.hidden)
    const out = newStepDone(input, this.#plan.shapes)
    out.hidden.set(hidden.data.subarray(0, out.hidden.length))
    out.logits?.set(logits.data.subarray(0, out.logits.length))
    for (let row = 0; row < rows; row++)
      this.#sampler.sample(kernels.rowOf(logits, row), row, input.sampling, out)
    return out
  }

  #rows({ buffer, from, columns }: View): kernels.Rows {
    const data = this.#buffers[buffer] as Float32Array
    return { data, stride: this.#plan.buffers[buffer]!.columns, from, columns }
  }

  #codes({ codes, scales, columns, group }: Codes): kernels.QuantizedRows {
    const of = (id: BufferId) => this.#buffers[id]!
    return { codes: of(codes) as Int8Array, scales: of(scales) as Float32Array, columns, group }
  }

  #vector(id: ParameterId): Float32Array {
    return (this.#parameters[id] as Floats).values
  }
}

/** Logits and hidden rows may name a token twice: they have no order of their own. */
function ofTokens(rows: RowSet): "tokens" | "wanted" {
  if (rows === "tokens" || rows === "wanted") return rows
  throw new Error(`internal: ${rows} rows are not those of tokens`)
}

/** Sums over columns `from` … `to`, made to one of all columns. */
function inParts(
  ends: readonly number[],
  sum: (row: number, wanted: Four, from: number, to: number, out: Float64Array) => void,
): Product {
  if (ends.length === 1) return (row, wanted, out) => sum(row, wanted, 0, ends[0]!, out)
  const sums = new Float64Array(4 * ends.length)
  return (row, wanted, out) => {
    for (const [part, end] of ends.entries())
      sum(row, wanted, ends[part - 1] ?? 0, end, sums.subarray(4 * part, 4 * part + 4))
    kernels.addParts(sums)
    out.set(sums.subarray(0, 4))
  }
}

function poll(cancel: CancelWord): void {
  if (Atomics.load(cancel, 0) !== 0) throw cancelled
}
