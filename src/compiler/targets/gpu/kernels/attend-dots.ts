// Attention's products of whole numbers by dots of four bytes, which every device has words for: of four columns of a key, and of
// four positions of a value. Bytes of four positions in the same column are brought side by side on their way. A position that a
// row does not see has a weight of 0 there, which makes nothing of any byte; but none is read that nobody has written.

import { BLOCK } from "../../../../runtime/program.ts"
import { type Builder, type Elements, fma, i32, select, u32, type Value } from "../ir/builder.ts"
import { CHUNK_WORDS, CodeProducts, sumOfHalves } from "./attend-codes.ts"
import {
  type AttendShape,
  ColumnSums,
  holds,
  isIn,
  type Mixed,
  type Mixing,
  overlaps,
  type Part,
  type Score,
  STEP,
  squareOf,
  tilingOf,
} from "./attention.ts"
import { transposedBytes } from "./codes.ts"
import { keyChunkIndex, type Spot, scaleIndex, valueUnitIndex } from "./kv.ts"

/** Chunks of a key that a thread has under way at once. */
const CHUNKS_AT_ONCE = 2
/** Of a word of values. */
const COLUMNS = [0, 1, 2, 3]
/** Queries times words of values whose sums a thread has under way: those of more would not all find a register. */
const MAX_SUMS = 4

export class DotProducts extends CodeProducts {
  scores({ stored, spotOf }: Part): Score[] {
    const { k, shape } = this
    const own = squareOf(k, shape)
    const spots = own.withins.map(spotOf)
    const queries = own.queries.map(({ q }) => q)
    const products = productsOf(k, shape, this, { stored, spots, queries })
    return spots.flatMap((spot, i) => {
      const by = stored.load(scaleIndex(shape.layout, "keys", spot)).bits("f32")
      return own.queries.map(({ q, isOwn }, j) => {
        const score = k.let(products[i]![j]!.mul(by).mul(this.queryScales.load(q)))
        return { q, isOwn, within: own.withins[i]!, score }
      })
    })
  }

  mixes(): Mixing {
    const { k, shape } = this
    const own = new ColumnSums(k, shape)
    return {
      add: (mixed) => addSteps(k, shape, this, own, mixed),
      each: (body) => own.each(body),
    }
  }
}

/** Keys of some positions and queries. */
interface Factors {
  stored: Elements
  spots: readonly Spot[]
  queries: readonly Value[]
}

/** The products of each position's key with each query. */
function productsOf(
  k: Builder,
  { layout }: AttendShape,
  coded: CodeProducts,
  { stored, spots, queries }: Factors,
): Value[][] {
  const sums = spots.map(() => queries.map(() => [k.variable(i32(0)), k.variable(i32(0))]))
  const firsts = spots.map((spot) => k.let(keyChunkIndex(layout, spot, 0)))
  const begins = queries.map((q) => k.let(q.mul(coded.queryStride)))
  const add = (chunk: Value, count: number) => {
    const keys = firsts.map((first) =>
      Array.from({ length: count }, (_, i) =>
        stored.loadFour(first.add(chunk.add(i).mul(BLOCK))),
      ).flat(),
    )
    const from = k.let(chunk.mul(CHUNK_WORDS))
    for (const [n, begin] of begins.entries())
      for (let word = 0; word < count * CHUNK_WORDS; word++)
        for (const half of [0, 1]) {
          const own = coded.queries.load(begin.add(from).add(half * coded.words + word))
          for (const [s, key] of keys.entries()) {
            const sum = sums[s]![n]![half]!
            sum.set(k.dot4(own, key[word]!, sum.now))
          }
        }
  }
  const chunks = layout.keyWidth / layout.chunk
  const whole = chunks - (chunks % CHUNKS_AT_ONCE)
  if (whole > 0) k.for(0, whole, CHUNKS_AT_ONCE, (chunk) => add(chunk, CHUNKS_AT_ONCE))
  if (whole < chunks) add(u32(whole), chunks - whole)
  return sums.map((ofSpot) =>
    ofSpot.map(([upper, lower]) => k.let(sumOfHalves(upper!.now, lower!.now))),
  )
}

function addSteps(
  k: Builder,
  shape: AttendShape,
  coded: CodeProducts,
  own: ColumnSums,
  { stored, corrections, some, blockOf }: Mixed,
): void {
  const { layout } = shape
  const { steps, mixes } = tilingOf(shape)
  const atOnce = Math.max(1, Math.floor(MAX_SUMS / mixes.perSet))
  const addUnits = (units: readonly number[], step: Value) => {
    // Of each query, unit and column the sums of upper and lower bytes.
    const wholes = own.queries.map(() =>
      units.map(() => COLUMNS.map(() => [k.variable(i32(0)), k.variable(i32(0))])),
    )
    k.for(0, STEP / BLOCK, 1, (blockOfStep) => {
      const { from, spot } = blockOf(k.let(step.mul(STEP / BLOCK).add(blockOfStep)))
      const addFour = (first: Value, positionOf: (j: number) => Value) => {
        const positions = Array.from({ length: 4 }, (_, j) => k.let(positionOf(j)))
        const columns = units.map((u) => {
          const read = (position: Value) =>
            stored.load(valueUnitIndex(layout, { ...spot, position }, own.units[u]!))
          return transposedBytes(k, positions.map(read))
        })
        const within = k.let(blockOfStep.mul(BLOCK).add(first))
        for (const [n, { q }] of own.queries.entries()) {
          const number = k.let(q.mul(steps).add(step))
          for (const half of [0, 1] as const) {
            const weights = coded.loadCodes(number, within, half)
            for (const [u, ofUnit] of columns.entries())
              for (const [i, column] of ofUnit.entries()) {
                const sum = wholes[n]![u]![i]![half]!
                sum.set(k.dot4(weights, column, sum.now))
              }
          }
        }
      }
      k.if(
        holds(from, BLOCK, some),
        () => {
          for (let first = 0; first < BLOCK; first += 4) addFour(u32(first), (j) => u32(first + j))
        },
        () =>
          k.if(overlaps(from, BLOCK, some), () => {
            const nearest = from.max(some.first)
            const any = k.let(some.kept ? select(from.lt(some.kept), from, nearest) : nearest)
            k.for(0, BLOCK, 4, (first) =>
              addFour(first, (j) => {
                const position = k.let(from.add(first).add(j))
                return select(isIn(position, some), position, any).sub(from)
              }),
            )
          }),
      )
    })
    for (const [n, { q, sums }] of own.queries.entries()) {
      const number = k.let(q.mul(steps).add(step))
      const [correction, scale] = [corrections.load(number), coded.weightScales.load(number)]
      for (const [u, columns] of wholes[n]!.entries())
        for (const [i, [upper, lower]] of columns.entries()) {
          const sum = sums[units[u]!]![i]!
          sum.set(fma(sumOfHalves(upper!.now, lower!.now), scale, sum.now.mul(correction)))
        }
    }
  }
  const all = [...own.units.keys()]
  k.for(0, steps, 1, (step) => {
    for (let first = 0; first < all.length; first += atOnce)
      addUnits(all.slice(first, first + atOnce), step)
  })
}
