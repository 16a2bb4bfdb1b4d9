// Attention and products of float weights as the cpu target's kernels compute them on a processor's matrix unit
// (attention_tiles.h, float_tiles.h), bit for bit: the same steps as in kernels.ts, sums of products of bf16. Nobody is served
// by it; it is what those kernels are compared with.
//
// Numbers become planes of bf16: what is stored two, whose sum it is (one, where it is a bf16 or an 8-bit code); a float the
// nearest bf16 and most of what is left. The unit takes 32 columns at a time: it adds the products of the first sixteen
// and of the last sixteen one by one with fused multiply-adds, then both sums, then that to what was there; numbers too
// small to be normal count as zero throughout.

import type { Attention } from "../../graph/graph.ts"
import { cap, exp, fma, total } from "./arithmetic.ts"
import { type Cache, type Rows, at as rowFrom, type Seen, STEP, sinkWeight } from "./kernels.ts"
import type { Floats } from "./parameters.ts"

const { fround } = Math
const LOWEST = fround(-3.4e38)
const MIN_NORMAL = 2 ** -126 // the smallest normal float
const HALF = 16
const CHUNK = 2 * HALF // columns in one product of the unit

type Stored = "f16" | "bf16" | "q8"

/** Two planes, chunk after chunk. */
interface Planes {
  high: Float32Array
  low: Float32Array
}
const planes = (size: number): Planes => ({
  high: new Float32Array(size),
  low: new Float32Array(size),
})

const weights = planes(STEP)
const column = planes(STEP)
const scores = new Float32Array(STEP)
const seenSlots = new Int32Array(STEP)

/** `attend` of kernels.ts in the matrix unit's arithmetic; `stored` is what keys and values are kept in. */
export function attendTiles(
  query: Rows,
  row: number,
  shape: Pick<Attention, "heads" | "kvHeads" | "headDim" | "scale" | "cap">,
  stored: Stored,
  { keys, values, scales }: Cache,
  { positions, slots }: Seen,
  out: Rows,
  sinkLogits?: Float32Array,
): void {
  const { heads, kvHeads, headDim } = shape
  const scale = shape.cap ? 1 : fround(shape.scale) // a score that was capped was scaled before
  const width = kvHeads * headDim
  const columns = Math.ceil(headDim / CHUNK) * CHUNK
  const [q, key] = [planes(columns), planes(columns)]
  const sums = new Float32Array(headDim)
  const lanes = new Float32Array(HALF)
  const step = new Float32Array(HALF)
  for (let head = 0; head < heads; head++) {
    splitFloats(query.data, rowFrom(query, row) + head * headDim, headDim, q)
    const kvHead = Math.floor((head * kvHeads) / heads)
    const lane = kvHead * headDim
    const sink = sinkLogits?.[head]
    let most = sink ?? LOWEST
    sums.fill(0)
    lanes.fill(0)
    if (sink !== undefined) lanes[0] = sinkWeight(sink)
    for (let first = 0, next = 0; first < slots.length; first = next) {
      const number = Math.floor(positions[first]! / STEP)
      let largest = LOWEST
      seenSlots.fill(-1)
      for (; next < slots.length && Math.floor(positions[next]! / STEP) === number; next++) {
        const place = positions[next]! % STEP
        seenSlots[place] = slots[next]!
        for (let i = 0; i < headDim; i++)
          split(keys[slots[next]! * width + lane + i]!, stored, key, i)
        let score = 0
        for (let at = 0; at < columns; at += CHUNK) score = product(score, q, at, key, at, stored)
        if (scales) score = fround(score * scales.keys[slots[next]! * kvHeads + kvHead]!)
        if (shape.cap) score = cap(fround(score * fround(shape.scale)), shape.cap)
        scores[place] = score
        if (score > largest) largest = score
      }
      const before = most
      most = Math.max(before, fround(largest * scale))
      const correction = exp(fround(before - most))
      for (let place = 0; place < STEP; place++) {
        const slot = seenSlots[place]!
        const weight = slot < 0 ? 0 : weightOf(scores[place]!, scale, most)
        scores[place] = weight
        const factor = scales && slot >= 0 ? scales.values[slot * kvHeads + kvHead]! : 1
        splitWeight(fround(weight * factor), place)
      }
      for (let i = 0; i < HALF; i++) {
        const [a, b, c, d] = [0, 1, 2, 3].map((block) => scores[block * HALF + i]!)
        step[i] = fround(a! + b!) + fround(c! + d!)
        lanes[i] = fma(lanes[i]!, correction, step[i]!)
      }
      for (let i = 0; i < headDim; i++) {
        for (let place = 0; place < STEP; place++) {
          const slot = seenSlots[place]!
          split(slot < 0 ? 0 : values[slot * width + lane + i]!, stored, column, place)
        }
        let sum = fround(sums[i]! * correction)
        for (let at = 0; at < STEP; at += CHUNK) sum = product(sum, weights, at, column, at, stored)
        sums[i] = sum
      }
    }
    const inverse = fround(1 / total(lanes))
    const to = rowFrom(out, row) + head * headDim
    for (let i = 0; i < headDim; i++) out.data[to + i] = sums[i]! * inverse
  }
}

/** `dotFour` of kernels.ts in the matrix unit's arithmetic; `stored` is what the weights are kept in. */
export function multiplyTiles(
  x: Rows,
  { columns, values }: Floats,
  stored: Exclude<Stored, "q8">,
): (row: number, wanted: readonly number[], out: Float64Array) => void {
  const width = Math.ceil(columns / CHUNK) * CHUNK
  const input = planes(width)
  const matrix = planes(4 * width)
  let split: readonly number[] = []
  return (row, wanted, out) => {
    if (split !== wanted)
      wanted.forEach((from, i) => {
        for (let k = 0; k < columns; k++) {
          const value = values[from * columns + k]!
          const high = stored === "f16" ? cut(value) : value
          matrix.high[i * width + k] = flushed(high)
          matrix.low[i * width + k] = flushed(value - high)
        }
      })
    split = wanted
    splitFloats(x.data, rowFrom(x, row), columns, input)
    for (let i = 0; i < wanted.length; i++) {
      let sum = 0
      for (let at = 0; at < width; at += CHUNK)
        sum = product(sum, input, at, matrix, i * width + at, stored)
      out[i] = sum
    }
  }
}

/** What is no number shows. */
function weightOf(score: number, scale: number, most: number): number {
  const x = fma(score, scale, -most)
  return Number.isFinite(x) ? exp(x) : Number.NaN
}

// ------------------------------------------------------------------ planes

const single = new Float32Array(1)
const bits = new Int32Array(single.buffer)

/** The nearest bf16, halves away from zero. */
function nearest(x: number): number {
  single[0] = x
  bits[0] = (bits[0]! + 0x8000) & 0xffff0000
  return single[0]
}

function cut(x: number): number {
  single[0] = x
  bits[0]! &= 0xffff0000
  return single[0]
}

function split(x: number, stored: Stored, to: Planes, at: number): void {
  const high = stored === "f16" ? nearest(x) : x
  to.high[at] = flushed(high)
  to.low[at] = flushed(x - high)
}

function splitFloats(data: Float32Array, from: number, count: number, to: Planes): void {
  for (let i = 0; i < count; i++) {
    const high = nearest(data[from + i]!)
    to.high[i] = flushed(high)
    to.low[i] = flushed(nearest(data[from + i]! - high))
  }
}

function splitWeight(x: number, at: number): void {
  const high = nearest(x)
  weights.high[at] = flushed(high)
  weights.low[at] = flushed(cut(x - high))
}

// ------------------------------------------------------------------ the unit

const flushed = (x: number) => (Math.abs(x) < MIN_NORMAL ? 0 : x)

/** `sum` and the products of 32 columns' planes: high with low, which only an f16 has, high with high, low with high. */
function product(
  sum: number,
  rows: Planes,
  row: number,
  columns: Planes,
  at: number,
  stored: Stored,
): number {
  let result = sum
  if (stored === "f16") result = dot(result, rows.high, row, columns.low, at)
  result = dot(result, rows.high, row, columns.high, at)
  return dot(result, rows.low, row, columns.high, at)
}

function dot(sum: number, a: Float32Array, from: number, b: Float32Array, at: number): number {
  let [first, last] = [0, 0]
  for (let i = 0; i < HALF; i++) {
    first = flushed(fma(a[from + i]!, b[at + i]!, first))
    last = flushed(fma(a[from + HALF + i]!, b[at + HALF + i]!, last))
  }
  return flushed(fround(flushed(sum) + flushed(fround(first + last))))
}
