// What each step computes, in plain loops: the slow twin that judges every fast one. Rows are independent. Every operation
// is rounded to float, and sums are added in the order of arithmetic.ts or, within one lane, of the columns.

import { nearestEven } from "../../../runtime/dtype.ts"
import {
  type Attention,
  type Groups,
  type Indexer,
  NOWHERE,
  type Routing,
  valueDim,
} from "../../graph/graph.ts"
import { type AttentionArithmetic, WIDE_GROUP, WIDE_MOST } from "../../plan.ts"
import * as arithmetic from "./arithmetic.ts"
import type { Floats, Codes as StoredCodes } from "./parameters.ts"

const { fround } = Math
const { cap, exp, fma, sigmoid, softplus, sumOf, sumOfSquares, total } = arithmetic // called a million times: not through a module's getters

/** Rows of float32, `stride` apart; the columns of interest begin at `from`. */
export interface Rows {
  data: Float32Array
  stride: number
  from: number
  columns: number
}

export interface QuantizedRows {
  codes: Int8Array // [rows, columns]
  scales: Float32Array // [rows, groups]
  columns: number
  group: number
}

/** Where a row begins. */
export const at = (rows: Rows, row: number) => row * rows.stride + rows.from

/** A row's own part of the data. */
export function rowOf(rows: Rows, row: number): Float32Array {
  return rows.data.subarray(at(rows, row), at(rows, row) + rows.columns)
}

export interface Norm {
  kind: "rms" | "layer"
  weight: Float32Array // as long as the row, or as `width`
  bias: Float32Array | undefined
  epsilon: number
  width: number
}

export function norm(x: Rows, what: Norm, out: Rows, row: number): void {
  const { kind, weight, bias, epsilon, width } = what
  const centred = new Float32Array(width)
  for (let head = 0; head < x.columns; head += width) {
    const [from, to] = [at(x, row) + head, at(out, row) + head]
    const own = weight.length === width ? 0 : head
    const mean = kind === "layer" ? fround(sumOf(x.data, from, width) / width) : 0
    for (let i = 0; i < width; i++) centred[i] = x.data[from + i]! - mean
    const square = fround(sumOfSquares(centred, 0, width) / width)
    const scale = fround(1 / fround(Math.sqrt(fround(square + fround(epsilon)))))
    for (let i = 0; i < width; i++) {
      const scaled = fround(centred[i]! * scale)
      out.data[to + i] = bias
        ? fma(scaled, weight[own + i]!, bias[own + i]!)
        : scaled * weight[own + i]!
    }
  }
}

export function weigh(x: Rows, weight: Float32Array, out: Rows, row: number): void {
  const [from, to] = [rowOf(x, row), rowOf(out, row)]
  for (let i = 0; i < to.length; i++) to[i] = from[i]! * weight[weight.length === 1 ? 0 : i]!
}

export function reorder(x: Rows, order: Float32Array, out: Rows, row: number): void {
  const [from, to] = [rowOf(x, row), rowOf(out, row)]
  for (let i = 0; i < to.length; i++) to[i] = from[order[i]!] ?? NOWHERE
}

/** docs/determinism.md has the definition; all in float32. */
export function quantize(x: Rows, out: QuantizedRows, row: number): void {
  const { columns, group, codes, scales } = out
  const groups = Math.ceil(columns / group)
  const from = at(x, row)
  for (let g = 0; g < groups; g++) {
    const last = Math.min(columns, (g + 1) * group)
    let largest = 0
    for (let k = g * group; k < last; k++) largest = Math.max(largest, Math.abs(x.data[from + k]!))
    const inverse = largest > 0 ? Math.fround(127 / largest) : 0
    scales[row * groups + g] = largest / 127
    for (let k = g * group; k < last; k++)
      codes[row * columns + k] = nearestEven(Math.fround(x.data[from + k]! * inverse))
  }
}

/** Codes of 16 bits, as the plan has them. */
export function quantizeWide(x: Rows, out: QuantizedRows, row: number): void {
  const { columns, codes, scales } = out
  const groups = Math.ceil(columns / WIDE_GROUP)
  const from = at(x, row)
  for (let g = 0; g < groups; g++) {
    const last = Math.min(columns, (g + 1) * WIDE_GROUP)
    let largest = 0
    for (let k = g * WIDE_GROUP; k < last; k++)
      largest = Math.max(largest, Math.abs(x.data[from + k]!))
    const inverse = largest > 0 ? fround(WIDE_MOST / largest) : 0
    scales[row * groups + g] = largest / WIDE_MOST
    const to = (row * groups + g) * 2 * WIDE_GROUP
    codes.fill(0, to, to + 2 * WIDE_GROUP)
    for (let k = g * WIDE_GROUP; k < last; k++) {
      const code = nearestEven(fround(x.data[from + k]! * inverse))
      codes[to + (k % WIDE_GROUP)] = (code + 128) >> 8
      codes[to + WIDE_GROUP + (k % WIDE_GROUP)] = code
    }
  }
}

/**
 * Four elements of a product of floats, over the columns `from` … `to`: row `row` of x times four rows of the matrix, which
 * keeps four sums going at once. Each is added up in the order of the columns, a fused multiply-add for each.
 */
export function dotFour(
  x: Rows,
  row: number,
  { columns, values }: Floats,
  rows: readonly [number, number, number, number],
  from: number,
  to: number,
  out: Float64Array, // [4]
): void {
  const [b0, b1, b2, b3] = rows
  const begins = [b0 * columns, b1 * columns, b2 * columns, b3 * columns] as const
  sumFour(x.data, at(x, row), values, begins, from, to, out)
}

/** Numbers from `a` on, times those from each of four places on. */
function sumFour(
  data: Float32Array,
  a: number,
  values: Float32Array,
  [b0, b1, b2, b3]: readonly [number, number, number, number],
  from: number,
  to: number,
  out: Float64Array, // [4]
): void {
  let s0 = 0
  let s1 = 0
  let s2 = 0
  let s3 = 0
  for (let k = from; k < to; k++) {
    const v = data[a + k]!
    s0 = fma(v, values[b0 + k]!, s0)
    s1 = fma(v, values[b1 + k]!, s1)
    s2 = fma(v, values[b2 + k]!, s2)
    s3 = fma(v, values[b3 + k]!, s3)
  }
  out[0] = s0
  out[1] = s1
  out[2] = s2
  out[3] = s3
}

/** The same with integers, over whole groups: exact within a group, then a fused multiply-add for each, in order. */
export function dotCodesFour(
  x: QuantizedRows,
  row: number,
  { columns, group, groups, codes, scales, minimums }: StoredCodes,
  rows: readonly [number, number, number, number],
  from: number,
  to: number,
  out: Float64Array, // [4]
): void {
  const a = row * columns
  const b0 = rows[0] * columns
  const b1 = rows[1] * columns
  const b2 = rows[2] * columns
  const b3 = rows[3] * columns
  out.fill(0)
  for (let g = from / group; g * group < to; g++) {
    const last = Math.min(to, (g + 1) * group)
    let s0 = 0
    let s1 = 0
    let s2 = 0
    let s3 = 0
    for (let k = g * group; k < last; k++) {
      const v = x.codes[a + k]!
      s0 = (s0 + Math.imul(v, codes[b0 + k]!)) | 0
      s1 = (s1 + Math.imul(v, codes[b1 + k]!)) | 0
      s2 = (s2 + Math.imul(v, codes[b2 + k]!)) | 0
      s3 = (s3 + Math.imul(v, codes[b3 + k]!)) | 0
    }
    const scale = x.scales[row * groups + g]!
    out[0] = fma(s0, fround(scale * scales[rows[0] * groups + g]!), out[0]!)
    out[1] = fma(s1, fround(scale * scales[rows[1] * groups + g]!), out[1]!)
    out[2] = fma(s2, fround(scale * scales[rows[2] * groups + g]!), out[2]!)
    out[3] = fma(s3, fround(scale * scales[rows[3] * groups + g]!), out[3]!)
    if (!minimums) continue
    let all = 0
    for (let k = g * group; k < last; k++) all += x.codes[a + k]!
    const sum = fround(scale * all)
    for (let i = 0; i < 4; i++) out[i] = fma(minimums[rows[i]! * groups + g]!, sum, out[i]!)
  }
}

/** The same with codes of 16 bits and floats that became such: exact within a group but for the one rounding that the plan has. */
export function dotWideFour(
  x: QuantizedRows,
  row: number,
  { columns, wide }: Floats,
  rows: readonly [number, number, number, number],
  from: number,
  to: number,
  out: Float64Array, // [4]
): void {
  const { codes, scales } = wide!
  const groups = Math.ceil(columns / WIDE_GROUP)
  out.fill(0)
  for (let g = from / WIDE_GROUP; g * WIDE_GROUP < to; g++) {
    const last = Math.min(to, (g + 1) * WIDE_GROUP)
    const upper = (row * groups + g) * 2 * WIDE_GROUP
    for (let i = 0; i < 4; i++) {
      const b = rows[i]! * columns
      let [all, uppers] = [0, 0] // doubles hold all of 36 bits
      for (let k = g * WIDE_GROUP; k < last; k++) {
        const a = upper + (k % WIDE_GROUP)
        const code = codes[b + k]!
        all += (256 * x.codes[a]! + x.codes[a + WIDE_GROUP]!) * code
        uppers += x.codes[a]! * ((code + 128) >> 8)
      }
      const sum = fround(65536 * uppers + fround(all - 65536 * uppers))
      const scale = fround(x.scales[row * groups + g]! * scales[rows[i]! * groups + g]!)
      out[i] = fma(sum, scale, out[i]!)
    }
  }
}

/** Sums of parts, four in each, added up as a tree of neighbours; the sums of all are then the first four. */
export function addParts(sums: Float64Array): void {
  for (let apart = 4; apart < sums.length; apart *= 2)
    for (let part = 0; part < sums.length; part += 2 * apart)
      for (let i = part; i < part + 4; i++) sums[i] = fround(sums[i]! + sums[i + apart]!)
}

/** What each expert counts: see Routing. Sums are added in the order of experts. */
export function route(
  x: Rows,
  { active, score, jitter, biased, normalized, factor, groups }: Routing,
  bias: Float32Array | undefined,
  out: Rows,
  row: number,
): void {
  const logits = rowOf(x, row)
  const scores =
    score === "softmax"
      ? softmax(logits)
      : score === "sparsemixer"
        ? sparseMixer(logits, jitter!)
        : logits.map(sigmoid)
  const raised = biased === "logits" ? logits : scores
  const compared = bias ? raised.map((value, i) => value + bias[i]!) : logits
  const isOpen = groups ? openOf(compared, groups) : () => true
  const chosen = highest(compared, active, isOpen)
  let sum = 0
  for (const expert of chosen) sum = fround(sum + scores[expert]!)
  const whole = normalized ? fround(sum + fround(1e-20)) : 1
  const weights = rowOf(out, row).fill(0)
  for (const expert of chosen) weights[expert] = fround(scores[expert]! / whole) * fround(factor)
}

/** What is no number shows in all of them. */
function softmax(logits: Float32Array): Float32Array {
  const most = logits.reduce((most, x) => (x > most ? x : most), LOWEST)
  const powers = logits.map((x) => exp(fround(x - most)))
  let sum = 0
  for (const x of logits) sum = fround(sum + fround(x * 0))
  for (const power of powers) sum = fround(sum + power)
  return powers.map((power) => power / sum)
}

/** What is no number shows in all of them. */
function sparseMixer(logits: Float32Array, jitter: number): Float32Array {
  const most = fround(2 * jitter)
  let none = 0
  for (const x of logits) none = fround(none + fround(x * 0))
  return logits.map((own, i) => {
    let sum = none
    logits.forEach((other, j) => {
      const isAhead = other > own || (other === own && j < i)
      const size = Math.abs(other) > own ? Math.abs(other) : own
      const isFar = fround(own - other) > fround(most * size)
      if (!isAhead && !isFar) sum = fround(sum + exp(fround(other - own)))
    })
    return 1 / sum
  })
}

/** Where the `count` highest values are that may be chosen, in their order; of equal ones the first. */
function highest(
  values: Float32Array,
  count: number,
  mayBe: (index: number) => boolean = () => true,
): number[] {
  const chosen = new Set<number>()
  while (chosen.size < count) {
    let best = -1
    for (let i = 0; i < values.length; i++)
      if (mayBe(i) && !chosen.has(i) && (best < 0 || values[i]! > values[best]!)) best = i
    chosen.add(best)
  }
  return [...chosen].sort((a, b) => a - b)
}

function openOf(
  compared: Float32Array,
  { count, open, rank }: Groups,
): (expert: number) => boolean {
  const size = compared.length / count
  const ranks = Float32Array.from({ length: count }, (_, group) => {
    const members = compared.subarray(group * size, (group + 1) * size)
    const [first, second] = highest(members, Math.min(2, size)).map((i) => members[i]!) as [
      number,
      number?,
    ]
    if (rank === "largest" || second === undefined) return second! > first ? second! : first
    return first + second
  })
  const groups = new Set(highest(ranks, open))
  return (expert) => groups.has(Math.floor(expert / size))
}

/** Turns as many elements of every head as there are angles: element i with element i + half. */
export function rope(
  view: Rows,
  row: number,
  headDim: number,
  table: Rows,
  tableRow: number,
): void {
  const half = table.columns / 2
  const turn = at(table, tableRow)
  for (let head = 0; head < view.columns; head += headDim) {
    const from = at(view, row) + head
    for (let i = 0; i < half; i++) {
      const [cos, sin] = [table.data[turn + i]!, table.data[turn + half + i]!]
      const [a, b] = [view.data[from + i]!, view.data[from + i + half]!]
      view.data[from + i] = fround(a * cos) - fround(b * sin)
      view.data[from + i + half] = fround(b * cos) + fround(a * sin)
    }
  }
}

/** What a layer remembers: a row for each position of each block. */
export interface Cache {
  keys: Float32Array // [blocks * BLOCK, kvHeads * headDim]
  values: Float32Array // the keys themselves where these hold the values
  /** Where keys and values are codes of 8 bits: what each head's are multiplied with. */
  scales?: { keys: Float32Array; values: Float32Array } // [blocks * BLOCK, kvHeads]
}

/** Codes of 8 bits of `count` floats, as `quantize` makes them of a group; returns their scale. */
export function codeHead(
  x: Float32Array,
  from: number,
  count: number,
  codes: Float32Array,
  to: number,
): number {
  let largest = 0
  let sound = 0
  for (let i = from; i < from + count; i++) {
    largest = Math.max(largest, Math.abs(x[i]!))
    sound += x[i]! * 0
  }
  const inverse = largest > 0 ? fround(127 / largest) : 0
  for (let i = 0; i < count; i++) codes[to + i] = nearestEven(fround(x[from + i]! * inverse))
  return fround(largest / 127) + sound
}

/** The positions that a row sees, in order, and where they lie in the cache. */
export interface Seen {
  positions: Int32Array
  slots: Int32Array
}

/** Positions whose weights are merged at once: from one multiple of this to the next. */
export const STEP = 64
const LOWEST = fround(-3.4e38)

/** Reused by every call of `attend`. */
const weights = new Float32Array(STEP)
const four = new Float64Array(4)
const lanes = new Float32Array(16)

/** What is read of attention's shape; absent: `floats`. */
type Shape = Pick<
  Attention,
  "heads" | "kvHeads" | "headDim" | "latent" | "value" | "scale" | "cap"
> & {
  arithmetic?: AttentionArithmetic
}

/** Where a head's value lies in what is remembered of a slot: those that are columns of keys lie as far apart as these. */
function valuesOf({ kvHeads, headDim, latent, value = headDim }: Shape, kvHead: number) {
  const each = latent === undefined ? value : headDim
  return { stride: kvHeads * each, lane: kvHead * each }
}

/**
 * One row of attention. Query head h reads key-value head floor(h / (heads / kvHeads)). The context is one softmax, or one for
 * what is seen of each span, which are then merged.
 */
export function attend(
  query: Rows,
  row: number,
  shape: Shape,
  cache: Cache,
  seen: Seen | readonly Seen[],
  out: Rows,
  { sunk, biases }: Added = {},
): void {
  const width = valueDim(shape)
  const headOf = shape.arithmetic === "codes" ? headOfCodes : headOfFloats
  for (let head = 0; head < shape.heads; head++) {
    const own = headOf(query, row, head, shape, cache)
    const biasOf = biases && ofDistance(biases, head, shape.heads)
    const softmax = (seen: Seen, sink?: number) => softmaxOf(own, { ...shape, biasOf }, seen, sink)
    const sink = sunk?.[head]
    const first = "slots" in seen ? 0 : seen.findIndex(({ slots }) => slots.length > 0)
    const { sum, mixed } =
      "slots" in seen
        ? softmax(seen, sink)
        : merged(seen.map((each, i) => softmax(each, i === first ? sink : undefined)))
    const inverse = fround(1 / sum)
    const to = at(out, row) + head * width
    for (let i = 0; i < width; i++) out.data[to + i] = mixed[i]! * inverse
  }
}

/** What scores have besides: those of sinks, of each head, and numbers that are added to them. */
interface Added {
  sunk?: Float32Array | undefined
  biases?: ByDistance | undefined
}

/** [heads, distances], and where the row stands; where they are relative [distances], numbers of buckets. */
interface ByDistance {
  values: Float32Array
  distances: number
  from: number
  relative?: { query: Rows; key: Rows; row: number; token: number } | undefined
}

/** What is added to the score of a position. */
function ofDistance(
  { values, distances, from, relative }: ByDistance,
  head: number,
  heads: number,
) {
  const middle = (distances - 1) / 2
  if (!relative) return (position: number) => values[head * distances + middle + position - from]!
  const { query, key, row, token } = relative
  const first = (query.columns / heads) * head
  return (position: number) => {
    const bucket = first + values[middle + position - from]!
    const ofKey = key.data[at(key, token + position - from) + bucket]!
    return fround(query.data[at(query, row) + bucket]! + ofKey)
  }
}

interface Softmax {
  most: number // the largest score
  sum: number // of the weights e^(score - most)
  mixed: Float32Array // [valueDim] the values times their weights
}

/** A query head of a row, and what it reads. */
interface Head {
  /** Of each slot; not capped yet. */
  score: (slots: Int32Array, scores: Float32Array) => void
  /** mixed = mixed * correction + the values of these slots, each times its weight. */
  mix: (slots: Int32Array, weights: Float32Array, correction: number, mixed: Float32Array) => void
}

/** Of one head. Merged step by step, after the sink; within one, position p is in lane p mod 16. */
function softmaxOf(
  { score, mix }: Head,
  shape: Shape & { biasOf: ReturnType<typeof ofDistance> | undefined },
  { positions, slots }: Seen,
  sink: number | undefined,
): Softmax {
  const mixed = new Float32Array(valueDim(shape))
  let most = sink ?? LOWEST
  let sum = sink === undefined ? 0 : sinkWeight(sink)
  for (let first = 0, next = 0; first < slots.length; first = next) {
    const step = Math.floor(positions[first]! / STEP)
    while (next < slots.length && Math.floor(positions[next]! / STEP) === step) next++
    const own = slots.subarray(first, next)
    score(own, weights)
    let largest = most
    for (let j = 0; j < own.length; j++) {
      if (shape.cap) weights[j] = cap(weights[j]!, shape.cap)
      if (shape.biasOf) weights[j]! += shape.biasOf(positions[first + j]!)
      sum += weights[j]! * 0 // NaN of a NaN or an infinity, whose weight would be none: it must show
      if (weights[j]! > largest) largest = weights[j]!
    }
    const correction = exp(fround(most - largest))
    most = largest
    lanes.fill(0)
    for (let j = 0; j < own.length; j++) {
      const weight = exp(fround(weights[j]! - largest))
      lanes[positions[first + j]! % lanes.length]! += weight
      weights[j] = weight
    }
    mix(own, weights, correction, mixed)
    sum = fround(fround(sum * correction) + total(lanes))
  }
  return { most, sum, mixed }
}

type HeadOf = (query: Rows, row: number, head: number, shape: Shape, cache: Cache) => Head

const headOfFloats: HeadOf = (query, row, head, shape, { keys, values, scales }) => {
  const { heads, kvHeads, headDim } = shape
  const scale = fround(shape.scale)
  const width = kvHeads * headDim
  const q = at(query, row) + head * headDim
  const kvHead = Math.floor((head * kvHeads) / heads)
  const lane = kvHead * headDim
  const ofValues = valuesOf(shape, kvHead)
  return {
    score(slots, scores) {
      const begin = (j: number) => slots[Math.min(j, slots.length - 1)]! * width + lane
      for (let j = 0; j < slots.length; j += 4) {
        const begins = [begin(j), begin(j + 1), begin(j + 2), begin(j + 3)] as const
        sumFour(query.data, q, keys, begins, 0, headDim, four)
        for (let i = j; i < Math.min(j + 4, slots.length); i++) {
          const by = scales ? scales.keys[slots[i]! * kvHeads + kvHead]! : 1
          scores[i] = fround(four[i - j]! * by) * scale
        }
      }
    },
    mix(slots, weights, correction, mixed) {
      for (let i = 0; i < mixed.length; i++) mixed[i]! *= correction
      for (let j = 0; j < slots.length; j++) {
        const v = slots[j]! * ofValues.stride + ofValues.lane
        const by = scales ? scales.values[slots[j]! * kvHeads + kvHead]! : 1
        addTimes(fround(weights[j]! * by), values, v, mixed)
      }
    },
  }
}

function addTimes(by: number, values: Float32Array, from: number, to: Float32Array): void {
  for (let i = 0; i < to.length; i++) to[i] = fma(by, values[from + i]!, to[i]!)
}

/** The same in whole numbers, as the plan has it. */
const headOfCodes: HeadOf = (query, row, head, shape, { keys, values, scales }) => {
  const { heads, kvHeads, headDim } = shape
  const width = kvHeads * headDim
  const kvHead = Math.floor((head * kvHeads) / heads)
  const lane = kvHead * headDim
  const ofValues = valuesOf(shape, kvHead)
  const own = new Int32Array(headDim)
  const q = at(query, row) + head * headDim
  const ownScale = wideCodesOf(query.data.subarray(q, q + headDim), own)
  const scale = fround(ownScale * fround(shape.scale))
  const codes = new Int32Array(STEP)
  const weighed = new Float32Array(STEP)
  return {
    score(slots, scores) {
      for (let j = 0; j < slots.length; j++) {
        const k = slots[j]! * width + lane
        let sum = 0 // doubles hold all of it
        for (let i = 0; i < headDim; i++) sum += own[i]! * keys[k + i]!
        const keyScale = scales!.keys[slots[j]! * kvHeads + kvHead]!
        scores[j] = fround(fround(sum) * keyScale) * scale
      }
    },
    mix(slots, weights, correction, mixed) {
      for (let j = 0; j < slots.length; j++)
        weighed[j] = weights[j]! * scales!.values[slots[j]! * kvHeads + kvHead]!
      const by = wideCodesOf(weighed.subarray(0, slots.length), codes)
      for (let i = 0; i < mixed.length; i++) {
        let sum = 0
        for (let j = 0; j < slots.length; j++)
          sum += codes[j]! * values[slots[j]! * ofValues.stride + ofValues.lane + i]!
        mixed[i] = fma(fround(sum), by, fround(mixed[i]! * correction))
      }
    },
  }
}

/** Codes of 16 bits, one scale for all, which is returned: those of a group of `quantizeWide`. */
function wideCodesOf(x: Float32Array, codes: Int32Array): number {
  let largest = 0
  for (const value of x) largest = Math.max(largest, Math.abs(value))
  const inverse = largest > 0 ? fround(WIDE_MOST / largest) : 0
  for (const [i, value] of x.entries()) codes[i] = nearestEven(fround(value * inverse))
  return fround(largest / WIDE_MOST)
}

/** Before anything is larger; what is no number shows. */
export const sinkWeight = (sink: number) => 1 + sink * 0

/** As SumOrder says. */
function merged(softmaxes: readonly Softmax[]): Softmax {
  const most = softmaxes.reduce((most, { most: own }) => (own > most ? own : most), LOWEST)
  const all = { most, sum: 0, mixed: new Float32Array(softmaxes[0]!.mixed.length) }
  for (const { most: own, sum, mixed } of softmaxes) {
    const factor = exp(fround(own - most))
    all.sum = fround(all.sum + fround(sum * factor))
    for (const [i, value] of mixed.entries()) all.mixed[i]! += fround(value * factor)
  }
  return all
}

/** Positions of which the indexer says one number. */
const CHOSEN_AT_ONCE = 16

/** Which of the positions that a row sees its attention is to see. */
export function indexer(
  query: Rows,
  weights: Rows,
  row: number,
  { heads, headDim, top }: Pick<Indexer, "heads" | "headDim" | "top">,
  cache: Cache,
  { positions, slots }: Seen,
  out: Rows,
): void {
  const sums = new Float32Array(slots.length)
  if (slots.length > top) {
    const scores = new Float32Array(slots.length)
    const shape = { heads, kvHeads: 1, headDim, scale: 1, cap: undefined }
    for (const [head, weight] of rowOf(weights, row).entries()) {
      headOfFloats(query, row, head, shape, cache).score(slots, scores)
      for (const [i, score] of scores.entries())
        sums[i] = fma(weight, score > 0 ? score : 0, sums[i]!)
    }
  }
  const ranked = sums.map((score) => (Number.isNaN(score) ? Number.NEGATIVE_INFINITY : score))
  const order = Array.from(ranked, (_, i) => i).sort((a, b) => ranked[b]! - ranked[a]! || a - b)
  const bits = rowOf(out, row).fill(0)
  for (const i of order.slice(0, top)) {
    const position = positions[i]!
    bits[Math.floor(position / CHOSEN_AT_ONCE)]! += 2 ** (position % CHOSEN_AT_ONCE)
  }
}

/** What of it an indexer has chosen for a row. */
export function chosenOf({ positions, slots }: Seen, chosen: Rows, row: number): Seen {
  const bits = rowOf(chosen, row)
  const isChosen = (position: number) =>
    (bits[Math.floor(position / CHOSEN_AT_ONCE)]! >> (position % CHOSEN_AT_ONCE)) & 1
  return {
    positions: positions.filter(isChosen),
    slots: slots.filter((_, i) => isChosen(positions[i]!)),
  }
}

/** x brought to unit length, over the root of `width`. */
export function unit(x: Float32Array, width: number): Float32Array {
  const mean = fround(sumOfSquares(x, 0, x.length) / x.length)
  const square = fround(fround(mean * x.length) + fround(1e-6))
  const root = fround(Math.sqrt(fround(square * width)))
  const scale = fround(1 / root)
  return x.map((value) => value * scale)
}

/** What all of a state is multiplied with: e^(-e^decay * softplus(input + bias)). */
export function decayOf(decay: number, input: number, bias: number): number {
  const x = fround(input + bias)
  return fround(exp(-fround(exp(decay) * softplus(x))) + x * 0)
}

export interface Position {
  query: Float32Array
  key: Float32Array
  value: Float32Array
  /** Of all rows of the state, or of each. */
  decay: number | Float32Array
  share: number
  out: Float32Array
}

/** A head's state [columns of the key, columns of the value] goes on by a position, which reads it. */
export function deltaRule(state: Float32Array, position: Position): void {
  const { query, key, value, decay, share, out } = position
  const width = value.length
  const decayAt = typeof decay === "number" ? () => decay : (i: number) => decay[i]!
  for (let j = 0; j < width; j++) {
    let known = 0
    for (let i = 0; i < key.length; i++) {
      const decayed = fround(state[i * width + j]! * decayAt(i))
      state[i * width + j] = decayed
      known = fma(key[i]!, decayed, known)
    }
    const correction = fround(fround(value[j]! - known) * share)
    let read = 0
    for (let i = 0; i < key.length; i++) {
      const changed = fma(key[i]!, correction, state[i * width + j]!)
      state[i * width + j] = changed
      read = fma(query[i]!, changed, read)
    }
    out[j] = read
  }
}

/** How much of a value is put into a selective state: ln(1 + e^(input + bias)). */
export function selectiveShare(input: number, bias: number): number {
  return softplus(fround(input + bias))
}

/** The same of a selective state space: what the key reads is not taken away, and `skip` times the value is read. */
export function selectiveState(
  state: Float32Array,
  position: Position & { decay: number },
  skip: number,
): void {
  const { decay, share } = position
  putAndRead(state, position, { decayAt: () => decay, shareOf: () => share, skipOf: () => skip })
}

/** The same where each column of a value has a step and its own `skip`. @param rates of the state's numbers, column by column of a value */
export function scannedState(
  state: Float32Array,
  position: Omit<Position, "decay" | "share">,
  { steps, rates, skip }: Record<"steps" | "rates" | "skip", Float32Array>,
): void {
  const { length } = position.key
  putAndRead(state, position, {
    decayAt: (i, j) => fround(exp(fround(steps[j]! * rates[j * length + i]!))),
    shareOf: (j) => steps[j]!,
    skipOf: (j) => skip[j]!,
  })
}

function putAndRead(
  state: Float32Array,
  { query, key, value, out }: Omit<Position, "decay" | "share">,
  of: {
    decayAt: (i: number, j: number) => number
    shareOf: (j: number) => number
    skipOf: (j: number) => number
  },
): void {
  const width = value.length
  for (let j = 0; j < width; j++) {
    const given = fround(value[j]! * of.shareOf(j))
    let read = 0
    for (let i = 0; i < key.length; i++) {
      const at = i * width + j
      const changed = fma(key[i]!, given, fround(state[at]! * of.decayAt(i, j)))
      state[at] = changed
      read = fma(query[i]!, changed, read)
    }
    out[j] = fma(of.skipOf(j), value[j]!, read)
  }
}
