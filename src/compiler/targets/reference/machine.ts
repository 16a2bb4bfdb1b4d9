// The interpreter: buffers, caches, and for every step of the plan what it does to a row.

import { rounding } from "../../../runtime/dtype.ts"
import {
  type FloatType,
  formats,
  isGroupFormat,
  type ParameterFormat,
} from "../../../runtime/format.ts"
import {
  BLOCK,
  type CancelWord,
  MOST_LOGPROBS,
  type ProgramLimits,
  type StepDone,
  type StepInput,
  type StepOutput,
} from "../../../runtime/program.ts"
import { createSampler, type Sampler } from "../../../runtime/sampling.ts"
import type { BufferId, Codes, ParameterId, Plan, Step, View } from "../../plan.ts"
import { silu } from "./arithmetic.ts"
import { Batch } from "./batch.ts"
import * as kernels from "./kernels.ts"
import { type Floats, readRow, type Stored } from "./parameters.ts"
import { attendTiles, multiplyTiles } from "./tiles.ts"

type Four = readonly [number, number, number, number]
type Matmul = Extract<Step, { op: "matmul" }>

/**
 * In which of the cpu target's two ways attention and products of float weights are computed: they differ in the last bits
 * (docs/determinism.md).
 */
export type Arithmetic = "vectors" | "matrix unit"

/** Thrown by whatever finds the cancel word set. */
const cancelled = Symbol("cancelled")

export class Machine {
  readonly #plan: Plan
  readonly #parameters: readonly Stored[]
  readonly #buffers: readonly (Float32Array | Int8Array)[]
  readonly #caches: readonly kernels.Cache[]
  readonly #sampler: Sampler
  readonly #arithmetic: Arithmetic

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
    const { layers, kvHeads, headDim, vocabulary } = plan.shapes
    const size = limits.blocks * BLOCK * kvHeads * headDim
    const pair = (size: number) => ({
      keys: new Float32Array(size),
      values: new Float32Array(size),
    })
    this.#caches = Array.from({ length: layers }, () => ({
      ...pair(size),
      ...(plan.kv === "q8" ? { scales: pair(size / headDim) } : {}),
    }))
    this.#sampler = createSampler(vocabulary)
  }

  run(input: StepInput, cancel: CancelWord): StepOutput {
    const batch = new Batch(input, this.#plan.sinks)
    try {
      for (const step of this.#plan.steps) this.#take(step, batch, cancel)
    } catch (error) {
      if (error === cancelled) return { kind: "cancelled" }
      throw error
    }
    return this.#results(input)
  }

  copyBlocks(from: Int32Array, to: Int32Array): void {
    const { kvHeads, headDim } = this.#plan.shapes
    const copy = ({ keys, values }: kernels.Cache, size: number) => {
      for (const rows of [keys, values])
        from.forEach((block, i) => {
          rows.copyWithin(to[i]! * size, block * size, (block + 1) * size)
        })
    }
    for (const cache of this.#caches) {
      copy(cache, BLOCK * kvHeads * headDim)
      if (cache.scales) copy(cache.scales, BLOCK * kvHeads)
    }
  }

  #take(step: Step, batch: Batch, cancel: CancelWord): void {
    const count = batch.tokensOf(step.rows).length
    if (step.op === "matmul") {
      this.#multiply(step, count, cancel)
      return
    }
    const work = this.#rowWork(step, batch)
    for (let row = 0; row < count; row++) {
      poll(cancel)
      work(row)
    }
  }

  /** What a step does to each of its rows. */
  #rowWork(step: Exclude<Step, Matmul>, batch: Batch): (row: number) => void {
    const { input } = batch
    const tokens = batch.tokensOf(step.rows)
    switch (step.op) {
      case "embed": {
        const table = this.#parameters[step.table]!
        const out = this.#rows(step.output)
        return (row) => readRow(table, input.tokens[row]!, kernels.rowOf(out, row))
      }
      case "hiddenIn": {
        const out = this.#rows(step.output)
        const given = { data: input.hiddenIn!, stride: out.columns, from: 0, columns: out.columns }
        return (row) => kernels.rowOf(out, row).set(kernels.rowOf(given, row))
      }
      case "angles": {
        const out = this.#rows(step.output)
        return (row) => kernels.angles(input.positions[row]!, step.frequencies, out, row)
      }
      case "norm": {
        const [x, out] = [this.#rows(step.input), this.#rows(step.output)]
        const weight = this.#vector(step.weight)
        return (row) => kernels.norm(x, weight, step.epsilon, out, row)
      }
      case "quantize": {
        const [x, out] = [this.#rows(step.input), this.#codes(step.output)]
        return (row) => kernels.quantize(x, out, row)
      }
      case "rope": {
        const [view, angles] = [this.#rows(step.view), this.#rows(step.angles)]
        return (row) => kernels.rope(view, row, step.headDim, angles, tokens[row]!)
      }
      case "remember":
        return this.#memory(step, batch)
      case "attend": {
        const [query, out] = [this.#rows(step.query), this.#rows(step.output)]
        const { attention } = step
        const cache = this.#caches[attention.layer]!
        const { kv } = this.#plan
        return (row) => {
          const seen = batch.seen(tokens[row]!, attention.window, attention.sinks)
          if (this.#arithmetic === "matrix unit" && kv !== "f32")
            attendTiles(query, row, attention, kv, cache, seen, out)
          else kernels.attend(query, row, attention, cache, seen, out)
        }
      }
      case "silu":
        return this.#eachElement(step.input, step.input, step.output, silu)
      case "add":
        return this.#eachElement(step.a, step.b, step.output, (a, b) => a + b)
      case "multiply":
        return this.#eachElement(step.a, step.b, step.output, (a, b) => a * b)
      case "copy":
        return this.#eachElement(step.input, step.input, step.output, (x) => x)
      case "select": {
        const [x, out] = [this.#rows(step.input), this.#rows(step.output)]
        return (row) =>
          kernels.rowOf(out, row).set(kernels.rowOf(x, batch.rowOf(step.from, tokens[row]!)))
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

  #memory(step: Extract<Step, { op: "remember" }>, batch: Batch): (row: number) => void {
    const [key, value] = [this.#rows(step.key), this.#rows(step.value)]
    const { keys, values, scales } = this.#caches[step.layer]!
    const { kv, shapes } = this.#plan
    if (scales) {
      const { kvHeads, headDim } = shapes
      return (token) => {
        const [k, v] = [kernels.rowOf(key, token), kernels.rowOf(value, token)]
        const slot = batch.slot(token)
        for (let head = 0; head < kvHeads; head++) {
          const [from, to] = [head * headDim, (slot * kvHeads + head) * headDim]
          scales.keys[slot * kvHeads + head] = kernels.codeHead(k, from, headDim, keys, to)
          scales.values[slot * kvHeads + head] = kernels.codeHead(v, from, headDim, values, to)
        }
      }
    }
    const round = rounding[kv as FloatType]
    return (token) => {
      const [k, v] = [kernels.rowOf(key, token), kernels.rowOf(value, token)]
      const at = batch.slot(token) * k.length
      for (let i = 0; i < k.length; i++) {
        keys[at + i] = round(k[i]!)
        values[at + i] = round(v[i]!)
      }
    }
  }

  /** Four rows of the matrix at a time, for all rows of input: so the matrix is read once. */
  #multiply(step: Matmul, count: number, cancel: CancelWord): void {
    const { epilogue } = step
    const matrix = this.#parameters[step.weight]!
    const { rows } = this.#plan.parameters[step.weight]!
    const bias = step.bias === undefined ? undefined : this.#vector(step.bias)
    const product = this.#product(step.input, matrix, this.#plan.parameters[step.weight]!.format)
    const out = this.#rows(step.output)
    const to = epilogue.kind === "add" ? this.#rows(epilogue.to) : undefined
    const four = new Float64Array(4)
    // With swiglu two elements at a time, each from its gate row and its up row.
    const paired = epilogue.kind === "swiglu"
    const width = paired ? 2 : 4
    for (let n = 0; n < out.columns; n += width) {
      poll(cancel)
      const next = (i: number) => Math.min(n + i, out.columns - 1)
      const wanted: Four = paired
        ? [n, next(1), n + rows / 2, next(1) + rows / 2]
        : [n, next(1), next(2), next(3)]
      const last = Math.min(width, out.columns - n)
      for (let row = 0; row < count; row++) {
        product(row, wanted, four)
        if (bias) for (let i = 0; i < 4; i++) four[i] = Math.fround(four[i]! + bias[wanted[i]!]!)
        const at = row * out.stride + out.from + n
        for (let i = 0; i < last; i++) {
          if (paired) out.data[at + i] = silu(four[i]!) * four[i + 2]!
          else if (to) out.data[at + i] = to.data[row * to.stride + to.from + n + i]! + four[i]!
          else out.data[at + i] = four[i]!
        }
      }
    }
  }

  /** The products of a row with four rows of the matrix. */
  #product(
    input: Matmul["input"],
    matrix: Stored,
    format: ParameterFormat,
  ): (row: number, wanted: Four, out: Float64Array) => void {
    if (input.kind === "float") {
      if (matrix.kind === "codes") throw new Error("internal: floats meet codes")
      const x = this.#rows(input.view)
      const stored = isGroupFormat(format) ? formats[format].dtype : format
      if (this.#arithmetic === "matrix unit" && stored !== "f32")
        return multiplyTiles(x, matrix, stored)
      return (row, wanted, out) => kernels.dotFour(x, row, matrix, wanted, out)
    }
    if (matrix.kind === "floats") throw new Error("internal: codes meet floats")
    const x = this.#codes(input.codes)
    return (row, wanted, out) => kernels.dotCodesFour(x, row, matrix, wanted, out)
  }

  #results(input: StepInput): StepDone {
    const rows = input.logitRows.length
    const logits = this.#rows(this.#plan.logits)
    const hidden = this.#rows(this.#plan.hidden)
    const out: StepDone = {
      kind: "done",
      tokens: new Int32Array(rows),
      logprobs: new Float32Array(rows),
      topTokens: new Int32Array(rows * MOST_LOGPROBS),
      topLogprobs: new Float32Array(rows * MOST_LOGPROBS),
      finite: new Uint8Array(rows),
      hidden: hidden.data.slice(0, input.hiddenRows.length * hidden.columns),
    }
    for (let row = 0; row < rows; row++)
      this.#sampler.sample(kernels.rowOf(logits, row), row, input.sampling, out)
    if (input.wantLogits) out.logits = logits.data.slice(0, rows * logits.columns)
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

function poll(cancel: CancelWord): void {
  if (Atomics.load(cancel, 0) !== 0) throw cancelled
}
