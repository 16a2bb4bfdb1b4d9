// The interpreter: buffers, caches, and for every step of the plan what it does to a row.

import { rounding } from "../../../runtime/dtype.ts"
import {
  dtypeOf,
  type FloatType,
  type GroupCodecName,
  groupCodecs,
  isWideCodec,
} from "../../../runtime/format.ts"
import {
  adaptersOf,
  BLOCK,
  type CancelWord,
  newStepDone,
  type ProgramLimits,
  SEEN,
  type StepDone,
  type StepInput,
  type StepOutput,
} from "../../../runtime/program.ts"
import { axisOf, coordinatesAlong, coordinatesOf, writeTurns } from "../../../runtime/rotation.ts"
import { createSampler, type Sampler } from "../../../runtime/sampling.ts"
import { ITEM, type RowSet, StepRows, type Visible } from "../../../runtime/step-rows.ts"
import { type Activation, elementwise } from "../../graph/elementwise.ts"
import { deltaColumns, type EmbeddedBy, keyHeadOf } from "../../graph/graph.ts"
import {
  type BufferId,
  type Codes,
  type ParameterId,
  type Place,
  type Plan,
  type ProductInput,
  partEnds,
  readsWords,
  type Step,
  type View,
} from "../../plan.ts"
import type { RowStep } from "../runs.ts"
import { fma } from "./arithmetic.ts"
import * as kernels from "./kernels.ts"
import { type Floats, readRow, type Stored } from "./parameters.ts"
import { attendTiles, multiplyTiles } from "./tiles.ts"

type Four = readonly [number, number, number, number]
type Matmul = Extract<Step, { op: "matmul" }>
type HeadMatmul = Extract<Step, { op: "headMatmul" }>
type Attend = Extract<Step, { op: "attend" }>
type ExpertsStep = Extract<Step, { op: "experts" | "expertRows" | "expertSums" }>
type GivenExperts = Extract<Step, { op: "experts" | "expertRows" }>
type DeltaStep = Extract<Step, { op: "delta" }>
type Product = (row: number, wanted: Four, out: Float64Array) => void

/**
 * In which of the cpu target's two ways attention and products of float weights are computed: they differ in the last bits
 * (docs/determinism.md).
 */
export type Arithmetic = "vectors" | "matrix unit"

/** Some rows times some rows of a matrix. */
interface Products {
  /** Of row `row` of the input with four rows of the matrix. */
  product: Product
  /** Of the input; they become rows 0, 1, … of the output. */
  rows: readonly number[]
  /** The matrix's row that becomes column 0. */
  first: number
  bias: Float32Array | undefined
  gate: ((gate: number, up: number) => number) | undefined
  /** What the product is added to, or where there is a gate, the gates. */
  to: kernels.Rows | undefined
  out: kernels.Rows
}

/** Rows that the step brings. */
const takenIn = ({ hiddenIn }: StepInput, columns: number) => ({
  data: hiddenIn!,
  stride: columns,
  from: 0,
  columns,
})

/** Rows that attend together. */
const ROWS_AT_ONCE = 4

/** Thrown by whatever finds the cancel word set. */
const cancelled = Symbol("cancelled")

export class Machine {
  readonly #plan: Plan
  readonly #parameters: readonly Stored[]
  readonly #buffers: readonly (Float32Array | Int8Array)[]
  readonly #caches: readonly (readonly kernels.Cache[])[] // of each group, of each of its layers
  readonly #states: readonly (readonly Float32Array[])[] // likewise; of groups that keep keys and values nothing
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
    this.#caches = plan.groups.map(({ layers, kvHeads, headDim, state }, group) => {
      if (state !== undefined) return []
      const heads = limits.blocks[group]! * BLOCK * kvHeads
      const pair = (key: number, value: number) => ({
        keys: new Float32Array(heads * key),
        values: new Float32Array(heads * value),
      })
      return layers.map((): kernels.Cache => {
        const own = pair(headDim.key, headDim.value)
        const scales = plan.kv === "q8" ? pair(1, headDim.value && 1) : undefined
        if (headDim.value === 0) {
          own.values = own.keys
          if (scales) scales.values = scales.keys
        }
        return { ...own, ...(scales ? { scales } : {}) }
      })
    })
    this.#states = plan.groups.map(({ layers, state }, group) =>
      layers.map(() => new Float32Array(limits.blocks[group]! * (state ?? 0))),
    )
    this.#sampler = createSampler(plan.shapes.vocabulary)
    this.#stepRows = new StepRows(limits, plan.sinks, readsWords(plan))
  }

  run(input: StepInput, cancel: CancelWord): StepOutput {
    return runTogether([this], input, cancel)
  }

  /** Takes a step, and stops wherever shards meet. */
  *steps(input: StepInput, cancel: CancelWord): Generator<Meeting, StepDone> {
    this.#stepRows.take(input)
    for (const step of this.#plan.steps) {
      if (step.op !== "gather") this.#take(step, input, cancel)
      else {
        const rows = this.#stepRows.tokensOf(step.rows).length
        const { part, pieces, output } = step
        yield { rows, part: this.#rows(part), pieces, output: this.#rows(output) }
      }
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
      if (scales) copy(scales.keys, 1)
      if (headDim.value === 0) continue
      copy(values, headDim.value)
      if (scales) copy(scales.values, 1)
    }
  }

  #take(step: Exclude<Step, { op: "gather" }>, input: StepInput, cancel: CancelWord): void {
    const count = this.#stepRows.tokensOf(step.rows).length
    if (step.op === "matmul") this.#multiply(step, count, cancel)
    else if (step.op === "experts") this.#experts(step, count, cancel)
    else if (step.op === "expertRows") this.#expertRows(step, count, cancel)
    else if (step.op === "expertSums") this.#expertSums(step, count, cancel)
    else if (step.op === "headMatmul") this.#multiplyHeads(step, count, cancel)
    else if (step.op === "attend") this.#attend(step, input, cancel)
    else if (step.op === "indexer") this.#index(step, cancel)
    else if (step.op === "delta") this.#delta(step, input, cancel)
    else {
      const work = this.#rowWork(step, input)
      for (let row = 0; row < count; row++) {
        poll(cancel)
        work(row)
      }
    }
  }

  /** What a step does to each of its rows. */
  #rowWork(step: RowStep, input: StepInput): (row: number) => void {
    const tokens = this.#stepRows.tokensOf(step.rows)
    switch (step.op) {
      case "embed": {
        const table = this.#parameters[step.table]!
        const out = this.#rows(step.output)
        const index = indexFor(step.by, input)
        return (row) => {
          const { sees, instead } = step
          const name = index[tokens[row]!]!
          const seen = name - SEEN
          const to = kernels.rowOf(out, row)
          if (seen < 0) readRow(table, name, to)
          else if (!sees) readRow(table, instead!, to)
          else to.set(kernels.rowOf(takenIn(input, sees), seen).subarray(0, to.length))
        }
      }
      case "hiddenIn": {
        const out = this.#rows(step.output)
        const given = takenIn(input, out.columns)
        return (row) => kernels.rowOf(out, row).set(kernels.rowOf(given, row))
      }
      case "seenPart": {
        const out = this.#rows(step.output)
        const { taken, from } = step
        return (row) => {
          const seen = input.tokens[tokens[row]!]! - SEEN
          const to = kernels.rowOf(out, row)
          if (seen < 0) to.fill(0)
          else to.set(kernels.rowOf(takenIn(input, taken), seen).subarray(from, from + to.length))
        }
      }
      case "ropeTable": {
        const out = this.#rows(step.output)
        const { positions, coordinates } = input
        return (row) => {
          const own = coordinates && coordinatesOf(coordinates, row)
          writeTurns(positions[row]!, step.rotation, out.data, kernels.at(out, row), own)
        }
      }
      case "norm": {
        const [x, out] = [this.#rows(step.input), this.#rows(step.output)]
        const weight = this.#vector(step.weight)
        const bias = step.bias === undefined ? undefined : this.#vector(step.bias)
        return (row) => kernels.norm(x, { ...step, weight, bias }, out, row)
      }
      case "route": {
        const [x, out] = [this.#rows(step.input), this.#rows(step.output)]
        const bias = step.bias === undefined ? undefined : this.#vector(step.bias)
        return (row) => kernels.route(x, step.routing, bias, out, row)
      }
      case "quantize": {
        const [x, out] = [this.#rows(step.input), this.#codes(step.output)]
        const quantize = isWideCodec(step.output.codec) ? kernels.quantizeWide : kernels.quantize
        return (row) => quantize(x, out, row)
      }
      case "rope": {
        const [view, ropeTable] = [this.#rows(step.view), this.#rows(step.ropeTable)]
        return (row) => kernels.rope(view, row, step.headDim, ropeTable, tokens[row]!)
      }
      case "storeKv":
        return this.#memory(step)
      case "convolve":
        return this.#convolve(step, input)
      case "apply": {
        const { js } = elementwise[step.function]
        return this.#eachElement(step.input, step.input, step.output, (x) => js(x, step.by ?? 0))
      }
      case "add":
        return this.#eachElement(step.a, step.b, step.output, (a, b) => a + b)
      case "multiply":
        return this.#eachElement(step.a, step.b, step.output, (a, b) => a * b)
      case "weigh": {
        const [x, out] = [this.#rows(step.input), this.#rows(step.output)]
        const weight = this.#vector(step.weight)
        return (row) => kernels.weigh(x, weight, out, row)
      }
      case "bound": {
        const [least, most] = this.#vector(step.bounds) as unknown as [number, number]
        const within = (x: number) => Math.max(least, Math.min(x, most)) + x * 0
        return this.#eachElement(step.input, step.input, step.output, within)
      }
      case "reorder": {
        const [x, out] = [this.#rows(step.input), this.#rows(step.output)]
        const order = this.#vector(step.order)
        return (row) => kernels.reorder(x, order, out, row)
      }
      case "copy":
        return this.#eachElement(step.input, step.input, step.output, (x) => x)
      case "reduce":
        return this.#reduce(step)
      case "select": {
        const [x, out] = [this.#rows(step.input), this.#rows(step.output)]
        const rows = this.#stepRows.rowsIn(ofTokens(step.from))
        const { behind = 0 } = step
        return (row) => kernels.rowOf(out, row).set(kernels.rowOf(x, rows[tokens[row]!]! + behind))
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
      const width = to.length / y.length
      for (let i = 0; i < to.length; i++) to[i] = what(x[i]!, y[Math.floor(i / width)]!)
    }
  }

  #reduce({
    partials,
    shards,
    bias,
    to,
    output,
  }: Extract<Step, { op: "reduce" }>): (row: number) => void {
    const [parts, out] = [this.#rows(partials), this.#rows(output)]
    const added = to && this.#rows(to)
    const biases = bias === undefined ? undefined : this.#vector(bias)
    return (row) => {
      const [x, y] = [kernels.rowOf(parts, row), kernels.rowOf(out, row)]
      const other = added && kernels.rowOf(added, row)
      for (let i = 0; i < y.length; i++) {
        const own = Array.from({ length: shards }, (_, shard) => x[shard * y.length + i]!)
        const sum = sumOfTree(own)
        const biased = biases ? Math.fround(sum + biases[i]!) : sum
        y[i] = other ? other[i]! + biased : biased
      }
    }
  }

  /** Item by item: some rows, and what lies in one span of their context or in all of it. */
  #attend(step: Attend, { positions }: StepInput, cancel: CancelWord) {
    const { rows, query, attention, arithmetic, place, span, output } = step
    const shape = { ...attention, arithmetic }
    const sunk = step.sinkLogits === undefined ? undefined : this.#vector(step.sinkLogits)
    const biases = step.biases && {
      values: this.#vector(step.biases.parameter),
      distances: step.biases.distances,
    }
    const { kv } = this.#plan
    const isEven = attention.latent === undefined && attention.value === undefined
    const takesTiles = this.#arithmetic === "matrix unit" && isEven && !biases
    const [x, out] = [this.#rows(query), this.#rows(output)]
    const chosen = step.chosen && this.#rows(step.chosen)
    const relative = step.relative && {
      query: this.#rows(step.relative.query),
      key: this.#rows(step.relative.key),
    }
    const cache = this.#cacheOf(place)
    const tokens = this.#stepRows.tokensOf(rows)
    const { window, chunked, sinks, bidirectional, mutual, cross } = attention
    const seen = { window, chunked, sinks, bidirectional, mutual, cross }
    const visible = { group: place.group, ...seen, span }
    const items = this.#stepRows.attentionItems(ofTokens(rows), ROWS_AT_ONCE, visible)
    for (let first = 0, next = 0; first < items.length; first = next) {
      const [from, count] = [items[first]!, items[first + 1]!]
      const spans: number[] = []
      for (; items[next] === from; next += ITEM) spans.push(items[next + 3]!)
      for (let row = from; row < from + count; row++) {
        poll(cancel)
        const token = tokens[row]!
        const all = spans.map((number) => this.#seen(token, visible, number))
        const seen = chosen ? all.map((each) => kernels.chosenOf(each, chosen, row)) : all
        const own = { from: positions[token]!, relative: relative && { ...relative, row, token } }
        const added = { sunk, biases: biases && { ...biases, ...own } }
        if (span !== undefined) kernels.attend(x, row, shape, cache, seen, out, added)
        else if (takesTiles && kv !== "f32")
          attendTiles(x, row, attention, kv, cache, seen[0]!, out, sunk)
        else kernels.attend(x, row, shape, cache, seen[0]!, out, added)
      }
    }
  }

  /** Row by row. */
  #index(
    { rows, query, weights, indexer, place, output }: Extract<Step, { op: "indexer" }>,
    cancel: CancelWord,
  ): void {
    const [x, by, out] = [this.#rows(query), this.#rows(weights), this.#rows(output)]
    const visible = { group: place.group, window: undefined, sinks: 0, span: undefined }
    const cache = this.#cacheOf(place)
    for (const [row, token] of this.#stepRows.tokensOf(rows).entries()) {
      poll(cancel)
      kernels.indexer(x, by, row, indexer, cache, this.#seen(token, visible, 0), out)
    }
  }

  /** What a token sees of a span. */
  #seen(token: number, visible: Visible, number: number): kernels.Seen {
    const { group, sinks, span = Number.POSITIVE_INFINITY } = visible
    const sequence = this.#stepRows.sequences[token]!
    const first = this.#stepRows.firstSeen(token, visible)
    const begin = span === Number.POSITIVE_INFINITY ? 0 : number * span
    const seen: number[] = []
    for (let p = begin; p < Math.min(first, sinks, begin + span); p++) seen.push(p)
    const last = this.#stepRows.lastSeen(token, visible)
    for (let p = Math.max(begin, first); p <= last && p < begin + span; p++) seen.push(p)
    return {
      positions: Int32Array.from(seen),
      slots: Int32Array.from(seen, (position) => this.#stepRows.slotOf(group, sequence, position)),
    }
  }

  #memory(step: Extract<Step, { op: "storeKv" }>): (row: number) => void {
    const { group } = step.place
    const [slots, tokens] = [this.#stepRows.slotsIn(group), this.#stepRows.tokensOf(step.rows)]
    const key = this.#rows(step.key)
    const value = step.value && this.#rows(step.value)
    const { keys, values, scales } = this.#cacheOf(step.place)
    const { kv, groups } = this.#plan
    if (scales) {
      const { kvHeads, headDim } = groups[group]!
      const [keyDim, valueDim] = [headDim.key, headDim.value]
      return (row) => {
        const [k, v] = [kernels.rowOf(key, row), value && kernels.rowOf(value, row)]
        const slot = slots[tokens[row]!]!
        for (let head = 0; head < kvHeads; head++) {
          const at = slot * kvHeads + head
          scales.keys[at] = kernels.codeHead(k, head * keyDim, keyDim, keys, at * keyDim)
          if (!v) continue
          scales.values[at] = kernels.codeHead(v, head * valueDim, valueDim, values, at * valueDim)
        }
      }
    }
    const round = rounding[kv as FloatType]
    return (row) => {
      const [k, v] = [kernels.rowOf(key, row), value && kernels.rowOf(value, row)]
      const slot = slots[tokens[row]!]!
      for (let i = 0; i < k.length; i++) keys[slot * k.length + i] = round(k[i]!)
      if (!v) return
      for (let i = 0; i < v.length; i++) values[slot * v.length + i] = round(v[i]!)
    }
  }

  #convolve(
    { rows, taps, bias, count, ahead, place, output }: Extract<Step, { op: "convolve" }>,
    { positions, starts }: StepInput,
  ): (row: number) => void {
    const { group } = place
    const { kvHeads, headDim } = this.#plan.groups[group]!
    const { keys, scales } = this.#cacheOf(place)
    const [weights, out, tokens] = [
      this.#vector(taps),
      this.#rows(output),
      this.#stepRows.tokensOf(rows),
    ]
    const width = kvHeads * headDim.key
    const begin = bias === undefined ? new Float32Array(width) : this.#vector(bias)
    return (row) => {
      const sums = kernels.rowOf(out, row)
      sums.set(begin)
      const token = tokens[row]!
      const [sequence, position] = [this.#stepRows.sequences[token]!, positions[token]!]
      const last = Math.min(position + ahead, positions[starts[sequence + 1]! - 1]!)
      const first = position + ahead - (count - 1)
      for (let p = Math.max(0, first); p <= last; p++) {
        const tap = p - first
        const slot = this.#stepRows.slotOf(group, sequence, p)
        for (let i = 0; i < width; i++) {
          const scale = scales?.keys[slot * kvHeads + Math.floor(i / headDim.key)] ?? 1
          const value = Math.fround(keys[slot * width + i]! * scale)
          sums[i] = fma(weights[i * count + tap]!, value, sums[i]!)
        }
      }
    }
  }

  /** Sequence by sequence, head by head. */
  #delta(
    step: DeltaStep,
    { starts, positions, blocks, blockStarts }: StepInput,
    cancel: CancelWord,
  ) {
    const { delta, place } = step
    const { valueHeads, keyDim, valueDim } = delta
    const [x, decays, out] = [step.input, step.decays, step.output].map((view) =>
      this.#rows(view),
    ) as [kernels.Rows, kernels.Rows, kernels.Rows]
    const [shares, keys] = [step.shares, step.keys].map((view) => view && this.#rows(view))
    const skip = step.skip === undefined ? undefined : this.#vector(step.skip)
    const [decay, bias] = [step.decay, step.bias].map((parameter) =>
      parameter === undefined ? undefined : this.#vector(parameter),
    )
    const columns = deltaColumns(delta)
    const states = this.#states[place.group]![place.layer]!
    const size = keyDim * valueDim
    for (let s = 0; s + 1 < starts.length; s++) {
      const [from, to] = blocks.subarray(blockStarts[place.group * (starts.length - 1) + s])
      const goesOn = positions[starts[s]!]! > 0
      for (let head = 0; head < valueHeads; head++) {
        const at = (to! * valueHeads + head) * size
        const state = states.subarray(at, at + size)
        if (goesOn) {
          const before = (from! * valueHeads + head) * size
          state.set(states.subarray(before, before + size))
        } else state.fill(0)
        const key = keyHeadOf(delta, head) * keyDim
        for (let token = starts[s]!; token < starts[s + 1]!; token++) {
          poll(cancel)
          const row = kernels.rowOf(x, token)
          const own = (all: kernels.Rows) => all.data[kernels.at(all, token) + head]!
          const keyed = keys ? kernels.rowOf(keys, token) : row
          const [query, ownKey] = [columns.queries, columns.keys].map((first) =>
            keyed.subarray(first + key, first + key + keyDim),
          ) as [Float32Array, Float32Array]
          const first = columns.values + head * valueDim
          const value = row.subarray(first, first + valueDim)
          const to = kernels.rowOf(out, token).subarray(head * valueDim, (head + 1) * valueDim)
          const ofHead = (all: Float32Array, each: number) =>
            all.subarray(head * each, (head + 1) * each)
          const given = () => ofHead(kernels.rowOf(decays, token), keyDim)
          const all = () => kernels.decayOf(decay![head]!, own(decays), bias![head]!)
          if (delta.by)
            kernels.scannedState(
              state,
              { query, key: ownKey, value, out: to },
              {
                steps: ofHead(kernels.rowOf(decays, token), valueDim),
                rates: ofHead(decay!, size),
                skip: ofHead(skip!, valueDim),
              },
            )
          else if (shares)
            kernels.deltaRule(state, {
              query: kernels.unit(query, keyDim),
              key: kernels.unit(ownKey, 1),
              ...{ value, decay: decay ? all() : given(), share: own(shares), out: to },
            })
          else
            kernels.selectiveState(
              state,
              {
                ...{ query, key: ownKey, value, decay: all(), out: to },
                share: kernels.selectiveShare(own(decays), bias![head]!),
              },
              skip![head]!,
            )
        }
      }
    }
  }

  #cacheOf({ group, layer }: Place): kernels.Cache {
    return this.#caches[group]![layer]!
  }

  #multiply(step: Matmul, count: number, cancel: CancelWord): void {
    const { epilogue, weight, bias } = step
    multiplyRows(
      {
        product: this.#product(this.#input(step.input), weight, step.parts),
        rows: Array.from({ length: count }, (_, row) => row),
        first: 0,
        bias: bias === undefined ? undefined : this.#vector(bias),
        gate: epilogue.kind === "gated" ? gateOf(epilogue.activation) : undefined,
        to: epilogue.kind === "add" ? this.#rows(epilogue.to) : undefined,
        out: this.#rows(step.output),
      },
      cancel,
    )
  }

  /** One expert after the other, each for all rows that go to it. */
  #experts(step: Extract<Step, { op: "experts" }>, count: number, cancel: CancelWord) {
    const [rowsOf, add] = [
      this.#rowsOfExpert(step, cancel),
      this.#sumsOfExperts(step, count, cancel),
    ]
    for (const { expert, rows } of this.#visits(step, count))
      add(expert, rows, rowsOf(expert, rows))
  }

  /** What an expert makes of a row stands behind what those before it make of that one. */
  #expertRows(step: Extract<Step, { op: "expertRows" }>, count: number, cancel: CancelWord) {
    const rowsOf = this.#rowsOfExpert(step, cancel)
    const out = this.#rows(step.output)
    for (const { expert, rows, places } of this.#visits(step, count)) {
      const hidden = rowsOf(expert, rows)
      for (const [i, row] of rows.entries())
        kernels.rowOf(out, row).set(kernels.rowOf(hidden, i), places[i]! * hidden.columns)
    }
  }

  #expertSums(step: Extract<Step, { op: "expertSums" }>, count: number, cancel: CancelWord) {
    const add = this.#sumsOfExperts(step, count, cancel)
    const given = this.#rows(step.input)
    const { intermediate } = step.experts
    for (const { expert, rows, places } of this.#visits(step, count)) {
      const hidden = newRows(rows.length, intermediate)
      for (const [i, row] of rows.entries()) {
        const own = kernels.rowOf(given, row).subarray(places[i]! * intermediate)
        kernels.rowOf(hidden, i).set(own.subarray(0, intermediate))
      }
      add(expert, rows, hidden)
    }
  }

  /** Of each expert the rows that go to it, and how many experts before it each of them goes to. */
  #visits({ experts, weights }: ExpertsStep, count: number) {
    const shares = this.#rows(weights)
    const before = new Int32Array(count)
    return Array.from({ length: experts.count }, (_, expert) => {
      const rows = Array.from({ length: count }, (_, row) => row).filter(
        (row) => shares.data[kernels.at(shares, row) + expert]! !== 0,
      )
      return { expert, rows, places: rows.map((row) => before[row]!++) }
    })
  }

  #rowsOfExpert({ experts, input }: GivenExperts, cancel: CancelWord) {
    const { gated, gateUp, up, biases, activation, limit, intermediate, parts } = experts
    const [bias, upBias] = [biases?.gateUp, biases?.up].map((id) =>
      id === undefined ? undefined : this.#vector(id),
    )
    const product = this.#product(this.#input(input), gateUp, parts)
    const upProduct = up && this.#product(this.#input(up.input), up.weight, parts)
    const gate = gateOf(activation, limit)
    return (expert: number, rows: readonly number[]): kernels.Rows => {
      const out = newRows(rows.length, intermediate)
      if (!gated) {
        const first = expert * intermediate
        const plain = { bias, gate: undefined, to: undefined }
        multiplyRows({ product, rows, first, ...plain, out }, cancel)
        for (const [i, value] of out.data.entries()) out.data[i] = elementwise[activation].js(value)
        return out
      }
      if (!upProduct) {
        const first = expert * 2 * intermediate
        multiplyRows({ product, rows, first, bias, gate, to: undefined, out }, cancel)
        return out
      }
      const first = expert * intermediate
      const gates = newRows(rows.length, intermediate)
      const plain = { gate: undefined, to: undefined }
      multiplyRows({ product, rows, first, bias, ...plain, out: gates }, cancel)
      const ends = { gate, to: gates, out }
      multiplyRows({ product: upProduct, rows, first, bias: upBias, ...ends }, cancel)
      return out
    }
  }

  /** Adds what an expert makes of rows, each times its share. */
  #sumsOfExperts({ experts, weights, output }: ExpertsStep, count: number, cancel: CancelWord) {
    const { down, biases, rounded, parts } = experts
    const bias = biases?.down === undefined ? undefined : this.#vector(biases.down)
    const [shares, out] = [this.#rows(weights), this.#rows(output)]
    const { columns } = out
    for (let row = 0; row < count; row++) kernels.rowOf(out, row).fill(0)
    return (expert: number, rows: readonly number[], hidden: kernels.Rows): void => {
      const made = newRows(rows.length, columns)
      const product = this.#product(rounded ? roundedRows(hidden, rounded) : hidden, down, parts)
      const plain = { bias, gate: undefined, to: undefined }
      multiplyRows(
        { product, rows: [...rows.keys()], first: expert * columns, out: made, ...plain },
        cancel,
      )
      for (const [i, row] of rows.entries()) {
        const share = shares.data[kernels.at(shares, row) + expert]!
        const [sums, values] = [kernels.rowOf(out, row), kernels.rowOf(made, i)]
        for (let n = 0; n < sums.length; n++) sums[n] = fma(share, values[n]!, sums[n]!)
      }
    }
  }

  /** Each head by its own rows of the matrix, which are floats whatever they are stored in. */
  #multiplyHeads(
    { input, weight, heads, kept, output }: HeadMatmul,
    count: number,
    cancel: CancelWord,
  ) {
    const matrix = this.#parameters[weight] as Floats
    const [x, out] = [this.#rows(input), this.#rows(output)]
    const [given, made] = [x.columns / heads, out.columns / heads]
    const rows = made - kept
    const four = new Float64Array(4)
    for (let head = 0; head < heads; head++) {
      poll(cancel)
      const own = { ...x, from: x.from + head * given + kept }
      for (let row = 0; row < count; row++) {
        const at = kernels.at(out, row) + head * made
        for (let n = 0; n < rows; n += 4) {
          const next = (i: number) => head * rows + Math.min(n + i, rows - 1)
          const wanted: Four = [next(0), next(1), next(2), next(3)]
          kernels.dotFour(own, row, matrix, wanted, 0, matrix.columns, four)
          out.data.set(four.subarray(0, Math.min(4, rows - n)), at + n)
        }
        const product = kernels.at(own, row)
        out.data.set(x.data.subarray(product - kept, product), at + rows)
      }
    }
  }

  #input(input: ProductInput): kernels.Rows | kernels.QuantizedRows {
    return input.kind === "float" ? this.#rows(input.view) : this.#codes(input.codes)
  }

  /** The products of a row with four rows of the matrix. */
  #product(x: kernels.Rows | kernels.QuantizedRows, weight: ParameterId, parts: number): Product {
    const { codec } = this.#plan.parameters[weight]!
    const matrix = this.#parameters[weight]!
    const ends = partEnds(matrix.columns, codec, parts)
    if ("data" in x) {
      if (matrix.kind === "codes") throw new Error("internal: floats meet codes")
      const stored = dtypeOf(codec)
      if (this.#arithmetic === "matrix unit" && stored !== "f32" && parts === 1)
        return multiplyTiles(x, matrix, stored)
      return inParts(ends, (row, wanted, from, to, out) =>
        kernels.dotFour(x, row, matrix, wanted, from, to, out),
      )
    }
    if (matrix.kind === "floats")
      return inParts(ends, (row, wanted, from, to, out) =>
        kernels.dotWideFour(x, row, matrix, wanted, from, to, out),
      )
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

/** Where shards meet: their parts of so many rows become the output of each, piece by piece side by side. */
export interface Meeting {
  rows: number
  part: kernels.Rows
  /** Of the part. */
  pieces: number
  output: kernels.Rows
}

/** A step of one machine, or of as many as share a model. All have the same results. */
export function runTogether(
  machines: readonly Machine[],
  input: StepInput,
  cancel: CancelWord,
): StepOutput {
  const steps = machines.map((machine) => machine.steps(input, cancel))
  try {
    for (;;) {
      const [first, ...others] = steps.map((each) => each.next())
      if (first!.done) return first!.value
      const meetings = [first!, ...others].map(({ value }) => value as Meeting)
      for (const { rows, pieces, output } of meetings)
        for (let row = 0; row < rows; row++)
          for (const [shard, { part }] of meetings.entries()) {
            const [brought, width] = [kernels.rowOf(part, row), part.columns / pieces]
            for (let piece = 0; piece < pieces; piece++) {
              const own = brought.subarray(piece * width, (piece + 1) * width)
              kernels.rowOf(output, row).set(own, (piece * meetings.length + shard) * width)
            }
          }
    }
  } catch (error) {
    if (error === cancelled) return { kind: "cancelled" }
    throw error
  }
}

/** Of floats, added as neighbours. */
function sumOfTree(parts: readonly number[]): number {
  if (parts.length === 1) return parts[0]!
  const half = parts.length / 2
  return Math.fround(sumOfTree(parts.slice(0, half)) + sumOfTree(parts.slice(half)))
}

/** Logits and hidden rows may name a token twice: they have no order of their own. */
function ofTokens(rows: RowSet): "tokens" | "wanted" {
  if (rows === "tokens" || rows === "wanted") return rows
  throw new Error(`internal: ${rows} rows are not those of tokens`)
}

/** Four rows of the matrix at a time, for all rows of input: so the matrix is read once. */
function multiplyRows(
  { product, rows, first, bias, gate, to, out }: Products,
  cancel: CancelWord,
): void {
  const four = new Float64Array(4)
  // Where gates are rows of the same matrix, two elements are taken at a time, each from its gate row and its up row.
  const isPaired = gate !== undefined && to === undefined
  const width = isPaired ? 2 : 4
  for (let n = 0; n < out.columns; n += width) {
    poll(cancel)
    const next = (i: number) => first + Math.min(n + i, out.columns - 1)
    const wanted: Four = isPaired
      ? [next(0), next(1), next(0) + out.columns, next(1) + out.columns]
      : [next(0), next(1), next(2), next(3)]
    const last = Math.min(width, out.columns - n)
    for (const [row, from] of rows.entries()) {
      product(from, wanted, four)
      if (bias) for (let i = 0; i < 4; i++) four[i] = Math.fround(four[i]! + bias[wanted[i]!]!)
      const at = row * out.stride + out.from + n
      for (let i = 0; i < last; i++) {
        const there = to ? to.data[row * to.stride + to.from + n + i]! : 0
        if (isPaired) out.data[at + i] = gate(four[i]!, four[i + 2]!)
        else if (gate) out.data[at + i] = gate(there, four[i]!)
        else out.data[at + i] = to ? there + four[i]! : four[i]!
      }
    }
  }
}

/** What becomes of a gate and what it is multiplied with; what is no number shows, on whichever side it was cut off. */
function gateOf(activation: Activation, limit?: number): (gate: number, up: number) => number {
  const activate: (x: number) => number = elementwise[activation].js
  if (limit === undefined) return (gate, up) => activate(gate) * up
  const most = Math.fround(limit)
  return (gate, up) => {
    const within = Math.max(-most, Math.min(up, most)) + up * 0
    if (activation === "silu") return (Math.min(activate(gate), most) + gate * 0) * within
    return activate(Math.min(gate, most) + gate * 0) * Math.fround(within + 1)
  }
}

/** Of each token, what names a row of a table. */
function indexFor(by: EmbeddedBy, input: StepInput): Int32Array {
  if (by === "token") return input.tokens
  if (by === "adapter") return adaptersOf(input)
  return by === "position" ? input.positions : coordinatesAlong(axisOf[by], input)
}

function newRows(count: number, columns: number): kernels.Rows {
  return { data: new Float32Array(count * columns), stride: columns, from: 0, columns }
}

function roundedRows(
  { data, columns, ...x }: kernels.Rows,
  codec: GroupCodecName,
): kernels.QuantizedRows {
  const { group } = groupCodecs[codec]
  const count = data.length / columns
  const codes = new Int8Array(data.length)
  const scales = new Float32Array(count * Math.ceil(columns / group))
  const out = { codes, scales, columns, group }
  for (let row = 0; row < count; row++) kernels.quantize({ data, columns, ...x }, out, row)
  return out
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
